"""Episode lengths: cumulative distribution of steps in the real environment and inside each world model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from wmlab.errors import IncompletePanelError, InputError
from wmlab.report.figures.canvas import BLACK, PAGE, Drawing, block_title, method_style, style
from wmlab.report.inputs import Loaded
from wmlab.report.labels import method_label, ordered_methods


def ecdf(lengths: Sequence[int]) -> tuple[list[int], list[float]]:
    """Steps and the share of episodes that took at most that many, from (0, 0)."""
    ordered = sorted(lengths)
    xs, ys = [0], [0.0]
    for index, length in enumerate(ordered, start=1):
        if xs[-1] == length:
            ys[-1] = index / len(ordered)
        else:
            xs.append(length)
            ys.append(index / len(ordered))
    return xs, ys


def _episodes(item: Loaded, mode: str) -> list[dict[str, Any]]:
    kept = [row for row in item.value if row.get("mode") == mode and row.get("status") != "error"]
    for row in kept:
        if not isinstance(row.get("n_steps"), int):
            raise InputError.at(
                item.path, "an episode has no n_steps", "give an episodes.jsonl of the contract"
            )
    return kept


def episode_lengths(episodes: Sequence[Loaded]) -> Drawing:
    """A panel per agent (a row per domain and backbone); seeds of a method are pooled; errors left out."""
    real = {(i.identity.domain, i.identity.agent): i for i in episodes if not i.identity.backbone}
    world = [i for i in episodes if i.identity.backbone and any(row.get("mode") == "wm" for row in i.value)]
    if not real or not world:
        which = "Real" if not real else "WM"
        raise IncompletePanelError(
            f"figure episode_lengths: no {which} episodes were given; make rollout/ first"
        )
    methods = ordered_methods(item.identity.method for item in world)
    blocks = sorted({item.identity.block for item in world})
    agents = sorted({agent for domain, agent in real})
    panels = [(b, a) for b in blocks for a in agents if (b[0], a) in real]
    columns = min(4, len(agents))
    rows = -(-len(panels) // columns)
    data: list[dict[str, Any]] = []
    with style("episode_lengths"):
        figure = Figure(figsize=(PAGE, 1.75 * rows + 0.45))
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for axis in grid.ravel()[len(panels) :]:
            axis.axis("off")
        for index, (block, agent) in enumerate(panels):
            axis = grid.ravel()[index]
            for method in methods:
                inside = [i for i in world if i.identity.block == block and i.identity.agent == agent]
                pooled = [r for i in inside if i.identity.method == method for r in _episodes(i, "wm")]
                colour, _ = method_style(method, methods)
                _draw(axis, [row["n_steps"] for row in pooled], colour, 1.1)
                data += _rows(block, agent, method, pooled)
            found = _episodes(real[block[0], agent], "real")
            _draw(axis, [row["n_steps"] for row in found], BLACK, 1.6)
            data += _rows(block, agent, "real", found)
            name = agent if len(agent) <= 24 else agent[:23] + "…"
            axis.set_title(f"{block_title(*block)}\n{name}" if len(blocks) > 1 else name)
            axis.set_ylim(0, 1.02)
            axis.set_xlim(left=0)
            axis.xaxis.set_major_locator(MaxNLocator(5, integer=True))
            if index + columns >= len(panels):  # nothing below: shared axes would hide the labels
                axis.tick_params(labelbottom=True)
        figure.supxlabel("Steps", fontsize=8)
        figure.supylabel("Share of episodes", fontsize=8)
        handles = [Line2D([], [], color=BLACK, linewidth=1.6)]
        handles += [Line2D([], [], color=method_style(m, methods)[0]) for m in methods]
        labels = ["Real", *(f"WM {method_label(m)}" for m in methods)]
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    caption = (
        "Episode lengths: share of episodes that ended within a number of steps, in the real environment and inside "
        "each world model (training seeds pooled, failed episodes left out). A jump at the right end is the step cap."
    )
    used = tuple(item.path for item in episodes)
    return Drawing("episode_lengths", caption, figure, tuple(data), used)


def _draw(axis: Any, lengths: Sequence[int], colour: str, width: float) -> None:
    if lengths:
        axis.step(*ecdf(lengths), where="post", color=colour, linewidth=width)


def _rows(
    block: tuple[str, str], agent: str, condition: str, rows: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    return [
        {
            "domain": block[0],
            "backbone": block[1],
            "agent": agent,
            "condition": condition,
            "item_id": row["item_id"],
            "n_steps": row["n_steps"],
            "status": row["status"],
            "success": row["success"],
        }
        for row in rows
    ]
