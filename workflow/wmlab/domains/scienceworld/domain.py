"""ScienceWorld as a domain: 30 tasks with their variations, by official, AgentGym or ETO panels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wmlab.domains.base import Options
from wmlab.domains.registry import check_options
from wmlab.domains.scienceworld.environment import ScienceWorldEnvironment
from wmlab.domains.scienceworld.tasks import PANELS, SPLITS, check_tasks, panel_ids
from wmlab.domains.scienceworld.text import names
from wmlab.errors import InputError

SIMPLIFICATIONS = (
    "easy",
    "teleportAction",
    "selfWateringFlowerPots",
    "openContainers",
    "openDoors",
    "noElectricalAction",
)
_UNKNOWN = (
    "take {x}",
    "go north",
    "examine {x}",
    "cook {x}",
    "talk to {x}",
    "search {x}",
    "unlock {x} with {y}",
)
_PAIRS = ("move {x} to {y}", "pour {x} into {y}", "use {x} on {y}", "mix {x}", "look in {x}", "put down {x}")
_OPTIONS = ("panel", "tasks", "simplification", "admissible", "lists")
FOCUS_SHARE = 0.02
"""Focusing on a wrong thing loses the task at once, so strays do it rarely."""


@dataclass(frozen=True)
class ScienceWorldDomain:
    """Tasks of a panel. ``lists`` is a folder of released task lists, "" for none."""

    cache_dir: Path
    panel: str = "official"
    tasks: tuple[str, ...] = ()
    simplification: str = ""
    exact: bool = False
    lists: str = ""
    name: str = "scienceworld"

    def task_ids(self, split: str, first: int, n: int) -> list[str]:
        """Ids at positions first to first+n-1 of the split. Raises InputError beyond its end."""
        if split not in SPLITS:
            raise InputError(f"split {split!r}: not known; choose from {', '.join(SPLITS)}")
        ids = panel_ids(self.panel, split, self.tasks, self.lists)
        if first < 1 or first + n - 1 > len(ids):
            raise InputError(
                f"domain scienceworld: tasks {first} to {first + n - 1} asked for; the {split} split of panel "
                f"{self.panel} has {len(ids)} with these options"
            )
        return ids[first - 1 : first - 1 + n]

    def open(self, *, every_step: bool = False, expert: bool = False) -> ScienceWorldEnvironment:
        """An environment in this process's JVM."""
        return ScienceWorldEnvironment(
            self.cache_dir,
            simplification=self.simplification,
            every_step=every_step,
            exact=self.exact,
            expert=expert,
        )

    def stray(self, rng: np.random.Generator, admissible: Sequence[str], seen: Sequence[str]) -> str:
        """Half plausible actions (verbs alike, focusing rarely), the rest pairs of things and unknown words."""
        kind = rng.random()
        if kind < 0.6 and admissible:
            return _plausible(rng, admissible)
        if kind < 0.7:
            return ("look around", "inventory", "wait1")[int(rng.integers(3))]
        things = names(seen) or ["box", "cup"]
        x, y = (things[int(rng.integers(len(things)))] for _ in range(2))
        templates = _PAIRS if kind < 0.9 else _UNKNOWN
        return templates[int(rng.integers(len(templates)))].format(x=x, y=y)


def _plausible(rng: np.random.Generator, admissible: Sequence[str]) -> str:
    focusing = rng.random() < FOCUS_SHARE
    kept = [a for a in admissible if a.startswith("focus ") == focusing and a != "reset task"] or list(
        admissible
    )
    verbs = sorted({action.split()[0] for action in kept})
    verb = verbs[int(rng.integers(len(verbs)))]
    same = [action for action in kept if action.split()[0] == verb]
    return str(same[int(rng.integers(len(same)))])


def make(cache_dir: Path, options: Options) -> ScienceWorldDomain:
    """See ``DomainMaker``. Options: panel, tasks, simplification, admissible (plausible, exact), lists."""
    check_options("scienceworld", options, _OPTIONS)
    panel = str(options.get("panel", "official"))
    if panel not in PANELS:
        raise InputError(
            f"domain scienceworld: panel {panel!r} is not known; choose from {', '.join(PANELS)}"
        )
    # ETO plays the easy version (formats.md); AgentGym and Word2World the full one.
    simplification = str(options.get("simplification", "easy" if panel == "eto" else ""))
    for part in filter(None, simplification.split(",")):
        if part not in SIMPLIFICATIONS:
            raise InputError(
                f"domain scienceworld: simplification {part!r} is not known; choose from {', '.join(SIMPLIFICATIONS)}"
            )
    admissible = str(options.get("admissible", "plausible"))
    if admissible not in ("plausible", "exact"):
        raise InputError(f"domain scienceworld: admissible {admissible!r} is not plausible or exact")
    tasks = check_tasks(str(options.get("tasks", "short" if panel == "official" else "all")))
    return ScienceWorldDomain(
        cache_dir, panel, tasks, simplification, admissible == "exact", str(options.get("lists", ""))
    )
