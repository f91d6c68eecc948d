"""Percentile bootstraps of a mean paired difference: over cells, and over tasks within cells then cells.

The paired bootstrap over cells is the BehR paper's (appendix N; metrics.md section 6). The two-level one
adds the uncertainty that a cell's rate itself has from its finite panel. Every draw comes from a
``numpy.random.Generator`` made from the seed in the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from wmlab.errors import InputError
from wmlab.stats.arrays import TIE, Array, exact_mean, percentile_interval, vector

RESAMPLES = 10_000
_CHUNK = 2_000_000  # task draws held in memory at once


@dataclass(frozen=True)
class Bootstrap:
    """Mean difference, its interval and the one-sided p = share of resamples at or below 0."""

    mean_difference: float
    ci: tuple[float, float]
    level: float
    r: int  # resamples whose mean difference is <= 0
    resamples: int  # those that have a mean difference
    seed: int
    undefined: int = 0  # (resample, cell) values without a denominator, left out (two-level only)

    @property
    def p(self) -> float:
        """(r + 1) / (B + 1): never 0, valid at any B."""
        return (self.r + 1) / (self.resamples + 1)

    @property
    def p_plain(self) -> float:
        """r / B, as the paper reports it."""
        return self.r / self.resamples


@dataclass(frozen=True)
class Ratio:
    """A rate over tasks, sum(top) / sum(bottom); both ``(tasks,)``. CR_pw: top = real and w2r, bottom = real."""

    top: Array
    bottom: Array


@dataclass(frozen=True)
class TaskCell:
    """One cell: the seeds of the target and of the other method, each a Ratio over the same panel."""

    target: Sequence[Ratio]
    other: Sequence[Ratio]


def _check(resamples: int, level: float) -> None:
    if resamples < 1 or not 0 < level < 1:
        raise InputError(
            f"{resamples} resamples at level {level}; give at least 1 and a level between 0 and 1"
        )


def bootstrap_cells(
    differences: ArrayLike, *, seed: int = 0, resamples: int = RESAMPLES, level: float = 0.95
) -> Bootstrap:
    """Resample the cells of paired differences ``(cells,)``. One seed gives one set of cell draws.

    So comparisons made with one seed share their resamples, and CI(-d) = -CI(d) exactly.
    """
    _check(resamples, level)
    found = vector(differences, "bootstrap")
    draws = np.random.default_rng(seed).integers(0, found.size, size=(resamples, found.size))
    means = found[draws].mean(axis=1)
    ci = percentile_interval(means, level)
    return Bootstrap(exact_mean(found), ci, level, int(np.sum(means <= TIE)), resamples, seed)


def _rate(weights: Array, seeds: Sequence[Ratio]) -> Array:
    """Mean over seeds of the weighted rate, ``(resamples,)``; NaN where a denominator is 0."""
    total = np.zeros(weights.shape[0])
    for ratio in seeds:
        bottom = weights @ ratio.bottom
        total += np.divide(weights @ ratio.top, bottom, out=np.full(bottom.shape, np.nan), where=bottom > 0)
    return total / len(seeds)


def _cell_differences(cell: TaskCell, rng: np.random.Generator, resamples: int) -> Array:
    """Difference of one cell under ``resamples`` draws of its tasks with replacement."""
    tasks = cell.target[0].bottom.size
    step = max(1, _CHUNK // tasks)
    parts = []
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        draws = rng.integers(0, tasks, size=(size, tasks)) + np.arange(size)[:, None] * tasks
        weights = np.bincount(draws.ravel(), minlength=size * tasks).reshape(size, tasks).astype(np.float64)
        parts.append(_rate(weights, cell.target) - _rate(weights, cell.other))
    return np.concatenate(parts)


def two_level(
    cells: Sequence[TaskCell], *, seed: int = 0, resamples: int = RESAMPLES, level: float = 0.95
) -> Bootstrap:
    """Resample tasks within each cell, then cells. Both methods see the same task draws.

    A rate without a denominator in a draw (no Real success drawn) is left out of that draw's mean and
    counted, and a draw in which no cell has a value is left out of ``resamples``. A cell without a rate
    on its own panel is an InputError.
    """
    _check(resamples, level)
    if not cells:
        raise InputError("two-level bootstrap: no cells; give the task outcomes of at least one")
    for number, cell in enumerate(cells):
        sizes = {side.size for ratio in (*cell.target, *cell.other) for side in (ratio.top, ratio.bottom)}
        if len(sizes) != 1 or 0 in sizes:
            raise InputError(
                f"two-level bootstrap: cell {number} has panels of sizes {sorted(sizes)}; give one panel"
            )
    point = vector([_point(cell) for cell in cells], "two-level bootstrap")
    rng = np.random.default_rng(seed)
    values = np.stack([_cell_differences(cell, rng, resamples) for cell in cells], axis=1)
    drawn = np.take_along_axis(values, rng.integers(0, len(cells), size=values.shape), axis=1)
    known = ~np.isnan(drawn)
    counts = known.sum(axis=1)
    used = counts > 0
    means = np.where(known, drawn, 0.0).sum(axis=1)[used] / counts[used]
    return Bootstrap(
        mean_difference=exact_mean(point),
        ci=percentile_interval(means, level),
        level=level,
        r=int(np.sum(means <= TIE)),
        resamples=means.size,
        seed=seed,
        undefined=int((~known).sum()),
    )


def _point(cell: TaskCell) -> float:
    """Difference of one cell on its panel as it is; NaN where a rate has no denominator."""
    whole = np.ones((1, cell.target[0].bottom.size))
    return float((_rate(whole, cell.target) - _rate(whole, cell.other))[0])
