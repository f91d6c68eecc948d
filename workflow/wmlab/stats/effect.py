"""Effect sizes, Holm's correction, and the smallest difference a sample can detect (metrics.md section 6)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student

from wmlab.errors import InputError
from wmlab.stats.arrays import TIE, TIE_DECIMALS, exact_mean, mid_ranks, paired, vector


def cliffs_delta(x: ArrayLike, y: ArrayLike) -> float:
    """P(x > y) - P(x < y) over all pairs of two samples, in [-1, 1]; pairing is not used."""
    left, right = vector(x, "first sample"), vector(y, "second sample")
    signs = np.sign(np.round(left[:, None] - right[None, :], TIE_DECIMALS))
    return float(signs.sum()) / signs.size


def rank_biserial(target: ArrayLike, other: ArrayLike) -> float:
    """Matched-pairs rank-biserial correlation, (R+ - R-) / (R+ + R-), zero differences dropped.

    R+ and R- are Wilcoxon's signed rank sums (Kerby 2014). 0 when every pair is tied.
    """
    left, right = paired(target, other)
    differences = left - right
    kept = differences[np.abs(differences) > TIE]
    if kept.size == 0:
        return 0.0
    ranks = mid_ranks(np.abs(kept))
    return float(np.sum(ranks * np.sign(kept)) / np.sum(ranks))


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down adjusted p of a family, by name; never above 1, monotone in p."""
    for name, p in p_values.items():
        if not 0 <= p <= 1:
            raise InputError(f"p of '{name}' is {p}; it must lie between 0 and 1")
    adjusted: dict[str, float] = {}
    running = 0.0
    for place, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        running = max(running, min(1.0, (len(p_values) - place) * p))
        adjusted[name] = running
    return {name: adjusted[name] for name in p_values}


def sample_deviation(differences: ArrayLike) -> float | None:
    """Standard deviation (n - 1) of paired differences; None for one cell."""
    found = vector(differences, "differences")
    if found.size < 2:
        return None
    middle = exact_mean(found)
    return math.sqrt(math.fsum((found - middle) ** 2) / (found.size - 1))


def detectable_over_cells(deviation: float, n: int, alpha: float = 0.05, power: float = 0.8) -> float:
    """Smallest mean difference that a two-sided paired t test over n >= 2 cells finds with this power."""
    if n < 2:
        raise InputError(f"minimum detectable difference of {n} cell; give at least 2")
    degrees = n - 1
    return float(
        (student.ppf(1 - alpha / 2, degrees) + student.ppf(power, degrees)) * deviation / math.sqrt(n)
    )


def detectable_over_tasks(
    n: int, discordant_share: float, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """Smallest difference of two success rates that McNemar's test finds on n paired tasks with this power.

    Solves sqrt(n) d = z_a sqrt(q) + z_b sqrt(q - d^2) for d, with q the share of tasks on which the two
    methods differ (Connor 1987). None when no difference up to q is enough, as with too few tasks.
    """
    if n < 1 or not 0 <= discordant_share <= 1:
        raise InputError(
            f"{n} tasks with a discordant share of {discordant_share}; give n >= 1 and a share in [0, 1]"
        )
    z_a, z_b = NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)
    q = discordant_share
    # Quadratic in d: (n + z_b^2) d^2 - 2 sqrt(n q) z_a d + q (z_a^2 - z_b^2) = 0, larger root.
    a, half_b, c = n + z_b**2, math.sqrt(n * q) * z_a, q * (z_a**2 - z_b**2)
    d = (half_b + math.sqrt(max(0.0, half_b**2 - a * c))) / a
    return d if 0 < d <= q else None
