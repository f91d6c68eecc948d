"""The Environment protocol: real environments and world models look the same to an agent."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

SUCCESS_MARKER = " [SUCCESS]"
"""Suffix of the observation that completes a task (Word2World convention, formats.md 1.1)."""


@dataclass(frozen=True)
class Task:
    """A frozen evaluation task: what the agent is told, before any step."""

    task_id: str  # upstream's item id, e.g. textworld_17
    domain: str
    goal: str
    initial_observation: str

    @property
    def sha256(self) -> str:
        """Content hash over domain, id, goal and initial observation (metrics.md 1)."""
        parts = (self.domain, self.task_id, self.goal, self.initial_observation)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@dataclass(frozen=True)
class Observation:
    """What the environment shows at reset; ``admissible`` is None where no list exists."""

    text: str
    admissible: tuple[str, ...] | None


@dataclass(frozen=True)
class Step:
    """What follows an action. ``success`` implies ``done``; ``observation`` ends with the marker then."""

    observation: str
    reward: float
    done: bool
    success: bool
    admissible: tuple[str, ...] | None


@runtime_checkable
class Environment(Protocol):
    """One episode at a time in one world."""

    def reset(self, task: Task) -> Observation: ...

    def step(self, action: str) -> Step: ...

    def fork(self) -> Environment: ...

    def close(self) -> None: ...


@runtime_checkable
class EnvironmentBatch(Protocol):
    """Many episodes in lock-step; rollouts only ever see this.

    ``reset`` starts one episode per task; ``step`` takes {episode index: action} for the episodes
    that are still running and returns a Step, or the exception that ended it, for each of them.
    """

    def reset(self, tasks: Sequence[Task]) -> list[Observation | Exception]: ...

    def step(self, actions: Mapping[int, str]) -> dict[int, Step | Exception]: ...

    def release(self, indices: Sequence[int]) -> None: ...

    def close(self) -> None: ...
