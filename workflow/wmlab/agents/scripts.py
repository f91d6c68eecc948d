"""Where a domain's text-only knowledge of how to act is found: prompt, script, candidates.

Each domain package has a module ``script`` with

- ``SYSTEM_PROMPT``: what a ReAct agent is told before the first observation;
- ``Script(first_observation)``: the state of a rule that reads observations and proposes the next action;
- ``candidates(observations, actions)``: actions worth choosing among, for language models too small to compose them.

All three see text alone, so that they act alike in Real and in a world model.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np

from wmlab.domains.registry import check_domain


class Script(Protocol):
    """One episode of a rule that acts on text alone."""

    def read(self, observation: str) -> None:
        """Take in the answer to the action last proposed by ``next``."""
        ...

    def next(self) -> tuple[str, str] | None:
        """(thought, action) that the goal asks for now; None when nothing is left to do."""
        ...

    def idle(self) -> str:
        """A harmless action when nothing is left to do, e.g. ``look``."""
        ...

    def skip(self) -> None:
        """Take the present step for done although it is not."""
        ...

    def wander(self, rng: np.random.Generator, harmless: bool) -> str:
        """Some other action; a harmless one changes nothing in the world."""
        ...


class ScriptModule(Protocol):
    """What the module offers."""

    SYSTEM_PROMPT: str

    def Script(self, first_observation: str) -> Script:
        """Start an episode."""
        ...

    def candidates(self, observations: Sequence[str], actions: Sequence[str] = ()) -> list[str]:
        """Distinct actions, given all observations and the agent's own actions so far."""
        ...


def script_of(domain: str) -> ScriptModule:
    """The script module of a domain. Raises InputError for an unknown domain."""
    return cast(ScriptModule, importlib.import_module(f"wmlab.domains.{check_domain(domain)}.script"))
