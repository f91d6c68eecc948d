"""RAP: Monte Carlo tree search over imagined states (Hao et al. 2023; memwm.txt's baseline).

One search a decision. An iteration selects a leaf by UCT, expands it with actions proposed for its own state, rates
the new steps, simulates from the best of them by the policy's own proposals to the depth limit or a terminal state,
and adds the discounted return to every node of the path. A node's value is the mean of the returns that passed it,
so every iteration counts once in the root: visits sum to the budget.

``itp_compat`` gives the quirks that published re-implementations show: actions are proposed once, at the root, for
all depths; a terminal state is searched on as any other; a node keeps its step's own rating instead of the returns.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from wmlab.agents.base import Turn
from wmlab.agents.planning.requests import (
    Act,
    Candidate,
    Imagine,
    Imagined,
    Path,
    Plan,
    Propose,
    Rate,
    Request,
    Thinking,
)

WIN = 1.0
"""Reward of a step that the simulator calls a success; a rating is at most this."""


@dataclass
class Node:
    """An imagined step (None at the root), its rating, and the returns of the iterations that passed it."""

    step: Imagined | None
    reward: float
    prior: float = 0.0
    depth: int = 0
    visits: int = 0
    total: float = 0.0
    children: list[Node] | None = field(default=None, repr=False)  # None: not expanded

    @property
    def value(self) -> float:
        """Mean return from here on, this step's reward included; its rating before any visit."""
        return self.total / self.visits if self.visits else self.reward

    @property
    def terminal(self) -> bool:
        """Whether the episode ends with this step."""
        return self.step is not None and self.step.terminal


@dataclass(frozen=True)
class Rap:
    """``iterations`` is the budget; ``depth`` the most imagined steps; ``exploration`` UCT's weight."""

    iterations: int = 10
    candidates: int = 5
    depth: int = 5
    exploration: float = 1.0
    discount: float = 0.95
    itp_compat: bool = False

    def __call__(self, turn: Turn) -> Thinking:
        """One decision: search, then the child of the root with the most visits (ties: the larger value)."""
        root = yield from self.search(turn)
        if not root.children:
            action: str = yield Act(turn)
            return Plan(action, {"kind": "act"})
        best = max(root.children, key=lambda node: (node.visits, node.value, node.prior))
        trace = {
            "kind": "rap",
            "options": [
                {
                    "action": node.step.action,
                    "prior": node.prior,
                    "prediction": node.step.observation,
                    "success": node.step.success,
                    "value": node.value,
                    "visits": node.visits,
                }
                for node in root.children
                if node.step is not None
            ],
            "chosen": root.children.index(best),
        }
        assert best.step is not None
        return Plan(best.step.action, trace)

    def search(self, turn: Turn) -> Generator[Request, Any, Node]:
        """The tree after all iterations. An iteration ends early only where the root has no action."""
        root = Node(None, 0.0)
        shared: list[Candidate] | None = None
        if self.itp_compat:
            shared = yield Propose(turn, self.candidates)
        for _ in range(self.iterations):
            path = self._select(root)
            leaf = path[-1]
            if self._open(leaf):
                yield from self._expand(turn, path, shared)
                if leaf is root and not root.children:
                    return root
                if leaf.children:
                    path.append(max(leaf.children, key=lambda node: (node.reward, node.prior)))
            future = yield from self._simulate(turn, path, shared)
            self._back(path, future)
        return root

    def _open(self, node: Node) -> bool:
        ended = node.terminal and not self.itp_compat
        return node.children is None and not ended and node.depth < self.depth

    def _select(self, root: Node) -> list[Node]:
        path = [root]
        while path[-1].children:
            parent = path[-1]
            weight = self.exploration * math.sqrt(math.log(max(parent.visits, 1)))
            path.append(
                max(
                    parent.children or (),
                    key=lambda node: (
                        node.value + weight / math.sqrt(node.visits + 1),
                        node.prior,
                    ),
                )
            )
        return path

    def _expand(
        self, turn: Turn, path: Sequence[Node], shared: list[Candidate] | None
    ) -> Generator[Request, Any, None]:
        leaf, steps = path[-1], _steps(path)
        found = shared
        if found is None:
            found = yield Propose(turn, self.candidates, steps)
        leaf.children = []
        if found:
            states: list[Imagined] = yield Imagine(turn, tuple(one.action for one in found), steps)
            rated: list[float] = yield Rate(turn, tuple(states), tuple(one.prior for one in found), steps)
            leaf.children = [
                Node(state, _reward(state, value), one.prior, leaf.depth + 1)
                for one, state, value in zip(found, states, rated, strict=True)
            ]

    def _simulate(
        self, turn: Turn, path: Sequence[Node], shared: list[Candidate] | None
    ) -> Generator[Request, Any, float]:
        """The return after the path's end when the policy's first proposal is followed."""
        steps, value, weight = _steps(path), 0.0, self.discount
        while len(steps) < self.depth and not (steps and steps[-1].terminal):
            found = shared
            if found is None:
                found = yield Propose(turn, 1, steps)
            if not found:
                break
            states: list[Imagined] = yield Imagine(turn, (found[0].action,), steps)
            rated: list[float] = yield Rate(turn, tuple(states), (found[0].prior,), steps)
            value += weight * _reward(states[0], rated[0])
            weight *= self.discount
            steps = (*steps, states[0])
        return value

    def _back(self, path: Sequence[Node], future: float) -> None:
        """Add the return to every node of the path, from its end."""
        value = future
        for node in reversed(path):
            value = node.reward + (value if node is path[-1] else self.discount * value)
            node.visits += 1
            node.total += node.reward if self.itp_compat else value


def _reward(step: Imagined, rating: float) -> float:
    """A success is worth a win; a rating counts for progress, and is never as good."""
    return WIN if step.success else 0.0 if step.done else rating * WIN / 10


def _steps(path: Sequence[Node]) -> Path:
    return tuple(node.step for node in path if node.step is not None)
