"""A domain's bank from its training transitions and the supervised model's predictions of them.

Parser games: a transition whose prediction missed or invented a fact is *hard*; it counts in the buckets of
every key of its back-off order, so sparse specific keys have general ones behind them (``keys``). Caches
(ScienceWorld, TextWorld) and WebShop's site cache need no predictions: what training worlds showed is counted
under the key of the action that showed it. Transitions of held-out tasks are left out and counted.

Both passes stream: evidence is summed in ``store`` (bounded memory, any order of the input gives the same
sums) and entries leave it one at a time, sorted by id, so a bank is the same bytes for the same input in any
order. Dropped are buckets below the least support; those that hold exactly the transitions of the next more
general key, which says the same and answers more; and those that name no object though all their transitions
have the same one, for what opening fridges showed is no evidence about drawers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from wmlab.data.decompose import history_is_whole
from wmlab.errors import InputError
from wmlab.memory import shop
from wmlab.memory.bank import Entry
from wmlab.memory.curate import MOST, Curator, Hints, RuleCurator, ranked
from wmlab.memory.evidence import Facts, evidence_of, patterns
from wmlab.memory.guard import task_hash
from wmlab.memory.keys import FIELDS, cached, chain, fields_of
from wmlab.memory.prompt import block_name, cut, inert
from wmlab.memory.store import IN_MEMORY, SIDES, Bucket, CountStore
from wmlab.metrics import ssf

PAGE_CHARACTERS = 2_000
"""A results page has ten products of about 130 characters."""
_MENU = "AMBIG_OPTION("
Predictions = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """Least number of transitions behind a rule, source ids kept an entry, counter rows held in memory."""

    min_support: int = 2
    keep_sources: int = 32
    in_memory: int = IN_MEMORY

    def __post_init__(self) -> None:
        if self.min_support < 1 or self.keep_sources < 1 or self.in_memory < 1:
            raise InputError("memory: min_support, keep_sources and in_memory must be at least 1")


@dataclass
class Build:
    """A build under way: ``entries`` does the work, ``report`` counts it while it does."""

    domain: str
    curator: Curator = field(default_factory=RuleCurator)
    settings: BuildSettings = field(default_factory=BuildSettings)
    excluded: frozenset[str] = frozenset()
    facts: Facts = ssf.facts
    report: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        block_name(self.domain)

    def entries(
        self, rows: Iterable[Mapping[str, Any]], predictions: Predictions | None, source: object
    ) -> Iterator[Entry]:
        """Entries sorted by id. ``predictions`` gives a transition's prediction, or None where it has none.

        Raises InputError naming ``source`` and the row for a broken transition or one of another domain, and
        where the domain's rules need predictions and none were given.
        """
        if predictions is None and self.domain != "webshop":
            raise InputError.at(source, "no predictions to learn errors from", "give --predictions")
        with CountStore(self.domain, self.settings.keep_sources, self.settings.in_memory) as store:
            for number, row in enumerate(rows):
                self.report["transitions"] += 1
                self._check(row, source, number)
                task = task_hash(row["history"])
                if task in self.excluded:
                    self.report["held_out"] += 1
                elif self.domain == "webshop":
                    self._add_page(store, row, task)
                else:
                    self._add_transition(store, row, task, predictions)
            for bucket in store.buckets():
                entry = self._entry(store, bucket)
                if entry is not None:
                    self.report[f"entries_{entry.kind}"] += 1
                    self.report["entries"] += 1
                    yield entry

    def _check(self, row: Mapping[str, Any], source: object, number: int) -> None:
        if any(row[name] is None for name in ("transition_id", "action", "observation")):
            raise InputError.at(source, "a field is null", "decompose the trajectories again", number)
        if not history_is_whole(row["history"]):
            raise InputError.at(
                source, "history is empty or holds a null", "decompose the trajectories again", number
            )
        if row["domain"] != self.domain:
            raise InputError.at(
                source, f"domain {row['domain']!r}, not {self.domain!r}", "give one domain", number
            )

    def _add_page(self, store: CountStore, row: Mapping[str, Any], task: str) -> None:
        place = shop.locate(row["history"])
        # A product stands in the cache as itself too, whatever was chosen on it.
        for one in {place, replace(place, options=()) if place.page == "item" else place}:
            record = shop.record(one, row["observation"])
            if record is None:
                self.report["not_cached"] += one == place
                continue
            store.add(shop.probes(one)[:1], {"gold": [record]}, row["transition_id"], task)

    def _add_transition(
        self, store: CountStore, row: Mapping[str, Any], task: str, predictions: Predictions | None
    ) -> None:
        identity, action = row["transition_id"], row["action"]
        fields = fields_of(self.domain, row["history"], action)
        caches = cached(self.domain, fields)
        if caches and (shown := sorted(patterns(self.domain, row["observation"], "", self.facts))):
            menu = any(one.startswith(_MENU) for one in shown)
            # Menus go to the menu cache, everything else to the cache of its subject.
            kept = [probe for probe in caches if (probe[1][0] == ("cache", "menu")) == menu]
            store.add(kept, {"gold": shown}, identity, task)
        prediction = predictions(identity) if predictions is not None else None
        if prediction is None:
            self.report["without_prediction"] += 1
            return
        found = evidence_of(self.domain, row, prediction, self.facts)
        if not found.is_hard:
            self.report["right"] += 1
            return
        self.report["hard"] += 1
        sides = {
            "gold": found.gold,
            "missed": found.missed,
            "invented": found.invented,
            "objects": (fields["object"],),
        }
        store.add(chain(self.domain, fields), sides, identity, task)

    def _entry(self, store: CountStore, bucket: Bucket) -> Entry | None:
        self.report["buckets"] += 1
        rule = bucket.kind in ("transition", "fact")
        if rule and bucket.n < self.settings.min_support:
            self.report["below_support"] += 1
            return None
        if rule and self._says_no_more(store, bucket):
            return None
        hints = self._hints(bucket, rule)
        payload: dict[str, Any] = {"task_hashes": bucket.task_hashes}
        if rule:
            payload["counts"] = {
                side: dict(ranked(getattr(bucket, side), bucket.n, 0.0, MOST)) for side in SIDES
            }
        return Entry(
            bucket.id,
            bucket.kind,
            bucket.key,
            hints.positive,
            hints.negative,
            payload,
            bucket.n,
            tuple(bucket.source_ids),
        )

    def _says_no_more(self, store: CountStore, bucket: Bucket) -> bool:
        """Whether another key says the same of as much as the evidence bears."""
        named = dict(bucket.key)
        if "object" not in named and len(bucket.objects) == 1 and "" not in bucket.objects:
            self.report["one_object"] += 1
            return True
        order = chain(self.domain, {**dict.fromkeys(FIELDS, ""), **named})
        if len(order) < 2 or ("object" in named and "object" not in dict(order[1][1])):
            return False
        same = store.size(order[1]) == bucket.n
        self.report["same_as_general"] += same
        return same

    def _hints(self, bucket: Bucket, rule: bool) -> Hints:
        """What an entry says: curated where it is a rule, the commonest record where it is a page."""
        if rule:
            hints = self.curator.curate(bucket)
        elif self.domain == "webshop":
            hints = Hints(
                cut(ranked(bucket.gold, bucket.n, 0.0, 1)[0][0], lambda text: len(text) <= PAGE_CHARACTERS),
                "",
            )
        else:
            hints = RuleCurator().curate(bucket)
        return Hints(inert(hints.positive), inert(hints.negative))
