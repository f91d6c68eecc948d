"""Registers ``wmlab_grpo`` with verl: ``VERL_USE_EXTERNAL_MODULES=wmlab.training.verl_plugin``.

GRPO's group-normalised advantage with this project's three differences (metrics.md 5): a failed reward (NaN) leaves
its group's mean and standard deviation and has advantage 0, the standard deviation has a floor, and too many
failures stop the run. ``WMLAB_GRPO`` holds ``{"std_floor": …, "max_failed": …}`` as JSON.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from wmlab.errors import InputError, ModelFailure
from wmlab.training.advantage import advantages
from wmlab.training.verl_settings import SETTINGS


def wmlab_grpo(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    index: NDArray[Any],
    config: Any = None,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Advantages and returns, both (samples, tokens); ``index`` (samples,) says whose prompt a sample is of.

    Raises ModelFailure when more rewards failed than may.
    """
    try:
        settings = json.loads(os.environ[SETTINGS])
        floor, most = float(settings["std_floor"]), float(settings["max_failed"])
    except (KeyError, ValueError, TypeError):
        raise InputError(f"{SETTINGS}: not set to std_floor and max_failed; use the launch script") from None
    rewards = token_level_rewards.sum(dim=-1).tolist()
    failed = sum(not np.isfinite(reward) for reward in rewards)
    if failed > most * len(rewards):
        raise ModelFailure(
            f"{failed} of {len(rewards)} rewards failed, more than {most:.0%}; check the reference agent"
        )
    groups: dict[Any, list[int]] = defaultdict(list)
    for at, name in enumerate(index):
        groups[name].append(at)
    values = torch.zeros(len(rewards), dtype=torch.float32)
    for members in groups.values():
        known = [rewards[at] if np.isfinite(rewards[at]) else None for at in members]
        values[members] = torch.tensor(advantages(known, floor), dtype=torch.float32)
    found = values[:, None] * response_mask
    return found, found


def _register() -> None:
    from importlib.util import find_spec

    if find_spec("verl") is None:  # imported outside verl's environment
        return
    from verl.trainer.ppo.core_algos import register_adv_est

    register_adv_est("wmlab_grpo")(wmlab_grpo)


_register()
