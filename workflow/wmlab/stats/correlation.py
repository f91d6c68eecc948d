"""Tie-aware Spearman correlation with a bootstrap interval over agents (metrics.md section 6)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from wmlab.errors import InputError
from wmlab.stats.arrays import Array, mid_ranks, paired, percentile_interval

RESAMPLES = 10_000
MIN_AGENTS = 2


@dataclass(frozen=True)
class Spearman:
    """rho is None, with a reason, where a side is constant. ``undefined`` counts such resamples."""

    n: int
    rho: float | None
    ci: tuple[float, float] | None
    level: float
    resamples: int
    undefined: int
    seed: int
    reason: str | None = None


def _rho(left: Array, right: Array) -> float | None:
    """Pearson correlation of mid-ranks; None when either side is constant."""
    middle = (left.size + 1) / 2
    one, other = mid_ranks(left) - middle, mid_ranks(right) - middle
    scale = math.sqrt(math.fsum(one * one) * math.fsum(other * other))
    return None if scale == 0 else max(-1.0, min(1.0, math.fsum(one * other) / scale))


def spearman(
    x: ArrayLike, y: ArrayLike, *, seed: int = 0, resamples: int = RESAMPLES, level: float = 0.95
) -> Spearman:
    """rho of two ``(agents,)`` vectors and its percentile interval over resampled agents.

    Resamples in which a side is constant have no rho; they are left out of the interval and counted.
    """
    left, right = paired(x, y)
    n = left.size
    if n < MIN_AGENTS:
        raise InputError(f"Spearman correlation of {n} agent; give at least {MIN_AGENTS}")
    rho = _rho(left, right)
    if rho is None:
        return Spearman(n, None, None, level, 0, 0, seed, "one side is the same for all agents")
    draws = np.random.default_rng(seed).integers(0, n, size=(resamples, n))
    # Few agents give few distinct resamples, and order does not matter: rank each multiset once.
    distinct, inverse = np.unique(np.sort(draws, axis=1), axis=0, return_inverse=True)
    found = np.array([_nan_if_none(_rho(left[row], right[row])) for row in distinct])[inverse.ravel()]
    known = found[~np.isnan(found)]
    ci = percentile_interval(known, level) if known.size else None
    return Spearman(n, rho, ci, level, resamples, int(np.isnan(found).sum()), seed)


def _nan_if_none(value: float | None) -> float:
    return math.nan if value is None else value
