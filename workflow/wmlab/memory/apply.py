"""Memory-augmented data: transitions whose histories open with their memory block.

What reads transitions (prediction, GRPO, the verl export) needs no change: the prompt is the history.
Augment after the difficulty filter, whose check of held-out tasks reads the plain first message. A task that
dropout takes (memwm.txt, Figure 6) keeps its plain history; without memory at inference (Figure 4) is simply
the plain file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from wmlab.memory.prompt import augment, dropped
from wmlab.memory.retrieve import Retrieval, Retriever, check_row


def augmented(
    retriever: Retriever,
    rows: Iterable[Mapping[str, Any]],
    source: object,
    *,
    dropout: float = 0.0,
    seed: int = 0,
) -> Iterator[tuple[dict[str, Any], Retrieval | None]]:
    """(transition row with its block, its retrieval) in order; None for a task without memory by dropout.

    Raises InputError for a dropout outside [0, 1], and naming ``source`` and row for a broken or foreign row.
    """
    dropped("", dropout, seed)
    for number, row in enumerate(rows):
        check_row(retriever.domain, row, source, number)
        if dropped(row["task_id"], dropout, seed):
            yield {**row, "history": augment(row["history"], "")}, None
            continue
        found = retriever.retrieve(row["history"])
        yield {**row, "history": augment(row["history"], found.block)}, found
