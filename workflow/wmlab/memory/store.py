"""Counts of evidence per key in bounded memory: a counter that moves to a database on disk when it grows.

A row is (key, side, item) with a count; sides are ``gold``, ``missed``, ``invented`` (item: a pattern or a
page's record), ``objects`` (what the action named), ``task`` (a task's digest) and ``n`` (no item). Sums do not
depend on the order of what was added, nor on when it moved to disk. Of a key's sources the ``keep`` with the
smallest digests stay: a sample that is the same for every order of the input.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, Self

from wmlab.errors import InputError
from wmlab.memory.bank import Key, entry_id
from wmlab.memory.keys import Probe

IN_MEMORY = 250_000
"""Distinct rows held in memory, some hundred bytes each."""
SIDES = ("gold", "missed", "invented")
_TRIM = 4
_PRAGMAS = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -32000;"
_UPSERT = (
    "INSERT INTO counts VALUES (?, ?, ?, ?) ON CONFLICT (key, side, item) DO UPDATE SET n = n + excluded.n"
)


@dataclass(slots=True)
class Bucket:
    """All that was counted under one key: ``n`` transitions, and of each pattern how many of them had it."""

    id: str
    kind: str
    key: Key
    n: int = 0
    gold: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    invented: Counter[str] = field(default_factory=Counter)
    objects: Counter[str] = field(default_factory=Counter)
    task_hashes: list[str] = field(default_factory=list)
    source_ids: list[str] = field(default_factory=list)


@lru_cache(maxsize=65_536)
def _pack(domain: str, probe: Probe) -> str:
    """A key as text that sorts by its entry's id."""
    return f"{entry_id(domain, *probe)} {json.dumps(probe, ensure_ascii=True)}"


def _unpack(text: str) -> tuple[str, str, Key]:
    identity, _, probe = text.partition(" ")
    kind, key = json.loads(probe)
    return identity, kind, tuple((name, value) for name, value in key)


class Scratch:
    """A database in a temporary folder, gone when the context ends."""

    def __init__(self, tables: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="wmlab-memory-")
        self._database = sqlite3.connect(Path(self._folder.name) / "scratch.sqlite")
        self._database.executescript(_PRAGMAS + tables)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()
        self._folder.cleanup()


class PredictionIndex(Scratch):
    """Predictions of any number by transition id, on disk."""

    def __init__(self, rows: Iterable[Mapping[str, Any]], source: object) -> None:
        """Take rows of the ``predictions`` contract. InputError for a null or a repeated id."""
        super().__init__("CREATE TABLE predictions (id TEXT PRIMARY KEY, prediction TEXT) WITHOUT ROWID")
        try:
            for number, row in enumerate(rows):
                self._take(row, number, source)
        except BaseException:
            self.__exit__()
            raise

    def _take(self, row: Mapping[str, Any], number: int, source: object) -> None:
        identity, prediction = row["transition_id"], row["prediction"]
        if identity is None or prediction is None:
            raise InputError.at(source, "transition_id or prediction is null", "predict again", number)
        try:
            self._database.execute("INSERT INTO predictions VALUES (?, ?)", (identity, prediction))
        except sqlite3.IntegrityError:
            raise InputError.at(
                source, f"two predictions for {identity!r}", "give one model's greedy run", number
            ) from None

    def get(self, identity: str) -> str | None:
        """The prediction of a transition; None where there is none."""
        row = self._database.execute(
            "SELECT prediction FROM predictions WHERE id = ?", (identity,)
        ).fetchone()
        return None if row is None else str(row[0])


class CountStore(Scratch):
    """Add evidence, then read the buckets, sorted by the ids of their entries."""

    def __init__(self, domain: str, keep: int, in_memory: int = IN_MEMORY) -> None:
        super().__init__(
            "CREATE TABLE counts (key TEXT, side TEXT, item TEXT, n INTEGER, PRIMARY KEY (key, side, item))"
            " WITHOUT ROWID;"
            "CREATE TABLE sources (key TEXT, source TEXT, PRIMARY KEY (key, source)) WITHOUT ROWID"
        )
        self.domain = domain
        self.keep = keep
        self.in_memory = in_memory
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._sources: defaultdict[str, list[str]] = defaultdict(list)
        self._n_sources = 0

    def add(
        self, probes: Iterable[Probe], sides: Mapping[str, Sequence[str]], source_id: str, task_hash: str
    ) -> None:
        """Count one transition under every probe. ``sides`` maps a side to distinct items."""
        digest = hashlib.sha256(source_id.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        source = f"{digest} {source_id}"
        counts = self._counts
        for probe in probes:
            key = _pack(self.domain, probe)
            counts[key, "n", ""] += 1
            counts[key, "task", task_hash] += 1
            for side, found in sides.items():
                for item in found:
                    counts[key, side, item] += 1
            kept = self._sources[key]
            kept.append(source)
            self._n_sources += 1
            if len(kept) > _TRIM * self.keep:
                self._n_sources -= len(kept) - self.keep
                self._sources[key] = sorted(kept)[: self.keep]
        if len(counts) + self._n_sources > self.in_memory:
            self._spill()

    def _spill(self) -> None:
        self._database.executemany(_UPSERT, sorted((*row, n) for row, n in self._counts.items()))
        smallest = (
            (key, source) for key, kept in self._sources.items() for source in sorted(kept)[: self.keep]
        )
        self._database.executemany("INSERT OR IGNORE INTO sources VALUES (?, ?)", sorted(smallest))
        self._counts.clear()
        self._sources.clear()
        self._n_sources = 0

    def size(self, probe: Probe) -> int:
        """How many transitions a key's bucket has; 0 for none. Ask after the last ``add``."""
        row = self._database.execute(
            "SELECT n FROM counts WHERE key = ? AND side = 'n'", (_pack(self.domain, probe),)
        ).fetchone()
        return 0 if row is None else int(row[0])

    def buckets(self) -> Iterator[Bucket]:
        """The buckets, one at a time."""
        self._spill()
        rows = self._database.execute("SELECT key, side, item, n FROM counts ORDER BY key, side, item")
        for packed, group in groupby(rows, key=lambda row: str(row[0])):
            bucket = Bucket(*_unpack(packed))
            for _, side, item, n in group:
                if side == "n":
                    bucket.n = n
                elif side == "task":
                    bucket.task_hashes.append(item)
                else:
                    getattr(bucket, side)[item] = n
            found = self._database.execute(
                "SELECT source FROM sources WHERE key = ? ORDER BY source LIMIT ?", (packed, self.keep)
            )
            bucket.source_ids = sorted(source.partition(" ")[2] for (source,) in found)
            yield bucket
