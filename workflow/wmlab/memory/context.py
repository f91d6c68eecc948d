"""The one place where memory enters a world model's prompt.

Training, prediction, GRPO, rollouts and the verl export hold plain histories and ask here for what the world
model reads (``prompts``); None stands for a model without memory. Rewards, scores and reference agents read
the plain history. Retrieval sees what the world model has seen: in a rollout its own predictions, never the
real environment. A task that dropout takes (memwm.txt, Figure 6) sees no memory; a model without its memory
at inference (Figure 4) is asked without a bank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wmlab.config.memory import MemoryRecipe
from wmlab.config.recipes import load_recipe
from wmlab.errors import InputError
from wmlab.memory.bank import read_bank
from wmlab.memory.prompt import augment, dropped
from wmlab.memory.retrieve import DROPPED, Retrieval, Retriever, estimated_tokens, tokens_of

History = Sequence[Mapping[str, Any]]
Chat = list[dict[str, Any]]


class WorldMemory:
    """A bank, and how its blocks are shown."""

    def __init__(self, retriever: Retriever, recipe: MemoryRecipe) -> None:
        self.retriever = retriever
        self.recipe = recipe

    def retrieve(self, history: History, task_id: str) -> Retrieval:
        """The memory of the prediction that ``history``, which ends with an action, asks for."""
        if dropped(task_id, self.recipe.dropout, self.recipe.seed):
            return DROPPED
        return self.retriever.retrieve(history)

    def prompt(self, history: History, task_id: str) -> Chat:
        """``history`` with the block of its prediction."""
        return augment(history, self.retrieve(history, task_id).block, self.recipe.position)


def prompts(memory: WorldMemory | None, histories: Iterable[tuple[History, str]]) -> list[Chat]:
    """What a world model reads for (history, task id) pairs."""
    return [list(told) if memory is None else memory.prompt(told, task) for told, task in histories]  # type: ignore[arg-type]


def open_memory(
    bank: Path | None,
    recipe: str,
    rows: Sequence[Mapping[str, Any]],
    source: object,
    tokenizer: Any,
    excluded: frozenset[str] = frozenset(),
) -> WorldMemory | None:
    """A bank opened for the domain of ``rows`` and a model's tokenizer (None: ``estimated_tokens``).

    None without a bank.

    Raises InputError naming ``source`` for rows of several domains, for a broken bank or recipe, and for a bank
    with entries of ``excluded`` tasks (``guard``).
    """
    if bank is None:
        return None
    domains = sorted({str(row["domain"]) for row in rows})
    if len(domains) != 1:
        raise InputError.at(source, f"{len(domains)} domains, not one", "give rows of one domain")
    settings = load_recipe(MemoryRecipe, recipe)
    retriever = Retriever(
        domains[0],
        read_bank(bank, domains[0]),
        budget=settings.budget,
        count_tokens=estimated_tokens if tokenizer is None else tokens_of(tokenizer),
        excluded=excluded,
        source=bank,
    )
    return WorldMemory(retriever, settings)
