"""ALFWorld as a domain: generated households by seed, or alfworld's official evaluation games."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wmlab.domains.base import Options
from wmlab.domains.registry import check_options
from wmlab.errors import InputError

if TYPE_CHECKING:
    from wmlab.domains.alfworld.environment import AlfworldEnvironment
    from wmlab.domains.alfworld.sources import Source

OPTIONS = ("games", "dialect", "receptacles")
FURNITURE_PER_CLASS = 4
_PLAIN = ("look", "inventory", "help")
_PLAUSIBLE = (
    "go to {x}",
    "open {x}",
    "close {x}",
    "examine {x}",
    "take {x} from {y}",
    "move {x} to {y}",
    "put {x} in/on {y}",
    "use {x}",
    "heat {x} with {y}",
    "cool {x} with {y}",
    "clean {x} with {y}",
)
_UNKNOWN = ("drop {x}", "search {x}", "pick up {x}", "put {x} on {y}", "turn on {x}", "sit on {x}", "go {x}")


@dataclass(frozen=True)
class AlfworldDomain:
    """Options: ``games`` (official games), ``dialect`` (move or put), ``receptacles`` (furniture a class)."""

    cache_dir: Path
    games: str = ""
    dialect: str = "move"
    receptacles: int = FURNITURE_PER_CLASS
    name: str = "alfworld"

    def source(self) -> Source:
        """Where tasks come from."""
        from wmlab.domains.alfworld.official import OfficialGames
        from wmlab.domains.alfworld.sources import Generated, Official

        if self.games:
            return Official(OfficialGames(Path(self.games), self.cache_dir))
        return Generated(self.cache_dir, self.receptacles)

    def task_ids(self, split: str, first: int, n: int) -> list[str]:
        """Generated: seeds from ``first``, 1..200 for test only. Official: positions in test, seen or unseen."""
        return self.source().task_ids(split, first, n)

    def open(self, *, every_step: bool = False, expert: bool = False) -> AlfworldEnvironment:
        """One household at a time."""
        from wmlab.domains.alfworld.environment import AlfworldEnvironment

        return AlfworldEnvironment(self.source(), self.dialect, every_step=every_step, expert=expert)

    def stray(self, rng: np.random.Generator, admissible: Sequence[str], seen: Sequence[str]) -> str:
        """Mostly possible commands, each verb alike; else commands that are refused here or always."""
        kind = rng.random()
        if kind < 0.6 and admissible:
            verbs = sorted({command.split()[0] for command in admissible})
            verb = verbs[int(rng.integers(len(verbs)))]
            commands = [command for command in admissible if command.split()[0] == verb]
            return str(commands[int(rng.integers(len(commands)))])
        if kind < 0.7:
            return _PLAIN[int(rng.integers(len(_PLAIN)))]
        templates = _PLAUSIBLE if kind < 0.93 else _UNKNOWN
        names = sorted({name for command in seen for name in _objects(command)}) or ["drawer 1", "shelf 1"]
        x, y = (names[int(rng.integers(len(names)))] for _ in range(2))
        return templates[int(rng.integers(len(templates)))].format(x=x, y=y)


def _objects(command: str) -> list[str]:
    """Names in a command: ``take mug 1 from desk 2`` → mug 1, desk 2."""
    words = command.split()
    return [f"{word} {number}" for word, number in pairwise(words) if number.isdigit()]


def make(cache_dir: Path, options: Options) -> AlfworldDomain:
    """See ``DomainMaker``. Raises InputError for an unknown option or a wrong value."""
    check_options("alfworld", options, OPTIONS)
    games, dialect = options.get("games", ""), options.get("dialect", "move")
    receptacles = options.get("receptacles", FURNITURE_PER_CLASS)
    if not isinstance(games, str) or (games and not Path(games).exists()):
        raise InputError(f"domain alfworld: option games: {games!r} is not a file or folder that exists")
    if dialect not in ("move", "put"):
        raise InputError(f"domain alfworld: option dialect: {dialect!r} is not known; choose from move, put")
    if isinstance(receptacles, bool) or not isinstance(receptacles, int) or not 0 <= receptacles <= 100:
        raise InputError(
            f"domain alfworld: option receptacles: {receptacles!r} is not a number of furniture a class "
            "from 1 to 100, or 0 for all"
        )
    return AlfworldDomain(cache_dir, games, str(dialect), receptacles)
