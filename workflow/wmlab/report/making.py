"""Make the tables and figures that a set of input files allows, each with its provenance record."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wmlab.errors import InputError
from wmlab.io.provenance import write_meta
from wmlab.report import builders, memory, suite
from wmlab.report.inputs import load_cells, load_objects, load_rows, read_object, require_files
from wmlab.report.render import write_table_files
from wmlab.report.tables import Table

if TYPE_CHECKING:
    from wmlab.report.figures.canvas import Drawing

TABLES = (
    "single_step",
    "task_level",
    "calibration",
    "real_floor",
    "sign_tests",
    "bootstrap",
    "grpo_objective",
    "memory",
)
FIGURES = ("training_curves", "sft_curves", "crpw_cells", "calibration", "cd_diagram", "episode_lengths")


def _chosen(only: Sequence[str], known: Sequence[str], possible: Sequence[str], kind: str) -> list[str]:
    """Names to make. Raises InputError for an unknown name, and when the inputs allow none."""
    for name in only:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"choose from {', '.join(known)}"
            raise InputError(f"--only: no {kind} '{name}'; {hint}")
        if name not in possible:
            raise InputError(f"--only: {kind} '{name}' lacks its inputs; see `wmlab report {kind}s --help`")
    if not possible:
        raise InputError(
            f"no input was given, so there is no {kind} to make; see `wmlab report {kind}s --help`"
        )
    return [name for name in known if name in (only or possible)]


def make_tables(
    out_dir: Path,
    *,
    scores: Sequence[str],
    cells: Sequence[str],
    stats: Path | None,
    heldout: Sequence[str],
    removals: Sequence[str],
    methods: Sequence[str],
    only: Sequence[str],
    allow_incomplete: bool,
    started: float,
) -> list[Table]:
    """Build every table first, so that nothing is written when one refuses; then write them all."""
    require_files([*scores, *cells, *heldout, *removals, *([str(stats)] if stats else [])])
    makers: dict[str, Callable[[], Table]] = {}
    if scores:
        models = load_objects(scores, builders.SUMMARY_KEYS)
        makers["single_step"] = lambda: builders.single_step(models, methods)
    if cells:
        loaded = load_cells(cells)
        makers["task_level"] = lambda: builders.task_level(loaded, methods, allow_incomplete)
        makers["calibration"] = lambda: builders.calibration(loaded, methods, allow_incomplete)
        makers["real_floor"] = lambda: builders.real_floor(loaded)
    if stats is not None:
        found = read_object(stats)
        makers["sign_tests"] = lambda: suite.sign_tests(found, str(stats))
        makers["bootstrap"] = lambda: suite.bootstrap(found, str(stats))
    if heldout:
        runs = load_objects(heldout, builders.HELDOUT_KEYS)
        makers["grpo_objective"] = lambda: builders.grpo_objective(runs)
    if removals:
        asked = load_objects(removals, memory.REMOVAL_KEYS)
        makers["memory"] = lambda: memory.memory(asked)
    names = _chosen(only, TABLES, list(makers), "table")
    made = [makers[name]() for name in names]
    for table in made:
        write_table_files(table, out_dir)
        config = {"table": table.name, "methods": list(methods), "allow_incomplete": allow_incomplete}
        # A table that says why a test is not possible has no rows, so no sources of its own.
        inputs = table.sources or ((str(stats),) if stats else ())
        write_meta(out_dir / table.name, config=config, seed=None, inputs=inputs, started=started)
    return made


def make_figures(
    out_dir: Path,
    *,
    curves: Sequence[str],
    cells: Sequence[str],
    stats: Path | None,
    episodes: Sequence[str],
    only: Sequence[str],
    png: bool,
    started: float,
) -> list[Drawing]:
    """Draw every figure first, then write them all."""
    from wmlab.report.figures import canvas, lengths, ranks, training
    from wmlab.report.figures import cells as cell_figures

    require_files([*curves, *cells, *episodes, *([str(stats)] if stats else [])])
    makers: dict[str, Callable[[], Drawing]] = {}
    if curves:
        runs = load_rows(curves)
        makers["training_curves"] = lambda: training.training_curves(runs)
        makers["sft_curves"] = lambda: training.sft_curves(runs)
    if cells:
        loaded = load_cells(cells)
        makers["crpw_cells"] = lambda: cell_figures.crpw_cells(loaded)
        makers["calibration"] = lambda: cell_figures.calibration(loaded)
    if stats is not None:
        found = read_object(stats)
        makers["cd_diagram"] = lambda: ranks.cd_diagram(found, str(stats))
    if episodes:
        rolled = load_rows(episodes)
        makers["episode_lengths"] = lambda: lengths.episode_lengths(rolled)
    names = _chosen(only, FIGURES, list(makers), "figure")
    made = [makers[name]() for name in names]
    for drawing in made:
        canvas.save(drawing, out_dir, ("png",) if png else ())
        config = {"figure": drawing.name}
        write_meta(out_dir / drawing.name, config=config, seed=None, inputs=drawing.sources, started=started)
    return made
