"""WebShop as a domain: goals by index, the published splits, exploring behaviour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from wmlab.domains.base import Options
from wmlab.domains.webshop.environment import DOMAIN, WebShopEnvironment, index_of
from wmlab.domains.webshop.generator import vocabulary
from wmlab.domains.webshop.pages import SEARCH_BAR
from wmlab.domains.webshop.settings import Settings, read_settings
from wmlab.domains.webshop.shop import open_shop
from wmlab.errors import InputError

SPLITS = {"test": (0, 500), "validation": (500, 1500), "train": (1500, None)}
HELD_OUT = 1000
PUBLISHED_GOALS = 6910
_NONSENSE = (
    "click[add to cart]",
    "click[price]",
    "click[checkout]",
    "think[what next]",
    "buy now",
    "click[size]",
)


@dataclass(frozen=True)
class WebShopDomain:
    """The web shop. Goals 0 to 499 are for testing, 500 to 1,499 for validation, the rest for training.

    A shop of fewer than 3,000 goals, too few for that, is split in the published proportions.
    """

    cache_dir: Path
    settings: Settings = field(default_factory=Settings)
    name: str = DOMAIN

    def task_ids(self, split: str, first: int, n: int) -> list[str]:
        """``n`` ids from position ``first`` (1-based) of a split. Raises InputError when it has fewer."""
        indices = self._split(split)
        if first < 1 or first + n - 1 > len(indices):
            raise InputError(
                f"webshop: split {split} has {len(indices)} tasks; asked for {first} to {first + n - 1}"
            )
        return [f"{DOMAIN}_{index}" for index in indices[first - 1 : first - 1 + n]]

    def _split(self, split: str) -> Sequence[int]:
        if split not in SPLITS:
            raise InputError(f"webshop: split {split!r} is not known; choose from {', '.join(SPLITS)}")
        n_goals = open_shop(str(self.cache_dir), self.settings).n_goals
        if not self.settings.tasks:
            return range(n_goals)[split_range(split, n_goals)]
        published = published_tasks(self.settings.tasks)
        if max(published) >= n_goals:
            raise InputError.at(
                self.settings.tasks,
                f"asks for goal {max(published)} of {n_goals}",
                "give the list of this catalogue",
            )
        if split == "test":
            return published
        taken = set(published)
        others = [index for index in range(n_goals) if index not in taken]
        return others[:HELD_OUT] if split == "validation" else others[HELD_OUT:]

    def open(self, *, every_step: bool = False, expert: bool = False) -> WebShopEnvironment:
        """One session at a time; pages list their actions and gold is known either way."""
        return WebShopEnvironment(self.cache_dir, self.settings)

    def stray(self, rng: np.random.Generator, admissible: Sequence[str], seen: Sequence[str]) -> str:
        """Other searches and products, turned pages, wrong options, tabs, rash purchases, refused clicks."""
        kind = rng.random()
        clicks = [
            action for action in admissible if action.startswith("click[") and "[buy now]" not in action
        ]
        if kind < 0.10 and "click[buy now]" in admissible:
            return "click[buy now]"
        if kind < 0.17:
            return _NONSENSE[int(rng.integers(len(_NONSENSE)))]
        if kind < 0.23 and seen:
            return str(seen[int(rng.integers(len(seen)))])  # often no longer possible
        if kind < 0.30 or SEARCH_BAR in admissible or not clicks:
            return f"search[{_some_query(rng)}]"
        if kind < 0.50:
            products = [action for action in clicks if len(action) == 17]
            clicks = products or clicks
        return clicks[int(rng.integers(len(clicks)))]


def split_range(split: str, n_goals: int) -> slice:
    """Which goals, by index, make up ``split``: see WebShopDomain."""
    start, end = SPLITS[split]
    if n_goals >= 2 * SPLITS["train"][0]:
        return slice(start, end)
    share = n_goals / PUBLISHED_GOALS
    return slice(round(start * share), None if end is None else round(end * share))


def _some_query(rng: np.random.Generator) -> str:
    """A kind of product, with one of its attributes two times in three."""
    kinds = vocabulary().kinds
    kind = kinds[int(rng.integers(len(kinds)))]
    extras = [*kind["pre"], *kind["with"]]
    extra = f"{extras[int(rng.integers(len(extras)))]} " if rng.random() < 2 / 3 else ""
    return f"{extra}{kind['phrase']}"


@lru_cache(maxsize=8)
def published_tasks(path: str) -> tuple[int, ...]:
    """Goal indices of a task list, contexts or panel file. Raises InputError naming the element."""
    from wmlab.data.contexts import read_task_ids

    return tuple(index_of(task_id) for task_id in read_task_ids(path, DOMAIN))


def make(cache_dir: Path, options: Options) -> WebShopDomain:
    """See ``DomainMaker``; the options are described in settings.py."""
    return WebShopDomain(cache_dir, read_settings(options))
