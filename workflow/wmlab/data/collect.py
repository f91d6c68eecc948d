"""Collect trajectories in the real environment: the world model's corpus and the agents' demonstrations.

The corpora of Word2World were played by GPT-4o at T=1: successes and failures, detours, refused
commands, an eaten goal item now and then. ``collect`` plays the planner's commands mixed with noise of
several rates, so that the corpus holds all of these (formats.md 1.1). ``demonstrate`` lets the
text-only scripted agent play, with harmless detours that are shown but not taught.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from wmlab.config.recipes import CollectRecipe
from wmlab.domains.base import Domain, RealEnvironment, Task
from wmlab.domains.jobs import in_workers
from wmlab.errors import EnvironmentFailure
from wmlab.io.progress import track


def collect(
    domain: Domain, tasks: Sequence[Task], split: str, recipe: CollectRecipe, workers: int, seed: int
) -> list[dict[str, Any]]:
    """Trajectory rows (contract ``trajectories``), tasks in order, each played in a worker process."""
    jobs = [(domain, task, split, recipe, seed) for task in tasks]
    played = track(in_workers(_play_task, jobs, workers), f"collect {split}", len(jobs), "games")
    return [row for rows in played for row in rows]


def demonstrate(
    domain: Domain, tasks: Sequence[Task], recipe: CollectRecipe, workers: int, seed: int
) -> list[dict[str, Any]]:
    """Demonstration rows (contract ``demonstrations``): successful scripted episodes, agent's view.

    Episodes that fail are left out and counted. Raises EnvironmentFailure when most of them fail: then the
    domain's script does not read its goals.
    """
    jobs = [(domain, task, recipe, seed) for task in tasks[: recipe.demonstration_tasks]]
    played = track(in_workers(_demonstrate_task, jobs, workers), "demonstrations", len(jobs), "games")
    rows = [row for rows in played for row in rows]
    wanted = len(jobs) * recipe.demonstrations_per_task
    if len(rows) < wanted:
        print(f"demonstrations: {wanted - len(rows)} of {wanted} failed and are left out", file=sys.stderr)
    if 2 * len(rows) < wanted:
        raise EnvironmentFailure(f"{domain.name}: the script won {len(rows)} of {wanted} demonstrations only")
    return rows


def _rng(seed: int, *parts: object) -> np.random.Generator:
    digest = hashlib.sha256("\0".join(map(str, (seed, *parts))).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "little"))


def _play_task(job: tuple[Domain, Task, str, CollectRecipe, int]) -> list[dict[str, Any]]:
    domain, task, split, recipe, seed = job
    environment = domain.open(every_step=True, expert=True)
    rows = []
    try:
        for number in range(recipe.trajectories_per_task):
            rng = _rng(seed, task.sha256, number)
            noise = recipe.noise[number % len(recipe.noise)]
            rows.append(_play(domain, environment, task, split, number, noise, recipe.step_cap, rng))
    finally:
        environment.close()
    return rows


def _play(
    domain: Domain,
    environment: RealEnvironment,
    task: Task,
    split: str,
    number: int,
    noise: float,
    step_cap: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    observation = environment.reset(task)
    admissible: tuple[str, ...] = observation.admissible or ()
    seen = dict.fromkeys(admissible)
    steps: list[dict[str, Any]] = []
    # A noisy walk may stop early, as an agent that gives up does; a clean one runs to its end.
    length = step_cap if noise == 0 else int(rng.integers(step_cap // 3, step_cap + 1))
    score, success = 0.0, False
    while len(steps) < length:
        plan = environment.expert()
        stray = not plan or rng.random() < noise
        action = domain.stray(rng, admissible, list(seen)) if stray else plan[0]
        step = environment.step(action)
        steps.append(
            {
                "action": action,
                "observation": step.observation,
                "reward": step.reward,
                "done": step.done,
                "admissible": None if step.admissible is None else list(step.admissible),
            }
        )
        score += step.reward
        if step.done:
            success = step.success
            break
        admissible = step.admissible or ()
        seen.update(dict.fromkeys(admissible))
    return {
        "trajectory_id": f"{task.task_id}/{split}_{number:03d}",
        "domain": task.domain,
        "task_id": task.task_id,
        "split": split,
        "source": "expert" if noise == 0 else "agent",
        "goal": task.goal,
        "task_type": environment.task_type,
        "initial_observation": task.initial_observation,
        "privileged": environment.privileged,
        "steps": steps,
        "success": success,
        "score": score,
    }


def _demonstrate_task(job: tuple[Domain, Task, CollectRecipe, int]) -> list[dict[str, Any]]:
    from wmlab.agents.base import Turn
    from wmlab.agents.scripted import ScriptedAgent

    domain, task, recipe, seed = job
    environment = domain.open()
    rows = []
    try:
        for number in range(recipe.demonstrations_per_task):
            noise = recipe.demonstration_noise[number % len(recipe.demonstration_noise)]
            agent = ScriptedAgent(task.domain, epsilon=noise, harmless=True, seed=seed + number)
            messages = [{"role": "system", "content": agent.system_prompt}]
            messages.append({"role": "user", "content": environment.reset(task).text})
            taught = [False, False]
            success = False
            for _ in range(recipe.step_cap):
                decision = agent.act([Turn(task.task_id, messages)])[0]
                step = environment.step(decision.action)
                messages.append({"role": "assistant", "content": decision.output})
                taught.append(decision.deliberate)
                if step.done:
                    success = step.success
                    break
                messages.append({"role": "user", "content": step.observation})
                taught.append(False)
            if not success:
                continue
            rows.append(
                {
                    "demonstration_id": f"{task.task_id}/demo_{number:03d}",
                    "domain": task.domain,
                    "task_id": task.task_id,
                    "messages": messages,
                    "taught": taught,
                }
            )
    finally:
        environment.close()
    return rows
