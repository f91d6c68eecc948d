"""Frozen task panels: the denominator of every task-level number (metrics.md 1)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from wmlab.domains.base import Task
from wmlab.domains.registry import check_domain
from wmlab.errors import InputError
from wmlab.io.atomic import write_json
from wmlab.io.progress import track

SCHEMA = 1


def load_task(domain: str, task_id: str, cache_dir: str) -> Task:
    """Build one task from its environment (generates the game when it is not cached)."""
    from wmlab.domains.textworld.environment import TextWorldEnvironment

    check_domain(domain)
    environment = TextWorldEnvironment(cache_dir)
    try:
        return environment.load(task_id)
    finally:
        environment.close()


def build_panel(domain: str, first_seed: int, n: int, cache_dir: str, workers: int) -> list[Task]:
    """Tasks of seeds first_seed .. first_seed+n-1, built in worker processes."""
    check_domain(domain)
    ids = [f"{domain}_{seed}" for seed in range(first_seed, first_seed + n)]
    with ProcessPoolExecutor(max_workers=workers, mp_context=get_context("spawn")) as pool:
        tasks = pool.map(load_task, [domain] * n, ids, [cache_dir] * n)
        return list(track(tasks, f"panel {domain}", n, "games"))


def write_panel(path: str | Path, domain: str, split: str, tasks: Iterable[Task]) -> None:
    """Write panel.json: the tasks with their content hashes."""
    rows = [
        {
            "task_id": task.task_id,
            "goal": task.goal,
            "initial_observation": task.initial_observation,
            "sha256": task.sha256,
        }
        for task in tasks
    ]
    write_json(path, {"schema": SCHEMA, "domain": domain, "split": split, "tasks": rows})


def read_panel(path: str | Path) -> list[Task]:
    """Read a panel and check every hash. Raises InputError naming the file and task."""
    try:
        panel = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError.at(path, "file not found", "make it with `wmlab env panel`") from None
    except (ValueError, OSError) as error:
        raise InputError.at(path, f"not a panel ({error})", "make it with `wmlab env panel`") from None
    if not isinstance(panel, dict) or panel.get("schema") != SCHEMA or not isinstance(panel.get("tasks"), list):
        raise InputError.at(path, "not a panel of schema 1", "make it with `wmlab env panel`")
    domain = str(panel.get("domain", ""))
    tasks: list[Task] = []
    seen: set[str] = set()
    for row, item in enumerate(panel["tasks"]):
        tasks.append(_task(path, domain, row, item))
        if tasks[-1].task_id in seen:
            raise InputError.at(path, f"task {tasks[-1].task_id} twice", "keep it once", row)
        seen.add(tasks[-1].task_id)
    return tasks


def panel_split(path: str | Path) -> str:
    """The split name a panel was frozen for."""
    return str(json.loads(Path(path).read_text(encoding="utf-8")).get("split", ""))


def _task(path: str | Path, domain: str, row: int, item: Any) -> Task:
    fields = ("task_id", "goal", "initial_observation", "sha256")
    if not isinstance(item, dict) or any(not isinstance(item.get(name), str) for name in fields):
        raise InputError.at(path, f"a task needs the text fields {', '.join(fields)}", "make the panel again", row)
    task = Task(item["task_id"], domain, item["goal"], item["initial_observation"])
    if task.sha256 != item["sha256"]:
        raise InputError.at(path, f"{task.task_id}: content does not match its sha256", "make the panel again", row)
    return task
