"""Tables of cells for the tests: a wide CSV, our ``cells.parquet``/``cells.csv``, or any long CSV.

Wide: a row per cell, a column per method. Long: a row per cell and method (and seed), with a method
column and a value column. Method names are compared as given, case included.
"""

from __future__ import annotations

import csv
import difflib
import io
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wmlab.errors import InputError

Row = Mapping[str, Any]
SEEDS = ("mean", "separate")
LONG_CELL_COLUMNS = ("domain", "backbone", "agent")
_NULLS = ("", "null", "None", "NA")


@dataclass(frozen=True)
class Cell:
    """One cell: what names it, a value (or None) per method, and why a value is None."""

    key: Mapping[str, str]
    name: str
    values: Mapping[str, float | None]
    reasons: Mapping[str, str]  # method -> why it has no value
    by_seed: Mapping[str, Mapping[int, float]]  # method -> seed -> value; empty where the table has no seeds

    @property
    def missing(self) -> str | None:
        """Why the cell cannot be paired, or None."""
        lost = [
            f"{name}: {self.reasons.get(name, 'no value')}" for name, x in self.values.items() if x is None
        ]
        return "; ".join(lost) or None


@dataclass(frozen=True)
class CellTable:
    """All cells of one metric over ``methods``, in file order."""

    metric: str | None  # None for a wide table, whose metric has no name
    methods: tuple[str, ...]
    cells: tuple[Cell, ...]
    layout: str  # wide | long
    seeds: str | None  # mean | separate; None where the table has no seeds
    uneven_seeds: tuple[str, ...] = ()  # cells whose methods were averaged over different numbers of seeds


def near(name: str, known: Sequence[str]) -> str:
    """``did you mean 'X'?`` for the closest known name, else the list of known names."""
    folded = {k.casefold(): k for k in known}
    close = difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.5)
    return f"did you mean '{folded[close[0]]}'?" if close else f"choose from {', '.join(known) or 'nothing'}"


def read_rows(path: str | Path) -> list[dict[str, Any]]:
    """Rows of a CSV (``-`` is standard input) or Parquet file; InputError when it is neither or is empty."""
    rows = _read_parquet(path) if str(path).endswith(".parquet") else _read_csv(path)
    if not rows:
        raise InputError.at(path, "no rows", "give at least one cell")
    return rows


