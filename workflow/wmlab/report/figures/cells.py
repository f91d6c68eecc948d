"""Figures over study cells: CR_pw per agent with intervals, and world-model against real success."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from wmlab.errors import IncompletePanelError
from wmlab.report.figures.canvas import (
    AGENT_MARKERS,
    COLUMN,
    GREY,
    PAGE,
    Drawing,
    block_title,
    method_style,
    style,
)
from wmlab.report.inputs import Loaded
from wmlab.report.labels import method_label, ordered_methods

_DODGE = 0.015  # success rate; keeps the methods of one agent apart
_WIDE = 14  # characters after which an agent name is broken


def _blocks(cells: Sequence[Loaded], figure: str) -> list[tuple[str, str]]:
    if not cells:
        raise IncompletePanelError(f"figure {figure}: no cell was given; make consistency/ first")
    return sorted({cell.identity.block for cell in cells})


def wrapped(name: str, width: int = _WIDE) -> str:
    """Break a long agent name at hyphens, slashes and underscores, or hard where it has none."""
    lines, current = [], ""
    for character in name:
        current += character
        if (character in "-_/." and len(current) >= width // 2) or len(current) >= width:
            lines.append(current)
            current = ""
    return "\n".join([*lines, current] if current else lines)


def crpw_cells(cells: Sequence[Loaded]) -> Drawing:
    """CR_pw of every cell with its interval: a panel per (domain, backbone), seeds side by side."""
    blocks = _blocks(cells, "crpw_cells")
    methods = ordered_methods(cell.identity.method for cell in cells)
    with style("crpw_cells"):
        figure = Figure(figsize=(PAGE, 2.3 * len(blocks) + 0.35))
        axes = figure.subplots(len(blocks), 1, squeeze=False)[:, 0]
        for axis, block in zip(axes, blocks, strict=True):
            _crpw_panel(axis, [cell for cell in cells if cell.identity.block == block], methods)
            axis.set_title(block_title(*block))
        looks = [method_style(method, methods) for method in methods]
        handles = [Line2D([], [], color=colour, marker=marker, linestyle="") for colour, marker in looks]
        labels = [method_label(method) for method in methods]
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    data: list[dict[str, Any]] = []
    for cell in cells:
        bounds = cell.value.get("CR_pw_ci") or (None, None)
        row = {key: getattr(cell.identity, key) for key in ("domain", "backbone", "method", "agent", "seed")}
        row |= {"n": cell.value["n"], "CR_pw": cell.value["CR_pw"], "lo": bounds[0], "hi": bounds[1]}
        data.append({**row, "reason": cell.value["reasons"].get("CR_pw", "")})
    intervals = any(row["lo"] is not None for row in data)
    caption = "CR_pw of every cell: share of the tasks an agent wins in the real environment that it still wins when "
    caption += "its world-model actions are replayed there. A point per training seed"
    caption += ", whiskers: 95 % interval over the cell's tasks. " if intervals else ". "
    caption += "Cells without a real success have no value and no point."
    return Drawing("crpw_cells", caption, figure, tuple(data), tuple(dict.fromkeys(c.path for c in cells)))


def _crpw_panel(axis: Axes, cells: Sequence[Loaded], methods: Sequence[str]) -> None:
    agents = sorted({cell.identity.agent for cell in cells})
    slots = [
        (m, s) for m in methods for s in sorted({c.identity.seed for c in cells if c.identity.method == m})
    ]
    # Seeds of a method touch, methods stand apart.
    offsets: dict[tuple[str, int], float] = {}
    position = 0.0
    for index, slot in enumerate(slots):
        if index:
            position += 1.0 if slot[0] == slots[index - 1][0] else 1.8
        offsets[slot] = position
    scale = 0.72 / position if position else 0.0
    for cell in cells:
        number = cell.value["CR_pw"]
        if number is None:
            continue
        slot = (cell.identity.method, cell.identity.seed)
        x = agents.index(cell.identity.agent) + (offsets[slot] - position / 2) * scale
        colour, marker = method_style(cell.identity.method, methods)
        bounds = cell.value.get("CR_pw_ci")
        if bounds:
            axis.plot([x, x], bounds, color=colour, linewidth=0.9, solid_capstyle="butt")
        axis.plot([x], [number], color=colour, marker=marker, markersize=4, markeredgewidth=0.4, mec="white")
    for index, agent in enumerate(agents):
        inside = [cell.value["CR_pw"] for cell in cells if cell.identity.agent == agent]
        if all(number is None for number in inside):
            axis.text(index, 0.5, "no real\nsuccess", ha="center", va="center", color=GREY, fontsize=7)
        if index:
            axis.axvline(index - 0.5, color="#cccccc", linewidth=0.5)
    axis.set_xticks(range(len(agents)), [wrapped(agent) for agent in agents])
    axis.tick_params(axis="x", length=0)
    axis.grid(visible=False, axis="x")
    axis.set_xlim(-0.5, len(agents) - 0.5)
    axis.set_ylim(-0.03, 1.03)
    axis.set_ylabel("CR$_{\\mathrm{pw}}$", parse_math=True)


def calibration(cells: Sequence[Loaded]) -> Drawing:
    """SR_WM against SR_Real: on the diagonal the world model rates an agent as the environment does."""
    blocks = _blocks(cells, "calibration")
    methods = ordered_methods(cell.identity.method for cell in cells)
    agents = sorted({cell.identity.agent for cell in cells})
    columns = min(len(blocks), 3)
    rows = -(-len(blocks) // columns)
    width = COLUMN if len(blocks) == 1 else PAGE
    panel = (width - 0.3) / columns
    legend_rows = max(-(-len(agents) // (2 if width == COLUMN else 5)), 1) + 1
    with style("calibration"):
        figure = Figure(figsize=(width, panel * rows + 0.17 * legend_rows + 0.1))
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis in grid[len(blocks) :]:
            axis.axis("off")
        for axis, block in zip(grid, blocks, strict=False):
            axis.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle="--", zorder=1)
            for cell in cells:
                real, world = cell.value["SR_Real"], cell.value["SR_WM"]
                if cell.identity.block != block or real is None or world is None:
                    continue
                colour = method_style(cell.identity.method, methods)[0]
                marker = AGENT_MARKERS[agents.index(cell.identity.agent) % len(AGENT_MARKERS)]
                shift = _DODGE * (2 * methods.index(cell.identity.method) / max(len(methods) - 1, 1) - 1)
                axis.plot(
                    [real + shift],
                    [world],
                    marker=marker,
                    mfc=colour,
                    mec="white",
                    mew=0.4,
                    ms=5,
                    clip_on=False,
                )
            axis.set(
                xlim=(-0.04, 1.04),
                ylim=(-0.04, 1.04),
                aspect="equal",
                xlabel="Success in the real environment",
            )
            axis.set_title(block_title(*block))
            axis.text(0.04, 0.94, "world model\ntoo easy", va="top", color=GREY, fontsize=7)
            axis.text(0.96, 0.06, "world model\ntoo hard", ha="right", color=GREY, fontsize=7)
        grid[0].set_ylabel("Success in the world model")
        _calibration_legends(figure, methods, agents, width)
    data: list[dict[str, Any]] = []
    for cell in cells:
        row = {key: getattr(cell.identity, key) for key in ("domain", "backbone", "method", "agent", "seed")}
        data.append(
            {**row, "n": cell.value["n"], "SR_Real": cell.value["SR_Real"], "SR_WM": cell.value["SR_WM"]}
        )
    caption = (
        "Success rate in the world model against the real environment. Colour: method, shape: agent, a point per "
        "training seed (methods are set apart sideways by at most 0.015). Above the diagonal the world model is "
        "over-optimistic."
    )
    return Drawing("calibration", caption, figure, tuple(data), tuple(dict.fromkeys(c.path for c in cells)))


def _calibration_legends(figure: Figure, methods: Sequence[str], agents: Sequence[str], width: float) -> None:
    """Colours above the panels, shapes below them."""
    colours = [
        Line2D([], [], marker="o", linestyle="", color=method_style(method, methods)[0]) for method in methods
    ]
    figure.legend(
        colours,
        [method_label(method) for method in methods],
        loc="outside upper center",
        ncols=len(methods),
        columnspacing=0.8,
        borderpad=0.2,
        handletextpad=0.1,
    )
    shapes = [
        Line2D([], [], marker=AGENT_MARKERS[i % len(AGENT_MARKERS)], linestyle="", color=GREY)
        for i in range(len(agents))
    ]
    figure.legend(
        shapes,
        [agent if len(agent) <= 30 else agent[:29] + "…" for agent in agents],
        loc="outside lower center",
        ncols=2 if width == COLUMN else 5,
        columnspacing=0.8,
        borderpad=0.2,
        handletextpad=0.1,
    )
