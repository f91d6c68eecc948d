"""Make the tables and figures that a set of input files allows, each with its provenance record."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wmlab.errors import InputError
from wmlab.io.provenance import write_meta
from wmlab.memory.removal import REMOVAL_KEYS
from wmlab.metrics.planning import PLANNING_KEYS
from wmlab.report import builders, memory, metric_tables, planning, suite
from wmlab.report.contents import FIGURES, TABLES
from wmlab.report.inputs import load_cells, load_objects, load_rows, read_object, require, require_files
from wmlab.report.render import write_table_files
from wmlab.report.tables import Table

if TYPE_CHECKING:
    from wmlab.report.figures.canvas import Drawing


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
    gains: Sequence[str],
    plans: Sequence[str],
    perturb: Sequence[str],
    stress: Path | None,
    audit: Path | None,
    methods: Sequence[str],
    only: Sequence[str],
    allow_incomplete: bool,
    started: float,
) -> list[Table]:
    """Build every table first, so that nothing is written when one refuses; then write them all."""
    single = [str(path) for path in (stats, stress, audit) if path is not None]
    require_files([*scores, *cells, *heldout, *removals, *gains, *plans, *perturb, *single])
    makers: dict[str, Callable[[], Table]] = {}
    if scores:
        models = load_objects(scores, builders.SUMMARY_KEYS)
        makers["single_step"] = lambda: builders.single_step(models, methods)
        makers["state_fidelity"] = lambda: memory.state_fidelity(models, methods)
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
        asked = load_objects(removals, REMOVAL_KEYS)
        makers["memory"] = lambda: memory.memory(asked)
    if gains:
        given = load_objects(gains, memory.GAIN_KEYS)
        makers["memory_gain"] = lambda: memory.memory_gain(given)
    if plans:
        compared = load_objects(plans, PLANNING_KEYS)
        makers["planning"] = lambda: planning.planning(compared)
    makers |= _metric_tables(perturb, stress, audit)
    names = _chosen(only, TABLES, list(makers), "table")
    made = [makers[name]() for name in names]
    for table in made:
        write_table_files(table, out_dir)
        config = {"table": table.name, "methods": list(methods), "allow_incomplete": allow_incomplete}
        # A table that says why a test is not possible has no rows, so no sources of its own.
        inputs = table.sources or tuple(single or perturb)
        write_meta(out_dir / table.name, config=config, seed=None, inputs=inputs, started=started)
    return made


def _metric_tables(
    perturb: Sequence[str], stress: Path | None, audit: Path | None
) -> dict[str, Callable[[], Table]]:
    """Makers of the tables that judge the metrics; an audit makes those that it has data for."""
    makers: dict[str, Callable[[], Table]] = {}
    if perturb:
        studies = metric_tables.load_perturbations(perturb)
        makers["perturb_contrast"] = lambda: metric_tables.perturb_contrast(studies)
        makers["perturb_metrics"] = lambda: metric_tables.perturb_metrics(studies)
        makers["perturb_rewards"] = lambda: metric_tables.perturb_rewards(studies)
    if stress is not None:
        tested = read_object(stress)
        require(tested, metric_tables.STRESS_KEYS, stress)
        makers["ssf_stress"] = lambda: metric_tables.ssf_stress(tested, str(stress))
        makers["ssf_stress_kinds"] = lambda: metric_tables.ssf_stress_kinds(tested, str(stress))
    if audit is not None:
        audited = read_object(audit)
        require(audited, metric_tables.AUDIT_KEYS, audit)
        makers["ssf_audit"] = lambda: metric_tables.ssf_audit(audited, str(audit))
        if audited["webshop_weights"] is not None:
            makers["ssf_weights"] = lambda: metric_tables.ssf_weights(audited, str(audit))
        if audited["transfer"] is not None:
            makers["ssf_transfer"] = lambda: metric_tables.ssf_transfer(audited, str(audit))
        if audited["agreement"] is not None:
            makers["ssf_agreement"] = lambda: metric_tables.ssf_agreement(audited, str(audit))
    return makers


def make_figures(
    out_dir: Path,
    *,
    curves: Sequence[str],
    cells: Sequence[str],
    stats: Path | None,
    episodes: Sequence[str],
    gains: Sequence[str],
    perturb: Sequence[str],
    stress: Path | None,
    only: Sequence[str],
    png: bool,
    started: float,
) -> list[Drawing]:
    """Draw every figure first, then write them all."""
    from wmlab.report.figures import canvas, lengths, metrics, ranks, training
    from wmlab.report.figures import cells as cell_figures
    from wmlab.report.figures import memory as memory_figures

    single = [str(path) for path in (stats, stress) if path is not None]
    require_files([*curves, *cells, *episodes, *gains, *perturb, *single])
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
    if gains:
        given = load_objects(gains, memory.GAIN_KEYS)
        makers["memory_removal"] = lambda: memory_figures.memory_removal(given)
        makers["memory_dropout"] = lambda: memory_figures.memory_dropout(given)
    if perturb:
        studies = metric_tables.load_perturbations(perturb)
        makers["perturb_contrast"] = lambda: metrics.perturb_contrast(studies)
    if stress is not None:
        tested = read_object(stress)
        require(tested, metric_tables.STRESS_KEYS, stress)
        makers["ssf_stress"] = lambda: metrics.ssf_stress(tested, str(stress))
    names = _chosen(only, FIGURES, list(makers), "figure")
    made = [makers[name]() for name in names]
    for drawing in made:
        canvas.save(drawing, out_dir, ("png",) if png else ())
        config = {"figure": drawing.name}
        write_meta(out_dir / drawing.name, config=config, seed=None, inputs=drawing.sources, started=started)
    return made
