"""An environment on an AgentGym server behind the Environment protocol."""

from __future__ import annotations

from wmlab.domains.actions import normalise_action
from wmlab.domains.agentgym.http import Server
from wmlab.domains.agentgym.protocols import Dialect, First, ServerProtocol, protocol_of
from wmlab.domains.base import Observation, Step, Task
from wmlab.domains.conventions import goal_of, item_number, task_type_of
from wmlab.domains.replaying import replayed
from wmlab.errors import EnvironmentFailure, InputError

MAX_QUERY_CHARACTERS = 1_000  # a search holds a product's whole title


class AgentGymEnvironment:
    """One episode at a time in one environment of a server; the environment is made at the first reset.

    ``match`` says what the server's first observation is compared with after a reset: the frozen task's
    ``observation``, byte for byte, or only its ``instruction`` (for a panel that another dialect wrote).
    """

    privileged = None  # no server tells what only a world model sees

    def __init__(self, server: Server, domain: str, dialect: Dialect, match: str = "observation") -> None:
        found = protocol_of(domain, dialect)
        if found is None:
            raise InputError(f"domain {domain}: no server of the dialect {dialect}; choose the other dialect")
        self.server, self.domain, self.dialect, self.match = server, domain, dialect, match
        self._protocol: ServerProtocol = found
        self._identity: int | None = None
        self._task: Task | None = None
        self._task_type = ""
        self._score = 0.0
        self._done = True
        self._played: list[tuple[str, str]] = []

    def load(self, task_id: str) -> Task:
        """The task behind an item id, as the server shows it."""
        first = self._start(item_number(self.domain, task_id))
        text = first.observation.text
        goal = goal_of(self.domain, text)
        if not goal:
            raise EnvironmentFailure(f"{task_id}: the server's first observation states no instruction")
        self._task = Task(task_id, self.domain, goal, text)
        return self._task

    @property
    def task_type(self) -> str:
        """The family of the present task, from the server or from the goal."""
        goal = "" if self._task is None else self._task.goal
        return self._task_type or task_type_of(self.domain, goal)

    @property
    def score(self) -> float:
        """Score so far, in the server's unit."""
        return self._score

    def expert(self) -> list[str]:
        """The servers tell no solution."""
        return []

    def reset(self, task: Task) -> Observation:
        """Start the task. Raises EnvironmentFailure when the server plays another one under its id."""
        first = self._start(item_number(self.domain, task.task_id))
        shown = first.observation.text
        goal = goal_of(self.domain, shown)
        if " ".join(goal.split()) != " ".join(task.goal.split()):
            self._done = True
            raise EnvironmentFailure(
                f"{task.task_id}: the server's instruction is {goal[:120]!r}, the panel's is {task.goal[:120]!r}; "
                "its task list, seed or data differ"
            )
        if self.match == "observation" and shown != task.initial_observation:
            self._done = True
            raise EnvironmentFailure(
                f"{task.task_id}: the server's instruction is the panel's but its first observation is not; "
                "give the panel's dialect, or the option match=instruction"
            )
        self._task = task
        return first.observation

    def _start(self, number: int) -> First:
        self._done, self._task, self._task_type = True, None, ""
        if self._identity is None:
            self._identity = self._protocol.create(self.server)
        first = self._protocol.reset(self.server, self._identity, number)
        self._score, self._played, self._done = 0.0, [], False
        self._task_type = first.task_type
        return first

    def step(self, action: str) -> Step:
        """Send one action. Raises EnvironmentFailure after the end, and when the server fails."""
        if self._done or self._identity is None:
            raise EnvironmentFailure("step after the end of the episode; call reset first")
        limit = MAX_QUERY_CHARACTERS if self.domain == "webshop" else None
        command = normalise_action(action, limit) if limit else normalise_action(action)
        try:
            step, self._score = self._protocol.step(self.server, self._identity, command, self._score)
        except EnvironmentFailure:
            self._done = True  # whether the action was carried out is not known
            raise
        self._done = step.done
        self._played.append((command, step.observation))
        return step

    def fork(self) -> AgentGymEnvironment:
        """An independent copy: the same task in a second environment, its actions played again.

        Raises EnvironmentFailure when the server answers one of them differently the second time.
        """
        if self._task is None:
            raise EnvironmentFailure("fork before reset; call reset first")
        twin = AgentGymEnvironment(self.server, self.domain, self.dialect, self.match)
        return replayed(twin, self._task, self._played)

    def close(self) -> None:
        """Free the environment on the server. A server that is gone holds nothing: no error."""
        identity, self._identity, self._done, self._task = self._identity, None, True, None
        if identity is not None:
            try:
                self._protocol.close(self.server, identity)
            except EnvironmentFailure:
                return
