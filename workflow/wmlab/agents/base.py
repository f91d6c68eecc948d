"""The Agent protocol: batch first, text only, the same in Real, WM and planning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Message = dict[str, str]  # {"role", "content"}


@dataclass(frozen=True)
class Turn:
    """One episode waiting for its next action.

    ``key`` names the episode for caches and seeded draws; ``messages`` is the agent's dialogue
    (system, user = observation, assistant = own output …), ending with an observation.
    """

    key: str
    messages: list[Message]


@dataclass(frozen=True)
class Decision:
    """What the agent answered: its raw output, the action parsed from it, tokens generated.

    ``deliberate`` is False for a scripted agent's noise, which demonstrations do not teach. ``advice`` are the
    ids of the skill entries that it was shown for the first time (a task's) or for this decision (a step's).
    ``error`` is why there is no decision: it ends the episode, which is an error then and no failure of the task.
    ``plan`` is what a planner considered (agents/planning/requests.py).
    """

    output: str
    action: str
    n_tokens: int = 0
    deliberate: bool = True
    advice: tuple[str, ...] = ()
    error: str | None = None
    plan: Mapping[str, Any] | None = None


class Agent(Protocol):
    """Chooses one action for each waiting episode."""

    @property
    def system_prompt(self) -> str: ...

    def left(self, key: str, turn: int) -> bool:
        """Whether the agent still acts in episode ``key`` at 0-based ``turn``; recordings run out."""
        ...

    def act(self, turns: Sequence[Turn]) -> list[Decision]: ...

    def finish(self, keys: Sequence[str]) -> None: ...
