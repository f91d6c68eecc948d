"""Play one task by hand or by the expert, and check that a backend is sound."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from wmlab.domains.base import Domain

STEP_CAP = 50


def play_task(
    domain: Domain, task_id: str, actions: Sequence[str], expert: bool, step_cap: int = STEP_CAP
) -> list[dict[str, Any]]:
    """Rows ``{"step","action","observation","reward","done","success","admissible"}``; row 0 is the reset.

    Given actions after the end of the episode are not played. Raises InputError for an unknown task
    id, EnvironmentFailure when the backend fails.
    """
    environment = domain.open(every_step=True, expert=expert)
    try:
        first = environment.reset(environment.load(task_id))
        rows = [_row(0, None, first.text, 0.0, False, False, first.admissible)]
        queue = list(actions)
        while len(rows) <= step_cap:
            if expert:
                queue = environment.expert()[:1]
            if not queue:
                break
            action = queue.pop(0)
            step = environment.step(action)
            rows.append(
                _row(
                    len(rows), action, step.observation, step.reward, step.done, step.success, step.admissible
                )
            )
            if step.done:
                break
        return rows
    finally:
        environment.close()


def _row(
    step: int, action: str | None, observation: str, reward: float, done: bool, success: bool, admissible: Any
) -> dict[str, Any]:
    return {
        "step": step,
        "action": action,
        "observation": observation,
        "reward": reward,
        "done": done,
        "success": success,
        "admissible": None if admissible is None else list(admissible),
    }


def check_backend(domain: Domain, n: int, step_cap: int = STEP_CAP) -> dict[str, Any]:
    """Play the expert on n test tasks, replay its actions in fresh episodes, compare every observation."""
    problems: list[str] = []
    wins = same = steps = 0
    seconds = 0.0
    for task_id in domain.task_ids("test", 1, n):
        gold = play_task(domain, task_id, [], True, step_cap)
        started = time.monotonic()
        again = play_task(domain, task_id, [row["action"] for row in gold[1:]], False, step_cap)
        seconds += time.monotonic() - started
        steps += len(again) - 1
        if gold[-1]["success"]:
            wins += 1
        else:
            problems.append(f"{task_id}: the expert did not succeed")
        if [row["observation"] for row in gold] == [row["observation"] for row in again]:
            same += 1
        else:
            problems.append(f"{task_id}: the replay differs")
    return {
        "domain": domain.name,
        "n": n,
        "gold_success": wins / n,
        "real_floor": same / n,
        "steps_per_s": steps / max(seconds, 1e-9),
        "problems": problems,
    }
