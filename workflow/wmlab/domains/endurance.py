"""Long random play in one worker process: does the backend crash, grow, or leave processes behind?"""

from __future__ import annotations

import contextlib
import time
from functools import partial
from typing import Any

import numpy as np
import psutil

from wmlab.domains.base import Domain, Step, Task
from wmlab.domains.panels import build_panel
from wmlab.domains.workers import WorkerPool

DISTINCT_TASKS = 20
"""Tasks that the episodes take turns with; making a game takes longer than playing it."""
GROWTH = 1.1
"""Memory after the last episode over memory after half of them, from which on a backend leaks."""
SLACK_MB = 20.0
_END_TIMEOUT_S = 10.0


def endure(domain: Domain, episodes: int, step_cap: int, seed: int = 0) -> dict[str, Any]:
    """Play ``episodes`` random episodes over test tasks, one after the other.

    Returns ``episodes``, ``steps``, ``steps_per_s``, ``errors`` and the first ones' texts (``problems``),
    ``megabytes`` resident (worker and what it started) after a tenth, half and all of the episodes, and
    ``left``: processes that outlived the worker.
    """
    tasks = build_panel(domain, domain.task_ids("test", 1, min(episodes, DISTINCT_TASKS)), 1)
    rng = np.random.default_rng(seed)
    marks = sorted({max(1, episodes // 10), max(1, episodes // 2), episodes})
    sizes: dict[int, float] = {}
    problems: list[str] = []
    steps = 0
    known = set(psutil.Process().children(recursive=True))
    started = time.monotonic()
    with WorkerPool(partial(domain.open, every_step=True), 1) as pool:
        for number in range(1, episodes + 1):
            played, problem = _episode(pool, domain, tasks[number % len(tasks)], step_cap, rng)
            steps += played
            problems += [problem] if problem else []
            if number in marks:
                sizes[number] = _megabytes(_new(known))
        seconds = time.monotonic() - started
        ours = _new(known)
    _, alive = psutil.wait_procs(ours, timeout=_END_TIMEOUT_S)
    return {
        "episodes": episodes,
        "steps": steps,
        "steps_per_s": steps / max(seconds, 1e-9),
        "errors": len(problems),
        "megabytes": [round(size, 1) for size in sizes.values()],
        "left": len(alive),
        "problems": problems[:3],
    }


def grows(megabytes: list[float]) -> bool:
    """Whether the last size is out of proportion to the one before it."""
    return len(megabytes) > 1 and megabytes[-1] > GROWTH * megabytes[-2] + SLACK_MB


def _episode(
    pool: WorkerPool, domain: Domain, task: Task, step_cap: int, rng: np.random.Generator
) -> tuple[int, str | None]:
    """Steps played and the error that ended the episode, if one did."""
    (first,) = pool.reset([task])
    if isinstance(first, Exception):
        return 0, str(first)
    admissible = first.admissible or ()
    seen = dict.fromkeys(admissible)
    for played in range(step_cap):
        step: Step | Exception = pool.step({0: domain.stray(rng, admissible, list(seen))})[0]
        if isinstance(step, Exception):
            return played, f"{task.task_id}: {step}"
        if step.done:
            return played + 1, None
        admissible = step.admissible or ()
        seen.update(dict.fromkeys(admissible))
    return step_cap, None


def _new(known: set[psutil.Process]) -> list[psutil.Process]:
    """Living descendants that were not there before; Python's own resource tracker is not one of them."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if child not in known and "resource_tracker" not in " ".join(child.cmdline()):
                found.append(child)
    return found


def _megabytes(processes: list[psutil.Process]) -> float:
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += process.memory_info().rss
    return total / 1e6
