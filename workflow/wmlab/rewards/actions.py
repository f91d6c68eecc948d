"""Rewards over what the agent would do: multi-action BehR and action consistency (behr.txt Appendix I.1, I.3).

Multi-action BehR: exp(-scale · mean |Δ|) over the logged action and further admissible ones, Δ as in BehR.
ACS: 1 when the frozen agent's greedy action is the same after both states, else 0. A prediction textually
equal to the real state scores the maximum without asking the agent, as in BehR; without a next action
neither is defined.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace

from wmlab.agents.scripts import script_of
from wmlab.errors import InputError
from wmlab.rewards.base import RewardInput, RewardRecord
from wmlab.rewards.reference import ReferenceAgent, StateScore

NAMES = ("multi_action_behr", "acs")
NO_ACTION = "the transition has no next action"


def probed(item: RewardInput, n: int) -> list[str]:
    """The logged action and at most ``n`` others: the item's alternatives, else the domain script's candidates.

    Which of many are taken is drawn by a hash of their text: the same in every run, and in no order of the
    environment's.
    """
    others = list(item.alternatives)
    if not others:
        seen = [m["content"] for m in item.history if m["role"] != "user"]
        done = [m["content"] for m in item.history if m["role"] == "user"]
        others = script_of(item.domain).candidates([*seen, item.gold], done)
    distinct = {action for action in others if action.strip() and action != item.action}
    drawn = sorted(distinct, key=lambda action: hashlib.sha256(action.encode()).hexdigest())[:n]
    return [str(item.action), *drawn]


class MultiActionConsistency:
    """``scale`` multiplies the mean |Δ|; ``actions`` is how many actions besides the logged one are probed.

    A record's ``delta`` is the mean |Δ|, ``l_pred`` and ``l_real`` are the logged action's, ``n_tokens``
    counts the tokens of all probed actions. One failed action fails the record.
    """

    def __init__(self, reference: ReferenceAgent, scale: float = 1.0, actions: float = 8) -> None:
        if scale <= 0 or actions < 1 or actions != int(actions):
            raise InputError(
                "reward multi_action_behr: scale must be positive and actions a whole number ≥ 1"
            )
        self.reference, self.scale, self.actions = reference, scale, int(actions)

    def __call__(
        self, transitions: Sequence[RewardInput], candidates: Sequence[Sequence[str]]
    ) -> list[list[RewardRecord]]:
        items: list[RewardInput] = []
        states: list[list[str]] = []
        spans: list[range] = []
        for item, group in zip(transitions, candidates, strict=True):
            others = [c for c in dict.fromkeys(group) if not item.is_gold(c)]
            actions = probed(item, self.actions) if item.action and others else []
            spans.append(range(len(items), len(items) + len(actions)))
            items += [replace(item, action=action) for action in actions]
            states += [[item.gold, *others] for _ in actions]
        scores = self.reference.score(items, states)
        results = []
        for item, group, span in zip(transitions, candidates, spans, strict=True):
            found = [dict(zip(states[i], scores[i], strict=True)) for i in span]
            results.append([self._record(item, candidate, found) for candidate in group])
        return results

    def _record(self, item: RewardInput, state: str, found: Sequence[dict[str, StateScore]]) -> RewardRecord:
        if not item.action:
            return RewardRecord.failed(NO_ACTION)
        if item.is_gold(state):
            return RewardRecord(1.0, "ok", 0.0)
        gaps: list[float] = []
        for by_state in found:
            predicted, real = by_state[state], by_state[item.gold]
            if predicted.mean_logprob is None or real.mean_logprob is None:
                return RewardRecord.failed(predicted.error or real.error or "not scored")
            gaps.append(abs(predicted.mean_logprob - real.mean_logprob))
        mean = math.fsum(gaps) / len(gaps)
        n_tokens = sum(by_state[state].n_tokens for by_state in found)
        logged = found[0]
        return RewardRecord(
            math.exp(-self.scale * mean),
            "ok",
            mean,
            logged[state].mean_logprob,
            logged[item.gold].mean_logprob,
            n_tokens,
        )


class ActionConsistency:
    """Equality of greedy actions; equal states are decoded once a transition."""

    def __init__(self, reference: ReferenceAgent) -> None:
        self.reference = reference

    def __call__(
        self, transitions: Sequence[RewardInput], candidates: Sequence[Sequence[str]]
    ) -> list[list[RewardRecord]]:
        states: list[list[str]] = []
        for item, group in zip(transitions, candidates, strict=True):
            others = [c for c in dict.fromkeys(group) if not item.is_gold(c)]
            states.append([item.gold, *others] if item.action and others else [])
        chosen = self.reference.act(transitions, states)
        results = []
        for item, group, asked, said in zip(transitions, candidates, states, chosen, strict=True):
            by_state = dict(zip(asked, said, strict=True))
            results.append([self._record(item, candidate, by_state) for candidate in group])
        return results

    @staticmethod
    def _record(item: RewardInput, state: str, chosen: dict[str, str | None]) -> RewardRecord:
        if not item.action:
            return RewardRecord.failed(NO_ACTION)
        if item.is_gold(state):
            return RewardRecord(1.0, "ok")
        predicted, real = chosen[state], chosen[item.gold]
        if predicted is None or real is None:
            return RewardRecord.failed("the context is too long for the reference agent to act in")
        return RewardRecord(float(predicted == real), "ok")
