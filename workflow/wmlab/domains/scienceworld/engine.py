"""The simulator behind one episode: lean steps, exact replays, several episodes in one JVM.

The stock wrapper asks for look, inventory, task description and every valid action after each step, and
records a history of them; here a step is the simulator's own step and nothing else.

Two properties of the simulator are repaired, neither changes what it may print:

- objects sit in hash sets ordered by identity hash, which differs from load to load, so that equal
  actions showed same-named objects in different orders, menus with other numbers, sometimes no steam
  (allenai/ScienceWorld#33). Here they are hashed by their number (``hashing``), and what else is hashed by
  identity gets HotSpot's constant hash: the order of insertion;
- random numbers (wandering animals), object numbers and simplifications are global to the JVM. They are
  swapped when another episode has a turn, and kept as they were by listing objects, which draws random
  numbers too.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wmlab.domains.java import Lease, jar_of
from wmlab.domains.scienceworld.hashing import install
from wmlab.errors import EnvironmentFailure

OPTIONS = (
    "-Xmx1g",
    "-Xmn320m",
    "-XX:+UnlockExperimentalVMOptions",
    "-XX:hashCode=2",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)
EPISODES_PER_JVM = 500
RESIDENT_MB = 1300.0
UNKNOWN = "Unknown action.  Type 'help' for a list of actions, and 'objects' for a list of possible object referents. "
_SPECIAL = ("help", "objects", "task")
_SCRAMBLE = 0x5DEECE66D  # java.util.Random.setSeed stores its argument xor this


@dataclass(frozen=True)
class Answer:
    """What follows an action: ``score`` is 0 to 100, or -100 when the task is lost."""

    text: str
    score: int
    completed: bool


class Engine:
    """One episode in this process's JVM. Every failure is an EnvironmentFailure."""

    def __init__(self) -> None:
        jar = jar_of("scienceworld", "scienceworld.jar")
        self._lease = Lease(jar, OPTIONS, EPISODES_PER_JVM, RESIDENT_MB)
        self._globals: tuple[int, int] | None = None
        self.simplification = ""
        self.score = 0
        jvm = self._lease.jvm
        install(jvm, jar)
        with jvm.calling("start"):
            api = jvm.api
            self._random = getattr(getattr(api.scala.util, "Random$"), "MODULE$").self()
            self._seed = api.java.lang.Class.forName("java.util.Random").getDeclaredField("seed")
            self._seed.setAccessible(True)
            self._numbers = getattr(getattr(api.util, "UniqueIdentifier$"), "MODULE$")
            processor = getattr(api.main.scala.scienceworld.runtime, "SimplifierProcessor$")
            self._simplifier = getattr(processor, "MODULE$")
            self._server = api.scienceworld.runtime.pythonapi.PythonInterface()
        self._agent: Any = None

    @property
    def usable(self) -> bool:
        """Whether another episode can be loaded: the JVM lives and is not due for replacement."""
        return self._lease.usable and not self._lease.due

    @contextlib.contextmanager
    def _turn(self, what: str) -> Iterator[None]:
        """Calls of this episode, with the JVM's globals as this episode left them."""
        jvm = self._lease.jvm
        if not self._lease.usable:
            raise EnvironmentFailure(f"{what}: the JVM has ended")
        with jvm.calling(what):
            if jvm.holder is not self:
                if jvm.holder is not None:
                    jvm.holder._globals = self._seed.get(self._random), self._numbers.count()
                if self._globals is not None:
                    self._simplifier.parseSimplificationStr(self.simplification)
                    self._random.setSeed(self._globals[0] ^ _SCRAMBLE)
                    getattr(self._numbers, "count_$eq")(self._globals[1])
                jvm.holder = self
            yield

    def load(self, task: str, variation: int, simplification: str = "", *, gold: bool = False) -> None:
        """Start a task anew; with ``gold`` the simulator also looks for a solution (0.2 to 10 s)."""
        self._lease.episode()
        self.simplification = simplification
        self.score = 0
        self._globals = None
        with self._turn(f"load {task} {variation}"):
            problem = self._server.load(task, variation, simplification, gold)
            self._agent = self._server.agentInterface().get()
        if problem:
            raise EnvironmentFailure(f"ScienceWorld {task} {variation}: {problem}")

    def act(self, command: str) -> Answer:
        """One action. Raises EnvironmentFailure when the simulator itself fails (its score is then -100)."""
        with self._turn("step"):
            if command.strip().lower() in _SPECIAL:
                return Answer(str(self._server.step(command)), self.score, False)
            # A Scala triple, "(text,score,completed)": one call instead of three.
            answer = str(self._agent.step(command).toString())
            text, number, completed = answer[1:-1].rsplit(",", 2)
            score = float(number)
            if score < 0 and self._agent.isInErrorState():
                raise EnvironmentFailure(f"ScienceWorld failed: {text[:200]}")
        self.score = round(100 * score)
        return Answer(text or UNKNOWN, self.score, completed == "true")

    def description(self) -> str:
        """The task as AgentGym shows it."""
        with self._turn("description"):
            return str(self._server.getTaskDescription())

    def look(self) -> str:
        """The room, without time passing."""
        with self._turn("look"):
            return str(self._agent.freeActionLook())

    def objects(self) -> list[str]:
        """Unambiguous names of what can be referred to here, sorted."""
        with self._turn("objects"), self._same_random():
            return [str(name) for name in self._server.getPossibleObjects()]

    def valid_actions(self) -> list[str]:
        """Every action the simulator would accept (100 to 900 ms, up to thousands of them)."""
        with self._turn("valid actions"), self._same_random():
            return [str(action) for action in self._server.getValidActionObjectCombinations()]

    def gold(self) -> list[str]:
        """The solution found by ``load(gold=True)``."""
        with self._turn("gold"):
            return [str(action) for action in self._server.getGoldActionSequence()]

    def progress(self) -> str:
        """The simulator's table of subgoals."""
        with self._turn("progress"):
            return str(self._server.getGoalProgressStr())

    def templates(self) -> list[str]:
        """Action templates, e.g. ``open OBJ``."""
        with self._turn("templates"):
            return [str(action) for action in self._server.getPossibleActions()]

    def rooms(self) -> list[str]:
        """Names of what the world contains at its top level, in the simulator's order."""
        with self._turn("rooms"), tempfile.TemporaryDirectory() as folder:
            problem = self._server.getObjectTree(folder)
            if problem:
                raise EnvironmentFailure(f"ScienceWorld object tree: {problem}")
            tree = json.loads((Path(folder) / "objectTree.json").read_text(encoding="utf-8"))
        return [str(entry["name"]) for entry in tree.get("contents", {}).values() if entry.get("name")]

    def counts(self) -> dict[str, int]:
        """Number of variations of each task."""
        with self._turn("counts"):
            names = [str(name) for name in self._server.getTaskNames()]
            return {name: int(self._server.getTaskMaxVariations(name)) for name in names}

    def splits(self) -> dict[str, list[int]]:
        """Variations of the loaded task in the simulator's own train, dev and test split."""
        with self._turn("splits"):
            server = self._server
            parts = (server.getVariationsTrain(), server.getVariationsDev(), server.getVariationsTest())
            return {
                name: [int(v) for v in part]
                for name, part in zip(("train", "dev", "test"), parts, strict=True)
            }

    @contextlib.contextmanager
    def _same_random(self) -> Iterator[None]:
        before = self._seed.get(self._random)
        yield
        self._random.setSeed(before ^ _SCRAMBLE)

    def close(self) -> None:
        """Give the JVM back."""
        if self._lease.jvm.holder is self:
            self._lease.jvm.holder = None
        self._agent = self._server = None
        self._lease.close()
