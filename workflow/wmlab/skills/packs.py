"""Evidence packs: records chosen for quality and diversity, one pack per task type and one across all of them.

Quality: a high score, few missteps, a short skeleton, a full trace, a goal. Diversity: a record whose task,
goal and skeleton were not chosen yet goes before one that repeats some of them. The choice does not depend on
the order of the records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wmlab.errors import InputError
from wmlab.skills.record import Record

ACROSS = ""
"""The task type of the pack across all types."""


@dataclass(frozen=True, slots=True)
class Pack:
    """Records of a task type, best first; ``n`` is how many there were to choose from."""

    task_type: str
    records: tuple[Record, ...]
    n: int


def quality(record: Record) -> tuple[float, int, int, int, bool, str]:
    """A sort key, best first; ids break ties."""
    return (
        -record.score,
        len(record.missteps),
        len(record.skeleton),
        -len(record.trace),
        not record.goal,
        record.trajectory_id,
    )


def choose(records: Iterable[Record], most: int) -> tuple[Record, ...]:
    """At most ``most`` records, good and unlike each other, in the order of choice. InputError for most < 1."""
    if most < 1:
        raise InputError("skill distil: a pack holds at least 1 record")
    left = sorted(records, key=quality)
    chosen: list[Record] = []
    seen: set[tuple[str, object]] = set()
    while left and len(chosen) < most:
        best = min(range(len(left)), key=lambda at: (sum(mark in seen for mark in _marks(left[at])), at))
        one = left.pop(best)
        chosen.append(one)
        seen.update(_marks(one))
    return tuple(chosen)


def _marks(record: Record) -> tuple[tuple[str, object], ...]:
    return ("task", record.task_hash), ("goal", record.goal.casefold()), ("skeleton", record.skeleton)


def packs(records: Sequence[Record], most: int) -> list[Pack]:
    """The pack across types, then one per type by name; the first takes the types' best in turn."""
    by_type: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_type[record.task_type].append(record)
    each = {name: choose(by_type[name], most) for name in sorted(by_type)}
    turns = [chosen[at] for at in range(most) for chosen in each.values() if at < len(chosen)]
    across = Pack(ACROSS, tuple(turns[: max(most, len(each))]), len(records))
    return (
        [across, *(Pack(name, chosen, len(by_type[name])) for name, chosen in each.items())] if each else []
    )
