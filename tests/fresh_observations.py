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
FIRST, STRIDE, BATCH = 401, 37, 8
"""Training tasks 401, 438, …, then 402, 439, …: neighbours in a list of tasks are often alike."""


def fresh(domain: str, n: int, cache: Path) -> list[dict[str, Any]]:
    """At least ``n`` transitions, half of them with an observation of their own, in whole rounds of tasks."""
    opened = make_domain(domain, cache)
    rows: list[dict[str, Any]] = []
    first = FIRST
    while len(rows) < n or 2 * len({row["observation"] for row in rows}) < n:
        ids = [opened.task_ids("train", first + STRIDE * place, 1)[0] for place in range(BATCH)]
        rows += transitions(collect(opened, build_panel(opened, ids, 1), "train", RECIPE, 1, first), domain)
        first += 1
    return rows
