"""Environments by id for a server: bounded in number, expired when idle, each in a worker process.

Game engines are not thread-safe and can crash, so no environment lives in the server's own process. Every
worker serves a share of the ids and is asked by one thread at a time. When one dies, each of its episodes is
played again in a fresh one, at its next request and at most ``RETRIES`` times a request: real environments are
deterministic, and every answer is compared with the one given before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from wmlab.domains.base import Domain, Environment, Observation, RealEnvironment, Step, Task
from wmlab.domains.conventions import item_id, item_number
from wmlab.domains.recovery import RETRIES
from wmlab.domains.workers import WorkerLost, WorkerPool
from wmlab.errors import EnvironmentFailure, InputError

SHUT_WAIT_S = 2.0
Answer = Observation | Step


class Refused(Exception):
    """A request that cannot be served: unknown id, no room, step before reset. Its text goes to the client."""


class Full(Refused):
    """No room for another environment, or one is asked for while it is still at work."""


@dataclass(frozen=True)
class HostedObservation(Observation):
    """A reset as a server needs it."""

    goal: str = ""
    task_type: str = ""
    score: float | None = None  # None where the environment keeps none
    max_score: float | None = None


@dataclass(frozen=True)
class HostedStep(Step):
    """A step as a server needs it."""

    score: float | None = None
    max_score: float | None = None


class HostedEnvironment:
    """A domain's environment that is reset by task id alone: ``reset`` reads nothing else of the task."""

    def __init__(self, environment: RealEnvironment) -> None:
        self._environment = environment

    def _points(self, name: str) -> float | None:
        value = getattr(self._environment, name, None)
        return None if value is None else float(value)

    def reset(self, task: Task) -> HostedObservation:
        """Load and start the task, by our id or by upstream's. Raises EnvironmentFailure for an unknown one."""
        try:
            try:
                loaded = self._environment.load(task.task_id)
            except InputError:
                number = item_number(task.domain, task.task_id)
                loaded = self._environment.load(item_id(task.domain, number))
        except InputError as error:
            raise EnvironmentFailure(str(error)) from None
        first = self._environment.reset(loaded)
        return HostedObservation(
            first.text,
            first.admissible,
            loaded.goal,
            self._environment.task_type,
            self._points("score"),
            self._points("max_score"),
        )

    def step(self, action: str) -> HostedStep:
        """One action."""
        step = self._environment.step(action)
        return HostedStep(
            step.observation,
            step.reward,
            step.done,
            step.success,
            step.admissible,
            self._points("score"),
            self._points("max_score"),
        )

    def fork(self) -> Environment:
        """No server of the protocol forks."""
        raise EnvironmentFailure("a hosted environment cannot fork")

    def close(self) -> None:
        """Free the environment."""
        self._environment.close()


def open_hosted(domain: Domain) -> HostedEnvironment:
    """A hosted environment of the domain; picklable as ``partial(open_hosted, domain)``.

    Actions are listed at every step where a route tells them; ScienceWorld has none and would pay for them.
    """
    return HostedEnvironment(domain.open(every_step=domain.name != "scienceworld"))


