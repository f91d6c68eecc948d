"""Critical-difference diagram (Demšar 2006): mean ranks, with bars over methods that cannot be told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from wmlab.report.figures.canvas import BLACK, COLUMN, GREY, Drawing, message_figure, method_style, style
from wmlab.report.inputs import require
from wmlab.report.labels import method_label, ordered_methods
from wmlab.report.suite import STATS_KEYS, critical_difference, friedman_note, metric_name, why_impossible

_TOLERANCE = 1e-9


def cliques(ranks: Sequence[float], critical: float) -> list[tuple[int, int]]:
    """Maximal runs (first, last index) of sorted ``ranks`` whose ends differ by at most ``critical``.

    Runs of one method are left out; a run inside a longer one is left out too.
    """
    runs: list[tuple[int, int]] = []
    last = -1
    for start in range(len(ranks)):
        end = start
        while end + 1 < len(ranks) and ranks[end + 1] - ranks[start] <= critical + _TOLERANCE:
            end += 1
        if end > start and end > last:
            runs.append((start, end))
            last = end
    return runs


def cd_diagram(stats: Mapping[str, Any], path: str) -> Drawing:
    """Draw the diagram, or a card that says why the rank tests are not possible."""
    require(stats, STATS_KEYS, path)
    reason = why_impossible(stats, "nemenyi") or why_impossible(stats, "mean_ranks")
    if reason is not None:
        text = f"No critical-difference diagram: {reason}."
        with style("cd_diagram"):
            return Drawing("cd_diagram", text, message_figure(text), (), (path,))
    methods = ordered_methods(stats["mean_ranks"])
    order = sorted(methods, key=lambda m: (stats["mean_ranks"][m], methods.index(m)))
    ranks = [float(stats["mean_ranks"][method]) for method in order]
    critical = critical_difference(stats)
    with style("cd_diagram"):
        figure = _draw(order, ranks, critical)
    data = tuple(
        {"method": method, "mean_rank": rank, "critical_difference": critical, "n_cells": stats["n_cells"]}
        for method, rank in zip(order, ranks, strict=True)
    )
    caption = (
        f"Mean ranks on {metric_name(stats)} over {stats['n_cells']} cells (1 is best). Methods under one "
        f"bar differ by less than the Nemenyi critical difference, {critical:.3f}. {friedman_note(stats)}"
    )
    return Drawing("cd_diagram", caption, figure, data, (path,))


def _draw(order: Sequence[str], ranks: Sequence[float], critical: float) -> Figure:
    """Rank 1 on the left; the better half is labelled on the left side, the other on the right side."""
    count = len(order)
    bars = cliques(ranks, critical)
    left = (count + 1) // 2
    row, first = 0.20, 0.22 + 0.11 * len(bars)  # inches below the axis
    depth = first + row * max(left - 1, 0) + 0.12
    head = 0.62  # inches above the axis: ticks and the critical-difference bar
    height = head + depth
    figure = Figure(figsize=(COLUMN, height))
    figure.set_layout_engine("none")
    axis = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axis.set_axis_off()
    axis.set(xlim=(0, COLUMN), ylim=(-depth, head))
    names = [_name(method, rank) for method, rank in zip(order, ranks, strict=True)]
    # Inches for the names on each side: 7 pt DejaVu Sans is at most 0.06 in a character on average.
    margin = 0.14 + 0.06 * max(len(name) for name in names)

    def at(rank: float) -> float:
        return margin + (rank - 1) / max(count - 1, 1) * (COLUMN - 2 * margin)

    axis.plot([at(1), at(count)], [0, 0], color=BLACK, linewidth=0.8)
    for tick in range(1, count + 1):
        axis.plot([at(tick)] * 2, [0, 0.06], color=BLACK, linewidth=0.8)
        axis.text(at(tick), 0.09, str(tick), ha="center", va="bottom", fontsize=7)
    _critical_bar(axis, at(1), at(1 + critical), critical)
    for index, (method, rank) in enumerate(zip(order, ranks, strict=True)):
        depth_at = first + row * (index if index < left else count - 1 - index)
        on_left = index < left
        colour = method_style(method, ordered_methods(order))[0]
        edge = margin - 0.06 if on_left else COLUMN - margin + 0.06
        axis.plot([at(rank), at(rank), edge], [0, -depth_at, -depth_at], color=colour, linewidth=0.9)
        axis.plot([at(rank)], [0], marker="o", markersize=3.5, color=colour, clip_on=False)
        align = "right" if on_left else "left"
        axis.text(
            edge + (-0.04 if on_left else 0.04), -depth_at, names[index], ha=align, va="center", fontsize=7
        )
    for level, (start, end) in enumerate(bars):
        y = -0.09 - 0.11 * level
        ends = [at(ranks[start]) - 0.04, at(ranks[end]) + 0.04]
        axis.plot(ends, [y, y], color=BLACK, linewidth=2.4, solid_capstyle="round")
    return figure


def _name(method: str, rank: float) -> str:
    label = method_label(method)
    return f"{label if len(label) <= 14 else label[:13] + '…'} {rank:.2f}"


def _critical_bar(axis: Axes, start: float, end: float, critical: float) -> None:
    """The length of the critical difference, drawn on the scale of the axis; cut with an arrow when longer."""
    limit = COLUMN - 0.08
    y = 0.34
    if end > limit:
        axis.annotate(
            "", (limit, y), (start, y), arrowprops={"arrowstyle": "->", "color": GREY, "linewidth": 0.8}
        )
        end = limit
    else:
        axis.plot([start, end], [y, y], color=GREY, linewidth=0.8)
        axis.plot([end, end], [y - 0.03, y + 0.03], color=GREY, linewidth=0.8)
    axis.plot([start, start], [y - 0.03, y + 0.03], color=GREY, linewidth=0.8)
    axis.text((start + end) / 2, y + 0.04, f"CD = {critical:.2f}", ha="center", va="bottom", fontsize=7)
