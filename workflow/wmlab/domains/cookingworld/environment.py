"""CookingWorld (TextWorldExpress) behind the Environment protocol.

The papers use this domain for a metric's transfer test only (memwm.txt B.9) and publish no format. The
first observation is the task, the room and, as in the TextWorld corpora, ``AVAILABLE ACTIONS: a, b``
(sorted; the engine's own order is a hash table's); later ones are the engine's text as it is.
"""

from __future__ import annotations

import json
import re
from typing import Any

from wmlab.domains.actions import normalise_action
from wmlab.domains.base import SUCCESS_MARKER, Observation, Step, Task
from wmlab.domains.cookingworld.kitchen import Kitchen
from wmlab.domains.java import Lease, jar_of
from wmlab.domains.replaying import replayed
from wmlab.errors import EnvironmentFailure, InputError

DOMAIN = "cookingworld"
GAME = "cookingworld"
PREFIX = "cookingworld_"
ADMISSIBLE_PREFIX = "\nAVAILABLE ACTIONS: "
OPTIONS = ("-Xmx128m", "-Xmn48m")
FOLDS = {"train": 0, "dev": 10_000, "test": 20_000}
FOLD_SIZE = 1000
PLAN_LIMIT = 120
EPISODES_PER_JVM = 5000
RESIDENT_MB = 500.0
_ID = re.compile(rf"{PREFIX}(\d{{1,6}})")


def seed_of(task_id: str) -> int:
    """The seed of ``cookingworld_N``. Raises InputError on any other id (ids are never paths)."""
    match = _ID.fullmatch(task_id) if task_id.isascii() else None
    if match is None or not any(base <= int(match[1]) < base + FOLD_SIZE for base in FOLDS.values()):
        raise InputError(
            f"task id {task_id[:80]!r}: not a CookingWorld task; use {PREFIX}N with N a seed of the engine's "
            "folds: 0 to 999 train, 10000 to 10999 validation, 20000 to 20999 test"
        )
    return int(match[1])


def fold_of(seed: int) -> str:
    """The engine's fold that has this seed."""
    return next(fold for fold, base in FOLDS.items() if base <= seed < base + FOLD_SIZE)


class _Game:
    """One game in this process's JVM."""

    def __init__(self, parameters: str, seed: int, gold: bool) -> None:
        self.lease = Lease(
            jar_of("textworld_express", "textworld-express.jar"), OPTIONS, EPISODES_PER_JVM, RESIDENT_MB
        )
        self.parameters, self.seed = parameters, seed
        self.lease.episode()
        with self.lease.jvm.calling("CookingWorld"):
            self._server = self.lease.jvm.api.textworldexpress.runtime.PythonInterface()
            problem = str(self._server.load(GAME, parameters))
            if problem:
                self.lease.close()
                raise InputError(f"domain cookingworld: {problem.strip()}")
            self.state = self._parse(self._server.generateNewGameJSON(seed, fold_of(seed), gold))
            self.task = str(self._server.getTaskDescription())
            self.gold = [str(action) for action in self._server.getGoldActionSequence()] if gold else []

    @staticmethod
    def _parse(answer: str) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(answer)
        return state

    @property
    def done(self) -> bool:
        return bool(self.state["tasksuccess"] or self.state["taskfailure"] or self.state["score"] >= 1)

    @property
    def admissible(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.state["validActions"])))

    def act(self, command: str) -> str:
        if not self.lease.usable:
            raise EnvironmentFailure("CookingWorld: the JVM has ended")
        with self.lease.jvm.calling("CookingWorld"):
            self.state = self._parse(self._server.stepJSON(command))
        return str(self.state["observation"])

    def close(self) -> None:
        self._server = None
        self.lease.close()


class CookingWorldEnvironment:
    """One game at a time. ``every_step`` lists the admissible commands after each step too."""

    task_type = GAME
    privileged = None

    def __init__(self, parameters: str, *, every_step: bool = False, expert: bool = False) -> None:
        self.parameters = parameters
        self.every_step = every_step or expert
        self.plans = expert
        self._game: _Game | None = None
        self._played: list[tuple[str, str]] = []
        self._task: Task | None = None
        self._plan: list[str] | None = None
        self._done = True

    def load(self, task_id: str) -> Task:
        """The task behind an id: its goal and initial observation, from the game itself."""
        observation = self._start(task_id)
        self._task = Task(task_id, DOMAIN, self._now.task, observation.text)
        return self._task

    def reset(self, task: Task) -> Observation:
        """Start the task. Raises EnvironmentFailure when the game differs from the frozen task."""
        observation = self._start(task.task_id)
        task.check(observation.text)
        self._task = task
        return observation

    @property
    def _now(self) -> _Game:
        if self._game is None:
            raise EnvironmentFailure("no episode; call reset first")
        return self._game

    def _start(self, task_id: str) -> Observation:
        seed = seed_of(task_id)
        self.close()
        game = self._game = _Game(self.parameters, seed, self.plans)
        self._played, self._done = [], False
        self._plan = list(game.gold) if self.plans else None
        text = f"{game.task}\n{game.state['observation']}{ADMISSIBLE_PREFIX}{', '.join(game.admissible)}"
        return Observation(text, game.admissible)

    def step(self, action: str) -> Step:
        """Send one command. Raises EnvironmentFailure after the end or when the engine fails."""
        if self._done:
            raise EnvironmentFailure("step after the end of the episode; call reset first")
        game = self._now
        command = normalise_action(action)
        before = float(game.state["score"])
        text = game.act(command)
        self._done = game.done
        success = bool(game.state["tasksuccess"])
        text += SUCCESS_MARKER if success else ""
        self._played.append((command, text))
        if self._plan is not None:
            # On the plan: go on. Off it: think anew when asked.
            self._plan = self._plan[1:] if self._plan[:1] == [command] else None
        return Step(
            text,
            float(game.state["score"]) - before,
            self._done,
            success,
            game.admissible if self.every_step else None,
        )

    def expert(self) -> list[str]:
        """The engine's gold path while on it; after a detour a plan of our own, tried out in a replay.

        [] when that plan does not end in success, e.g. because an ingredient was eaten.
        """
        if not self.plans or self._done:
            return []
        if self._plan is None:
            self._plan = self._replan()
        return list(self._plan)

    def _replan(self) -> list[str]:
        kitchen = Kitchen()
        twin = _Game(self.parameters, self._now.seed, False)
        try:
            kitchen.read("", str(twin.state["observation"]))
            for command, _ in self._played:
                kitchen.read(command, twin.act(command))
            kitchen.stale = False
            plan: list[str] = []
            while not twin.done and len(plan) < PLAN_LIMIT:
                step = kitchen.next()
                if step is None:
                    break
                plan.append(step[1])
                kitchen.read(step[1], twin.act(step[1]))
            return plan if twin.state["tasksuccess"] else []
        finally:
            twin.close()

    def fork(self) -> CookingWorldEnvironment:
        """An independent game at this point, by replaying the commands (the engine cannot copy)."""
        if self._task is None:
            raise EnvironmentFailure("no episode; call reset first")
        twin = CookingWorldEnvironment(self.parameters, every_step=self.every_step, expert=self.plans)
        return replayed(twin, self._task, self._played)

    def close(self) -> None:
        """Give the JVM back; it ends with this process at the latest."""
        if self._game is not None:
            self._game.close()
            self._game = None
