"""A bank of memory entries: ``memory_{domain}.jsonl`` (design.md section 4), one entry a line, sorted.

An entry's id is a digest of domain, kind and key: it stays when the evidence behind the entry grows, and
tells a bank of another domain, or an edited key, apart. ``source_ids`` are some of the transitions behind an
entry; ``payload["task_hashes"]`` are all of their tasks (the first 16 digits of ``data.filter.content_hash``),
so that the leakage guard needs nothing but the bank.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wmlab.errors import InputError
from wmlab.io.jsonl import read_jsonl, write_jsonl

KINDS = ("transition", "state_cache", "fact", "page")
HASH_DIGITS = 16
Key = tuple[tuple[str, str], ...]
"""Named fields in their domain's order, e.g. ``(("schema", "open"), ("object", "fridge"))``."""
_COLUMNS = ("id", "kind", "key", "positive", "negative", "payload", "support", "source_ids")


@dataclass(frozen=True, slots=True)
class Entry:
    """One memory. ``support`` counts the transitions behind it; texts are one line each, maybe empty."""

    id: str
    kind: str
    key: Key
    positive: str
    negative: str
    payload: Mapping[str, Any]
    support: int
    source_ids: tuple[str, ...]

    @property
    def task_hashes(self) -> tuple[str, ...]:
        """Digests of every task that a source of this entry belongs to."""
        return tuple(self.payload.get("task_hashes", ()))


def entry_id(domain: str, kind: str, key: Key) -> str:
    """The stable id of what a domain's bank says under a key."""
    text = json.dumps([domain, kind, key], ensure_ascii=True)
    return f"{domain}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def show_key(key: Key) -> str:
    """A key on one line, as prompts and tables print it: ``schema=open; object=fridge``."""
    return "; ".join(f"{name}={value}" for name, value in key)


def write_bank(path: str | Path, entries: Iterable[Entry]) -> int:
    """Write entries, which come sorted by id, one at a time; return their number."""
    count = 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal count
        before = ""
        for one in entries:
            if one.id <= before:
                raise ValueError(f"entry {one.id} comes after {before}: sort them by id")
            before = one.id
            count += 1
            yield {
                "id": one.id,
                "kind": one.kind,
                "key": dict(one.key),
                "positive": one.positive,
                "negative": one.negative,
                "payload": dict(one.payload),
                "support": one.support,
                "source_ids": list(one.source_ids),
            }

    write_jsonl(path, rows())
    return count


def read_bank(path: str | Path, domain: str, kinds: Collection[str] = KINDS) -> list[Entry]:
    """The entries of a bank in file order, all of these ``kinds``; [] for an empty file.

    A torn last line is dropped (io.jsonl). Raises InputError naming the row for a broken line, a missing
    column, a wrong type, an id that is not its key's in ``domain``, or a repeated id.
    """
    entries: list[Entry] = []
    seen: set[str] = set()
    for number, row in enumerate(read_jsonl(path), start=1):
        problem = _problem(row, kinds)
        if problem:
            raise InputError.at(path, problem, "build the bank again", number)
        key = tuple((name, value) for name, value in row["key"].items())
        if row["id"] != entry_id(domain, row["kind"], key):
            raise InputError.at(
                path, f"id {row['id']!r:.80} is not its key's in {domain}", "give that domain's bank", number
            )
        if row["id"] in seen:
            raise InputError.at(path, f"id {row['id']!r} is repeated", "keep each entry once", number)
        seen.add(row["id"])
        entries.append(
            Entry(
                row["id"],
                row["kind"],
                key,
                row["positive"],
                row["negative"],
                row["payload"],
                row["support"],
                tuple(row["source_ids"]),
            )
        )
    return entries


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _problem(row: Mapping[str, Any], kinds: Collection[str]) -> str | None:
    """What is wrong with a row, or None."""
    missing = [name for name in _COLUMNS if name not in row]
    if missing:
        return f"columns {', '.join(missing)} are missing"
    if row["kind"] not in kinds:
        return f"kind {row['kind']!r:.40} is not one of {', '.join(kinds)}"
    key = row["key"]
    if not isinstance(key, dict) or not key or not all(isinstance(value, str) for value in key.values()):
        return "key is not an object of texts"
    for name in ("id", "positive", "negative"):
        if not isinstance(row[name], str):
            return f"{name} is not text"
    if not isinstance(row["payload"], dict):
        return "payload is not an object"
    if not _texts(row["payload"].get("task_hashes")):
        return "payload.task_hashes is not a list of texts, so the leakage guard cannot work"
    if not isinstance(row["support"], int) or isinstance(row["support"], bool) or row["support"] < 1:
        return "support is not a positive number"
    if not _texts(row["source_ids"]):
        return "source_ids is not a list of texts"
    return None
