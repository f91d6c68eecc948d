"""CookingWorld as a domain: TextWorldExpress games by seed, in the engine's train, dev and test folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wmlab.domains.base import Options
from wmlab.domains.cookingworld.environment import FOLD_SIZE, FOLDS, PREFIX, CookingWorldEnvironment
from wmlab.domains.registry import check_options
from wmlab.errors import InputError

SPLITS = {"train": "train", "validation": "dev", "test": "test"}
_PARAMETERS: dict[str, tuple[str, int, int, int]] = {  # option: engine's name, default, least, most
    "locations": ("numLocations", 3, 1, 11),
    "ingredients": ("numIngredients", 2, 1, 5),
    "distractors": ("numDistractorItems", 5, 0, 10),
    "doors": ("includeDoors", 1, 0, 1),
    "limit_inventory": ("limitInventorySize", 0, 0, 1),
}
_PLAUSIBLE = (
    "take {x}",
    "open {x}",
    "close {x}",
    "examine {x}",
    "eat {x}",
    "put {x} in {y}",
    "cook {x} in {y}",
    "slice {x}",
    "dice {x}",
)
_UNKNOWN = ("use {x}", "drop {x}", "search {x}", "go {x}", "wash {x}")
_DIRECTIONS = ("north", "south", "east", "west")
_VERBS = ("take ", "open ", "close ", "examine ", "eat ")


@dataclass(frozen=True)
class CookingWorldDomain:
    """Games with the engine's ``parameters``; the default ones are the recorded samples'."""

    parameters: str
    name: str = "cookingworld"

    def task_ids(self, split: str, first: int, n: int) -> list[str]:
        """Games first to first+n-1 of the split, i.e. seeds 0, 10000 or 20000 plus that. Raises InputError."""
        if split not in SPLITS:
            raise InputError(f"split {split!r}: not known; choose from {', '.join(SPLITS)}")
        if first < 1 or first + n > FOLD_SIZE:
            raise InputError(
                f"domain cookingworld: games {first} to {first + n - 1} asked for; a split has {FOLD_SIZE - 1}"
            )
        base = FOLDS[SPLITS[split]]
        return [f"{PREFIX}{base + number}" for number in range(first, first + n)]

    def open(self, *, every_step: bool = False, expert: bool = False) -> CookingWorldEnvironment:
        """An environment in this process's JVM."""
        return CookingWorldEnvironment(self.parameters, every_step=every_step, expert=expert)

    def stray(self, rng: np.random.Generator, admissible: Sequence[str], seen: Sequence[str]) -> str:
        """Half possible commands, the rest looking around, walking into walls, refused and unknown commands."""
        kind = rng.random()
        if kind < 0.5 and admissible:
            return str(admissible[int(rng.integers(len(admissible)))])
        if kind < 0.6:
            return ("look around", "inventory")[int(rng.integers(2))]
        if kind < 0.75:
            return f"move {_DIRECTIONS[int(rng.integers(4))]}"
        templates = _PLAUSIBLE if kind < 0.93 else _UNKNOWN
        things = _things(seen) or ["knife", "fridge"]
        x, y = (things[int(rng.integers(len(things)))] for _ in range(2))
        return templates[int(rng.integers(len(templates)))].format(x=x, y=y)


def _things(commands: Sequence[str]) -> list[str]:
    """What the commands name: ``take red potato`` → red potato."""
    named = {command.partition(" ")[2] for command in commands if command.startswith(_VERBS)}
    return sorted(name for name in named if not name.startswith("door to "))


def make(cache_dir: Path, options: Options) -> CookingWorldDomain:
    """See ``DomainMaker``. Options: the game's size, see ``_PARAMETERS``; nothing is kept in ``cache_dir``."""
    check_options("cookingworld", options, tuple(_PARAMETERS))
    parts = []
    for option, (engine_name, default, least, most) in _PARAMETERS.items():
        value = options.get(option, default)
        if isinstance(value, float | str) or not least <= int(value) <= most:
            raise InputError(
                f"domain cookingworld: option {option!r} is {value!r}, not a whole number from {least} to {most}"
            )
        parts.append(f"{engine_name}={int(value)}")
    return CookingWorldDomain(",".join(parts))
