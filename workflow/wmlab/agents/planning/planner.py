"""Runs planners for many episodes at once: every request of a kind goes into one batched call.

Planning of an episode is sequential code (a generator); what waits is grouped by kind over all episodes. A request
that fails ends its own episode's decision, never another one's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from wmlab.agents.base import Decision, Turn
from wmlab.agents.planning.requests import (
    Answer,
    Budget,
    Imagine,
    Plan,
    Policy,
    Request,
    Simulator,
    Thinking,
    kinds,
)
from wmlab.agents.react import format_output
from wmlab.lm.transport import AnswerFailure

Method = Callable[[Turn], Thinking]
"""A planner: one decision's thinking, from the dialogue."""


@dataclass
class _Decision:
    thinking: Thinking
    budget: Budget = field(default_factory=Budget)
    request: Request | None = None
    plan: Plan | None = None
    error: str | None = None

    def go_on(self, answer: Answer | AnswerFailure | None) -> None:
        """Send an answer (None: start) and take the next request, or the end."""
        self.request = None
        try:
            if isinstance(answer, AnswerFailure):
                self.request = self.thinking.throw(answer)
            else:
                self.request = self.thinking.send(None if answer is None else answer.value)
        except StopIteration as end:
            self.plan = end.value
        except AnswerFailure as failure:
            self.error = str(failure)


class PlanningAgent:
    """An agent whose decisions are a planner's."""

    def __init__(self, method: Method, policy: Policy, simulator: Simulator) -> None:
        self.method, self.policy, self.simulator = method, policy, simulator

    @property
    def system_prompt(self) -> str:
        """The policy's."""
        return self.policy.system_prompt

    def left(self, key: str, turn: int) -> bool:
        """It acts as long as the episode runs."""
        return True

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        """One decision a turn, with its plan and what it cost."""
        under_way = {turn.key: _Decision(self.method(turn)) for turn in turns}
        for decision in under_way.values():
            decision.go_on(None)
        while waiting := {key: one.request for key, one in under_way.items() if one.request is not None}:
            for kind, keys in kinds(waiting):
                requests = [waiting[key] for key in keys]
                for key, answer in zip(keys, self._answers(kind, requests), strict=True):
                    _count(under_way[key].budget, kind, answer)
                    under_way[key].go_on(answer)
        return [_decision(under_way[turn.key]) for turn in turns]

    def finish(self, keys: Sequence[str]) -> None:
        """Let the simulator forget finished episodes."""
        self.simulator.finish(keys)

    def _answers(self, kind: type, requests: Sequence[Request]) -> list[Answer | AnswerFailure]:
        if kind is Imagine:
            return self.simulator.imagine([one for one in requests if isinstance(one, Imagine)])
        return self.policy.answer(requests)


def _count(budget: Budget, kind: type, answer: Answer | AnswerFailure) -> None:
    if isinstance(answer, AnswerFailure):
        return
    budget.fallbacks += answer.fallback
    if kind is Imagine:
        budget.world_model_calls += answer.calls
        budget.world_model_tokens += answer.tokens
    else:
        budget.policy_calls += answer.calls
        budget.policy_tokens += answer.tokens


def _decision(done: _Decision) -> Decision:
    cost = done.budget.record()
    if done.plan is None:
        return Decision("", "", done.budget.policy_tokens, error=done.error, plan=cost)
    plan = {**done.plan.trace, **cost}
    return Decision(format_output(done.plan.action), done.plan.action, done.budget.policy_tokens, plan=plan)
