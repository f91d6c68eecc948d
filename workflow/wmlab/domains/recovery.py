"""Episodes that outlive their worker process: what a dead worker held is played again in a fresh one.

A real environment is deterministic, so an episode is its task and the actions taken so far. Those are sent
again, every step is compared with the one seen before, and the request that was lost is made once more.
The episodes of a dead worker come back one after the other: the one that kills its worker is alone when it
does so again, and the others do not pay for it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wmlab.domains.base import Observation, Step, Task
from wmlab.domains.workers import Factory, WorkerLost, WorkerPool
from wmlab.errors import EnvironmentFailure

RETRIES = 2
"""How often a request whose worker died is made again; after that the loss is the episode's error."""


@dataclass
class _Episode:
    task: Task
    played: list[tuple[str, Step]] = field(default_factory=list)


class RecoveringPool:
    """EnvironmentBatch over a :class:`WorkerPool`; every step names all episodes that still run.

    ``retries`` says how often each episode of the present batch was started again in a fresh worker, for
    its own sake or for a neighbour's.
    """

    def __init__(self, factory: Factory, n_workers: int, limit: int = RETRIES) -> None:
        self.retries: dict[int, int] = {}
        self._limit = limit
        self._pool = WorkerPool(factory, n_workers)
        self._episodes: dict[int, _Episode] = {}

    def reset(self, tasks: Sequence[Task]) -> list[Observation | Exception]:
        """Start one episode per task, in this order."""
        self._episodes = {index: _Episode(task) for index, task in enumerate(tasks)}
        self.retries = dict.fromkeys(self._episodes, 0)
        answers: dict[int, Observation | Step | Exception] = dict(enumerate(self._pool.reset(tasks)))
        self._recover(dict.fromkeys(answers), answers)
        return [answers[index] for index in range(len(tasks))]  # type: ignore[misc]

    def step(self, actions: Mapping[int, str]) -> dict[int, Step | Exception]:
        """Step the episodes named; an exception in the answer ends its episode."""
        answers: dict[int, Observation | Step | Exception] = {**self._pool.step(actions)}
        self._recover(actions, answers)
        for index, answer in answers.items():
            if isinstance(answer, Step):
                self._episodes[index].played.append((actions[index], answer))
        return answers  # type: ignore[return-value]

    def release(self, indices: Sequence[int]) -> None:
        """Free finished episodes."""
        self._pool.release(indices)
        for index in indices:
            self._episodes.pop(index, None)

    def close(self) -> None:
        """Stop all workers."""
        self._pool.close()

    def __enter__(self) -> RecoveringPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _recover(
        self, requests: Mapping[int, str | None], answers: dict[int, Observation | Step | Exception]
    ) -> None:
        """Replace the answers that were lost with their workers; None requests the start of an episode."""
        waiting = deque(index for index, answer in answers.items() if isinstance(answer, WorkerLost))
        tries: Counter[int] = Counter()
        hangs = 0
        while waiting and hangs <= self._limit:
            index = waiting.popleft()
            answers[index] = answer = self._again(index, requests[index])
            if not isinstance(answer, WorkerLost):
                continue
            tries[index] += 1
            hangs += answer.hung
            for other in requests:  # those that had come back in the worker that this one took down
                came_back = other not in waiting and not isinstance(answers[other], Exception)
                if came_back and self._pool.slot(other) == self._pool.slot(index):
                    answers[other] = answer
                    waiting.append(other)
            if tries[index] < self._limit and not answer.hung:
                waiting.appendleft(index)

    def _again(self, index: int, action: str | None) -> Observation | Step | Exception:
        """The episode from its start in the present worker of its slot, up to the answer to ``action``."""
        episode = self._episodes[index]
        self.retries[index] += 1
        answer: Observation | Step | Exception = self._pool.start(index, episode.task)
        for place, (played, seen) in enumerate(episode.played):
            if isinstance(answer, Exception):
                return answer
            answer = self._pool.step({index: played})[index]
            if not isinstance(answer, Exception) and answer != seen:
                return EnvironmentFailure(
                    f"{episode.task.task_id}: played again after its worker died, step {place} differs"
                )
        if action is None or isinstance(answer, Exception):
            return answer
        return self._pool.step({index: action})[index]
