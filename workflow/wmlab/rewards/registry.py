"""Rewards by name, for the embedded trainer, offline scoring and verl alike."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from wmlab.errors import InputError
from wmlab.rewards import actions, mixed
from wmlab.rewards.base import Reward
from wmlab.rewards.behr import SHAPES, BehaviourConsistency
from wmlab.rewards.reference import ReferenceAgent
from wmlab.rewards.surface import SURFACE, SurfaceReward

NAMES = (*SHAPES, *SURFACE, *mixed.NAMES, *actions.NAMES)
_PARAMETERS = {
    **{name: {"scale"} for name in SHAPES},
    **mixed.PARAMETERS,
    "multi_action_behr": {"scale", "actions"},
}


def needs_reference(name: str) -> bool:
    """Whether a reward asks the reference agent."""
    return check_reward(name) not in SURFACE


def check_reward(name: str) -> str:
    """Return the name, or raise InputError with the near match."""
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(NAMES)}"
        raise InputError(f"reward {name!r}: not known; {hint}")
    return name


def make_reward(
    name: str, parameters: dict[str, float], reference: Callable[[], ReferenceAgent] | None
) -> Reward:
    """Build a reward. ``reference`` is called only when the reward needs it.

    Raises InputError for an unknown name or parameter, or a missing reference agent.
    """
    check_reward(name)
    allowed = _PARAMETERS.get(name, set())
    unknown = sorted(set(parameters) - allowed)
    if unknown:
        raise InputError(f"reward {name}: unknown parameters {unknown}; it takes {sorted(allowed) or 'none'}")
    if name in SURFACE:
        return SurfaceReward(name)
    if reference is None:
        raise InputError(f"reward {name}: needs a reference agent; give --reference MODEL")
    if name == "acs":
        return actions.ActionConsistency(reference())
    if name == "multi_action_behr":
        return actions.MultiActionConsistency(reference(), **parameters)
    if name in mixed.NAMES:
        return mixed.make_mixed(name, reference(), **parameters)
    return BehaviourConsistency(reference(), name, **parameters)
