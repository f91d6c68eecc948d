"""The leakage guard: nothing an evaluation task showed may reach a prompt through memory.

Tasks are told by what they show at reset (``data.filter.content_hash``), not by their names, so a task that
was filed under another id or split is recognised. Building leaves transitions of held-out tasks out; a bank
from elsewhere is screened entry by entry, for each entry carries the digests of all its tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from wmlab.data.filter import content_hash, panel_hashes
from wmlab.errors import InputError
from wmlab.memory.bank import HASH_DIGITS, Entry
from wmlab.memory.prompt import without_block


def task_hash(history: Iterable[Mapping[str, Any]]) -> str:
    """The digest of a transition's task, from the first message of its history (a memory block is ignored)."""
    first = next(iter(history))
    return content_hash(without_block(first["content"]))[:HASH_DIGITS]


def held_out(panels: Iterable[str | Path]) -> frozenset[str]:
    """Digests of the tasks of evaluation panels. Raises InputError naming a panel that cannot be read."""
    return frozenset(digest[:HASH_DIGITS] for digest in panel_hashes(panels))


def leaks(entry: Entry, excluded: frozenset[str]) -> list[str]:
    """Digests of evaluation tasks that an entry's sources touch, sorted."""
    return sorted(set(entry.task_hashes) & excluded)


def screen(entries: Iterable[Entry], excluded: frozenset[str]) -> tuple[list[Entry], list[Entry]]:
    """The entries that may be used, and those refused because they touch an evaluation task."""
    kept: list[Entry] = []
    refused: list[Entry] = []
    for one in entries:
        (refused if leaks(one, excluded) else kept).append(one)
    return kept, refused


def require_clean(entries: Iterable[Entry], excluded: frozenset[str], source: object) -> None:
    """Raise InputError when any entry touches an evaluation task."""
    refused = screen(entries, excluded)[1]
    if refused:
        raise InputError.at(
            source,
            f"{len(refused)} entries come from evaluation tasks, the first {refused[0].id}",
            "build the bank with --exclude-panel",
        )
