"""Real environments in worker processes, stepped in lock-step (EnvironmentBatch).

Parser games are not thread-safe and interpreters can crash, so every episode lives in one of a few
spawned processes. A worker that dies takes only its own episodes with it: each of them gets a WorkerLost,
and a fresh worker serves the next reset (``recovery`` plays lost episodes again).
"""

from __future__ import annotations

import multiprocessing
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, cast

from wmlab.domains.base import Environment, Observation, Step, Task
from wmlab.errors import EnvironmentFailure

Factory = Callable[[], Environment]
STEP_TIMEOUT_S = 300.0


class WorkerLost(EnvironmentFailure):
    """The worker that held an episode died, or was killed because it did not answer (``hung``)."""

    def __init__(self, message: str, hung: bool = False) -> None:
        super().__init__(message)
        self.hung = hung


def _serve(connection: Connection, factory: Factory) -> None:
    """Worker loop: {episode index: environment}; a request is a list, so is the answer."""
    episodes: dict[int, Environment] = {}
    while True:
        try:
            kind, items = connection.recv()
        except (EOFError, KeyboardInterrupt):
            break
        answers: list[tuple[int, Any]] = []
        for index, payload in items:
            try:
                if kind == "reset":
                    if index in episodes:
                        episodes.pop(index).close()
                    episodes[index] = factory()
                    answers.append((index, episodes[index].reset(payload)))
                elif index not in episodes:
                    raise WorkerLost("the episode ended with an earlier worker; reset it")
                elif kind == "step":
                    answers.append((index, episodes[index].step(payload)))
                else:
                    episodes.pop(index).close()
                    answers.append((index, None))
            except Exception as error:
                failure = error if isinstance(error, EnvironmentFailure) else EnvironmentFailure(repr(error))
                answers.append((index, failure))
        try:
            connection.send(answers)
        except (BrokenPipeError, KeyboardInterrupt):
            break
    for environment in episodes.values():
        environment.close()


class _Worker:
    def __init__(self, factory: Factory) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, child = context.Pipe()
        self.process: BaseProcess = context.Process(target=_serve, args=(child, factory), daemon=True)
        self.process.start()
        child.close()

    def stop(self) -> None:
        """Close the pipe (the worker ends at its next read); terminate it if it does not."""
        self.connection.close()
        self.process.join(timeout=2)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join(timeout=2)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


class WorkerPool:
    """EnvironmentBatch over ``n_workers`` processes; episode i lives in worker i mod n_workers."""

    def __init__(self, factory: Factory, n_workers: int) -> None:
        if n_workers < 1:
            raise ValueError("n_workers must be at least 1")
        self._factory = factory
        self._workers: list[_Worker | None] = [None] * n_workers

    def slot(self, index: int) -> int:
        """Which worker an episode lives in."""
        return index % len(self._workers)

    def reset(self, tasks: Sequence[Task]) -> list[Observation | Exception]:
        """Start one episode per task, in this order."""
        answers = self._ask("reset", dict(enumerate(tasks)))
        return [answers[index] for index in range(len(tasks))]

    def start(self, index: int, task: Task) -> Observation | Exception:
        """Start one episode at an index, whatever the others do."""
        answer: Observation | Exception = self._ask("reset", {index: task})[index]
        return answer

    def step(self, actions: Mapping[int, str]) -> dict[int, Step | Exception]:
        """Step the episodes named; an exception in the answer ends its episode."""
        return self._ask("step", actions)

    def release(self, indices: Sequence[int]) -> None:
        """Free finished episodes."""
        self._ask("release", dict.fromkeys(indices))

    def _ask(self, kind: str, items: Mapping[int, Any]) -> dict[int, Any]:
        shares: dict[int, list[tuple[int, Any]]] = defaultdict(list)
        for index, payload in items.items():
            shares[self.slot(index)].append((index, payload))
        answers: dict[int, Any] = {}
        pending: dict[Any, int] = {}
        for slot, share in shares.items():
            worker = self._workers[slot]
            if worker is None or not worker.process.is_alive():
                if kind != "reset":
                    answers.update(self._lost(slot, share))
                    continue
                if worker is not None:
                    worker.stop()
                worker = self._workers[slot] = _Worker(self._factory)
            try:
                worker.connection.send((kind, share))
            except (BrokenPipeError, OSError):
                answers.update(self._lost(slot, share))
                continue
            pending[worker.connection] = slot
        while pending:
            ready = wait(list(pending), timeout=STEP_TIMEOUT_S)
            if not ready:
                for slot in pending.values():
                    answers.update(self._lost(slot, shares[slot], hung=True))
                break
            for connection in ready:
                slot = pending.pop(connection)
                try:
                    answers.update(dict(cast(Connection, connection).recv()))
                except (EOFError, OSError):
                    answers.update(self._lost(slot, shares[slot]))
        return answers

    def _lost(self, slot: int, share: list[tuple[int, Any]], hung: bool = False) -> dict[int, Exception]:
        """Stop the worker of a slot; its episodes fail, later resets get a new one."""
        worker = self._workers[slot]
        code = None
        if worker is not None:
            worker.process.kill()
            worker.stop()
            code = worker.process.exitcode
            self._workers[slot] = None
        why = f"did not answer in {STEP_TIMEOUT_S:.0f} s" if hung else f"died (exit code {code})"
        return {index: WorkerLost(f"environment worker {why}", hung) for index, _ in share}

    def close(self) -> None:
        """Stop all workers."""
        for worker in self._workers:
            if worker is not None:
                worker.stop()
        self._workers = [None] * len(self._workers)

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
