"""ITP-I: imagine, then plan (Liu et al. 2026; memwm.txt's baseline ITP, its training-free variant).

A decision chooses its own horizon; the agent is then imagined to act as it would for that many steps, and acts after
reflecting on that future. Horizon 0 acts at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from wmlab.agents.base import Turn
from wmlab.agents.planning.requests import Act, Horizon, Imagine, Imagined, Path, Plan, Reflect, Thinking


@dataclass(frozen=True)
class Itp:
    """``depth`` is the longest horizon; without ``adaptive`` it is always that."""

    depth: int = 5
    adaptive: bool = True

    def __call__(self, turn: Turn) -> Thinking:
        """One decision."""
        horizon = self.depth
        if self.adaptive:
            horizon = yield Horizon(turn, self.depth)
        future: Path = ()
        while len(future) < horizon and not (future and future[-1].terminal):
            intended: str = yield Act(turn, future)
            if not intended:
                break
            states: list[Imagined] = yield Imagine(turn, (intended,), future)
            future = (*future, states[0])
        action: str = yield Reflect(turn, future) if future else Act(turn)
        steps = [
            {"action": one.action, "prediction": one.observation, "success": one.success} for one in future
        ]
        return Plan(action, {"kind": "itp", "horizon": horizon, "future": steps})
