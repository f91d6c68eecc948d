"""The Environment protocol: real environments and world models look the same to an agent."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from wmlab.errors import EnvironmentFailure

SUCCESS_MARKER = " [SUCCESS]"
"""Suffix of the observation that completes a task (Word2World convention, formats.md 1.1)."""


@dataclass(frozen=True)
class Task:
    """A frozen evaluation task: what the agent is told, before any step."""

    task_id: str  # upstream's item id, e.g. textworld_17
    domain: str
    goal: str
    initial_observation: str
    privileged: str | None = None  # what only the world model is told (formats.md 1.2); not in the hash

    @property
    def sha256(self) -> str:
        """Content hash over domain, id, goal and initial observation (metrics.md 1)."""
        parts = (self.domain, self.task_id, self.goal, self.initial_observation)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def check(self, shown: str) -> None:
        """Raise EnvironmentFailure when an environment starts with another observation than was frozen."""
        if shown != self.initial_observation:
            raise EnvironmentFailure(f"{self.task_id}: the first observation differs from the panel's")


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


class RealEnvironment(Environment, Protocol):
    """A real environment: it also knows its tasks and, opened as ``expert``, how they are solved."""

    def load(self, task_id: str) -> Task:
        """The task behind an id, from the environment itself. Raises InputError for an unknown id."""
        ...

    @property
    def task_type(self) -> str:
        """Family of the present task, e.g. ``tw-simple``."""
        ...

    @property
    def privileged(self) -> str | None:
        """What only the world model is told of the present task (formats.md 1.2); None where nothing is."""
        ...

    def expert(self) -> list[str]:
        """Gold actions from the present state to success; [] when none is known or there is none."""
        ...


class Domain(Protocol):
    """What a domain brings: tasks, environment, exploring behaviour. Picklable; opening is lazy.

    Made by ``registry.make_domain(name, cache_dir, options)``; ``options`` are written into the panel,
    so that whoever reads a panel opens the same environment.
    """

    @property
    def name(self) -> str: ...

    def task_ids(self, split: str, first: int, n: int) -> list[str]:
        """``n`` task ids of ``split`` from position ``first`` (1-based; a seed where games are generated)."""
        ...

    def open(self, *, every_step: bool = False, expert: bool = False) -> RealEnvironment:
        """A new environment. ``every_step`` lists admissible actions after each step, ``expert`` knows gold."""
        ...

    def stray(self, rng: np.random.Generator, admissible: Sequence[str], seen: Sequence[str]) -> str:
        """An action off the plan, as an exploring agent tries it: possible, refused, or no action at all.

        ``admissible`` are the actions possible now, ``seen`` the distinct ones listed so far, in order.
        """
        ...


Options = Mapping[str, str | int | float | bool]
"""A domain's settings as the configuration and the panel carry them, e.g. a path of official files."""


class DomainMaker(Protocol):
    """A domain's module offers this as ``make``. Raises InputError for an option it does not know."""

    def __call__(self, cache_dir: Path, options: Options) -> Domain: ...


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
