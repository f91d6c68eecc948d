"""Figures of world memory: its blocks removed at inference, from all tasks or some (memwm.txt, Figures 4 and 6)."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from wmlab.report.figures.canvas import COLUMN, GREY, OKABE_ITO, PAGE, Drawing, method_style, style
from wmlab.report.inputs import Loaded
from wmlab.report.labels import method_key, method_label, ordered_methods

_BLUE, _, _, _, _ORANGE = OKABE_ITO[:5]
_BARS = {"plain": (GREY, ""), "removed": (_ORANGE, "///"), "memory": (_BLUE, "")}
_LABELS = {"plain": "never had memory", "removed": "blocks removed", "memory": "with blocks"}
_WIDTH = 0.27


def _sorted(items: Sequence[Loaded]) -> list[Loaded]:
    return sorted(items, key=lambda i: (i.identity.block, method_key(i.identity.method)))


def memory_removal(items: Sequence[Loaded]) -> Drawing:
    """SSF with blocks, with them removed, and of the method that never had any; a dot per training seed."""
    data, found = [], _sorted(items)
    several = len({item.identity.backbone for item in found}) > 1
    with style("memory_removal"):
        figure = Figure(figsize=(COLUMN if len(found) <= 3 else PAGE, 2.3))
        axis = figure.subplots()
        for place, item in enumerate(found):
            identity = item.identity
            top = 0.0
            for number, (name, (colour, hatch)) in enumerate(_BARS.items()):
                entry = item.value[name]
                if entry is None:
                    continue
                x = place + (number - 1) * _WIDTH
                axis.bar(
                    x,
                    entry["mean"],
                    _WIDTH * 0.92,
                    color=colour,
                    hatch=hatch,
                    edgecolor="white",
                    linewidth=0.3,
                )
                if len(entry["seeds"]) > 1:
                    axis.plot([x] * len(entry["seeds"]), entry["seeds"], "o", color="black", markersize=1.8)
                top = max(top, *entry["seeds"])
                model = identity.method if name != "plain" else item.value["plain_method"]
                where = {"domain": identity.domain, "backbone": identity.backbone, "method": model}
                data += [
                    {**where, "blocks": name, "seed": at, "ssf": value}
                    for at, value in enumerate(entry["seeds"])
                ]
            change = item.value["vs_removed"]
            low, high = change["ci"]
            said = f"{change['difference']:+.3f}\n[{low:+.3f}, {high:+.3f}]".replace("-", "−")
            axis.text(place + _WIDTH / 2, top + 0.02, said, ha="center", va="bottom", fontsize=6)
        names = [
            "\n".join([item.identity.domain, *([item.identity.backbone] if several else []),
                       method_label(item.identity.method)])
            for item in found
        ]  # fmt: skip
        axis.set_xticks(range(len(found)), names)
        axis.tick_params(axis="x", length=0)
        axis.grid(visible=False, axis="x")
        axis.set_xlim(-0.6, len(found) - 0.4)
        axis.set_ylim(0, 1.2)
        axis.set_yticks([0, 0.25, 0.5, 0.75, 1])
        axis.set_ylabel("SSF")
        shown = [name for name in _BARS if any(item.value[name] for item in found)]
        handles = [
            Patch(facecolor=_BARS[name][0], hatch=_BARS[name][1], edgecolor="white", linewidth=0.3)
            for name in shown
        ]
        figure.legend(
            handles, [_LABELS[name] for name in shown], loc="outside upper center", ncols=3, columnspacing=1.0,
            handlelength=1.4,
        )  # fmt: skip
    caption = (
        "World memory at inference: mean SSF of held-out predictions with the retrieved blocks in the prompt, of the"
        " same models without them, and of the models that never had memory. Dots are training seeds; the number is"
        " the difference between blocks and blocks removed, with its 95 % interval over tasks and seeds."
    )
    return Drawing("memory_removal", caption, figure, tuple(data), tuple(item.path for item in found))


def memory_dropout(items: Sequence[Loaded]) -> Drawing:
    """SSF against the share of tasks that are asked without memory: a panel per domain and backbone."""
    found = _sorted(items)
    blocks = sorted({item.identity.block for item in found})
    methods = ordered_methods(item.identity.method for item in found)
    columns = min(len(blocks), 3)
    rows = -(-len(blocks) // columns)
    data = []
    with style("memory_dropout"):
        figure = Figure(figsize=(COLUMN if columns == 1 else PAGE, 1.9 * rows + 0.3))
        grid = figure.subplots(rows, columns, squeeze=False)
        for axis in grid.ravel()[len(blocks) :]:
            axis.axis("off")
        for axis, block in zip(grid.ravel(), blocks, strict=False):
            for item in (item for item in found if item.identity.block == block):
                colour, marker = method_style(item.identity.method, methods)
                shares = [100 * one["share"] for one in item.value["removal"]]
                axis.plot(shares, [one["mean"] for one in item.value["removal"]], color=colour, marker=marker)
                ends = [(min(one["seeds"]), max(one["seeds"])) for one in item.value["removal"]]
                if item.value["n_seeds"] > 1:
                    axis.fill_between(
                        shares,
                        [low for low, _ in ends],
                        [high for _, high in ends],
                        color=colour,
                        alpha=0.15,
                        linewidth=0,
                    )
                place = {"domain": block[0], "backbone": block[1], "method": item.identity.method}
                data += [
                    {**place, "share": one["share"], "ssf": one["mean"], "lo": low, "hi": high}
                    for one, (low, high) in zip(item.value["removal"], ends, strict=True)
                ]
            axis.set_title(" / ".join(block))
            axis.set_xticks([0, 25, 50, 75, 100])
            axis.set_xlabel("Tasks without memory (%)")
        for axis in grid[:, 0]:
            axis.set_ylabel("SSF")
        looks = [method_style(method, methods) for method in methods]
        handles = [Line2D([], [], color=colour, marker=marker) for colour, marker in looks]
        figure.legend(
            handles,
            [method_label(method) for method in methods],
            loc="outside upper center",
            ncols=len(methods),
        )
    caption = (
        "Memory dropout at inference: mean SSF when a share of the test tasks, nested from share to share, is asked"
        " without memory blocks. Lines are means over training seeds, bands reach from the lowest to the highest seed."
    )
    return Drawing("memory_dropout", caption, figure, tuple(data), tuple(item.path for item in found))
