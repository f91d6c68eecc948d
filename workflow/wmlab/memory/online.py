"""Memory that grows while a model is used (memwm.txt, section 4.5): what was executed is remembered for later.

Executed transitions become entries of a second bank with a file of its own, so the study's bank and every other
run stay as they are. Tasks are taken in file order: a task sees what the tasks before it executed, never its own
steps. These entries come from evaluation tasks on purpose, which is why the guard never sees them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from wmlab.memory.bank import Entry
from wmlab.memory.build import Build
from wmlab.memory.context import WorldMemory

Predict = Callable[[Sequence[dict[str, Any]], WorldMemory], list[dict[str, Any]]]
"""Transitions and the memory as it stands to prediction rows."""


def merged(entries: Sequence[Entry], executed: Sequence[Entry]) -> list[Entry]:
    """Both banks, sorted by id; where both have an entry, what was executed last is right about the world."""
    return [one for _, one in sorted({one.id: one for one in (*entries, *executed)}.items())]


def predict_online(
    memory: WorldMemory, transitions: Sequence[dict[str, Any]], predict: Predict, source: object
) -> Iterator[tuple[list[dict[str, Any]], list[Entry]]]:
    """(predictions of a task's transitions, entries of all that was executed so far) task by task.

    Entries are built as a bank's are, rules from the errors of these predictions.
    """
    seen: list[dict[str, Any]] = []
    said: dict[str, str] = {}
    current = memory
    for _, group in groupby(transitions, key=_task):
        rows = list(group)
        found = predict(rows, current)
        seen += rows
        said.update({row["transition_id"]: row["prediction"] for row in found})
        executed = list(Build(memory.retriever.domain).entries(seen, said.get, source))
        current = WorldMemory(
            memory.retriever.holding(merged(memory.retriever.entries, executed)), memory.recipe
        )
        yield found, executed


def _task(row: Mapping[str, Any]) -> str:
    return str(row["task_id"])
