"""Collect trajectories in the real environment: the world model's corpus and the agents' demonstrations.

The corpora of Word2World were played by GPT-4o at T=1: successes and failures, detours, refused
commands, an eaten goal item now and then. ``collect`` plays the planner's commands mixed with noise of
several rates, so that the corpus holds all of these (formats.md 1.1). ``demonstrate`` lets the
text-only scripted agent play, with harmless detours that are shown but not taught.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

from wmlab.config.recipes import CollectRecipe
from wmlab.domains.base import Task
from wmlab.errors import EnvironmentFailure
from wmlab.io.progress import track

_UNKNOWN = ("use {x}", "sit on {x}", "cook {x}", "search {x}", "talk to {x}", "go {x}", "push {x}")
_PLAUSIBLE = (
    "open {x}",
    "close {x}",
    "take {x}",
    "drop {x}",
    "eat {x}",
    "examine {x}",
    "unlock {x}",
    "put {x} on {y}",
)
_DIRECTIONS = ("north", "south", "east", "west")


def collect(
    tasks: Sequence[Task], split: str, recipe: CollectRecipe, cache_dir: str, workers: int, seed: int
) -> list[dict[str, Any]]:
    """Trajectory rows (contract ``trajectories``), tasks in order, each played in a worker process."""
    jobs = [(task, split, recipe, cache_dir, seed) for task in tasks]
    with ProcessPoolExecutor(max_workers=workers, mp_context=get_context("spawn")) as pool:
        played = track(pool.map(_play_task, jobs), f"collect {split}", len(jobs), "games")
        return [row for rows in played for row in rows]


def demonstrate(
    tasks: Sequence[Task], recipe: CollectRecipe, cache_dir: str, workers: int, seed: int
) -> list[dict[str, Any]]:
    """Demonstration rows (contract ``demonstrations``): successful scripted episodes, agent's view."""
    jobs = [(task, recipe, cache_dir, seed) for task in tasks]
    with ProcessPoolExecutor(max_workers=workers, mp_context=get_context("spawn")) as pool:
        played = track(pool.map(_demonstrate_task, jobs), "demonstrations", len(jobs), "games")
        return [row for rows in played for row in rows]


def _rng(seed: int, *parts: object) -> np.random.Generator:
    digest = hashlib.sha256("\0".join(map(str, (seed, *parts))).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "little"))


def _play_task(job: tuple[Task, str, CollectRecipe, str, int]) -> list[dict[str, Any]]:
    from wmlab.domains.textworld.environment import TextWorldEnvironment

    task, split, recipe, cache_dir, seed = job
    environment = TextWorldEnvironment(cache_dir, expert=True)
    rows = []
    try:
        for number in range(recipe.trajectories_per_game):
            rng = _rng(seed, task.sha256, number)
            noise = recipe.noise[number % len(recipe.noise)]
            rows.append(_play(environment, task, split, number, noise, recipe.step_cap, rng))
    finally:
        environment.close()
    return rows


def _play(
    environment: Any,
    task: Task,
    split: str,
    number: int,
    noise: float,
    step_cap: int,
    rng: np.random.Generator,
) -> dict[str, Any]:
    observation = environment.reset(task)
    admissible: tuple[str, ...] = observation.admissible or ()
    vocabulary = sorted({word for command in admissible for word in _objects(command)})
    steps: list[dict[str, Any]] = []
    # A noisy walk may stop early, as an agent that gives up does; a clean one runs to its end.
    length = step_cap if noise == 0 else int(rng.integers(step_cap // 3, step_cap + 1))
    score, success = 0.0, False
    while len(steps) < length:
        policy = environment.policy
        stray = not policy or rng.random() < noise
        action = _stray(rng, admissible, vocabulary) if stray else policy[0]
        step = environment.step(action)
        steps.append(
            {
                "action": action,
                "observation": step.observation,
                "reward": step.reward,
                "done": step.done,
                "admissible": list(admissible),
            }
        )
        score += step.reward
        if step.done:
            success = step.success
            break
        admissible = step.admissible or ()
        vocabulary = sorted(set(vocabulary) | {word for command in admissible for word in _objects(command)})
    return {
        "trajectory_id": f"{task.task_id}/{split}_{number:03d}",
        "domain": task.domain,
        "task_id": task.task_id,
        "split": split,
        "source": "expert" if noise == 0 else "agent",
        "goal": task.goal,
        "task_type": "tw-simple",
        "initial_observation": task.initial_observation,
        "privileged": None,
        "steps": steps,
        "success": success,
        "score": score,
    }


def _objects(command: str) -> list[str]:
    """Names in an admissible command: ``take old key from chest drawer`` → old key, chest drawer."""
    _, _, rest = command.partition(" ")
    for joint in (" from ", " with ", " into ", " on "):
        rest = rest.replace(joint, "|")
    return [name for name in rest.split("|") if name and name not in _DIRECTIONS]


def _stray(rng: np.random.Generator, admissible: Sequence[str], vocabulary: Sequence[str]) -> str:
    """A command off the plan: mostly possible ones, some refused, some that are no command at all."""
    kind = rng.random()
    if kind < 0.5 and admissible:
        return str(admissible[int(rng.integers(len(admissible)))])
    if kind < 0.6:
        return ("look", "inventory")[int(rng.integers(2))]
    if kind < 0.75:
        return f"go {_DIRECTIONS[int(rng.integers(4))]}"
    templates = _PLAUSIBLE if kind < 0.93 else _UNKNOWN
    names = (
        [str(vocabulary[int(rng.integers(len(vocabulary)))]) for _ in range(2)]
        if vocabulary
        else ["box", "bed"]
    )
    return templates[int(rng.integers(len(templates)))].format(x=names[0], y=names[1])


def _demonstrate_task(job: tuple[Task, CollectRecipe, str, int]) -> list[dict[str, Any]]:
    from wmlab.agents.base import Turn
    from wmlab.agents.scripted import ScriptedAgent
    from wmlab.domains.textworld.environment import TextWorldEnvironment

    task, recipe, cache_dir, seed = job
    environment = TextWorldEnvironment(cache_dir)
    rows = []
    try:
        for number in range(recipe.demonstrations_per_game):
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
                raise EnvironmentFailure(
                    f"{task.task_id}: the scripted expert did not win; its goal reader is wrong"
                )
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
