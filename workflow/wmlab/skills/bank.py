"""``skills_{domain}.jsonl``: entries with a memory bank's columns, and how drafts become them.

==================  ================================  =====================================================
kind                key                               texts
==================  ================================  =====================================================
``general``         title                             ``positive``: the skill
``task_specific``   task_type, title                  ``positive``: the skill
``common_mistake``  title                             ``negative``: the mistake; ``positive``: what to do
``guidance``        flag, or flag and verb            ``positive``: the advice (``mine``)
==================  ================================  =====================================================

``payload`` has ``title`` and ``when_to_use`` (``name`` and ``counts`` for guidance) and the digests of all tasks
behind the entry. An id is its key's, so it stays when the text is worded anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wmlab.domains.registry import check_domain
from wmlab.errors import InputError
from wmlab.memory.bank import Entry, Key, entry_id, read_bank
from wmlab.memory.prompt import inert, shorten
from wmlab.skills.packs import Pack

GENERAL, TASK, MISTAKE, GUIDANCE = "general", "task_specific", "common_mistake", "guidance"
KINDS = (GENERAL, TASK, MISTAKE, GUIDANCE)
TEXT_CHARACTERS = 400
TITLE_CHARACTERS = 80
ALIKE = 0.8
"""Two texts of which this share of words is common say the same."""
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Draft:
    """A skill as a summariser words it. ``instead`` is a mistake's remedy; empty fields are filled in."""

    kind: str
    text: str
    title: str = ""
    when_to_use: str = ""
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Caps:
    """Entries of a kind that a bank keeps; ``task_specific`` counts per task type."""

    general: int = 6
    task_specific: int = 4
    common_mistake: int = 6

    def __post_init__(self) -> None:
        if min(self.general, self.task_specific, self.common_mistake) < 0:
            raise InputError("skill distil: a cap is negative; give 0 or more")

    def of(self, kind: str) -> int:
        """The cap of a kind."""
        return {GENERAL: self.general, TASK: self.task_specific, MISTAKE: self.common_mistake}[kind]


def to_entry(domain: str, draft: Draft, pack: Pack) -> Entry | None:
    """A draft as an entry behind which the pack's records stand; None for a draft without text."""
    text = inert(shorten(draft.text, TEXT_CHARACTERS))
    if not text:
        return None
    title = inert(shorten(draft.title, TITLE_CHARACTERS)) or shorten(text, TITLE_CHARACTERS)
    when = inert(shorten(draft.when_to_use, TEXT_CHARACTERS))
    named = (("title", title.casefold()),)
    key: Key = (("task_type", pack.task_type), *named) if draft.kind == TASK else named
    instead = inert(shorten(draft.instead, TEXT_CHARACTERS))
    payload = {
        "title": title,
        "when_to_use": when or _usual_time(draft.kind, pack.task_type),
        "task_hashes": sorted({one.task_hash for one in pack.records}),
    }
    if draft.kind == TASK:
        payload["goal_words"] = _shared_words([one.goal for one in pack.records])
    said = (instead, text) if draft.kind == MISTAKE else (text, "")
    sources = tuple(sorted(one.trajectory_id for one in pack.records))
    return Entry(
        entry_id(domain, draft.kind, key), draft.kind, key, *said, payload, len(pack.records), sources
    )


def _usual_time(kind: str, task_type: str) -> str:
    """When an entry is of use where its draft does not say."""
    if kind == TASK:
        return f"At the start of a {task_type} task."
    return "Before each action." if kind == MISTAKE else "At the start of any task."


def words(text: str) -> frozenset[str]:
    """The words of a text, case-folded."""
    return frozenset(_WORD.findall(text.casefold()))


def _shared_words(goals: Sequence[str]) -> list[str]:
    """Words that at least half of the goals have, sorted: how a task of this type is recognised."""
    told = [words(goal) for goal in goals]
    return sorted(
        word for word in frozenset[str]().union(*told) if 2 * sum(word in one for one in told) >= len(told)
    )


def overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """Jaccard index of two sets of words; 1 for two empty ones."""
    return len(one & other) / len(one | other) if one | other else 1.0


def _said(entry: Entry) -> frozenset[str]:
    return words(f"{entry.positive} {entry.negative}")


def normalised(entries: Iterable[Entry], caps: Caps) -> list[Entry]:
    """Entries without those that repeat another of their kind and task type, capped, sorted by id.

    The better supported entry stays, then the one with the smaller id, whatever the order given.
    """
    groups: dict[tuple[str, str], list[Entry]] = {}
    texts: dict[tuple[str, str], list[frozenset[str]]] = {}
    kept: dict[str, Entry] = {}
    for one in sorted(entries, key=lambda one: (-one.support, one.id, one.positive, one.negative)):
        group = (one.kind, dict(one.key).get("task_type", ""))
        own, said = groups.setdefault(group, []), texts.setdefault(group, [])
        mine = _said(one)
        if one.id in kept or len(own) >= caps.of(one.kind) or any(overlap(mine, o) >= ALIKE for o in said):
            continue
        kept[one.id] = one
        own.append(one)
        said.append(mine)
    return [kept[name] for name in sorted(kept)]


def bundled(domain: str) -> Path:
    """The corrective rules that come with the package, mined by ``wmlab skill mine``; their metadata stand beside them.

    Raises InputError for an unknown domain.
    """
    return Path(__file__).parents[1] / "resources" / "skills" / f"guidance_{check_domain(domain)}.jsonl"


def read_skills(path: str | Path, domain: str) -> list[Entry]:
    """The entries of a skill bank in file order; [] for an empty file.

    Raises InputError naming the row for whatever a memory bank's reader refuses, and for an entry without text
    or title.
    """
    entries = read_bank(path, domain, KINDS)
    for number, one in enumerate(entries, start=1):
        problem = _problem(
            one.kind, dict(one.key), one.payload, one.negative if one.kind == MISTAKE else one.positive
        )
        if problem:
            raise InputError.at(path, problem, "build the bank again", number)
    return entries


def _problem(kind: str, key: Mapping[str, str], payload: Mapping[str, Any], text: str) -> str | None:
    """What is wrong with an entry beyond its columns, or None."""
    if not text.strip():
        return "an entry says nothing"
    for name in ("name",) if kind == GUIDANCE else ("title", "when_to_use"):
        if not isinstance(payload.get(name), str) or not payload[name]:
            return f"payload.{name} is missing"
    if kind == TASK and "task_type" not in key:
        return "a task-specific entry without a task type"
    counts = payload.get("counts")
    if kind == GUIDANCE and not (isinstance(counts, dict) and _is_share(counts)):
        return "payload.counts has no missteps out of steps"
    return None


def _is_share(counts: Mapping[str, Any]) -> bool:
    steps, missteps = counts.get("steps"), counts.get("missteps")
    return type(steps) is int and type(missteps) is int and 0 <= missteps <= steps and steps > 0
