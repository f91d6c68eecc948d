"""Independent jobs on environments (games to collect, tasks to freeze) in worker processes that may die."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from wmlab.domains.recovery import RETRIES
from wmlab.errors import EnvironmentFailure
from wmlab.io.executor import spawned

J = TypeVar("J")
R = TypeVar("R")


def in_workers(work: Callable[[J], R], jobs: Sequence[J], workers: int) -> Iterator[R]:
    """Results of ``work``, a function of a module, in the order of ``jobs``.

    When a process dies, what was under way is done again in new processes, its first job alone. Raises
    EnvironmentFailure when a job's process dies RETRIES times more; what ``work`` raises passes through.
    """
    place = 0  # of the next result
    kept: dict[int, R] = {}  # results behind it
    while place < len(jobs):
        with spawned(workers) as pool:
            left = (number for number in range(place, len(jobs)) if number not in kept)
            futures = {number: pool.submit(work, jobs[number]) for number in left}
            try:
                while place < len(jobs):
                    yield kept.pop(place) if place in kept else futures[place].result()
                    place += 1
            except BrokenProcessPool:
                print("a worker process died; its work is done again", file=sys.stderr)
                done = {n: future for n, future in futures.items() if n >= place and future.done()}
                kept |= {n: future.result() for n, future in done.items() if future.exception() is None}
        if place < len(jobs) and place not in kept:
            kept[place] = _alone(work, jobs[place], f"job {place + 1} of {len(jobs)}")


def _alone(work: Callable[[J], R], job: J, name: str) -> R:
    for _ in range(RETRIES):
        with spawned(1) as pool:
            try:
                return pool.submit(work, job).result()
            except BrokenProcessPool:
                continue
    raise EnvironmentFailure(f"{name}: its worker process died {RETRIES + 1} times")
