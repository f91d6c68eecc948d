"""Building a shop from the official files: streamed into SQLite and a search index, in bounded memory.

No file is ever whole in memory: products, attributes and human instructions are read incrementally, the
last two into a scratch table first. Rows that cannot be used are dropped, counted by reason and named by
row. Random draws follow upstream's order: all prices, then all price bounds, then (seeded anew) the shuffle.
"""

from __future__ import annotations

import json
import random
import sqlite3
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from wmlab.domains.webshop.catalogue import RejectedRow, from_record, read_entry, read_human, read_product
from wmlab.domains.webshop.goals import draw_bound, draw_price, n_combinations, order
from wmlab.domains.webshop.search import IndexBuilder
from wmlab.errors import InputError
from wmlab.io.atomic import write_json

MOST_COMBINATIONS = 100_000
MOST_GOALS = 200_000_000
EXAMPLES = 5
_PRODUCTS = """CREATE TABLE products (
    position INTEGER PRIMARY KEY, asin TEXT UNIQUE, category TEXT, query TEXT, price REAL, record TEXT, entry TEXT
)"""


@dataclass(frozen=True)
class Sources:
    """The files of a shop; ``limit`` takes the first rows of the product file only (0: all)."""

    products: Path
    attributes: Path | None = None
    human: Path | None = None
    limit: int = 0


@dataclass
class Report:
    """What became of the rows: counts by reason, and the first row numbers (or ids) of each."""

    rows: int = 0
    products: int = 0
    goals: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def drop(self, file: str, where: str, reason: str) -> None:
        """Count one dropped row."""
        key = f"{file}: {reason}"
        self.dropped[key] = self.dropped.get(key, 0) + 1
        if self.dropped[key] <= EXAMPLES:
            self.examples.setdefault(key, []).append(where)


def build(folder: Path, sources: Sources, *, human_goals: bool, seed: int) -> Report:
    """Write shop.sqlite, the search index, order.npy and report.json into ``folder``.

    Raises InputError for a file that cannot be read, is not JSON, or leaves no product or goal.
    """
    report = Report()
    scratch = folder / "scratch.sqlite"
    database = sqlite3.connect(folder / "shop.sqlite", isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute("PRAGMA synchronous = OFF")
        database.execute("ATTACH ? AS scratch", (str(scratch),))
        database.execute("PRAGMA scratch.journal_mode = OFF")
        for name in ("main", "scratch"):
            database.execute(f"PRAGMA {name}.cache_size = -32768")  # kilobytes
        database.execute("BEGIN")
        database.execute("CREATE TABLE scratch.entries (asin TEXT PRIMARY KEY, entry TEXT) WITHOUT ROWID")
        database.execute("CREATE TABLE scratch.human (asin TEXT PRIMARY KEY, entry TEXT) WITHOUT ROWID")
        database.execute(_PRODUCTS)
        database.execute("CREATE TABLE goals (start INTEGER PRIMARY KEY, position INTEGER, bounds TEXT)")
        _load_entries(database, sources, report, human_goals)
        rng = random.Random(seed)
        index = IndexBuilder(folder / "index")
        _load_products(database, sources, report, rng, index, human_goals)
        _draw_goals(database, report, rng, human_goals)
        if report.goals == 0:
            raise InputError.at(
                sources.products,
                "no product has an instruction",
                "give the file of attributes that belongs to it",
            )
        np.save(folder / "order.npy", np.frombuffer(order(report.goals, seed), np.uint32))
        index.finish(database)
        database.execute("CREATE INDEX by_category ON products (category)")
        database.execute("CREATE INDEX by_query ON products (query)")
        database.execute("COMMIT")
    finally:
        database.close()
        scratch.unlink(missing_ok=True)
    write_json(folder / "report.json", vars(report))
    if report.dropped:
        for reason, count in sorted(report.dropped.items()):
            rows = ", ".join(report.examples[reason])
            print(f"webshop: dropped {count} x {reason} (first: {rows})", file=sys.stderr)
    return report


def _load_entries(database: sqlite3.Connection, sources: Sources, report: Report, human_goals: bool) -> None:
    if sources.attributes is not None:
        path = sources.attributes
        database.executemany(
            "INSERT OR IGNORE INTO scratch.entries VALUES (?, ?)", _pairs(path, report, _attribute_record)
        )
    if human_goals and sources.human is not None:
        path = sources.human
        database.executemany(
            "INSERT OR IGNORE INTO scratch.human VALUES (?, ?)", _pairs(path, report, _human_record)
        )


def _attribute_record(value: object) -> str:
    entry = read_entry(value)
    return json.dumps([entry.attributes, entry.instruction, entry.instruction_attributes])


def _human_record(value: object) -> str:
    if not isinstance(value, list):
        raise RejectedRow("not a list")
    lines = [line for line in map(read_human, value) if line is not None]
    if not lines:
        raise RejectedRow("no instruction with attributes")
    return json.dumps([(line.instruction, line.attributes, line.options) for line in lines])


def _pairs(path: Path, report: Report, record: Callable[[object], str]) -> Iterator[tuple[str, str]]:
    """(asin, record) of each usable entry of an object file."""
    import ijson

    for asin, value in _stream(path, lambda file: ijson.kvitems(file, "", use_float=True)):
        try:
            yield str(asin), record(value)
        except RejectedRow as error:
            report.drop(path.name, f"entry {asin[:20]}", str(error))


def _load_products(
    database: sqlite3.Connection,
    sources: Sources,
    report: Report,
    rng: random.Random,
    index: IndexBuilder,
    human_goals: bool,
) -> None:
    import ijson

    rows = _stream(sources.products, lambda file: ijson.items(file, "item", use_float=True))
    for number, row in enumerate(rows, start=1):
        if sources.limit and number > sources.limit:
            break
        report.rows = number
        try:
            product = read_product(row)
            entry = _entry_of(database, "entries", product.asin)
            if entry is not None:
                product = replace(product, attributes=tuple(entry[0]))
            record = product.record()
            record.encode()
        except (RejectedRow, UnicodeEncodeError) as error:
            reason = str(error) if isinstance(error, RejectedRow) else "a text is not valid Unicode"
            report.drop(sources.products.name, f"row {number}", reason)
            continue
        if database.execute("SELECT 1 FROM products WHERE asin = ?", (product.asin,)).fetchone():
            report.drop(sources.products.name, f"row {number}", "asin is repeated")
            continue
        wanted: list[Any] | None
        if human_goals:
            wanted = _entry_of(database, "human", product.asin)
        else:
            wanted = [entry[1], entry[2]] if entry is not None and entry[1] else None
        database.execute(
            "INSERT INTO products VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                *(report.products, product.asin, product.category, product.query, draw_price(product, rng)),
                *(record, None if wanted is None else json.dumps(wanted)),
            ),
        )
        index.add(product.searchable)
        report.products += 1
    if report.products == 0:
        raise InputError.at(
            sources.products,
            f"no usable product in {report.rows} rows {report.dropped or ''}".rstrip(),
            "give a JSON list of products in the official format",
        )


