"""Figures that judge the metrics: the stress test (memwm.txt, Figure 3), Drop Irrelevant against Drop Target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from wmlab.errors import IncompletePanelError
from wmlab.report.figures.canvas import COLUMN, GREY, OKABE_ITO, PAGE, Drawing, style
from wmlab.report.inputs import Loaded
from wmlab.report.labels import PERTURBATION_LABELS, metric_label

_BLUE, _VERMILION, _, _, _ORANGE = OKABE_ITO[:5]
_STRESSED = {"em": (GREY, ""), "f1": (_ORANGE, "///"), "ssf": (_BLUE, "")}
_DROPPED = {"drop_irrelevant": (_BLUE, ""), "drop_target": (_VERMILION, "///")}
_SHORT = {
    "paraphrase": "Para-\nphrase",
    "entity": "Entity\nswap",
    "value": "Id or\nvalue",
    "state": "State\nflip",
}


def _grid(n: int, across: int, height: float) -> tuple[Figure, list[Axes]]:
    """``n`` panels of a height in inches: one in a column, several on a page. Call inside ``style``."""
    columns = min(n, across)
    rows = -(-n // columns)
    figure = Figure(figsize=(COLUMN if n == 1 else PAGE, height * rows + 0.3))
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for axis in grid.ravel()[n:]:
        axis.axis("off")
    for axis in grid[:, 0]:
        axis.set_ylabel("Mean score")
    return figure, list(grid.ravel()[:n])


def _bars(
    axis: Axes,
    groups: Sequence[Mapping[str, float | None]],
    looks: Mapping[str, tuple[str, str]],
    width: float,
) -> None:
    """Bars of every group side by side; a zero is written, as its bar cannot be seen."""
    for number, (name, (colour, hatch)) in enumerate(looks.items()):
        offset = (number - (len(looks) - 1) / 2) * width
        for place, group in enumerate(groups):
            value = group[name]
            if value is None:
                continue
            axis.bar(
                place + offset,
                value,
                width * 0.92,
                color=colour,
                hatch=hatch,
                edgecolor="white",
                linewidth=0.3,
            )
            if value < 0.005:
                axis.text(place + offset, 0.01, "0", ha="center", va="bottom", color=colour, fontsize=7)
    axis.set_ylim(0, 1.04)
    axis.set_xlim(-0.6, len(groups) - 0.4)
    axis.tick_params(axis="x", length=0)
    axis.grid(visible=False, axis="x")


def _legend(figure: Figure, looks: Mapping[str, tuple[str, str]], labels: Sequence[str]) -> None:
    handles = [
        Patch(facecolor=colour, hatch=hatch, edgecolor="white", linewidth=0.3)
        for colour, hatch in looks.values()
    ]
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), columnspacing=1.2)


def ssf_stress(summary: Mapping[str, Any], path: str) -> Drawing:
    """Mean EM, word F1 and SSF of each class of change: a panel over all domains, then one per domain."""
    panels = dict(summary["domains"])
    if len(panels) > 1:
        panels = {"all domains": summary["classes"], **panels}
    if not panels:
        raise IncompletePanelError(f"figure ssf_stress: {path} holds no example; make ssf/ again")
    data = [
        {"panel": panel, "change": change, **{key: entry[key] for key in ("n", *_STRESSED)}}
        for panel, table in panels.items()
        for change, entry in table.items()
    ]
    with style("ssf_stress"):
        figure, axes = _grid(len(panels), 2 if len(panels) == 4 else 3, 1.9)
        for axis, (panel, table) in zip(axes, panels.items(), strict=True):
            _bars(axis, list(table.values()), _STRESSED, 0.27)
            axis.set_xticks(range(len(table)), [_SHORT.get(change, change) for change in table])
            axis.set_title(f"{panel} (n = {sum(entry['n'] for entry in table.values())})")
        _legend(figure, _STRESSED, [metric_label(metric) for metric in _STRESSED])
    caption = (
        "Stress test of the state metrics on synthetic predictions made from real observations: a paraphrase or other "
        "layout, another object, place or product, another id, price, number or option, a flipped state. A metric of "
        f"states gives 1 to the first and little to the rest. Mean scores, at most {summary['per_class']} examples a "
        "class and domain."
    )
    return Drawing("ssf_stress", caption, figure, tuple(data), (path,))


def perturb_contrast(items: Sequence[Loaded]) -> Drawing:
    """Mean score of every metric for Drop Irrelevant and Drop Target: a panel per domain."""
    if not any(item.value["contrast"] for item in items):
        raise IncompletePanelError("figure perturb_contrast: no sample was scored; make perturb/ again")
    data: list[dict[str, Any]] = []
    with style("perturb_contrast"):
        figure, axes = _grid(len(items), 2, 2.1)
        for axis, item in zip(axes, items, strict=True):
            contrast = item.value["contrast"]
            _bars(axis, list(contrast.values()), _DROPPED, 0.38)
            for place, (metric, entry) in enumerate(contrast.items()):
                low, high = entry["ci95"]
                row = {key: entry[key] for key in ("drop_irrelevant", "drop_target", "difference")}
                data.append(
                    {
                        "domain": item.identity.domain,
                        "metric": metric,
                        "n": item.value["n"],
                        **row,
                        "lo": low,
                        "hi": high,
                    }
                )
                top = max(entry["drop_irrelevant"], entry["drop_target"])
                if top > 0:
                    sign = f"{entry['difference']:+.2f}".replace("-", "−").replace("0.", ".")
                    axis.text(place, top + 0.02, sign, ha="center", va="bottom", fontsize=7)
            axis.set_xticks(range(len(contrast)), [metric_label(metric) for metric in contrast])
            for name in axis.get_xticklabels():
                name.set(rotation=35, ha="right", rotation_mode="anchor")
            axis.set_ylim(0, 1.12)
            axis.set_yticks([0, 0.25, 0.5, 0.75, 1])
            axis.set_title(f"{item.identity.domain} (n = {item.value['n']})")
        _legend(figure, _DROPPED, [PERTURBATION_LABELS[name] for name in _DROPPED])
    caption = (
        "Decision-critical perturbations: the observation without half of what the next action does not need (Drop "
        "Irrelevant) and without what it acts on (Drop Target). A metric that sees behaviour ranks the first above the "
        "second; the number over the bars is the mean difference. Samples are the same for every metric."
    )
    return Drawing("perturb_contrast", caption, figure, tuple(data), tuple(item.path for item in items))
