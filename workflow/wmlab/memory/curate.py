"""Curation by rule: the counts of a bucket to one positive hint and one error pattern.

No language model is needed, and equal buckets give equal hints. The positive hint names the patterns that
most gold observations of the bucket share; the negative one what predictions most often left out and
invented. Both are conditional and carry their counts, so a reader can tell a rule from a coincidence.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Protocol

from wmlab.errors import InputError
from wmlab.memory.prompt import AVOID, EXPECT, INVENT, OMIT, OR, UNLESS, shorten
from wmlab.memory.store import Bucket

MOST = 6
"""Patterns a positive hint names; a negative one names half as many of each kind."""
HINT_CHARACTERS = 320


@dataclass(frozen=True, slots=True)
class Hints:
    """One line each; "" when there is nothing to say."""

    positive: str
    negative: str


class Curator(Protocol):
    """Turns a bucket into hints; ``name`` is written into the bank's metadata."""

    @property
    def name(self) -> str: ...

    def curate(self, bucket: Bucket) -> Hints: ...


def ranked(counts: Counter[str], n: int, least_share: float, most: int) -> list[tuple[str, int]]:
    """Items that occur in at least ``least_share`` of ``n``, commonest first, ties by name, at most ``most``."""
    common = [(item, count) for item, count in counts.items() if count >= least_share * n]
    return sorted(common, key=lambda pair: (-pair[1], pair[0]))[:most]


def _counted(items: list[tuple[str, int]], n: int) -> str:
    return ", ".join(f"{item} {count}/{n}" for item, count in items)


@dataclass(frozen=True, slots=True)
class RuleCurator:
    """The default. ``majority`` is the share of gold observations a positive pattern needs, ``common`` the
    share of predictions an error needs; without any such pattern the commonest one is named."""

    majority: float = 0.5
    common: float = 0.2

    def __post_init__(self) -> None:
        if not (0.0 < self.majority <= 1.0 and 0.0 < self.common <= 1.0):
            raise InputError("curator: majority and common must be above 0 and at most 1")

    @property
    def name(self) -> str:
        """Its name."""
        return "rules"

    def curate(self, bucket: Bucket) -> Hints:
        """Hints of a bucket of prediction errors, or of a cache, which has no errors."""
        kept = ranked(bucket.gold, bucket.n, self.majority, MOST) or ranked(bucket.gold, bucket.n, 0.0, 1)
        positive = f"{EXPECT}{_counted(kept, bucket.n)}" if kept else ""
        errors = []
        for verb, counts in ((OMIT, bucket.missed), (INVENT, bucket.invented)):
            found = ranked(counts, bucket.n, self.common, MOST // 2) or ranked(counts, bucket.n, 0.0, 1)
            if found:
                errors.append(f"{verb}{_counted(found, bucket.n)}")
        negative = f"{AVOID}{OR.join(errors)}{UNLESS}" if errors else ""
        return Hints(shorten(positive, HINT_CHARACTERS), shorten(negative, HINT_CHARACTERS))
