"""Skills by rule: a pack's records to drafts, without a language model; equal packs give equal drafts.

A task's skill is the order of what most of its records did: every action has shapes from specific to general
(``outcome.shapes``), the most specific shape that half of the records share stands for it, and shapes are ordered
by their mean place in the episode. Mistakes are what solved episodes themselves got over.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import fmean, median
from typing import Protocol

from wmlab.data.decompose import action_type
from wmlab.memory.curate import ranked
from wmlab.memory.keys import arguments, type_of
from wmlab.skills.bank import GENERAL, MISTAKE, TASK, Draft
from wmlab.skills.outcome import shapes
from wmlab.skills.packs import ACROSS, Pack
from wmlab.skills.record import Record

MAJORITY = 0.5
LONGEST_ORDER = 10
PLACES = 3


class Summariser(Protocol):
    """Turns packs into drafts, pack by pack; ``name`` is written into the bank's metadata."""

    @property
    def name(self) -> str: ...

    def summarise(self, domain: str, packs: Sequence[Pack]) -> list[list[Draft]]: ...


class RuleSummariser:
    """The default."""

    @property
    def name(self) -> str:
        """Its name."""
        return "rules"

    def summarise(self, domain: str, packs: Sequence[Pack]) -> list[list[Draft]]:
        """Drafts of each pack."""
        return [drafts(domain, pack) for pack in packs]


def drafts(domain: str, pack: Pack) -> list[Draft]:
    """Drafts of one pack: general skills and mistakes across types, the skills of one type otherwise."""
    if pack.task_type == ACROSS:
        return [*_general(domain, pack.records), *_mistakes(pack.records)]
    order = common_order(domain, pack.records)
    if not order:
        return []
    steps = "; ".join(f"{shape} ({n}/{len(pack.records)})" for shape, n in order)
    length = f"Solved episodes took {median(one.n_steps for one in pack.records):g} steps."
    made = [
        Draft(TASK, f"What solved episodes did, in order: {steps}. {length}", f"Order of {pack.task_type}")
    ]
    places = _places(domain, pack.records)
    if places:
        found = ", ".join(f"{place} ({n})" for place, n in places)
        made.append(Draft(TASK, f"What was needed was taken from: {found}.", "Where things were found"))
    return made


def common_order(domain: str, records: Sequence[Record]) -> list[tuple[str, int]]:
    """(shape, records that have it) of the shapes that most records share, in the order of the episode."""
    told = [[shapes(domain, one.goal, action) for action in one.skeleton] for one in records]
    having = Counter(shape for row in told for shape in {s for levels in row for s in levels})
    places: dict[str, list[float]] = defaultdict(list)
    for row in told:
        first: dict[str, float] = {}
        for at, levels in enumerate(row):
            common = next((shape for shape in levels if having[shape] >= MAJORITY * len(records)), None)
            if common is not None:
                first.setdefault(common, at / len(row))
        for shape, place in first.items():
            places[shape].append(place)
    shared = [shape for shape, at in places.items() if len(at) >= MAJORITY * len(records)]
    kept = sorted(shared, key=lambda shape: (-len(places[shape]), shape))[:LONGEST_ORDER]
    return [(s, len(places[s])) for s in sorted(kept, key=lambda shape: (fmean(places[shape]), shape))]


def _places(domain: str, records: Sequence[Record]) -> list[tuple[str, int]]:
    """Where things were taken from, commonest first; [] where no place comes twice."""
    counts: Counter[str] = Counter()
    for one in records:
        taken = [action for action in one.skeleton if action_type(domain, action) == "take"]
        counts.update({type_of(place) for action in taken if (place := arguments(action)[1])})
    return ranked(counts, 1, 2.0, PLACES)


def _general(domain: str, records: Sequence[Record]) -> list[Draft]:
    """How solved episodes of all types begin, go on and end."""
    n = len(records)
    verbs = [[shapes(domain, one.goal, action)[-1] for action in one.skeleton] for one in records]
    made = []
    used = ranked(Counter(verb for row in verbs for verb in set(row)), n, MAJORITY, LONGEST_ORDER)
    if used:
        told = ", ".join(f"{verb} ({count}/{n})" for verb, count in used)
        made.append(Draft(GENERAL, f"Most solved episodes used: {told}.", "Actions that solve tasks"))
    for title, at in (("First action", 0), ("Last action", -1)):
        ends = ranked(Counter(row[at] for row in verbs if row), n, MAJORITY, 1)
        if ends:
            verb, count = ends[0]
            made.append(Draft(GENERAL, f"{title} of {count} of {n} solved episodes: {verb}.", title))
    return made


def _mistakes(records: Sequence[Record]) -> list[Draft]:
    """Missteps that at least two solved episodes got over, and what came next."""
    having: Counter[tuple[str, str]] = Counter()
    after: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for one in records:
        having.update({(m.verb, m.kind) for m in one.missteps})
        for m in one.missteps:
            if m.then:
                after[m.verb, m.kind][m.then] += 1
    made = []
    for (verb, kind), count in sorted(having.items(), key=lambda pair: (-pair[1], pair[0])):
        if count < 2:
            continue
        best = ranked(after[verb, kind], 1, 0.0, 1)
        instead = f"What came next: {best[0][0]}." if best else ""
        text = f"{verb} was {kind} in {count} of {len(records)} solved episodes."
        made.append(Draft(MISTAKE, text, f"{verb} {kind}", instead=instead))
    return made