def _entry_of(database: sqlite3.Connection, table: str, asin: str) -> list[Any] | None:
    row = database.execute(f"SELECT entry FROM scratch.{table} WHERE asin = ?", (asin,)).fetchone()
    return None if row is None else json.loads(row[0])


def _draw_goals(database: sqlite3.Connection, report: Report, rng: random.Random, human_goals: bool) -> None:
    """Second pass: price bounds in catalogue order, and where each product's run of goals starts."""
    query = "SELECT position, price, record, entry FROM products WHERE entry IS NOT NULL ORDER BY position"
    for position, price, record, entry in database.execute(query):
        product = from_record(record)
        count = len(json.loads(entry)) if human_goals else n_combinations(product)
        bounds = [draw_bound(price, rng) for _ in range(count if human_goals else 1)]
        if count > MOST_COMBINATIONS:
            report.drop("goals", product.asin, f"more than {MOST_COMBINATIONS} combinations of options")
            continue
        database.execute("INSERT INTO goals VALUES (?, ?, ?)", (report.goals, position, json.dumps(bounds)))
        report.goals += count
        if report.goals > MOST_GOALS:
            raise InputError(f"webshop: more than {MOST_GOALS} goals; use the option limit, or goals human")


def _stream(path: Path, read: Callable[[BinaryIO], Iterator[Any]]) -> Iterator[Any]:
    """Items of a JSON file. Raises InputError naming the item after which it cannot be read."""
    import ijson

    count = 0
    try:
        with path.open("rb") as file:
            for item in read(file):
                count += 1
                yield item
    except (ijson.JSONError, UnicodeDecodeError) as error:
        what = str(error).split("\n", 1)[0][:120]
        raise InputError.at(path, f"not JSON ({what})", "give the official file, whole", count + 1) from None
    except OSError as error:
        raise InputError.at(path, f"cannot be read ({error.strerror})", "check the path") from None