def _read_parquet(path: str | Path) -> list[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise InputError.at(
            path, f"not a readable Parquet file ({str(error).splitlines()[0]})", "make it again"
        ) from None
    return rows


def _read_csv(path: str | Path) -> list[dict[str, Any]]:
    try:
        text = sys.stdin.read() if str(path) == "-" else Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError.at(path, "file not found", "check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError.at(
            path, f"cannot be read ({error})", "give a UTF-8 CSV or a .parquet file"
        ) from None
    lines = [line for line in csv.reader(io.StringIO(text)) if line]
    if not lines:
        raise InputError.at(path, "the file is empty", "give a header and at least one cell")
    header = [name.strip() for name in lines[0]]
    if len(set(header)) != len(header):
        raise InputError.at(path, "two columns have one name", "rename one", 1)
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(header):
            raise InputError.at(
                path, f"{len(line)} fields, the header has {len(header)}", "fix the line", number
            )
    return [dict(zip(header, line, strict=True)) for line in lines[1:]]


def number(value: Any, path: str | Path, row: int, column: str) -> float | None:
    """A finite number, or None for a null. NaN, infinity and text are InputErrors naming file and row."""
    if value is None or (isinstance(value, str) and value.strip() in _NULLS):
        return None
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise InputError.at(
            path, f"column '{column}' holds {value!r}", "give a number or leave it empty", row
        ) from None
    if not math.isfinite(found):
        raise InputError.at(
            path, f"column '{column}' is {value}", "leave a failed value empty, never NaN", row
        )
    return found


def load_cells(
    path: str | Path,
    methods: Sequence[str],
    *,
    metric: str = "CR_pw",
    cell_columns: Sequence[str] = (),
    seeds: str = "mean",
    method_column: str = "method",
) -> CellTable:
    """Read a table for ``methods``; the layout is wide when every method is a column, else long.

    ``cell_columns`` name a cell (long default: those of domain, backbone, agent that exist). ``seeds``:
    ``mean`` averages a method over its seeds; ``separate`` makes a cell of each seed, and a method that
    has one seed in the whole table (w2w) is shared by all seeds of its cell.
    """
    if seeds not in SEEDS:
        raise InputError(f"--seeds {seeds}: choose one of {', '.join(SEEDS)}")
    if len(set(methods)) != len(methods) or len(methods) < 2:
        raise InputError(f"methods {', '.join(methods)}: give at least two different ones")
    rows = read_rows(path)
    columns = list(rows[0])
    for name in cell_columns:
        if name not in columns:
            raise InputError.at(path, f"no column '{name}' to name a cell", near(name, columns))
    if all(name in columns for name in methods):
        return _wide(path, rows, methods, cell_columns)
    if method_column not in columns:
        lost = next(name for name in methods if name not in columns)
        raise InputError.at(path, f"no column for method '{lost}'", near(lost, columns))
    known = sorted({str(row[method_column]) for row in rows})
    for name in methods:
        if name not in known:
            raise InputError.at(path, f"no rows of method '{name}'", near(name, known))
    if metric not in columns:
        raise InputError.at(path, f"no column '{metric}'", near(metric, columns))
    chosen = tuple(cell_columns) or tuple(name for name in LONG_CELL_COLUMNS if name in columns)
    if not chosen:
        raise InputError.at(path, "no column names a cell", "say which ones do with --cell-columns")
    return _long(path, rows, methods, metric, chosen, seeds, method_column)


def _first_row(path: str | Path) -> int:
    """Number of the first row in messages: a CSV's header is row 1."""
    return 1 if str(path).endswith(".parquet") else 2


def _wide(
    path: str | Path, rows: Sequence[Row], methods: Sequence[str], cell_columns: Sequence[str]
) -> CellTable:
    naming = list(cell_columns) or [name for name in rows[0] if name not in methods]
    cells, used = [], set()
    for at, row in enumerate(rows, start=_first_row(path)):
        key = {name: str(row[name]) for name in naming}
        name = "/".join(key.values()) or f"row {at}"
        name = f"{name} (row {at})" if name in used else name
        used.add(name)
        values = {m: number(row[m], path, at, m) for m in methods}
        cells.append(Cell(key, name, values, {}, {}))
    return CellTable(None, tuple(methods), tuple(cells), "wide", None)


def _long(
    path: str | Path,
    rows: Sequence[Row],
    methods: Sequence[str],
    metric: str,
    cell_columns: Sequence[str],
    seeds: str,
    method_column: str,
) -> CellTable:
    seeded = "seed" in rows[0] and "seed" not in cell_columns
    found: dict[tuple[str, ...], dict[str, dict[int, tuple[float | None, str]]]] = {}
    for at, row in enumerate(rows, start=_first_row(path)):
        method = str(row[method_column])
        if method not in methods:
            continue
        seed = number(row["seed"], path, at, "seed") if seeded else 0
        if seed is None or seed != int(seed):
            raise InputError.at(path, f"seed is {row['seed']!r}", "give a whole number", at)
        runs = found.setdefault(tuple(str(row[name]) for name in cell_columns), {}).setdefault(method, {})
        if int(seed) in runs:
            fix = f"columns {', '.join(cell_columns)} must name one cell: add the one that tells them apart (--cell-columns)"
            raise InputError.at(path, f"a second value of method '{method}' in one cell", fix, at)
        runs[int(seed)] = (number(row[metric], path, at, metric), _reason(row, metric))
    single = {m for m in methods if len({s for cell in found.values() for s in cell.get(m, {})}) == 1}
    cells: list[Cell] = []
    uneven: list[str] = []
    for values, runs_of in found.items():
        key, name = dict(zip(cell_columns, values, strict=True)), "/".join(values)
        if seeded and seeds == "separate":
            many = {s for m, runs in runs_of.items() if m not in single for s in runs}
            for seed in sorted(many or {s for runs in runs_of.values() for s in runs}):
                picked = {m: _pick(runs_of.get(m, {}), seed, m in single) for m in methods}
                cells.append(_cell({**key, "seed": str(seed)}, f"{name}/seed{seed}", picked))
            continue
        cells.append(_cell(key, name, {m: runs_of.get(m, {}) for m in methods}))
        counts = {len(runs_of.get(m, {})) for m in methods if m not in single}
        if len(counts) > 1:
            uneven.append(name)
    return CellTable(metric, tuple(methods), tuple(cells), "long", seeds if seeded else None, tuple(uneven))


def _reason(row: Row, metric: str) -> str:
    """Why our cells file says the metric is null."""
    try:
        return str(json.loads(row.get("reasons") or "{}").get(metric, "no value"))
    except (ValueError, AttributeError):
        return "no value"


def _pick(
    runs: Mapping[int, tuple[float | None, str]], seed: int, shared: bool
) -> dict[int, tuple[float | None, str]]:
    return dict(runs) if shared else {s: run for s, run in runs.items() if s == seed}


def _cell(
    key: Mapping[str, str], name: str, runs_of: Mapping[str, Mapping[int, tuple[float | None, str]]]
) -> Cell:
    """Average each method over the seeds it has here; one null seed makes the mean null."""
    values: dict[str, float | None] = {}
    reasons: dict[str, str] = {}
    by_seed: dict[str, dict[int, float]] = {}
    for method, runs in runs_of.items():
        known = {seed: value for seed, (value, _) in sorted(runs.items()) if value is not None}
        by_seed[method] = known
        lost = [f"seed {seed}: {why}" for seed, (value, why) in sorted(runs.items()) if value is None]
        if not runs or lost:
            values[method], reasons[method] = None, "; ".join(lost) or "not in the table"
        else:
            values[method] = math.fsum(known.values()) / len(known)
    return Cell(key, name, values, reasons, by_seed)
