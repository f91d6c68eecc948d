"""The Reward signature: (transitions, candidates) → records. A failure is never a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from wmlab.lm.base import Chat


@dataclass(frozen=True)
class RewardInput:
    """What a reward may look at. ``history`` is in world-model roles and ends with the action.

    ``action`` is the logged next action, which the reference agent is asked about; None at the end.
    ``alternatives`` are actions admissible in the real state, where the environment lists them.
    """

    domain: str
    history: Chat
    gold: str
    action: str | None
    alternatives: tuple[str, ...] = ()

    def is_gold(self, candidate: str) -> bool:
        """Whether a candidate is textually the real state, which then needs no scoring (metrics.md 5)."""
        return candidate.strip() == self.gold.strip()


@dataclass(frozen=True)
class RewardRecord:
    """One candidate's reward, or why there is none. Log-probabilities in nats per action token."""

    reward: float | None
    status: str  # "ok" | "failed"
    delta: float | None = None
    l_pred: float | None = None
    l_real: float | None = None
    n_tokens: int | None = None
    error: str | None = None

    @classmethod
    def failed(cls, error: str) -> RewardRecord:
        """A typed failure: no reward, the reason kept."""
        return cls(None, "failed", error=error)


class Reward(Protocol):
    """Scores groups of candidate next observations; (transitions,) × (candidates each)."""

    def __call__(
        self, transitions: Sequence[RewardInput], candidates: Sequence[Sequence[str]]
    ) -> list[list[RewardRecord]]: ...
