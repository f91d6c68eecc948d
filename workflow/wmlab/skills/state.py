"""What an agent has read when it chooses an action: text only, so flags are the same in Real and in a world model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from wmlab.agents.react import parse_action
from wmlab.data.decompose import admissible_actions
from wmlab.domains.conventions import goal_of
from wmlab.skills.prompt import without_skill

Turn = tuple[str, str]
"""An action and the observation that followed."""


@dataclass(frozen=True)
class State:
    """A decision step: the first observation and every turn since, oldest first."""

    domain: str
    first: str
    turns: tuple[Turn, ...] = ()

    @property
    def observation(self) -> str:
        """What was read last."""
        return self.turns[-1][1] if self.turns else self.first

    @property
    def action(self) -> str:
        """The action taken last; "" at the start."""
        return self.turns[-1][0] if self.turns else ""

    @cached_property
    def goal(self) -> str:
        """The goal as the first observation states it; "" where it states none."""
        return goal_of(self.domain, self.first)

    @cached_property
    def admissible(self) -> tuple[str, ...] | None:
        """The actions that the present observation lists; None where it lists none."""
        listed = admissible_actions(self.observation)
        return None if listed is None else tuple(listed)

    def before(self) -> State:
        """The state of the last choice. ValueError at the start."""
        if not self.turns:
            raise ValueError("nothing was done before the start")
        return State(self.domain, self.first, self.turns[:-1])


def state_of_dialogue(domain: str, messages: Sequence[Mapping[str, str]]) -> State:
    """The state of an agent's dialogue that ends with an observation; skill blocks are not part of it."""
    shown = [without_skill(message["content"]) for message in messages if message["role"] == "user"]
    said = [parse_action(message["content"]) for message in messages if message["role"] == "assistant"]
    return State(domain, shown[0], tuple(zip(said, shown[1:], strict=True)))


def decisions(trajectory: Mapping[str, Any]) -> Iterator[tuple[State, Mapping[str, Any]]]:
    """(state, the step taken in it) for every step of a trajectory row."""
    turns = tuple((step["action"], step["observation"]) for step in trajectory["steps"])
    for at, step in enumerate(trajectory["steps"]):
        yield State(trajectory["domain"], trajectory["initial_observation"], turns[:at]), step
