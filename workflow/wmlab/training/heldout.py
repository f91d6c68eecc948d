"""Did GRPO raise its own objective on prompts it never trained on? Before against after, paired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wmlab.rewards.base import RewardRecord


def prompt_means(records: Sequence[Sequence[RewardRecord]]) -> list[float | None]:
    """Mean reward per prompt over its samples that have one; None when all failed."""
    means: list[float | None] = []
    for group in records:
        known = [record.reward for record in group if record.reward is not None]
        means.append(float(np.mean(known)) if known else None)
    return means


def compare(
    before: Sequence[float | None], after: Sequence[float | None], seed: int, resamples: int = 10_000
) -> dict[str, Any]:
    """Means and percentile intervals (95 %) of per-prompt rewards (n,), resampled over prompts, pairs kept.

    Prompts without a reward on either side are left out of the pairs and counted.
    """
    pairs = [(b, a) for b, a in zip(before, after, strict=True) if b is not None and a is not None]
    result: dict[str, Any] = {"n": len(pairs), "n_failed": len(before) - len(pairs), "seed": seed}
    if not pairs:
        return {
            **result,
            "before": None,
            "after": None,
            "before_ci": None,
            "after_ci": None,
            "difference_ci": None,
        }
    values = np.asarray(pairs)
    rng = np.random.default_rng(seed)
    draws = values[rng.integers(len(values), size=(resamples, len(values)))].mean(axis=1)

    def interval(sample: np.ndarray) -> list[float]:
        return [float(x) for x in np.percentile(sample, [2.5, 97.5])]

    return {
        **result,
        "before": float(values[:, 0].mean()),
        "after": float(values[:, 1].mean()),
        "before_ci": interval(draws[:, 0]),
        "after_ci": interval(draws[:, 1]),
        "difference_ci": interval(draws[:, 1] - draws[:, 0]),
    }
