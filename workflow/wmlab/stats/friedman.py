"""Friedman test with tie correction, Iman-Davenport F, and Nemenyi's critical difference.

Rank 1 is the best (highest) value of a cell. Definitions: metrics.md section 6; Demšar (2006), sections
3.2.2 and 3.2.3; the tie correction divides by C = 1 - sum(t^3 - t) / (n k (k^2 - 1)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, fdtrc
from scipy.stats import studentized_range

from wmlab.errors import InputError
from wmlab.stats.arrays import TIE_DECIMALS, Array, matrix, mid_ranks


@dataclass(frozen=True)
class Friedman:
    """Test of k methods over n cells; ``tie_sum`` is the sum of t^3 - t over tied groups of all cells."""

    n: int
    k: int
    rank_sums: tuple[float, ...]
    tie_sum: int
    statistic: float  # chi-square, corrected for ties
    p: float
    statistic_uncorrected: float
    p_uncorrected: float
    iman_davenport_f: float | None  # None where its denominator is 0
    iman_davenport_p: float | None

    @property
    def mean_ranks(self) -> tuple[float, ...]:
        return tuple(total / self.n for total in self.rank_sums)


def rank_cells(values: ArrayLike) -> tuple[Array, int]:
    """Ranks of the methods in each cell, ``(cells, methods)``, 1 = best; and the sum of t^3 - t."""
    found = matrix(values, "Friedman test")
    ranks = np.stack([mid_ranks(-row) for row in found])
    tie_sum = 0
    for row in np.round(found, TIE_DECIMALS):
        _, sizes = np.unique(row, return_counts=True)
        tie_sum += int(np.sum(sizes**3 - sizes))
    return ranks, tie_sum


def friedman_from_rank_sums(rank_sums: Sequence[float], n: int, tie_sum: int = 0) -> Friedman:
    """The test from rank sums over n cells. Raises InputError when they are no rank sums of n cells."""
    k = len(rank_sums)
    if k < 2 or n < 1 or abs(sum(rank_sums) - n * k * (k + 1) / 2) > 1e-6:
        raise InputError(
            f"rank sums {list(rank_sums)} do not add up to n k (k + 1) / 2 for n={n}; check the ranks"
        )
    spread = math.fsum((total - n * (k + 1) / 2) ** 2 for total in rank_sums)
    plain = 12 * spread / (n * k * (k + 1))
    left = 1 - tie_sum / (n * k * (k * k - 1))
    statistic = plain / left if left > 0 else 0.0
    room = n * (k - 1) - statistic
    f = (n - 1) * statistic / room if n > 1 and room > 1e-9 and left > 0 else None
    return Friedman(
        n=n,
        k=k,
        rank_sums=tuple(float(total) for total in rank_sums),
        tie_sum=tie_sum,
        statistic=statistic,
        p=float(chdtrc(k - 1, statistic)),
        statistic_uncorrected=plain,
        p_uncorrected=float(chdtrc(k - 1, plain)),
        iman_davenport_f=f,
        iman_davenport_p=None if f is None else float(fdtrc(k - 1, (k - 1) * (n - 1), f)),
    )


def friedman(values: ArrayLike) -> Friedman:
    """Friedman test of ``(cells, methods)``; when every cell is tied the statistic is 0 and p is 1."""
    ranks, tie_sum = rank_cells(values)
    return friedman_from_rank_sums([float(x) for x in ranks.sum(axis=0)], ranks.shape[0], tie_sum)


def nemenyi_q(k: int, alpha: float = 0.05) -> float:
    """Critical value q_alpha for k methods: the studentized range over sqrt(2)."""
    return float(studentized_range.ppf(1 - alpha, k, np.inf)) / math.sqrt(2)


def nemenyi_difference(k: int, n: int, alpha: float = 0.05) -> float:
    """Critical difference of mean ranks, q_alpha * sqrt(k (k + 1) / (6 n))."""
    return nemenyi_q(k, alpha) * math.sqrt(k * (k + 1) / (6 * n))


def nemenyi_p(gap: float, k: int, n: int) -> float:
    """p of an absolute gap between two mean ranks."""
    scaled = abs(gap) / math.sqrt(k * (k + 1) / (6 * n)) * math.sqrt(2)
    return min(1.0, float(studentized_range.sf(scaled, k, np.inf)))
