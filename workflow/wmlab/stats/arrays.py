"""Arrays that the tests take: shape ``(cells, methods)``, higher is better, finite numbers only."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wmlab.errors import InputError

Array = NDArray[np.float64]
TIE_DECIMALS = 12  # values that agree to this many decimals are tied: a mean over seeds is not exact
TIE = 10.0**-TIE_DECIMALS


def vector(values: ArrayLike, name: str) -> Array:
    """A finite vector with at least one element. Raises InputError otherwise."""
    return _checked(values, name, 1)


def matrix(values: ArrayLike, name: str) -> Array:
    """A finite ``(cells, methods)`` matrix, at least 1 x 2. Raises InputError otherwise."""
    found = _checked(values, name, 2)
    if found.shape[1] < 2:
        raise InputError(f"{name}: {found.shape[1]} method; a comparison needs at least 2")
    return found


def _checked(values: ArrayLike, name: str, dimensions: int) -> Array:
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: not numbers ({error}); give one number a cell") from None
    if found.ndim != dimensions or found.size == 0:
        raise InputError(
            f"{name}: shape {found.shape}; at least one cell is needed, {dimensions}-dimensional"
        )
    if not np.isfinite(found).all():
        where = np.argwhere(~np.isfinite(found))[0].tolist()
        raise InputError(
            f"{name}: NaN or infinite at index {where}; drop that cell, a failure is not a number"
        )
    return found


def paired(left: ArrayLike, right: ArrayLike) -> tuple[Array, Array]:
    """Two finite vectors of one length. Raises InputError otherwise."""
    one, other = vector(left, "first sample"), vector(right, "second sample")
    if one.shape != other.shape:
        raise InputError(
            f"paired samples of {one.size} and {other.size} values; give both for the same cells"
        )
    return one, other


def exact_mean(values: Sequence[float] | Array) -> float:
    """Mean that does not depend on the order of the values."""
    return math.fsum(values) / len(values)


def mid_ranks(values: Array) -> Array:
    """Ranks 1..n of a vector in ascending order, tied values share their mean rank."""
    settled = np.round(values, TIE_DECIMALS)
    _, group, sizes = np.unique(settled, return_inverse=True, return_counts=True)
    last = np.cumsum(sizes)
    shared: Array = last - (sizes - 1) / 2
    return shared[group]


def percentile_interval(samples: Array, level: float) -> tuple[float, float]:
    """Central interval of a sample, linear between order statistics.

    Both ends are computed from their own side, so that the interval of ``-samples`` is exactly the
    negated, swapped interval of ``samples``.
    """
    ordered = np.sort(samples)
    position = (ordered.size - 1) * (1 - level) / 2
    whole = math.floor(position)
    share = position - whole
    beyond = min(whole + 1, ordered.size - 1)
    low = ordered[whole] + (ordered[beyond] - ordered[whole]) * share
    high = ordered[-1 - whole] + (ordered[-1 - beyond] - ordered[-1 - whole]) * share
    return float(low), float(high)
