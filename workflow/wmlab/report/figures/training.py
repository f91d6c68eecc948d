"""Training curves: GRPO (reward, KL, entropy, length, validation EM, prefill tokens) and supervised fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from wmlab.errors import InputError
from wmlab.report.figures.canvas import (
    GREY,
    OKABE_ITO,
    PAGE,
    Drawing,
    block_title,
    message_figure,
    method_style,
    style,
)
from wmlab.report.inputs import Loaded
from wmlab.report.labels import method_label, ordered_methods

GRPO_QUANTITIES = (
    ("reward", "Reward (own scale)"),
    ("kl", "KL to SFT model (nats)"),
    ("entropy", "Entropy (nats/token)"),
    ("length", "Sample length (tokens)"),
    ("em_validation", "Validation EM"),
    ("prefill_tokens", "Reference prefill tokens"),
)
SMOOTHED = frozenset({"reward", "kl", "entropy", "length"})
_DASHES = ("-", "--", ":", "-.")


def is_grpo(item: Loaded) -> bool:
    """GRPO curves hold a reward, SFT curves a validation loss. Raises InputError for neither."""
    keys: set[str] = set().union(*(row.keys() for row in item.value)) if item.value else set()
    if {"step", "reward", "kl"} <= keys:
        return True
    if {"step", "loss", "val_loss"} <= keys:
        return False
    raise InputError.at(item.path, "neither a GRPO nor an SFT curve", "give a curves.jsonl of the contract")


def running_mean(values: Sequence[float], window: int) -> list[float]:
    """Trailing mean over at most ``window`` values; the first ones average what there is."""
    out = []
    for index in range(len(values)):
        span = values[max(0, index + 1 - window) : index + 1]
        out.append(sum(span) / len(span))
    return out


def _series(item: Loaded, key: str) -> tuple[list[int], list[float]]:
    pairs = [(row["step"], float(row[key])) for row in item.value if row.get(key) is not None]
    return [step for step, _ in pairs], [value for _, value in pairs]


def training_curves(curves: Sequence[Loaded]) -> Drawing:
    """GRPO curves: a line per method (mean over seeds), a band from the lowest to the highest seed."""
    runs = [item for item in curves if is_grpo(item)]
    sources = tuple(item.path for item in runs)
    if not runs:
        with style("training_curves"):
            figure = message_figure("No GRPO run in this study.")
        return Drawing("training_curves", "No GRPO run in this study.", figure, (), ())
    blocks = sorted({item.identity.block for item in runs})
    methods = ordered_methods(item.identity.method for item in runs)
    steps = max((len(item.value) for item in runs), default=1)
    window = max(1, round(steps / 20))
    with style("training_curves"):
        figure = Figure(figsize=(PAGE, 3.4 * len(blocks)))
        folders = figure.subfigures(len(blocks), 1, squeeze=False)[:, 0]
        for folder, block in zip(folders, blocks, strict=True):
            axes = folder.subplots(2, 3).ravel()
            inside = [item for item in runs if item.identity.block == block]
            folder.suptitle(block_title(*block), fontsize=8, x=0.01, ha="left")
            for axis, (key, label) in zip(axes, GRPO_QUANTITIES, strict=True):
                for method in methods:
                    seeds = [item for item in inside if item.identity.method == method]
                    _band(axis, seeds, key, window if key in SMOOTHED else 1, method_style(method, methods))
                axis.set_title(label)
                axis.xaxis.set_major_locator(MaxNLocator(4, integer=True))
                axis.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
                axis.set_xlim(left=0)
                if key == "prefill_tokens":
                    axis.set_ylim(bottom=0)
                    axis.yaxis.set_major_formatter(_short)
                if not axis.lines:
                    axis.text(0.5, 0.5, "not recorded", transform=axis.transAxes, ha="center", color=GREY)
            folder.supxlabel("GRPO step", fontsize=8)
            handles = [
                Line2D([], [], color=method_style(m, methods)[0], marker=method_style(m, methods)[1])
                for m in methods
            ]
            labels = [method_label(m) for m in methods]
            # Beside the title, to its right: no panel is free.
            folder.legend(handles, labels, loc="upper right", ncols=len(labels), frameon=False)
    seeds_text = ", ".join(str(seed) for seed in sorted({item.identity.seed for item in runs}))
    caption = (
        "GRPO training. Lines: mean over training seeds "
        f"({seeds_text}); bands: lowest to highest seed. Reward, KL, entropy and length are trailing means over {window} "
        "steps. Each reward is on its own scale, so heights of the first panel are not comparable across methods. "
        "Prefill tokens: cumulative tokens the reference agent read."
    )
    return Drawing("training_curves", caption, figure, tuple(_grpo_data(runs)), sources)


def _short(value: float, _: object = None) -> str:
    """1500000 → 1.5M."""
    for size, suffix in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"


def _band(axis: Axes, seeds: Sequence[Loaded], key: str, window: int, look: tuple[str, str]) -> None:
    """Mean line and lowest-to-highest band over the steps that every seed has."""
    lines: list[dict[int, float]] = []
    for item in seeds:
        steps, values = _series(item, key)
        if steps:
            lines.append(dict(zip(steps, running_mean(values, window), strict=True)))
    if not lines:
        return
    shared = sorted(set.intersection(*(set(line) for line in lines)))
    columns = [[line[step] for line in lines] for step in shared]
    colour, marker = look
    mean = [sum(column) / len(column) for column in columns]
    axis.plot(shared, mean, color=colour, marker=marker, markersize=3.2, markevery=max(1, len(shared) // 6))
    if len(lines) > 1:
        low, high = [min(column) for column in columns], [max(column) for column in columns]
        axis.fill_between(shared, low, high, color=colour, alpha=0.18, linewidth=0)


def _grpo_data(runs: Sequence[Loaded]) -> list[dict[str, Any]]:
    keys = ["step", *(key for key, _ in GRPO_QUANTITIES)]
    return [
        {
            "domain": item.identity.domain,
            "backbone": item.identity.backbone,
            "method": item.identity.method,
            "seed": item.identity.seed,
            **{key: row.get(key) for key in keys},
        }
        for item in runs
        for row in item.value
    ]


def run_name(item: Loaded) -> str:
    """Legend name of a supervised run: the backbone of a world model, or the agent."""
    identity = item.identity
    if identity.agent and not identity.backbone:
        return f"agent {identity.agent}"
    name = f"world model {identity.backbone}"
    return f"{name}, seed {identity.seed}" if identity.seed else name


def sft_curves(curves: Sequence[Loaded]) -> Drawing:
    """Supervised curves of world models and agents: training and validation loss, validation EM."""
    runs = [item for item in curves if not is_grpo(item)]
    with style("sft_curves"):
        if not runs:
            figure = message_figure("No supervised run in this study.")
            return Drawing("sft_curves", "No supervised run in this study.", figure, (), ())
        figure = Figure(figsize=(PAGE, 2.5))
        left, right = figure.subplots(1, 2)
        several = len({item.identity.domain for item in runs}) > 1
        handles, labels = [], []
        for index, item in enumerate(runs):
            look: dict[str, Any] = {
                "color": OKABE_ITO[index % 6],
                "linestyle": _DASHES[index // 6 % len(_DASHES)],
            }
            steps, values = _series(item, "loss")
            window = max(1, round(len(values) / 40))
            left.plot(steps, running_mean(values, window), alpha=0.55, linewidth=0.8, **look)
            left.plot(*_series(item, "val_loss"), marker="o", markersize=3, **look)
            right.plot(*_series(item, "val_em"), marker="o", markersize=3, **look)
            handles.append(Line2D([], [], **look))
            labels.append(f"{item.identity.domain}: {run_name(item)}" if several else run_name(item))
        left.set_title("Loss (nats/token)")
        right.set_title("Validation EM")
        for axis in (left, right):
            axis.set_xlabel("Optimiser step")
            axis.set_xlim(left=0)
            axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        left.set_yscale("log")
        left.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        left.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        left.yaxis.set_minor_formatter(NullFormatter())
        right.set_ylim(0, 1)
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 3))
    data = [
        {
            "run": run_name(item),
            "domain": item.identity.domain,
            "seed": item.identity.seed,
            **{key: row.get(key) for key in ("step", "epoch", "loss", "val_loss", "val_em", "lr", "tokens")},
        }
        for item in runs
        for row in item.value
    ]
    caption = (
        "Supervised fine-tuning of world models and behaviour cloning of agents. Left: training loss (thin, trailing "
        "mean) and validation loss (dots), on a logarithmic axis; right: validation exact match."
    )
    return Drawing("sft_curves", caption, figure, tuple(data), tuple(item.path for item in runs))
