"""McNemar's test on paired successes of two methods over one panel (metrics.md section 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import chdtrc

from wmlab.errors import InputError
from wmlab.stats.sign import binomial_two_sided

METHODS = ("exact", "corrected", "plain")


@dataclass(frozen=True)
class McNemar:
    """Discordant counts and p. ``statistic`` is chi-square with one degree, None for the exact test."""

    b: int  # first only
    c: int  # second only
    method: str
    statistic: float | None
    p: float


def mcnemar(b: int, c: int, method: str = "exact") -> McNemar:
    """Test b against c: exact binomial, chi-square with continuity correction, or plain chi-square.

    Without a discordant pair p is 1. The corrected statistic is 0 when b = c (the correction never
    turns no difference into a difference).
    """
    if method not in METHODS:
        raise InputError(f"method '{method}'; choose one of {', '.join(METHODS)}")
    if b < 0 or c < 0:
        raise InputError(f"discordant counts {b} and {c}; a count cannot be negative")
    if method == "exact":
        return McNemar(b, c, method, None, binomial_two_sided(b, c))
    gap = max(0, abs(b - c) - 1) if method == "corrected" else abs(b - c)
    statistic = gap**2 / (b + c) if b + c else 0.0
    return McNemar(b, c, method, statistic, float(chdtrc(1, statistic)))


def discordant(first: Sequence[bool], second: Sequence[bool]) -> tuple[int, int]:
    """(first only, second only) over paired outcomes of one length."""
    if len(first) != len(second) or not first:
        raise InputError(
            f"paired outcomes of {len(first)} and {len(second)} tasks; give one row a task, at least one"
        )
    pairs = list(zip(first, second, strict=True))
    return pairs.count((True, False)), pairs.count((False, True))
