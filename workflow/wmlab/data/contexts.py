"""Upstream's ``init_contexts`` and task lists (formats.md 1.3, 1.4): import to a panel, export to the same layout.

``agent_instruct_{split}.json`` holds what an agent is told before its first action (prompt, acknowledgement,
first observation), ``wm_instruct_{split}.json`` what a world model is told (the first observation, behind the
privileged block for ALFWorld and ScienceWorld). The panel keeps the tasks, and beside them what only these
files need: the prompt and the acknowledgement.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wmlab.data.corpora import read_array
from wmlab.data.decompose import compose_system, split_system
from wmlab.domains.base import Task
from wmlab.domains.conventions import (
    UPSTREAM_NAMES,
    acknowledgement_of,
    canonical_item_id,
    goal_of,
    item_id,
    item_number,
)
from wmlab.errors import InputError
from wmlab.io.atomic import write_text

ROW_INDEX_LIST = "alfworld_train"
"""A task list with this in its name numbers its tasks by row, whatever their item ids say (formats.md 1.4)."""
_FIX = "give the files as released"


@dataclass(frozen=True)
class Contexts:
    """Tasks in file order, and what agents are told beside them; None where there was no agent file."""

    tasks: list[Task]
    prompt: str | None = None
    acknowledgement: str | None = None


def read_contexts(source: str | Path, domain: str) -> Contexts:
    """Read a folder of contexts (both files, or one of them) or a single file of it.

    Where both are given they must hold the same tasks in the same order with the same first observation.
    Raises InputError naming the file and the 0-based element.
    """
    root = Path(source)
    files = [root] if root.is_file() else context_files(root)
    agents = [path for path in files if path.name.startswith("agent_")]
    worlds = [path for path in files if path.name.startswith("wm_")]
    if not files or len(agents) > 1 or len(worlds) > 1 or len(agents) + len(worlds) < len(files):
        fix = "give a folder with one agent_instruct_*.json and one wm_instruct_*.json, or one of the two"
        raise InputError.at(root, "not one set of contexts", fix)
    from_agent = _read_agent(agents[0], domain) if agents else None
    from_world = _read_world(worlds[0], domain) if worlds else None
    if from_agent is None or from_world is None:
        found = from_agent or from_world
        assert found is not None
        return found
    for row, (told, shown) in enumerate(zip(from_agent.tasks, from_world.tasks, strict=False)):
        if told.sha256 != shown.sha256:
            problem = f"{told.task_id} is not what {agents[0].name} has ({shown.task_id})"
            raise InputError.at(worlds[0], problem, _FIX, row)
    if len(from_agent.tasks) != len(from_world.tasks):
        problem = f"{len(from_world.tasks)} tasks, {agents[0].name} has {len(from_agent.tasks)}"
        raise InputError.at(worlds[0], problem, _FIX)
    return Contexts(from_world.tasks, from_agent.prompt, from_agent.acknowledgement)


def context_files(folder: Path) -> list[Path]:
    """The files of contexts in a folder, without the notes on where they come from beside them."""
    found = sorted(folder.glob("*_instruct_*.json"))
    return [path for path in found if not path.name.endswith(".meta.json")]


def _contents(element: Any, roles: Sequence[str], path: Path, row: int) -> list[str]:
    messages = element.get("messages") if isinstance(element, dict) else None
    if not isinstance(messages, list) or len(messages) != len(roles):
        raise InputError.at(path, f"messages are not {', '.join(roles)}", _FIX, row)
    for message, role in zip(messages, roles, strict=True):
        whole = isinstance(message, dict) and isinstance(message.get("content"), str)
        if not whole or message.get("role") != role:
            raise InputError.at(path, f"messages are not {', '.join(roles)}", _FIX, row)
    return [message["content"] for message in messages]


def _number(value: Any, path: Path, row: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError.at(path, f"id is {json.dumps(value)[:40]}, not a whole number", _FIX, row)
    return value


def _task(
    domain: str, number: int, shown: str, block: str | None, seen: set[int], path: Path, row: int
) -> Task:
    if number in seen:
        raise InputError.at(path, f"{item_id(domain, number)} is there twice", "keep each task once", row)
    seen.add(number)
    goal = goal_of(domain, shown)
    if not goal:
        raise InputError.at(path, "the first observation states no goal", f"is it {domain}? {_FIX}", row)
    return Task(item_id(domain, number), domain, goal, shown, block)


def _read_agent(path: Path, domain: str) -> Contexts:
    tasks: list[Task] = []
    told: set[tuple[str, str]] = set()
    seen: set[int] = set()
    for row, element in enumerate(read_array(path)):
        prompt, reply, shown = _contents(element, ("user", "assistant", "user"), path, row)
        number = _number(element.get("data_idx"), path, row)
        if canonical_item_id(str(element.get("item_id"))) != item_id(domain, number):
            problem = f"item_id is {json.dumps(element.get('item_id'))[:60]}, not {item_id(domain, number)}"
            raise InputError.at(path, problem, "give the domain of the file", row)
        told.add((prompt, reply))
        tasks.append(_task(domain, number, shown, None, seen, path, row))
        if len(told) > 1:
            raise InputError.at(path, "another prompt than in the elements before", _FIX, row)
    if not tasks:
        raise InputError.at(path, "no contexts", _FIX)
    prompt, reply = told.pop()
    return Contexts(tasks, prompt, reply)


def _read_world(path: Path, domain: str) -> Contexts:
    tasks: list[Task] = []
    seen: set[int] = set()
    for row, element in enumerate(read_array(path)):
        (system,) = _contents(element, ("system",), path, row)
        shown, block = split_system(system)
        number = _number(element.get("id"), path, row)
        tasks.append(_task(domain, number, shown, block, seen, path, row))
    if not tasks:
        raise InputError.at(path, "no contexts", _FIX)
    return Contexts(tasks)


def write_contexts(folder: str | Path, domain: str, split: str, contexts: Contexts) -> list[Path]:
    """Write both files as upstream formats them and return them. Raises InputError for other ids than its."""
    reply = contexts.acknowledgement or acknowledgement_of(domain)
    agents, worlds = [], []
    for task in contexts.tasks:
        number = item_number(domain, task.task_id)
        messages = [("user", contexts.prompt or ""), ("assistant", reply), ("user", task.initial_observation)]
        turns = [{"role": role, "content": content} for role, content in messages]
        agents.append({"item_id": item_id(domain, number), "data_idx": number, "messages": turns})
        system = compose_system(task.initial_observation, task.privileged)
        worlds.append({"id": number, "messages": [{"role": "system", "content": system}]})
    paths = [Path(folder) / f"{name}_instruct_{split}.json" for name in ("agent", "wm")]
    for path, elements, indent in zip(paths, (agents, worlds), (2, 4), strict=True):
        write_text(path, json.dumps(elements, ensure_ascii=False, indent=indent))
    return paths


def read_task_ids(source: str | Path, domain: str) -> list[str]:
    """Task ids of a task list, a panel or a file of contexts, in file order.

    A task list is an array of ``{"item_id", "conversations"}``; the task is the number at the end of the
    id, or the row in ``alfworld_train``. Raises InputError for a repeated id or another domain's.
    """
    path = Path(source)
    if path.is_file() and _is_object(path):
        from wmlab.domains.panels import read_panel

        return [task.task_id for task in read_panel(path)]
    if path.is_dir() or path.name.startswith(("agent_instruct_", "wm_instruct_")):
        return [task.task_id for task in read_contexts(path, domain).tasks]
    ids: dict[str, None] = {}
    for row, element in enumerate(read_array(path)):
        identity = element.get("item_id") if isinstance(element, dict) else None
        name, _, digits = canonical_item_id(str(identity)).rpartition("_")
        numbered = digits.isascii() and digits.isdigit() and len(digits) < 10
        if not numbered or name not in (domain, UPSTREAM_NAMES[domain]):
            raise InputError.at(
                path, f"item_id is {json.dumps(identity)[:60]}", f"give ids like {item_id(domain, 17)}", row
            )
        task = item_id(domain, row if ROW_INDEX_LIST in path.name else int(digits))
        if task in ids:
            raise InputError.at(path, f"{task} is there twice", "keep each task once", row)
        ids[task] = None
    if not ids:
        raise InputError.at(path, "no tasks", "give a list with tasks")
    return list(ids)


def _is_object(path: Path) -> bool:
    with path.open("rb") as handle:
        return handle.read(64).lstrip().startswith(b"{")


def write_task_list(path: str | Path, task_ids: Sequence[str]) -> None:
    """Write ids as upstream's task list."""
    rows = [{"item_id": identity, "conversations": None} for identity in task_ids]
    write_text(path, json.dumps(rows, ensure_ascii=False, indent=2))
