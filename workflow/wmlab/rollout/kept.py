"""Real runs that studies share: an agent plays a panel once, whatever study asks.

A run is known by its content (agent and its weights, panel, protocol, seed, the code of the domain): an equal one is
the same episodes. Runs with an error in them are not kept, so a failure is tried again.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wmlab.domains.base import Task
from wmlab.io.atomic import atomic_path
from wmlab.io.jsonl import read_jsonl


class Kept:
    """The run with identity ``key`` in ``folder``."""

    def __init__(self, folder: Path, key: str) -> None:
        self.path = folder / f"{key}.jsonl"

    def take(self, out: Path, tasks: Sequence[Task], agent_id: str) -> list[dict[str, Any]] | None:
        """Copy the kept episodes to ``out`` and return their rows; None when there are none of these tasks."""
        if not self.path.is_file():
            return None
        rows = read_jsonl(self.path)
        there = [(row.get("item_id"), row.get("task_sha256"), row.get("agent_id")) for row in rows]
        if there != [(task.task_id, task.sha256, agent_id) for task in tasks]:
            return None
        with atomic_path(out) as temporary:
            shutil.copyfile(self.path, temporary)
        return rows

    def put(self, out: Path) -> None:
        """Keep the episodes of ``out``, unless one of them is an error."""
        if any(row["status"] == "error" for row in read_jsonl(out)):
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(self.path) as temporary:
            shutil.copyfile(out, temporary)
