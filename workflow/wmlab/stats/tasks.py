"""Task outcomes behind the cells, for the two-level bootstrap: the ``tasks`` of ``cell.json`` files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wmlab.errors import InputError
from wmlab.stats.arrays import Array
from wmlab.stats.bootstrap import Ratio, TaskCell
from wmlab.stats.cells import Cell

Columns = Mapping[str, Array]  # real, w2r, wm, timeout of one run, each (tasks,), 0 or 1
Key = tuple[str, str, str, str]  # domain, backbone, agent, method

RATIOS: dict[str, Callable[[Columns], Ratio]] = {
    "CR_pw": lambda x: Ratio(x["real"] * x["w2r"], x["real"]),
    "CR_pw_T": lambda x: Ratio(x["real"] * x["w2r"] * (1 - x["timeout"]), x["real"] * (1 - x["timeout"])),
    "CR": lambda x: Ratio(x["w2r"], x["real"]),
    "SR_W2R": lambda x: Ratio(x["w2r"], np.ones_like(x["real"])),
    "SR_WM": lambda x: Ratio(x["wm"], np.ones_like(x["real"])),
    "agreement": lambda x: Ratio((x["real"] == x["w2r"]).astype(np.float64), np.ones_like(x["real"])),
}
_NEEDS_WM = ("CR_pw_T", "SR_WM")


def load_tasks(paths: Sequence[str | Path], metric: str) -> dict[Key, dict[int, tuple[list[str], Ratio]]]:
    """Task ids and ratio of each ``cell.json``, by (domain, backbone, agent, method) and seed.

    Raises InputError when the metric is no ratio over tasks, or a file lacks its identity or outcomes.
    """
    if metric not in RATIOS:
        raise InputError(
            f"--metric {metric} is not a rate over tasks; the two-level bootstrap knows {', '.join(RATIOS)}"
        )
    found: dict[Key, dict[int, tuple[list[str], Ratio]]] = {}
    for path in paths:
        cell = read_cell(path)
        if not isinstance(cell.get("tasks"), list) or not cell["tasks"]:
            raise InputError.at(path, "no 'tasks'", "give the cell.json of `wmlab eval consistency`")
        key = (cell["domain"], cell["backbone"], cell["agent"], cell["method"])
        runs = found.setdefault(key, {})
        if cell["seed"] in runs:
            raise InputError.at(
                path, f"a second file of {'/'.join(key)} seed {cell['seed']}", "give each cell once"
            )
        rows = sorted(cell["tasks"], key=lambda row: str(row.get("item_id")))
        names = ("real", "w2r", "wm", "timeout") if metric in _NEEDS_WM else ("real", "w2r")
        columns = {name: _column(path, rows, name) for name in names}
        runs[cell["seed"]] = ([str(row["item_id"]) for row in rows], RATIOS[metric](columns))
    return found


def read_cell(path: str | Path) -> dict[str, Any]:
    """A ``cell.json`` with a whole identity. Raises InputError naming what it lacks."""
    try:
        cell = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InputError.at(
            path, f"not a readable cell.json ({error})", "make it with `wmlab eval consistency`"
        ) from None
    if not isinstance(cell, dict):
        raise InputError.at(path, "not a JSON object", "make it with `wmlab eval consistency`")
    lacks = [
        name for name in ("domain", "backbone", "method", "agent") if not isinstance(cell.get(name), str)
    ]
    if not isinstance(cell.get("seed"), int) or isinstance(cell.get("seed"), bool):
        lacks.append("seed")
    if lacks:
        options = " ".join(f"--{name}" for name in lacks)
        raise InputError.at(path, f"no {', '.join(lacks)}", f"run `wmlab eval consistency` with {options}")
    return cell


def _column(path: str | Path, rows: Sequence[Mapping[str, Any]], name: str) -> Array:
    if not all(
        isinstance(row, dict) and isinstance(row.get(name), bool) and "item_id" in row for row in rows
    ):
        fix = "run `wmlab eval consistency` with --wm" if name in ("wm", "timeout") else "make the cell again"
        raise InputError.at(path, f"a task has no '{name}'", fix)
    return np.array([row[name] for row in rows], dtype=np.float64)


def task_cells(
    cells: Sequence[Cell],
    target: str,
    other: str,
    loaded: Mapping[Key, Mapping[int, tuple[list[str], Ratio]]],
) -> list[TaskCell]:
    """Pair the task outcomes of two methods cell by cell, with the seeds that the cell's value used.

    Raises InputError when a cell's file is missing or its panels differ.
    """
    paired = []
    for cell in cells:
        sides: dict[str, list[Ratio]] = {}
        panels: list[list[str]] = []
        for method in (target, other):
            try:
                key = (cell.key["domain"], cell.key["backbone"], cell.key["agent"], method)
            except KeyError as error:
                raise InputError(
                    f"cell {cell.name} has no column {error}; --tasks needs domain, backbone and agent"
                ) from None
            runs = loaded.get(key, {})
            wanted = sorted(cell.by_seed.get(method) or runs)
            lost = [seed for seed in wanted if seed not in runs]
            if lost or not wanted:
                which = f" seed {lost[0]}" if lost else ""
                raise InputError(
                    f"--tasks has no cell.json of {'/'.join(key)}{which}; give one for each run in the table"
                )
            sides[method] = [runs[seed][1] for seed in wanted]
            panels += [runs[seed][0] for seed in wanted]
        if any(panel != panels[0] for panel in panels):
            raise InputError(
                f"cell {cell.name}: the methods were evaluated on different panels; use one panel a cell"
            )
        paired.append(TaskCell(sides[target], sides[other]))
    return paired
