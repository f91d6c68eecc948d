"""Frozen task panels: the denominator of every task-level number (metrics.md 1)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from wmlab.domains.base import Domain, Options, RealEnvironment, Task
from wmlab.domains.jobs import in_workers
from wmlab.domains.registry import make_domain
from wmlab.errors import InputError
from wmlab.io.atomic import write_json
from wmlab.io.progress import Progress

SCHEMA = 1


def load_task(domain: Domain, task_id: str) -> Task:
    """Build one task from its environment (generates the game when it is not cached)."""
    return _load_share(domain, [task_id])[0]


def _with_privileged(environment: RealEnvironment, task_id: str) -> Task:
    task = environment.load(task_id)
    return task if task.privileged is not None else replace(task, privileged=environment.privileged)


def _load_share(domain: Domain, task_ids: list[str]) -> list[Task]:
    environment = domain.open()
    try:
        return [_with_privileged(environment, task_id) for task_id in task_ids]
    finally:
        environment.close()


def build_panel(domain: Domain, task_ids: list[str], workers: int) -> list[Task]:
    """Tasks of the ids, in this order, built in worker processes that each keep one environment for a share."""
    size = max(1, min(10, -(-len(task_ids) // workers)))
    shares = [task_ids[start : start + size] for start in range(0, len(task_ids), size)]
    progress = Progress(f"panel {domain.name}", len(task_ids), "tasks")
    tasks: list[Task] = []
    for share in in_workers(partial(_load_share, domain), shares, workers):
        tasks += share
        progress.update(len(share))
    return tasks


def write_panel(
    path: str | Path,
    domain: str,
    split: str,
    tasks: Iterable[Task],
    options: Options | None = None,
    agent: Mapping[str, str] | None = None,
) -> None:
    """Write panel.json: the tasks with their content hashes, and the options their domain was opened with.

    ``agent`` is what upstream's contexts tell an agent beside the tasks: ``prompt`` and ``acknowledgement``.
    """
    rows = []
    for task in tasks:
        row = {name: getattr(task, name) for name in ("task_id", "goal", "initial_observation", "sha256")}
        rows.append(row if task.privileged is None else {**row, "privileged": task.privileged})
    head: dict[str, Any] = {
        "schema": SCHEMA,
        "domain": domain,
        "split": split,
        "options": dict(options or {}),
    }
    if agent:
        head["agent"] = dict(agent)
    write_json(path, {**head, "tasks": rows})


def read_panel(path: str | Path) -> list[Task]:
    """Read a frozen panel and verify each task's content hash. Raises InputError naming file and task row."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InputError.at(
            path, f"not a readable panel ({error})", "make it with `wmlab env panel`"
        ) from None
    if (
        not isinstance(data, dict)
        or not isinstance(data.get("domain"), str)
        or not isinstance(data.get("tasks"), list)
    ):
        raise InputError.at(
            path, "not a panel object with domain and tasks", "make it with `wmlab env panel`"
        )
    if data.get("schema") != 1:
        raise InputError.at(path, f"panel schema {data.get('schema')!r}", "this code reads schema 1")
    if not data["tasks"]:
        raise InputError.at(path, "the panel has no tasks", "make it again with a limit above 0")
    tasks: list[Task] = []
    seen: set[str] = set()
    for number, row in enumerate(data["tasks"], start=1):
        names = ("task_id", "goal", "initial_observation", "sha256")
        if not isinstance(row, dict) or not all(isinstance(row.get(name), str) for name in names):
            raise InputError.at(
                path, f"a task lacks one of {', '.join(names)} as text", "make the panel again", number
            )
        if not isinstance(row.get("privileged"), str | None):
            raise InputError.at(path, "a task's privileged block is not text", "make the panel again", number)
        shown = row["initial_observation"]
        task = Task(row["task_id"], data["domain"], row["goal"], shown, row.get("privileged"))
        if task.sha256 != row["sha256"]:
            raise InputError.at(
                path, f"task '{task.task_id}' is not what its sha256 says", "make the panel again", number
            )
        if task.task_id in seen:
            raise InputError.at(path, f"task '{task.task_id}' is there twice", "keep each task once", number)
        seen.add(task.task_id)
        tasks.append(task)
    return tasks


def panel_split(path: str | Path) -> str:
    """The split name a panel was frozen for."""
    return str(json.loads(Path(path).read_text(encoding="utf-8")).get("split", ""))


def panel_agent(path: str | Path) -> dict[str, str]:
    """What upstream's contexts told the agents of a panel: ``prompt``, ``acknowledgement``; {} elsewhere."""
    told = json.loads(Path(path).read_text(encoding="utf-8")).get("agent", {})
    if not isinstance(told, dict) or not all(isinstance(text, str) for text in told.values()):
        raise InputError.at(path, "'agent' is not an object of texts", "import the contexts again")
    return told


def panel_domain(path: str | Path, cache_dir: str | Path) -> Domain:
    """The domain of a panel, opened with the options it was frozen with. Raises InputError for unknown ones."""
    data = json.loads(Path(path).read_text(encoding="utf-8"))
    options = data.get("options", {})
    if not isinstance(options, dict):
        raise InputError.at(path, "its options are not an object", "make the panel again")
    return make_domain(str(data["domain"]), cache_dir, options)
