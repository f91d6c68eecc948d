"""Behaviour Consistency Reward (behr.txt 4.2, eq. for R; metrics.md 5).

Δ = l̄(action | history, predicted state) − l̄(action | history, real state), in nats per action token.
A prediction textually equal to the real state has Δ = 0 without asking the reference agent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from wmlab.errors import InputError
from wmlab.rewards.base import RewardInput, RewardRecord
from wmlab.rewards.reference import ReferenceAgent, StateScore

Shape = Callable[[float], float]

SHAPES: dict[str, Callable[[float], Shape]] = {
    "behr": lambda c: lambda d: math.exp(-c * abs(d)),
    "behr_cauchy": lambda c: lambda d: 1.0 / (1.0 + c * abs(d)),
    "behr_linear": lambda c: lambda d: max(0.0, 1.0 - c * abs(d)),
    "behr_l1": lambda c: lambda d: -c * abs(d),
    "behr_l2": lambda c: lambda d: -c * d * d,
}


class BehaviourConsistency:
    """``name`` is one of SHAPES; ``scale`` multiplies |Δ| (1 in training, 10 in the released evaluation)."""

    def __init__(self, reference: ReferenceAgent, name: str = "behr", scale: float = 1.0) -> None:
        if scale <= 0:
            raise InputError(f"reward {name}: scale {scale} must be positive")
        self.reference = reference
        self._shape = SHAPES[name](scale)

    def __call__(
        self, transitions: Sequence[RewardInput], candidates: Sequence[Sequence[str]]
    ) -> list[list[RewardRecord]]:
        states: list[list[str]] = []
        for item, group in zip(transitions, candidates, strict=True):
            others = [c for c in group if not item.is_gold(c)]
            # The real state is asked about only when some candidate differs from it.
            states.append([item.gold, *others] if others else [])
        scores = self.reference.score(transitions, states)
        return [
            self._group(item, group, iter(found))
            for item, group, found in zip(transitions, candidates, scores, strict=True)
        ]

    def _group(self, item: RewardInput, group: Sequence[str], found: object) -> list[RewardRecord]:
        scores = iter(found)  # type: ignore[call-overload]
        real: StateScore | None = next(scores, None)
        records = []
        for candidate in group:
            if not item.action:
                records.append(RewardRecord.failed("the transition has no next action"))
            elif item.is_gold(candidate):
                known = real.mean_logprob if real is not None else None
                n = real.n_tokens if real is not None else None
                records.append(RewardRecord(self._shape(0.0), "ok", 0.0, known, known, n))
            else:
                records.append(self._record(next(scores), real))
        return records

    def _record(self, predicted: StateScore, real: StateScore | None) -> RewardRecord:
        if real is None or real.mean_logprob is None or predicted.mean_logprob is None:
            error = predicted.error or (real.error if real is not None else "the real state was not scored")
            return RewardRecord.failed(error or "not scored")
        delta = predicted.mean_logprob - real.mean_logprob
        return RewardRecord(
            self._shape(delta), "ok", delta, predicted.mean_logprob, real.mean_logprob, predicted.n_tokens
        )
