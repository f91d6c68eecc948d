"""ALFWorld behind the Environment protocol, with the observation text of the papers' corpora.

At reset: the room and the task without the engine's banner, paragraphs joined by one newline, then
``AVAILABLE ACTIONS: a,b,c`` (commas without spaces). Later: the engine's text alone (formats.md 2.4, 7.3).
Success is the engine's ``won``; reward is 1 on that step.
"""

from __future__ import annotations

from wmlab.domains.actions import normalise_action
from wmlab.domains.alfworld.games import Record
from wmlab.domains.alfworld.planner import Planner
from wmlab.domains.alfworld.privileged import describe
from wmlab.domains.alfworld.sources import Source
from wmlab.domains.alfworld.world import Game, World, read_game
from wmlab.domains.base import SUCCESS_MARKER, Observation, Step, Task
from wmlab.errors import EnvironmentFailure

DOMAIN = "alfworld"
ADMISSIBLE_PREFIX = "\nAVAILABLE ACTIONS: "


class AlfworldEnvironment:
    """One household at a time. ``every_step`` lists the admissible commands after each step too."""

    def __init__(
        self, source: Source, dialect: str, *, every_step: bool = False, expert: bool = False
    ) -> None:
        self.source = source
        self.dialect = dialect
        self.every_step = every_step or expert
        self.plans = expert
        self._record: Record | None = None
        self._game: Game | None = None
        self._planner: Planner | None = None
        self._world: World | None = None
        self._plan: list[str] | None = None

    def load(self, task_id: str) -> Task:
        """The task behind an id: its goal and initial observation, from the game itself."""
        observation = self._start(task_id)
        return Task(task_id, DOMAIN, self._present().game.task, observation.text)

    @property
    def task_type(self) -> str:
        """One of the six task types, e.g. ``pick_heat_then_place_in_recep``."""
        return self._record.task_type if self._record is not None else ""

    @property
    def privileged(self) -> str | None:
        """The world model's description of the present game: contents of everything, switches."""
        return describe(self._game) if self._game is not None else None

    def reset(self, task: Task) -> Observation:
        """Start the task. Raises EnvironmentFailure when the game differs from the frozen task."""
        observation = self._start(task.task_id)
        task.check(observation.text)
        return observation

    def _start(self, task_id: str) -> Observation:
        if self._record is None or self._record.task_id != task_id:
            self._record = self.source.record(task_id)
            self._game = read_game(self._record.problem, self._record.task, self.dialect)
            self._planner = Planner(self._game)
        assert self._game is not None
        self._world = self._game.start()
        self._plan = (self._world.copy().follow(self._record.plan) or None) if self.plans else None
        paragraphs = self._world.opening().split("\n\n")[1:]
        admissible = tuple(self._world.commands())
        return Observation("\n".join(paragraphs) + ADMISSIBLE_PREFIX + ",".join(admissible), admissible)

    def expert(self) -> list[str]:
        """The plan's remaining commands from the present state; [] when none reaches the goal.

        The stored plan is followed as long as the episode is on it; off it, a new plan is made once
        (milliseconds, bounded) and followed in turn.
        """
        if self._plan is None:
            assert self._planner is not None
            self._plan = self._planner.plan(self._present())
        return list(self._plan)

    def step(self, action: str) -> Step:
        """Send one command. Raises EnvironmentFailure before reset and after the end."""
        world = self._present()
        command = normalise_action(action)
        before = dict(world.facts)
        answer = world.act(command)
        if self._plan and command == self._plan[0]:
            self._plan = self._plan[1:]
        elif any(before.get(p) != atoms for p, atoms in world.facts.items() if "checked" not in p):
            self._plan = None  # looking around leaves the plan as it is
        won = world.won()
        admissible = tuple(world.commands()) if self.every_step else None
        if won:
            self._world = None
        return Step(answer + (SUCCESS_MARKER if won else ""), float(won), won, won, admissible)

    def _present(self) -> World:
        if self._world is None:
            raise EnvironmentFailure("no episode is running; call reset first")
        return self._world

    def fork(self) -> AlfworldEnvironment:
        """An independent copy of the episode at this point."""
        twin = AlfworldEnvironment(self.source, self.dialect, every_step=self.every_step, expert=self.plans)
        twin._record, twin._game, twin._planner = self._record, self._game, self._planner
        twin._world = self._present().copy()
        twin._plan = None if self._plan is None else list(self._plan)
        return twin

    def close(self) -> None:
        """Forget the episode; nothing is held outside this object."""
        self._world = None
