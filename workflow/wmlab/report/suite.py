"""Tables of the suite-level statistics, read from ``stats.json`` (behr.txt Appendix N, Tables 19 and 20).

A test that the number of cells does not allow is a table that says why, never a failure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from wmlab.report.inputs import require
from wmlab.report.labels import method_key, method_label
from wmlab.report.tables import Column, Row, Table, Value

STATS_KEYS = ("methods", "target", "n_cells")
MINIMUM_CELLS = 2
_WHY = ("reason", "impossible", "skipped", "error")


def smallest_sign_p(n_cells: int) -> float:
    """Smallest two-sided exact sign-test p that ``n_cells`` untied cells can reach: min(1, 2 x 0.5^n)."""
    return min(1.0, 2.0 * 0.5**n_cells)


def cells_needed(alpha: float = 0.05) -> int:
    """Fewest cells, all won, for a two-sided sign test to reach ``p <= alpha`` (6 at 0.05)."""
    return math.ceil(1 - math.log2(alpha))


def why_impossible(stats: Mapping[str, Any], test: str) -> str | None:
    """The reason there is no result of ``test`` in ``stats``, or None when there is one."""
    section = stats.get(test)
    if isinstance(section, Mapping):
        reason = next((section[key] for key in _WHY if isinstance(section.get(key), str)), None)
        if reason is not None:
            return str(reason)
        if section and int(stats["n_cells"]) >= MINIMUM_CELLS:
            return None
    if isinstance(section, str):
        return section
    count = int(stats["n_cells"])
    if count < MINIMUM_CELLS:
        return f"{count} complete cell{'' if count == 1 else 's'}, at least {MINIMUM_CELLS} are needed"
    return f"the statistics file holds no {test} result"


def dropped_note(stats: Mapping[str, Any]) -> str | None:
    """Which cells the statistics leave out, and why."""
    dropped = stats.get("dropped") or []
    if not dropped:
        return None
    return (
        f"Left out of the tests ({len(dropped)}): " + "; ".join(_describe(entry) for entry in dropped) + "."
    )


def _describe(entry: object) -> str:
    if isinstance(entry, Mapping):
        if set(entry) == {"cell", "reason"}:
            return f"{entry['cell']} ({entry['reason']})"
        return ", ".join(f"{key} {_describe(value)}" for key, value in entry.items())
    if isinstance(entry, list):
        return "/".join(_describe(value) for value in entry)
    return str(entry)


def friedman_note(stats: Mapping[str, Any]) -> str:
    """The omnibus test and its critical difference in one sentence."""
    reason = why_impossible(stats, "friedman")
    if reason is not None:
        return f"Friedman test: not possible ({reason})."
    friedman = stats["friedman"]
    text = f"Friedman test over {stats['n_cells']} cells: χ² = {friedman['statistic']:.2f}, p = {friedman['p']:.4g}"
    if friedman.get("p_uncorrected") is not None:
        text += f" (without tie correction {friedman['statistic_uncorrected']:.2f}, {friedman['p_uncorrected']:.4g})"
    if why_impossible(stats, "nemenyi") is None:
        text += f"; Nemenyi critical difference {critical_difference(stats):.3f}"
    return text + "."


def critical_difference(stats: Mapping[str, Any]) -> float:
    """The Nemenyi critical difference, in ranks."""
    return float(first_of(stats["nemenyi"], "cd", "critical_difference"))


def first_of(entry: Mapping[str, Any], *keys: str) -> Any:
    """The value of the first key that ``entry`` has, else None."""
    return next((entry[key] for key in keys if key in entry), None)


def metric_name(stats: Mapping[str, Any]) -> str:
    """The tested metric; a wide table of cells does not name it."""
    return str(stats.get("metric") or "the metric")


def detectable(stats: Mapping[str, Any]) -> dict[str, dict[str, float | None]]:
    """Minimum detectable differences per baseline: ``cells`` (paired over cells), ``tasks`` (one cell's panel)."""
    effects, two_level = stats.get("effects") or {}, stats.get("two_level") or {}
    return {
        method: {
            "cells": (effects.get(method) or {}).get("minimum_detectable_difference"),
            "tasks": (two_level.get(method) or {}).get("minimum_detectable_difference_tasks"),
        }
        for method in sorted({*effects, *two_level}, key=method_key)
    }


def _notes(stats: Mapping[str, Any]) -> list[str]:
    count = int(stats["n_cells"])
    notes = [
        f"Metric {metric_name(stats)}, {count} cells; with that many cells a two-sided sign test "
        f"cannot fall below p = {smallest_sign_p(count):.4g}."
    ]
    note = dropped_note(stats)
    return [*notes, note] if note else notes


def _holm(stats: Mapping[str, Any], family: str, method: str) -> float | None:
    """Holm-adjusted p of a comparison, wherever the statistics file keeps it."""
    own = (stats[family].get(method) or {}).get("p_holm")
    adjusted = own if own is not None else ((stats.get("holm") or {}).get(family) or {}).get(method)
    return None if adjusted is None else float(adjusted)


def _baselines(stats: Mapping[str, Any], test: str) -> list[str]:
    return sorted(stats[test], key=method_key)


def sign_tests(stats: Mapping[str, Any], path: str) -> Table:
    """Exact two-sided sign tests of the target against each other method, ties excluded, Holm-adjusted."""
    require(stats, STATS_KEYS, path)
    effects = stats.get("effects") or {}
    columns = [
        Column("comparison", "Comparison"),
        Column("wins", "Wins"),
        Column("losses", "Losses"),
        Column("ties", "Ties"),
        Column("p", "p", 4, p_value=True),
        Column("p_holm", "p (Holm)", 4, p_value=True),
    ]
    if effects:
        columns.append(Column("cliffs_delta", "Cliff's delta", 3, signed=True))
        columns.append(Column("rank_biserial", "Rank-biserial", 3, signed=True))
    title = f"Sign tests of {method_label(stats['target'])} over the study's cells"
    impossible = why_impossible(stats, "sign")
    rows = []
    for method in [] if impossible else _baselines(stats, "sign"):
        entry = stats["sign"][method]
        values = {"comparison": Value(f"{method_label(stats['target'])} vs {method_label(method)}")}
        values |= {key: _value(entry.get(key), entry) for key in ("wins", "losses", "ties", "p")}
        values["p_holm"] = _value(
            _holm(stats, "sign", method), {"reason": "no adjusted p in the statistics file"}
        )
        for key in ("cliffs_delta", "rank_biserial") if effects else ():
            values[key] = _value((effects.get(method) or {}).get(key), {"reason": "every cell is tied"})
        rows.append(Row(values, (), (path,)))
    notes = [*_notes(stats), friedman_note(stats)]
    found = [
        f"{bound['cells']:.3f} ({method_label(m)})"
        for m, bound in detectable(stats).items()
        if bound["cells"]
    ]
    if found and not impossible:
        power = next(iter(effects.values())).get("power", 0.8)
        notes.append(
            f"Smallest mean difference a paired t test over these cells would find with power {power:g}: "
            f"{', '.join(found)}."
        )
    return Table("sign_tests", title, tuple(columns), tuple(rows), tuple(notes), impossible)


def bootstrap(stats: Mapping[str, Any], path: str) -> Table:
    """Paired bootstrap over cells of the mean difference between the target and each other method.

    The two-level bootstrap (tasks within cells, then cells; metrics.md §6) stands beside it when it was made.
    """
    require(stats, STATS_KEYS, path)
    two_level = stats.get("two_level") or {}
    columns = [
        Column("comparison", "Comparison"),
        Column("difference", "Difference", 4, signed=True),
        Column("p_r_over_b", "p (r/B)", 4, p_value=True),
        Column("p_plus_one", "p ((r+1)/(B+1))", 4, p_value=True),
        Column("p_holm", "p (Holm)", 4, p_value=True),
    ]
    if two_level:
        columns.append(Column("two_level", "Two-level", 4, signed=True))
        columns.append(Column("two_level_p", "p (two-level)", 4, p_value=True))
    title = f"Paired bootstrap over the study's cells: mean difference in {metric_name(stats)}"
    impossible = why_impossible(stats, "bootstrap")
    rows = []
    for method in [] if impossible else _baselines(stats, "bootstrap"):
        entry = stats["bootstrap"][method]
        name = f"{method_label(stats['target'])} − {method_label(method)}"
        values = {
            "comparison": Value(name),
            "difference": _difference(entry),
            "p_r_over_b": _value(first_of(entry, "p_plain", "p_r_over_b"), entry),
            "p_plus_one": _value(first_of(entry, "p_plus_one", "p"), entry),
            "p_holm": _value(
                _holm(stats, "bootstrap", method), {"reason": "no adjusted p in the statistics file"}
            ),
        }
        if two_level:
            second = two_level.get(method) or {"reason": "no task outcomes for this method"}
            values["two_level"] = _difference(second)
            values["two_level_p"] = _value(second.get("p"), second)
        rows.append(Row(values, (), (path,)))
    notes = [
        "[low, high]: 95 % percentile interval; p: one-sided, the share r of B resamples with a difference of 0 or less.",
        *_notes(stats),
    ]
    if two_level:
        notes.append("Two-level: tasks are resampled within cells, then cells.")
    if stats.get("seed") is not None:
        resamples = f", {stats['resamples']} resamples" if stats.get("resamples") else ""
        notes.append(f"Random seed {stats['seed']}{resamples}.")
    return Table("bootstrap", title, tuple(columns), tuple(rows), tuple(notes), impossible)


def _difference(entry: Mapping[str, Any]) -> Value:
    number, bounds = first_of(entry, "mean_difference", "difference"), entry.get("ci")
    if number is None:
        return _value(None, entry)
    return Value(float(number), ci=(float(bounds[0]), float(bounds[1])) if bounds else None)


def _value(number: float | int | None, entry: Mapping[str, Any]) -> Value:
    if number is not None:
        return Value(number)
    return Value(
        None, reason=next((str(entry[k]) for k in _WHY if isinstance(entry.get(k), str)), "not computed")
    )
