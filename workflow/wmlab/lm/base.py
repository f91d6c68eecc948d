"""The LanguageModel protocol: generate from chats, score token ids (design.md 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

Chat = Sequence[dict[str, str]]  # [{"role", "content"}, …]


@dataclass(frozen=True)
class Sampling:
    """Decoding setup. ``temperature`` 0 is greedy; ``n`` completions a chat; lengths in tokens."""

    temperature: float = 0.0
    n: int = 1
    max_new_tokens: int = 256
    seed: int = 0


@dataclass(frozen=True)
class Completion:
    """One generated text, without its end-of-turn token. ``finish_reason`` is ``stop`` or ``length``."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: str
    billed: int | None = None  # tokens that a server counted, where it shows no ids

    @property
    def n_tokens(self) -> int:
        """Tokens generated."""
        return len(self.token_ids) if self.billed is None else self.billed


class LanguageModel(Protocol):
    """In-process transformers and OpenAI-compatible servers look the same from here."""

    @property
    def model_id(self) -> str: ...

    def generate(self, chats: Sequence[Chat], sampling: Sampling) -> list[list[Completion]]:
        """(chats,) → (chats, n) completions."""
        ...

    def score(self, requests: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[float]]:
        """Log-probability, in nats, of each continuation token given its context ids and what precedes it."""
        ...
