"""Policies and worlds of known values for the planners' tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from wmlab.agents.base import Turn
from wmlab.agents.planning.requests import (
    Act,
    Answer,
    Candidate,
    Choose,
    Horizon,
    Imagine,
    Imagined,
    Path,
    Plan,
    Propose,
    Rate,
    Reflect,
    Request,
    Thinking,
)
from wmlab.agents.scripts import script_of
from wmlab.lm.transport import AnswerFailure
from wmlab.skills.prompt import without_skill

START = Turn("t", [{"role": "system", "content": "s"}, {"role": "user", "content": "start"}])


@dataclass
class Toy:
    """A world of named states: ``edges[state][action]`` is the next one; ``won`` and ``lost`` end it."""

    edges: dict[str, dict[str, str]]
    won: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    ratings: dict[str, float] = field(default_factory=dict)  # by state
    asked: list[Request] = field(default_factory=list)

    def state(self, path: Path) -> str:
        return path[-1].observation if path else "start"

    def answer(self, request: Request) -> Any:
        self.asked.append(request)
        match request:
            case Propose():
                names = [a for a in self.edges[self.state(request.path)] if a not in request.without]
                return [Candidate(name, -float(at)) for at, name in enumerate(names)][: request.most]
            case Imagine():
                here = self.edges[self.state(request.path)]
                return [self.step(action, here[action]) for action in request.actions]
            case Rate():
                return [self.ratings.get(option.observation, 0.0) for option in request.options]
            case Choose():
                won = [at for at, option in enumerate(request.options) if option.success]
                return won[0] if won else 0
            case Act():
                return next(iter(self.edges[self.state(request.path)]), "")
            case Horizon():
                return request.most
            case Reflect():
                return request.future[0].action
        raise AssertionError(request)

    def step(self, action: str, state: str) -> Imagined:
        return Imagined(action, state, state in self.won, state in self.won | self.lost)


def decide(toy: Toy, thinking: Thinking) -> Plan:
    """Run one decision against a toy world."""
    answer = None
    while True:
        try:
            request = thinking.send(answer)
        except StopIteration as end:
            assert isinstance(end.value, Plan)
            return end.value
        answer = toy.answer(request)


class UniformPolicy:
    """No model at all: the domain's candidates in order, all as likely; what wins is chosen, else the first."""

    def __init__(self, domain: str, order: Callable[[list[str]], list[str]] = list) -> None:
        self.script, self.order = script_of(domain), order

    @property
    def system_prompt(self) -> str:
        return self.script.SYSTEM_PROMPT

    def answer(self, requests: Sequence[Request]) -> list[Answer | AnswerFailure]:
        return [Answer(self._value(one)) for one in requests]

    def _value(self, one: Request) -> Any:
        if isinstance(one, Choose | Rate):
            wins = [float(option.success) for option in one.options]
            return wins if isinstance(one, Rate) else wins.index(max(wins))
        if isinstance(one, Horizon):
            return one.most
        if isinstance(one, Reflect):
            return one.future[0].action
        path = getattr(one, "path", ())
        observations = [without_skill(m["content"]) for m in one.turn.messages if m["role"] == "user"]
        found = self.order(self.script.candidates([*observations, *(step.observation for step in path)]))
        if isinstance(one, Act):
            return found[0]
        assert isinstance(one, Propose)
        return [Candidate(action) for action in found if action not in one.without][: one.most]
