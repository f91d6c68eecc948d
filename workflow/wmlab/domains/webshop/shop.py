"""A shop, opened: products, search, goals and reward behind one object that a process shares.

The first opening builds it into the cache (seconds for the bundled catalogue); a lock keeps other processes
waiting meanwhile, and a finished shop appears under its name at once.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np

from wmlab.domains.webshop.build import Sources, build
from wmlab.domains.webshop.catalogue import HumanInstruction, Product, from_record
from wmlab.domains.webshop.generator import ATTRIBUTES, HUMAN, PRODUCTS, write_catalogue
from wmlab.domains.webshop.goals import Goal, human_goal, synthetic_goal
from wmlab.domains.webshop.nouns import tagger
from wmlab.domains.webshop.pages import Listing
from wmlab.domains.webshop.reward import Score, score
from wmlab.domains.webshop.search import HITS, Searcher
from wmlab.domains.webshop.settings import Settings
from wmlab.errors import InputError

SPECIAL = ("<r>", "<a>", "<c>", "<q>")


def ensure_shop(cache_dir: str | Path, settings: Settings) -> Path:
    """Return the folder of the built shop, building it when it is absent. Raises InputError for bad files."""
    target = Path(cache_dir) / "webshop" / settings.key()
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            return target
        for left in target.parent.glob(f".{target.name}.*/"):  # by a builder that was killed
            shutil.rmtree(left, ignore_errors=True)
        work = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
        try:
            build(work, _sources(work, settings), human_goals=settings.goals == "human", seed=settings.seed)
            work.chmod(0o755)
            os.replace(work, target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return target


def _sources(work: Path, settings: Settings) -> Sources:
    if settings.products:
        attributes, human = (Path(path) if path else None for path in (settings.attributes, settings.human))
        return Sources(Path(settings.products), attributes, human, settings.limit)
    folder = work / "catalogue"
    write_catalogue(folder, settings.size)
    return Sources(folder / PRODUCTS, folder / ATTRIBUTES, folder / HUMAN)


@lru_cache(maxsize=4)
def open_shop(cache_dir: str, settings: Settings) -> Shop:
    """The shop of these settings, one object a process."""
    return Shop(ensure_shop(cache_dir, settings), settings)


class Shop:
    """Read-only. Positions are those of products in the catalogue, from 0."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self.settings = settings
        uri = f"{(folder / 'shop.sqlite').resolve().as_uri()}?mode=ro&immutable=1"
        self._database = sqlite3.connect(uri, uri=True, check_same_thread=False)
        self._searcher = Searcher(folder / "index", self._database)
        self._order = np.load(folder / "order.npy", mmap_mode="r")
        self._nouns = tagger(settings.nouns)
        (self.n_products,) = self._database.execute("SELECT COUNT(*) FROM products").fetchone()
        self.n_goals = len(self._order)
        self.product = lru_cache(maxsize=20_000)(self._product)
        self.listing = lru_cache(maxsize=20_000)(self._listing)
        self.goal = lru_cache(maxsize=20_000)(self._goal)

    def _product(self, position: int) -> Product:
        row = self._database.execute("SELECT record FROM products WHERE position = ?", (position,)).fetchone()
        return from_record(row[0])

    def _listing(self, position: int) -> Listing:
        product = self.product(position)
        return Listing(product.asin, product.title, product.price_text)

    def position(self, asin: str) -> int:
        """Where a product stands in the catalogue. Raises KeyError for an unknown id."""
        row = self._database.execute("SELECT position FROM products WHERE asin = ?", (asin,)).fetchone()
        if row is None:
            raise KeyError(asin)
        return int(row[0])

    def price(self, position: int) -> float:
        """The price a purchase is judged by, in dollars."""
        query = "SELECT price FROM products WHERE position = ?"
        return float(self._database.execute(query, (position,)).fetchone()[0])

    def _goal(self, index: int) -> Goal:
        """The goal at ``index`` of the shuffled list. Raises InputError outside it."""
        if not 0 <= index < self.n_goals:
            raise InputError(f"webshop_{index}: there are goals 0 to {self.n_goals - 1}")
        at = int(self._order[index])
        query = "SELECT start, position, bounds FROM goals WHERE start <= ? ORDER BY start DESC LIMIT 1"
        start, position, bounds = self._database.execute(query, (at,)).fetchone()
        query = "SELECT entry FROM products WHERE position = ?"
        entry = json.loads(self._database.execute(query, (position,)).fetchone()[0])
        drawn, number, product = json.loads(bounds), at - start, self.product(position)
        if self.settings.goals == "human":
            instruction, attributes, options = entry[number]
            human = HumanInstruction(instruction, tuple(attributes), tuple(options))
            return human_goal(product, human, drawn[number])
        return synthetic_goal(product, entry[0], entry[1], number, drawn[0])

    def hits(self, query: str) -> tuple[int, ...]:
        """Positions of at most 50 products, best first. ``<r> <a> <c> <q>`` draw or look up instead."""
        return self._special(query) if query.startswith(SPECIAL) else self._searcher.hits(query)

    def _special(self, query: str) -> tuple[int, ...]:
        """``<r>`` products at random (seeded by the query), ``<a>`` with an attribute, ``<c>`` in a category, ``<q>``."""
        kind, value = query[:3], query[3:].strip()
        if kind == "<r>":
            rng = random.Random(f"{self.settings.seed}/{query}")
            return tuple(rng.randrange(self.n_products) for _ in range(HITS))
        if kind == "<a>":
            query = "SELECT position, record FROM products WHERE instr(record, ?) ORDER BY position"
            rows = self._database.execute(query, (json.dumps(value, ensure_ascii=False),))
            having = (position for position, record in rows if value in from_record(record).attributes)
            return tuple(islice(having, HITS))
        column = "category" if kind == "<c>" else "query"
        query = f"SELECT position FROM products WHERE {column} = ? ORDER BY position LIMIT ?"
        return tuple(position for (position,) in self._database.execute(query, (value, HITS)))

    def score(self, goal: Goal, position: int, chosen: Mapping[str, str]) -> Score:
        """The reward of buying the product at ``position`` with the chosen options."""
        wanted = self.product(self.position(goal.asin))
        bought = self.product(position)
        return score(goal, wanted, bought, self.price(position), chosen, self._nouns, self.settings.mode)