@dataclass
class Session:
    """One environment of the server and what it showed last."""

    identity: int
    slot: int
    used: float = 0.0
    number: int | None = None
    first: HostedObservation | None = None
    step: HostedStep | None = None
    total: float = 0.0  # rewards so far
    played: list[tuple[str, HostedStep]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def running(self) -> bool:
        """Whether an action can follow."""
        return self.first is not None and not (self.step is not None and self.step.done)

    @property
    def text(self) -> str:
        """What was shown last."""
        shown = self.step.observation if self.step is not None else self.first.text if self.first else ""
        return shown

    @property
    def admissible(self) -> tuple[str, ...]:
        """The actions that are possible now."""
        last = self.step if self.step is not None else self.first
        return (last.admissible or ()) if last is not None else ()


class Sessions:
    """At most ``limit`` environments of a domain in ``workers`` processes; ``idle_s`` seconds unused free one."""

    def __init__(self, domain: Domain, limit: int, idle_s: float, workers: int) -> None:
        if limit < 1 or workers < 1 or idle_s <= 0:
            raise InputError("env serve: environments, workers and idle seconds must be above 0")
        self.domain, self.limit, self.idle_s = domain, limit, idle_s
        factory = partial(open_hosted, domain)
        self._pools = [WorkerPool(factory, 1) for _ in range(workers)]
        self._locks = [threading.Lock() for _ in range(workers)]
        self._sessions: dict[int, Session] = {}
        self._guard = threading.Lock()
        self._next = 0
        self._closed = False
        self.retries = 0  # episodes that were played again because their worker died

    def create(self) -> int:
        """A new id; its environment opens at the first reset. Raises Full."""
        self.expire()
        with self._guard:
            if self._closed:
                raise Refused("the server is closing")
            if len(self._sessions) >= self.limit:
                raise Full(f"{self.limit} environments are in use; close one and try again")
            identity = self._next
            self._next += 1
            slots = [session.slot for session in self._sessions.values()]
            slot = min(range(len(self._pools)), key=slots.count)
            self._sessions[identity] = Session(identity, slot, time.monotonic())
        return identity

    def ids(self) -> list[int]:
        """The environments there are."""
        with self._guard:
            return sorted(self._sessions)

    def read(self, identity: int) -> Session:
        """A session as it is now. Raises Refused for an unknown id."""
        with self._guard:
            session = self._sessions.get(identity)
            if session is None:
                raise Refused(f"the id {identity} is not valid")
            session.used = time.monotonic()
        return session

    def reset(self, identity: int, number: int) -> Session:
        """Start task ``number``. Raises Refused or EnvironmentFailure."""

        def start(session: Session, pool: WorkerPool) -> None:
            session.first, session.step, session.number, session.total = None, None, number, 0.0
            session.played.clear()
            answer = self._lasting(session, lambda: pool.start(identity, self._task(number)), pool)
            if isinstance(answer, Exception):
                session.number = None
                raise answer
            assert isinstance(answer, HostedObservation)
            session.first = answer

        return self._work(identity, start)

    def step(self, identity: int, action: str) -> Session:
        """One action. Raises Refused before a reset or after the end, EnvironmentFailure when it fails."""

        def act(session: Session, pool: WorkerPool) -> None:
            if session.first is None:
                raise Refused(f"the environment {identity} has no task; reset it first")
            if not session.running:
                raise Refused(f"the task with environment {identity} has finished")
            answer = self._lasting(session, lambda: pool.step({identity: action})[identity], pool)
            if isinstance(answer, Exception):
                session.first, session.step = None, None
                raise answer
            assert isinstance(answer, HostedStep)
            session.step = answer
            session.total += answer.reward
            session.played.append((action, answer))

        return self._work(identity, act)

    def close(self, identity: int) -> None:
        """Free an environment. Raises Refused for an unknown id."""
        session = self.read(identity)
        with session.lock:
            with self._guard:
                if self._sessions.pop(identity, None) is None:
                    raise Refused(f"the id {identity} is not valid")
            with self._locks[session.slot]:
                self._pools[session.slot].release([identity])

    def expire(self) -> int:
        """Free the environments that nobody used for ``idle_s`` seconds; return how many."""
        now = time.monotonic()
        with self._guard:
            old = [s for s in self._sessions.values() if now - s.used > self.idle_s and not s.lock.locked()]
        freed = 0
        for session in old:
            try:
                if now - session.used > self.idle_s:
                    self.close(session.identity)
                    freed += 1
            except Refused:
                continue  # closed meanwhile
        return freed

    def shut(self) -> None:
        """Stop the worker processes."""
        with self._guard:
            self._closed = True
            self._sessions.clear()
        for lock, pool in zip(self._locks, self._pools, strict=True):
            waited = lock.acquire(timeout=SHUT_WAIT_S)  # a worker that hangs is stopped without its lock
            pool.close()
            if waited:
                lock.release()

    def _task(self, number: int) -> Task:
        return Task(f"{self.domain.name}_{number}", self.domain.name, "", "")

    def _lasting(
        self, session: Session, request: Callable[[], Answer | Exception], pool: WorkerPool
    ) -> Answer | Exception:
        """The answer to a request, which is made again when the session's worker died; a hung one is not."""
        answer: Answer | Exception = request()
        for _ in range(RETRIES):
            if not isinstance(answer, WorkerLost) or answer.hung:
                break
            with self._guard:
                self.retries += 1
            answer = self._played_again(session, pool) or request()
        return answer

    def _played_again(self, session: Session, pool: WorkerPool) -> Exception | None:
        """Bring a session to where it was, in the present worker of its slot; why not, where that fails."""
        if session.first is None or session.number is None:
            return None  # a reset, which is the request itself
        answer: Answer | Exception = pool.start(session.identity, self._task(session.number))
        for place, (action, seen) in enumerate(session.played):
            if isinstance(answer, Exception):
                return answer
            answer = pool.step({session.identity: action})[session.identity]
            if not isinstance(answer, Exception) and answer != seen:
                return EnvironmentFailure(f"played again after its worker died, step {place} differs")
        return answer if isinstance(answer, Exception) else None

    def _work(self, identity: int, work: Callable[[Session, WorkerPool], None]) -> Session:
        session = self.read(identity)
        if not session.lock.acquire(blocking=False):
            raise Full(f"the environment {identity} is at work on another request")
        try:
            with self._locks[session.slot]:
                if self._closed or identity not in self._sessions:
                    raise Refused(f"the id {identity} is not valid")
                work(session, self._pools[session.slot])
            session.used = time.monotonic()
        finally:
            session.lock.release()
        return session
