"""A text-only agent that reads the goal and follows it, exactly or with noise.

It never sees game state: it reads the goal in the first observation, issues the commands that the
sentences ask for, and looks at each answer to decide whether the command worked. Noise makes it
wander: with probability ``epsilon`` a turn is spent on some other command, which may move it off its
route, and half of those times it also takes the present step of the goal for done. ``harmless`` noise
(for demonstrations) only looks around. All draws are seeded by (seed, first observation, turn), so
that Real and WM runs of one task meet the same noise.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from wmlab.agents.base import Decision, Turn
from wmlab.agents.react import SYSTEM_PROMPTS, format_output
from wmlab.domains.textworld.goals import Clause, goal_part, read_goal

RETRIES = 2
_REFUSED = re.compile(
    r"\b(?:can't|cannot|have to|isn't|aren't|doesn't|don't|not a verb|already|no such|what do you want|not open|locked)\b",
    re.IGNORECASE,
)
_DIRECTIONS = ("north", "south", "east", "west")


class ScriptedAgent:
    """Follows the clauses of the goal; ``epsilon`` is the share of turns spent on another command."""

    def __init__(
        self, domain: str = "textworld", *, epsilon: float = 0.0, harmless: bool = False, seed: int = 0
    ) -> None:
        self.epsilon = epsilon
        self.harmless = harmless
        self.seed = seed
        self._system = SYSTEM_PROMPTS[domain]
        self._plans: dict[str, _Plan] = {}

    @property
    def system_prompt(self) -> str:
        """The prompt that the episode record starts with."""
        return self._system

    def left(self, key: str, turn: int) -> bool:
        """It acts as long as the episode runs."""
        return True

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        """One decision a turn."""
        return [self._decide(turn) for turn in turns]

    def finish(self, keys: Sequence[str]) -> None:
        """Forget finished episodes."""
        for key in keys:
            self._plans.pop(key, None)

    def _decide(self, turn: Turn) -> Decision:
        observations = [message["content"] for message in turn.messages if message["role"] == "user"]
        plan = self._plans.get(turn.key)
        if plan is None or plan.turn > len(observations):
            plan = self._plans[turn.key] = _Plan(observations[0], self.seed)
        for observation in observations[plan.turn :]:
            plan.read(observation)
        clause = plan.choose(self.epsilon, self.harmless)
        return Decision(
            format_output(clause.command, clause.sentence), clause.command, deliberate=bool(plan.pending)
        )


class _Plan:
    """Where one episode stands in its goal."""

    def __init__(self, first_observation: str, seed: int) -> None:
        self.clauses = read_goal(goal_part(first_observation))
        self.position = 0
        self.failures = 0
        self.turn = 0
        self.pending: bool | None = None  # whether the last command was a clause of the goal
        digest = hashlib.sha256(f"{seed}\0{first_observation}".encode()).digest()
        self._entropy = int.from_bytes(digest[:8], "little")

    def read(self, observation: str) -> None:
        """Take in the answer to the last command."""
        self.turn += 1
        if self.pending is None:
            return
        if self.pending:
            worked = not _REFUSED.search(observation.strip().split("\n", 1)[0])
            self.failures = 0 if worked else self.failures + 1
            if worked or self.failures > RETRIES:
                self.position += 1
                self.failures = 0

    def choose(self, epsilon: float, harmless: bool) -> Clause:
        """The next command: the goal's, a wandering one, or ``look`` when the goal is used up."""
        rng = np.random.default_rng((self._entropy, self.turn))
        if self.clauses and rng.random() < epsilon:
            self.pending = False
            if not harmless and rng.random() < 0.5:
                self.position += 1
            return Clause("Something else first.", self._wander(rng, harmless))
        if self.position < len(self.clauses):
            self.pending = True
            return self.clauses[self.position]
        self.pending = False
        return Clause("Nothing is left to do.", "look")

    def _wander(self, rng: np.random.Generator, harmless: bool) -> str:
        clause = self.clauses[int(rng.integers(len(self.clauses)))]
        thing = re.sub(r"^\w+ ", "", clause.command).split(" with ")[0].split(" from ")[0].split(" on ")[0]
        options = ["look", "inventory", f"examine {thing}"]
        if not harmless:
            options += [f"go {_DIRECTIONS[int(rng.integers(4))]}", f"close {thing}", f"drop {thing}"]
        return options[int(rng.integers(len(options)))]
