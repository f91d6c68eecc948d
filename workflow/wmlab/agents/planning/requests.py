"""What a planner may ask, and what it gets: the vocabulary between planners, policies and simulators.

A dialogue is the agent's (system, observation, output, observation …). ``path`` holds imagined steps after its last
observation; a request about an imagined state is one about the dialogue and its path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from wmlab.agents.base import Message, Turn
from wmlab.agents.react import format_output
from wmlab.lm.transport import AnswerFailure


@dataclass(frozen=True)
class Candidate:
    """An action worth trying; ``prior`` is its log-probability (nats) under the policy, 0 where it gives none."""

    action: str
    prior: float = 0.0


@dataclass(frozen=True)
class Imagined:
    """An action and the state that a simulator predicts after it; ``success`` is the simulator's own marker."""

    action: str
    observation: str
    success: bool = False
    done: bool = False

    @property
    def terminal(self) -> bool:
        """Whether the episode ends there."""
        return self.success or self.done


Path = tuple[Imagined, ...]


@dataclass(frozen=True)
class Act:
    """The action that the agent would take without planning; answered by text."""

    turn: Turn
    path: Path = ()


@dataclass(frozen=True)
class Propose:
    """At most ``most`` distinct actions, the most promising first; answered by a list of Candidate."""

    turn: Turn
    most: int
    path: Path = ()
    without: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Imagine:
    """The states after each of ``actions``; answered by a list of Imagined."""

    turn: Turn
    actions: tuple[str, ...]
    path: Path = ()


@dataclass(frozen=True)
class Choose:
    """Which of several imagined steps is best; answered by its index."""

    turn: Turn
    options: tuple[Imagined, ...]
    priors: tuple[float, ...]
    path: Path = ()


@dataclass(frozen=True)
class Rate:
    """How far each of several imagined steps advances the goal; answered by a number in [0, 1] each."""

    turn: Turn
    options: tuple[Imagined, ...]
    priors: tuple[float, ...]
    path: Path = ()


@dataclass(frozen=True)
class Horizon:
    """How many steps to imagine before acting, from 0 to ``most``; answered by a whole number."""

    turn: Turn
    most: int


@dataclass(frozen=True)
class Reflect:
    """The action to take, given an imagined future; answered by text, "" for none."""

    turn: Turn
    future: Path


Request = Act | Propose | Imagine | Choose | Rate | Horizon | Reflect


@dataclass
class Budget:
    """What a decision has cost: calls and generated tokens, of the policy and of the world model."""

    policy_calls: int = 0
    world_model_calls: int = 0
    policy_tokens: int = 0
    world_model_tokens: int = 0
    fallbacks: int = 0

    def record(self) -> dict[str, Any]:
        """As it is written with an episode's step."""
        return {
            "fallbacks": self.fallbacks,
            "calls": {"policy": self.policy_calls, "world_model": self.world_model_calls},
            "tokens": {"policy": self.policy_tokens, "world_model": self.world_model_tokens},
        }


@dataclass(frozen=True)
class Answer:
    """The value of a request and its cost; ``fallback``: what was said could not be read, the rule decided."""

    value: Any
    tokens: int = 0
    calls: int = 1
    fallback: bool = False


@dataclass(frozen=True)
class Plan:
    """What a planner decided and what it considered, for the episode's record."""

    action: str
    trace: Mapping[str, Any] = field(default_factory=dict)


Thinking = Generator[Request, Any, Plan]
"""One decision under way: asks, is sent the values, returns its plan; a failure is thrown into it."""
R = TypeVar("R", bound=Request)


class Policy(Protocol):
    """Answers requests of one kind, a batch at a time, in order; a request it cannot answer is a failure."""

    @property
    def system_prompt(self) -> str: ...

    def answer(self, requests: Sequence[Request]) -> list[Answer | AnswerFailure]: ...


class Simulator(Protocol):
    """Answers Imagine requests."""

    def imagine(self, requests: Sequence[Imagine]) -> list[Answer | AnswerFailure]: ...

    def finish(self, keys: Sequence[str]) -> None: ...


def extended(turn: Turn, path: Path) -> Turn:
    """The dialogue as if the imagined steps had been taken."""
    messages: list[Message] = list(turn.messages)
    for step in path:
        messages.append({"role": "assistant", "content": format_output(step.action)})
        messages.append({"role": "user", "content": step.observation})
    return Turn(turn.key, messages)


def kinds(requests: Mapping[str, Request]) -> list[tuple[type, list[str]]]:
    """Keys of the requests by kind, the kinds in a fixed order."""
    found: dict[type, list[str]] = {}
    for key, request in requests.items():
        found.setdefault(type(request), []).append(key)
    return sorted(found.items(), key=lambda item: item[0].__name__)


def tally(steps: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """Calls and tokens of an episode's plan: ``policy_calls``, ``world_model_calls``, ``policy_tokens`` …"""
    total: Counter[str] = Counter()
    for step in steps:
        for unit in ("calls", "tokens"):
            for who, count in step.get(unit, {}).items():
                total[f"{who}_{unit}"] += int(count)
    return total
