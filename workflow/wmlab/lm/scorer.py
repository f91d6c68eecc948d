"""What scores actions for a reference agent: a model in this process, or servers of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from wmlab.lm.base import Completion, Sampling
from wmlab.lm.transport import AnswerFailure
from wmlab.lm.tree import Tree

Scores = Sequence[Sequence[Sequence[float] | AnswerFailure]]
"""(trees,) × (branches each): log-probabilities (nats) of the scored tokens, or why there are none."""


class Scorer(Protocol):
    """Log-probabilities of branches that share a prefix, and greedy continuations, by token ids."""

    tokenizer: Any

    @property
    def model_id(self) -> str:
        """Name of the model in records."""
        ...

    @property
    def max_context(self) -> int:
        """Most tokens of a prefix and a branch."""
        ...

    def score_trees(self, trees: Sequence[Tree]) -> Scores:
        """Per tree and branch, log-probabilities (nats) of its scored tokens, or why there are none."""
        ...

    def prefill(self, trees: Sequence[Tree]) -> int:
        """Prompt tokens that scoring ``trees`` computes."""
        ...

    def generate_ids(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[list[Completion]]:
        """(prompts,) of token ids → (prompts, n) completions."""
        ...
