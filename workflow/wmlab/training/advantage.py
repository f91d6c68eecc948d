"""Group-normalised advantages of GRPO, the same for the embedded trainer and for verl (metrics.md 5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def advantages(rewards: Sequence[float | None], std_floor: float) -> list[float]:
    """Group-normalised advantages (G,): (r − mean) / max(std, floor), std with ddof 1.

    A failed reward (None) leaves the group's statistics and gets advantage 0; a group with fewer than
    two rewards has no advantage.
    """
    known = [reward for reward in rewards if reward is not None]
    if len(known) < 2:
        return [0.0] * len(rewards)
    mean = float(np.mean(known))
    std = max(float(np.std(known, ddof=1)), std_floor)
    return [0.0 if reward is None else (reward - mean) / std for reward in rewards]
