"""Two-sided exact sign test over cells, ties excluded (metrics.md section 6; BehR paper, appendix N)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from wmlab.errors import InputError
from wmlab.stats.arrays import TIE, paired


@dataclass(frozen=True)
class SignTest:
    """Cells that the first method wins, loses and ties, and the two-sided p."""

    wins: int
    losses: int
    ties: int
    p: float


def binomial_two_sided(successes: int, failures: int) -> float:
    """Exact two-sided p of a fair coin; 1 when there was no toss."""
    if successes < 0 or failures < 0:
        raise InputError(f"counts {successes} and {failures}: a count cannot be negative")
    n, least = successes + failures, min(successes, failures)
    tail = sum(math.comb(n, k) for k in range(least + 1))
    return min(1.0, float(2 * tail / (1 << n)))


def sign_counts(wins: int, losses: int, ties: int = 0) -> SignTest:
    """Sign test from counts."""
    return SignTest(wins, losses, ties, binomial_two_sided(wins, losses))


def sign_test(target: ArrayLike, other: ArrayLike) -> SignTest:
    """Sign test of paired values, both ``(cells,)``; a win is ``target > other``."""
    left, right = paired(target, other)
    differences = left - right
    wins, losses = int(np.sum(differences > TIE)), int(np.sum(differences < -TIE))
    return sign_counts(wins, losses, differences.size - wins - losses)
