"""ScienceWorld behind the Environment protocol, with the observation text of the papers' corpora.

The first observation is the task, a line break and the answer to ``look around`` (which takes a step, as
in AgentGym's server); later ones are the simulator's answers as they are. No action list is shown.
Success is score 100; a negative score ends the episode in failure (formats.md 7.4, metrics.md 1).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from wmlab.domains.actions import normalise_action
from wmlab.domains.base import SUCCESS_MARKER, Observation, Step, Task
from wmlab.domains.replaying import replayed
from wmlab.domains.scienceworld.engine import Engine
from wmlab.domains.scienceworld.gold import gold_path
from wmlab.domains.scienceworld.tasks import parse
from wmlab.domains.scienceworld.text import is_refusal, menu_options, plausible
from wmlab.domains.scienceworld.walk import Walk
from wmlab.errors import EnvironmentFailure

DOMAIN = "scienceworld"


class ScienceWorldEnvironment:
    """One episode at a time. ``every_step`` lists plausible actions after each step, ``exact`` all valid ones.

    ``counts`` says what the episodes so far met: ``menus``, ``refused`` actions, ``lost`` tasks (negative
    score), ``unfinished`` gold paths, gold paths ``left`` (expert lost after a detour).
    """

    def __init__(
        self,
        cache_dir: str | Path,
        *,
        simplification: str = "",
        every_step: bool = False,
        exact: bool = False,
        expert: bool = False,
    ) -> None:
        self.cache_dir = Path(cache_dir)
        self.simplification = simplification
        self.every_step = every_step or expert
        self.exact = exact
        self.plans = expert
        self.counts: Counter[str] = Counter()
        self._engine: Engine | None = None
        self._pair: tuple[str, int] | None = None
        self._task: Task | None = None
        self._played: list[tuple[str, str]] = []
        self._menu: dict[str, str] = {}
        self._walk: Walk | None = None
        self._privileged: dict[tuple[str, int], str] = {}
        self._score = 0
        self._done = True

    def load(self, task_id: str) -> Task:
        """The task behind an id. Raises InputError for an unknown id."""
        first = self._start(task_id)
        self._task = Task(task_id, DOMAIN, self._world.description(), first)
        return self._task

    def reset(self, task: Task) -> Observation:
        """Start the task. Raises EnvironmentFailure when its first observation differs from the frozen one."""
        first = self._start(task.task_id)
        task.check(first)
        self._task = task
        return Observation(first, self.admissible())

    @property
    def _world(self) -> Engine:
        if self._engine is None or self._pair is None:
            raise EnvironmentFailure("no episode; call reset first")
        return self._engine

    @property
    def _now(self) -> tuple[str, int]:
        if self._pair is None:
            raise EnvironmentFailure("no episode; call reset first")
        return self._pair

    @property
    def task_type(self) -> str:
        """The task's name, e.g. ``find-animal``."""
        return self._now[0]

    @property
    def score(self) -> int:
        """Score so far, 0 to 100, or -100."""
        return self._score

    def _start(self, task_id: str) -> str:
        pair = parse(task_id)
        if self._engine is None or not self._engine.usable:
            self.close()
            self._engine = Engine()
        engine = self._engine
        self._pair, self._played, self._menu, self._walk = pair, [], {}, None
        self._score, self._done = 0, False
        gold = None
        if self.plans:
            gold = gold_path(self.cache_dir, engine, *pair, self.simplification)
            self.counts["unfinished"] += not gold.finished
        engine.load(*pair, self.simplification)
        description = engine.description()
        first = f"{description}\n{engine.act('look around').text}"
        if gold is not None:
            self._walk = Walk(gold, first)
        return first

    def admissible(self) -> tuple[str, ...]:
        """Actions to try now: a menu's numbers, else plausible ones, or with ``exact`` all valid ones."""
        if self._menu:
            return tuple(self._menu)
        if self.exact:
            return tuple(self._world.valid_actions())
        return plausible(self._world.look(), self._world.objects())

    def step(self, action: str) -> Step:
        """One action. Raises EnvironmentFailure after the end or when the simulator fails."""
        if self._done:
            raise EnvironmentFailure("step after the end of the episode; call reset first")
        command = normalise_action(action)
        answer = self._world.act(command)
        self._menu = menu_options(answer.text)
        reward = float(answer.score - self._score)
        self._score = answer.score
        success = answer.score == 100
        self._done = success or answer.completed or answer.score < 0
        self.counts["menus"] += bool(self._menu)
        self.counts["refused"] += is_refusal(answer.text)
        self.counts["lost"] += answer.score < 0
        if self._walk is not None:
            before = self._walk.lost
            self._walk.record(command, answer.text)
            self.counts["left"] += self._walk.lost and not before
        admissible = self.admissible() if self.every_step and not self._done else None
        if self.every_step and self._done:
            admissible = ()
        text = answer.text + (SUCCESS_MARKER if success else "")
        self._played.append((command, text))
        return Step(text, reward, self._done, success, admissible)

    def expert(self) -> list[str]:
        """The frozen gold path from here on, after undoing detours where possible; [] when it is lost."""
        if self._walk is None or self._done:
            return []
        return self._walk.remaining()

    @property
    def privileged(self) -> str:
        """Subgoals, action templates and what each room holds, as Word2World's contexts have it.

        As there, places that cannot be teleported to repeat the room before them (formats.md 1.3). The
        text is made in an episode of its own, on first use.
        """
        pair = self._now
        if pair not in self._privileged:
            engine = Engine()
            try:
                self._privileged[pair] = _describe(engine, *pair)
            finally:
                engine.close()
        return self._privileged[pair]

    def fork(self) -> ScienceWorldEnvironment:
        """An independent episode at this point, by replaying the actions in it (the simulator cannot copy)."""
        if self._task is None:
            raise EnvironmentFailure("no episode; call reset first")
        twin = ScienceWorldEnvironment(self.cache_dir, simplification=self.simplification, expert=self.plans)
        twin.every_step = False  # nobody reads the lists on the way
        replayed(twin, self._task, self._played)
        twin.every_step, twin.exact = self.every_step, self.exact
        twin.counts.clear()
        return twin

    def close(self) -> None:
        """Give the JVM back; it ends with this process at the latest."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None


def _describe(engine: Engine, task: str, variation: int) -> str:
    engine.load(task, variation, "teleportAction")
    engine.act("look around")
    parts = [f"\n=== Goal Progress ===\n{engine.progress()}\n", "\n=== Possible Actions ===\n"]
    parts += [f" - {template}\n" for template in engine.templates()]
    parts.append("\n=== Per-Room Observations ===\n")
    for room in engine.rooms():
        engine.act(f"teleport {room}")
        things = ", ".join(engine.objects())
        parts.append(f"== Room: {room} ==\n{engine.look().strip()}\n")
        parts.append(f"Possible Objects: {things or '(none)'}\n\n")
    return "".join(parts)
