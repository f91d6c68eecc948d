"""Rewards on the text itself: exact match (the paper's SurR), token F1, and SSF on facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wmlab.metrics.ssf import ssf
from wmlab.metrics.text import exact_match, token_f1
from wmlab.rewards.base import RewardInput, RewardRecord


def _em(item: RewardInput, candidate: str) -> float:
    return float(exact_match(candidate, item.gold))


def _f1(item: RewardInput, candidate: str) -> float:
    return token_f1(candidate, item.gold)


def _ssf(item: RewardInput, candidate: str) -> float:
    return float(ssf(item.domain, candidate, item.gold))


SURFACE: dict[str, Callable[[RewardInput, str], float]] = {"em": _em, "f1": _f1, "ssf": _ssf}


class SurfaceReward:
    """Score each candidate against the gold observation; equal candidates once."""

    def __init__(self, name: str) -> None:
        self._score = SURFACE[name]

    def __call__(
        self, transitions: Sequence[RewardInput], candidates: Sequence[Sequence[str]]
    ) -> list[list[RewardRecord]]:
        groups = []
        for item, group in zip(transitions, candidates, strict=True):
            values = {candidate: self._score(item, candidate) for candidate in dict.fromkeys(group)}
            groups.append([RewardRecord(values[candidate], "ok") for candidate in group])
        return groups
