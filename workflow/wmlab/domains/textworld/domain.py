"""TextWorld as a domain: seeds 1 to 200 are the published test tasks, others are for training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wmlab.domains.base import Options
from wmlab.domains.registry import check_options, check_split
from wmlab.domains.textworld.environment import TextWorldEnvironment
from wmlab.errors import InputError

PUBLISHED_TASKS = 200
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


@dataclass(frozen=True)
class TextWorldDomain:
    """tw-simple games by seed (behr.txt 5.1, formats.md 2.4)."""

    cache_dir: Path
    name: str = "textworld"

    def task_ids(self, split: str, first: int, n: int) -> list[str]:
        """Seeds first to first+n-1. Raises InputError when training would use a published test task."""
        check_split(split)
        if split != "test" and first <= PUBLISHED_TASKS:
            raise InputError(
                f"split {split}: seeds 1 to {PUBLISHED_TASKS} are the published test tasks; "
                f"use --first-seed {PUBLISHED_TASKS + 1} or more"
            )
        return [f"textworld_{seed}" for seed in range(first, first + n)]

    def open(self, *, every_step: bool = False, expert: bool = False) -> TextWorldEnvironment:
        """One game at a time."""
        return TextWorldEnvironment(self.cache_dir, every_step=every_step, expert=expert)

    def stray(self, rng: np.random.Generator, admissible: Sequence[str], seen: Sequence[str]) -> str:
        """Half possible commands, the rest looking around, walking into walls, refused and unknown commands."""
        kind = rng.random()
        if kind < 0.5 and admissible:
            return str(admissible[int(rng.integers(len(admissible)))])
        if kind < 0.6:
            return ("look", "inventory")[int(rng.integers(2))]
        if kind < 0.75:
            return f"go {_DIRECTIONS[int(rng.integers(4))]}"
        templates = _PLAUSIBLE if kind < 0.93 else _UNKNOWN
        vocabulary = sorted({name for command in seen for name in _objects(command)}) or ["box", "bed"]
        names = [str(vocabulary[int(rng.integers(len(vocabulary)))]) for _ in range(2)]
        return templates[int(rng.integers(len(templates)))].format(x=names[0], y=names[1])


def _objects(command: str) -> list[str]:
    """Names in an admissible command: ``take old key from chest drawer`` → old key, chest drawer."""
    _, _, rest = command.partition(" ")
    for joint in (" from ", " with ", " into ", " on "):
        rest = rest.replace(joint, "|")
    return [name for name in rest.split("|") if name and name not in _DIRECTIONS]


def make(cache_dir: Path, options: Options) -> TextWorldDomain:
    """See ``DomainMaker``."""
    check_options("textworld", options)
    return TextWorldDomain(cache_dir)
