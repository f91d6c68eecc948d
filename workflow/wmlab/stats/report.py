"""All comparisons of one target method against the others, as one JSON object (metrics.md section 6)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any

from wmlab.errors import InputError
from wmlab.stats.arrays import Array, exact_mean, matrix
from wmlab.stats.bootstrap import RESAMPLES, Bootstrap, Ratio, bootstrap_cells, two_level
from wmlab.stats.cells import Cell, CellTable, near
from wmlab.stats.effect import (
    cliffs_delta,
    detectable_over_cells,
    detectable_over_tasks,
    holm,
    rank_biserial,
    sample_deviation,
)
from wmlab.stats.friedman import Friedman, friedman, nemenyi_difference, nemenyi_p, nemenyi_q
from wmlab.stats.sign import sign_test
from wmlab.stats.tasks import Key, task_cells

POWER = 0.8
TABLE_TOLERANCE = 1e-3  # a table rounded to three decimals still agrees with its task outcomes


def cells_report(
    table: CellTable,
    target: str,
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
    alpha: float = 0.05,
    tasks: Mapping[Key, Mapping[int, tuple[list[str], Ratio]]] | None = None,
) -> dict[str, Any]:
    """Sign tests, Friedman, Nemenyi, bootstrap, Holm and effect sizes of ``target`` against each method.

    Cells without a value for some method leave every paired test; they are counted and listed. ``tasks``
    (``stats.tasks.load_tasks``) adds the two-level bootstrap. Raises InputError when no cell is left.
    """
    if target not in table.methods:
        raise InputError(f"target '{target}' is not one of the methods; {near(target, table.methods)}")
    if not 0 < alpha < 1:
        raise InputError(f"alpha is {alpha}; give a number between 0 and 1")
    kept = [cell for cell in table.cells if cell.missing is None]
    dropped = [
        {"cell": cell.name, "reason": cell.missing} for cell in table.cells if cell.missing is not None
    ]
    if not kept:
        first = dropped[0] if dropped else {"cell": "none", "reason": "the table has no cells"}
        raise InputError(
            f"no cell has a value for every method (first: {first['cell']}, {first['reason']}); nothing to test"
        )
    values = matrix(
        [[x for m in table.methods if (x := cell.values[m]) is not None] for cell in kept], "cells"
    )
    others = [method for method in table.methods if method != target]
    columns = {method: values[:, place] for place, method in enumerate(table.methods)}
    ranked = friedman(values)
    sign = {other: asdict(sign_test(columns[target], columns[other])) for other in others}
    boots = {
        o: bootstrap_cells(columns[target] - columns[o], seed=seed, resamples=resamples, level=1 - alpha)
        for o in others
    }
    report: dict[str, Any] = {
        "schema": 1,
        "metric": table.metric,
        "target": target,
        "methods": list(table.methods),
        "layout": table.layout,
        "seeds": table.seeds,
        "seed": seed,
        "generator": "numpy.random.default_rng(seed)",
        "resamples": resamples,
        "alpha": alpha,
        "n_cells": len(kept),
        "n_cells_given": len(table.cells),
        "n_dropped": len(dropped),
        "dropped": dropped,
        "uneven_seeds": list(table.uneven_seeds),
        "cells": [{"cell": cell.name, **cell.key, "values": dict(cell.values)} for cell in kept],
        "means": {method: exact_mean(columns[method]) for method in table.methods},
        "mean_ranks": dict(zip(table.methods, ranked.mean_ranks, strict=True)),
        "sign": sign,
        "friedman": _friedman(ranked, table.methods),
        "nemenyi": _nemenyi(ranked, table.methods, alpha),
        "bootstrap": {other: interval(boot) for other, boot in boots.items()},
        "effects": {other: _effects(columns[target], columns[other], alpha) for other in others},
        "run_to_run": run_to_run(table.cells, table.methods),
        "two_level": None,
    }
    families = {"sign": {o: sign[o]["p"] for o in others}, "bootstrap": {o: boots[o].p for o in others}}
    if tasks is not None:
        found = {o: _two_level(kept, target, o, tasks, seed, resamples, alpha) for o in others}
        report["two_level"] = {o: entry for o, (entry, _) in found.items()}
        families["two_level"] = {o: boot.p for o, (_, boot) in found.items()}
    report["holm"] = {family: holm(p_values) for family, p_values in families.items()}
    return report


def interval(boot: Bootstrap) -> dict[str, Any]:
    """A bootstrap as JSON: both forms of p, the interval as [low, high]."""
    return {**asdict(boot), "ci": list(boot.ci), "p": boot.p, "p_plain": boot.p_plain}


def _friedman(ranked: Friedman, methods: Sequence[str]) -> dict[str, Any]:
    return {
        **asdict(ranked),
        "df": ranked.k - 1,
        "rank_sums": dict(zip(methods, ranked.rank_sums, strict=True)),
    }


def _nemenyi(ranked: Friedman, methods: Sequence[str], alpha: float) -> dict[str, Any]:
    critical = nemenyi_difference(ranked.k, ranked.n, alpha)
    ranks = dict(zip(methods, ranked.mean_ranks, strict=True))
    pairs = [
        {
            "a": one,
            "b": other,
            "gap": abs(ranks[one] - ranks[other]),
            "p": nemenyi_p(ranks[one] - ranks[other], ranked.k, ranked.n),
            "separated": abs(ranks[one] - ranks[other]) > critical,
        }
        for one, other in combinations(methods, 2)
    ]
    return {"cd": critical, "q": nemenyi_q(ranked.k, alpha), "alpha": alpha, "pairs": pairs}


def _effects(target: Array, other: Array, alpha: float) -> dict[str, Any]:
    """Effect sizes and, from two cells on, the mean difference that this many cells could detect."""
    deviation = sample_deviation(target - other)
    return {
        "mean_difference": exact_mean(target - other),
        "sd_difference": deviation,
        "cliffs_delta": cliffs_delta(target, other),
        "rank_biserial": rank_biserial(target, other),
        "minimum_detectable_difference": None
        if deviation is None
        else detectable_over_cells(deviation, target.size, alpha, POWER),
        "power": POWER,
    }


def _two_level(
    cells: Sequence[Cell],
    target: str,
    other: str,
    tasks: Mapping[Key, Mapping[int, tuple[list[str], Ratio]]],
    seed: int,
    resamples: int,
    alpha: float,
) -> tuple[dict[str, Any], Bootstrap]:
    paired = task_cells(cells, target, other, tasks)
    boot = two_level(paired, seed=seed, resamples=resamples, level=1 - alpha)
    stated = exact_mean(
        [float(cell.values[target] or 0.0) - float(cell.values[other] or 0.0) for cell in cells]
    )
    if abs(stated - boot.mean_difference) > TABLE_TOLERANCE:
        raise InputError(
            f"the table says {target} - {other} = {stated:.4f}, the task outcomes say {boot.mean_difference:.4f}; "
            "make both from the same cell.json files"
        )
    # Share of tasks on which the two methods' first seeds differ, over all cells.
    differ = sum(float((c.target[0].top != c.other[0].top).sum()) for c in paired)
    n = sum(c.target[0].top.size for c in paired)
    panel = min(c.target[0].top.size for c in paired)
    share = differ / n
    extra = {
        "n_tasks": n,
        "discordant_share": share,
        "smallest_panel": panel,
        "minimum_detectable_difference_tasks": detectable_over_tasks(panel, share, alpha, POWER),
    }
    return {**interval(boot), **extra}, boot


def run_to_run(cells: Sequence[Cell], methods: Sequence[str]) -> dict[str, Any]:
    """Standard deviation over training seeds of each method, pooled over the cells with at least two."""
    found: dict[str, Any] = {}
    for method in methods:
        runs = [list(cell.by_seed.get(method, {}).values()) for cell in cells]
        spreads = [sample_deviation(values) or 0.0 for values in runs if len(values) > 1]
        pooled = math.sqrt(exact_mean([s * s for s in spreads])) if spreads else None
        found[method] = {"n_cells": len(spreads), "sd": pooled}
    return found
