"""Observations collected now from the real environments, for tests that recorded ones cannot answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wmlab.config.recipes import CollectRecipe
from wmlab.data.collect import collect
from wmlab.data.decompose import transitions
from wmlab.domains.panels import build_panel
from wmlab.domains.registry import make_domain

RECIPE = CollectRecipe(trajectories_per_task=6, noise=(0.0, 0.15, 0.3, 0.5, 0.7, 0.9), step_cap=40)
BATCH = 8
"""Tasks a round; every round asks for tasks that no test has recorded: training tasks from this one on."""
FIRST = 401


def fresh(domain: str, n: int, cache: Path, first: int = FIRST) -> list[dict[str, Any]]:
    """Transitions with at least ``n`` distinct observations, played with shares of stray actions from 0 to .9."""
    opened = make_domain(domain, cache)
    rows: list[dict[str, Any]] = []
    while len({row["observation"] for row in rows}) < n:
        tasks = build_panel(opened, opened.task_ids("train", first, BATCH), 1)
        rows += transitions(collect(opened, tasks, "train", RECIPE, 1, first), domain)
        first += BATCH
    return rows
