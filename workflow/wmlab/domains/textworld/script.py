"""How to act in tw-simple from text alone: issue the commands the goal's sentences ask for, in order."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from wmlab.domains.textworld.goals import goal_part, read_goal

SYSTEM_PROMPT = (
    "You act in a text adventure. Each turn you read what happened and answer with exactly two parts,\n"
    "Thought:\n<the goal step you are working on>\n\nAction:\n<one command>\n"
    "Give a single command of the game, such as look, open box, take key from box, go north."
)
COMMON = ("look", "inventory", "go north", "go south", "go east", "go west")
RETRIES = 2
_REFUSED = re.compile(
    r"\b(?:can't|cannot|have to|isn't|aren't|doesn't|don't|not a verb|already|no such|what do you want|not open|locked)\b",
    re.IGNORECASE,
)
_DIRECTIONS = ("north", "south", "east", "west")


class Script:
    """Where one episode stands in its goal."""

    def __init__(self, first_observation: str) -> None:
        self.clauses = read_goal(goal_part(first_observation))
        self.position = 0
        self.failures = 0

    def read(self, observation: str) -> None:
        """A refused command is tried again, up to RETRIES times; anything else counts as done."""
        worked = not _REFUSED.search(observation.strip().split("\n", 1)[0])
        self.failures = 0 if worked else self.failures + 1
        if worked or self.failures > RETRIES:
            self.skip()

    def next(self) -> tuple[str, str] | None:
        """The present sentence of the goal and its command."""
        if self.position >= len(self.clauses):
            return None
        clause = self.clauses[self.position]
        return clause.sentence, clause.command

    def idle(self) -> str:
        """Looking costs a turn and changes nothing."""
        return "look"

    def skip(self) -> None:
        """Go on to the next sentence."""
        self.position += 1
        self.failures = 0

    def wander(self, rng: np.random.Generator, harmless: bool) -> str:
        """Look around; or also walk off, close or drop something that the goal names."""
        options = ["look", "inventory"]
        if self.clauses:
            clause = self.clauses[int(rng.integers(len(self.clauses)))]
            thing = re.sub(r"^\w+ ", "", clause.command)
            thing = thing.split(" with ")[0].split(" from ")[0].split(" on ")[0]
            options.append(f"examine {thing}")
            if not harmless:
                options += [f"go {_DIRECTIONS[int(rng.integers(4))]}", f"close {thing}", f"drop {thing}"]
        return options[int(rng.integers(len(options)))]


def candidates(observations: Sequence[str], actions: Sequence[str] = ()) -> list[str]:
    """The commands the goal asks for, then the common ones."""
    commands = [clause.command for clause in read_goal(goal_part(observations[0]))]
    return list(dict.fromkeys([*commands, *COMMON]))
