"""TextWorld behind the Environment protocol, with the observation text of the papers' corpora.

Observations stay raw: leading newlines, status line after ``>`` and 128 spaces, turn counter.
``AVAILABLE ACTIONS: a, b`` is appended at reset only; `` [SUCCESS]`` to the winning observation
(formats.md 1.1, 2.4). Success is ``won`` with the full score (metrics.md 1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from wmlab.domains.actions import normalise_action
from wmlab.domains.base import SUCCESS_MARKER, Observation, Step, Task
from wmlab.domains.textworld.games import ensure_game, seed_of
from wmlab.errors import EnvironmentFailure

DOMAIN = "textworld"
ADMISSIBLE_PREFIX = "\nAVAILABLE ACTIONS: "
REFUSAL = "That's not a verb I recognise."
# What the interpreter's input line holds; it answers with half a character when one is cut.
_MAX_BYTES = 196
# The interpreter's own commands (help, hot keys) start with a backslash; some print for ever.
_ESCAPE = "\\"
# Commands that reach past the game: files, restarts, the framework's own state printing.
_META = re.compile(
    r"(?:quit|q|restart|restore|save|undo|script|unscript|transcript|verify|version|superbrief|brief|verbose|notify"
    r"|oops|again|g|actions|showme|tree|rules|purloin|gonear|abstract|showverb|trace|test|random|relations|scenes)\b"
    r"|tw-",
    re.IGNORECASE,
)
_NEXT = re.compile(r"[.,;]|\b(?:then|and)\b", re.IGNORECASE)  # what may stand between two commands of a line


def _reaches_past(command: str) -> bool:
    """Whether any command of the line is one of the interpreter's or the framework's."""
    return any(_META.match(part.strip()) for part in _NEXT.split(command))


@contextmanager
def _shared_states() -> Iterator[None]:
    """Copies of an interpreter share the states it has given, of which it changes none: that is most of a copy's time.

    What a step changes (the interpreter's memory, the progress of the quest) is still copied by the framework.
    """
    from textworld.core import GameState

    with patch.object(GameState, "copy", lambda state: GameState(state)):
        yield


class TextWorldEnvironment:
    """One TextWorld game at a time. ``every_step`` lists the admissible commands after each step too."""

    def __init__(self, cache_dir: str | Path, *, every_step: bool = False, expert: bool = False) -> None:
        self.cache_dir = Path(cache_dir)
        self.every_step = every_step or expert
        self.plans = expert
        self._env: Any = None
        self._state: Any = None
        self._done = True

    def load(self, task_id: str) -> Task:
        """The task behind an id: its goal and initial observation, from the game itself."""
        observation = self._start(task_id)
        return Task(task_id, DOMAIN, self.goal, observation.text)

    @property
    def goal(self) -> str:
        """The objective as the game states it."""
        return str(self._state["objective"])

    @property
    def score(self) -> float:
        """Score so far, in points."""
        return float(self._state["score"] or 0)

    @property
    def max_score(self) -> float:
        """Points of a won game."""
        return float(self._state["max_score"] or 0)

    task_type = "tw-simple"
    privileged = None

    def expert(self) -> list[str]:
        """The planner's remaining commands from the present state (``expert`` only); [] when unwinnable."""
        return [str(command) for command in self._state["policy_commands"] or []]

    def reset(self, task: Task) -> Observation:
        """Start the task. Raises EnvironmentFailure when the game differs from the frozen task."""
        observation = self._start(task.task_id)
        task.check(observation.text)
        return observation

    def _start(self, task_id: str) -> Observation:
        import textworld

        path = ensure_game(self.cache_dir, seed_of(task_id))
        self.close()
        infos = textworld.EnvInfos(
            admissible_commands=True,
            score=True,
            max_score=True,
            objective=True,
            policy_commands=self.plans,
        )
        self._env = textworld.start(str(path), infos)
        self._state = self._env.reset()
        self._done = False
        admissible = tuple(self._state["admissible_commands"])
        text = f"{self._state.feedback}{ADMISSIBLE_PREFIX}{', '.join(admissible)}"
        return Observation(text, admissible)

    def step(self, action: str) -> Step:
        """Send one command. Raises EnvironmentFailure after the end or when the interpreter fails."""
        if self._done:
            raise EnvironmentFailure("step after the end of the episode; call reset first")
        command = normalise_action(action).encode()[:_MAX_BYTES].decode(errors="ignore")
        if not command or _ESCAPE in command or _reaches_past(command):
            return self._refuse()
        before = self.score
        try:
            self._state, _, done = self._env.step(command)
        except Exception as error:
            raise EnvironmentFailure(
                f"TextWorld interpreter failed ({type(error).__name__}: {error})"
            ) from error
        won = bool(self._state["won"]) and self.score == float(self._state["max_score"])
        self._done = bool(done)
        text = str(self._state.feedback) + (SUCCESS_MARKER if won else "")
        admissible = tuple(self._state["admissible_commands"]) if self.every_step else None
        return Step(text, self.score - before, self._done, won, admissible)

    def _refuse(self) -> Step:
        """Answer as the game answers an unknown verb: no turn passes."""
        feedback = str(self._state.feedback)
        status = feedback[feedback.rfind("\n>") :] if "\n>" in feedback else ""
        admissible = tuple(self._state["admissible_commands"]) if self.every_step else None
        return Step(f"\n{REFUSAL}\n{status}", 0.0, False, False, admissible)

    def fork(self) -> TextWorldEnvironment:
        """An independent copy of the episode at this point."""
        twin = TextWorldEnvironment(self.cache_dir, every_step=self.every_step, expert=self.plans)
        with _shared_states():
            twin._env, twin._state, twin._done = self._env.copy(), self._state, self._done
        return twin

    def close(self) -> None:
        """Free the interpreter."""
        if self._env is not None:
            self._env.close()
            self._env = None
