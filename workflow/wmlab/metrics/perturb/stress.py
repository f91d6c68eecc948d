"""The metric stress test: text metrics and SSF on changes with a known meaning (memwm.txt Figure 3, B.4, Table 8).

Synthetic predictions are made from real observations, four classes of change with their kinds:

============  ==========================================================================================
paraphrase    other words and another layout for the same state (phrases.py; shop.py)
entity        ``location_swap``: every place of an observation whose facts all name one;
              ``object_swap``: one thing; ``entity_swap``: every name (ScienceWorld);
              ``product_swap``: other products (WebShop)
value         ``id_change``: another number for one ``noun n``; ``id_swap``: other product ids;
              ``price_change``, ``option_deletion``, ``count_change``, ``number_change``;
              ``step_change``: another verb for each recipe step
state         ``state_flip``: open for closed, on for off, raw for fried, another button or outcome;
              ``progress_flip``: the success marker added or removed (CookingWorld)
============  ==========================================================================================

One changed thing is lost in a long list for every metric alike, so ``object_swap``, ``id_change``, ScienceWorld's
``number_change`` and, but for TextWorld whose status line is facts already, ``state_flip`` take observations of at
most ``FEW`` facts; ``location_swap`` takes those of at least ``MANY``, as word overlap means nothing in a short
sentence. A metric should give 1 to paraphrases and little to the rest.

Everything is drawn from a seed; ``per_class`` examples a class are shared out over its kinds in turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wmlab.domains.base import SUCCESS_MARKER
from wmlab.domains.conventions import split_page_actions
from wmlab.errors import InputError
from wmlab.metrics.perturb import phrases
from wmlab.metrics.perturb.names import Naming, pool_of, renumber, swap, swap_all
from wmlab.metrics.ssf import PARSERS, facts, ssf
from wmlab.metrics.text import exact_match, token_f1

CHANGES = ("paraphrase", "entity", "value", "state")
METRICS = ("em", "f1", "ssf")
PER_CLASS = 50
FEW, MANY = 3, 6
GOLDS = 2_000
"""Distinct observations of a domain that changes are tried on, and names are taken from."""

Rng = np.random.Generator
Make = Callable[[str, Rng], str | None]
_NUMBER = re.compile(r"(?<![\w.$-])-?\d{1,15}(?![\w.]*\w)")
_STATUS = re.compile(r"(=- ?)(\d+)/(\d+)")


@dataclass(frozen=True)
class Gold:
    """A real observation and the transition it is from."""

    source_id: str
    text: str


@dataclass(frozen=True)
class Kind:
    """A kind of change: its class, name, and the function that makes it, or None where it does not apply."""

    change: str
    name: str
    make: Make


def golds_of(transitions: Sequence[Mapping[str, Any]], domain: str, seed: int) -> list[Gold]:
    """Distinct observations of a domain (WebShop's without its block), drawn, at most ``GOLDS``."""
    distinct: dict[str, str] = {}
    for row in transitions:
        if row["domain"] == domain and row["observation"].strip():
            text = row["observation"]
            distinct.setdefault(
                split_page_actions(text)[0] if domain == "webshop" else text, row["transition_id"]
            )
    texts = list(distinct)
    order = np.random.default_rng(seed).permutation(len(texts))[:GOLDS].tolist()
    return [Gold(distinct[texts[i]], texts[i]) for i in order]


def numbers_changed(text: str, rng: Rng) -> str | None:
    """Every whole number of the text raised by one amount; None without a number."""
    shift = int(rng.integers(1, 10))
    changed = _NUMBER.sub(lambda m: str(int(m[0]) + shift), text)
    return changed if changed != text else None


def status_changed(text: str, rng: Rng) -> str | None:
    """Score and turn of TextWorld's status line raised by one amount; None without the line."""
    shift = int(rng.integers(1, 10))
    changed = _STATUS.sub(lambda m: f"{m[1]}{int(m[2]) + shift}/{int(m[3]) + shift}", text)
    return changed if changed != text else None


def _progress_flip(text: str, rng: Rng) -> str | None:
    marked = text.rstrip().endswith(SUCCESS_MARKER.strip())
    return text.rstrip().removesuffix(SUCCESS_MARKER) if marked else text.rstrip() + SUCCESS_MARKER


class _Games:
    """The kinds of the parser games, which share everything but their names, phrases and roles."""

    def __init__(self, domain: str, golds: Sequence[Gold]) -> None:
        self.domain = domain
        self.pool = pool_of(domain, [gold.text for gold in golds])

    def paraphrase(self, text: str, rng: Rng) -> str | None:
        return phrases.reworded(self.domain, text)

    def location_swap(self, text: str, rng: Rng) -> str | None:
        """The one place that every fact names."""
        naming = Naming.of(self.domain, text)
        chosen = naming.of_roles({"place", "room"})
        found = facts(self.domain, text)
        named = [any(name in fact for _, name in chosen) for fact in found]
        if len(found) < MANY or len(chosen) != 1 or not all(named):
            return None
        return swap(naming, chosen, self.pool, rng)

    def places_swap(self, text: str, rng: Rng) -> str | None:
        """Every place, whatever else the observation says."""
        naming = Naming.of(self.domain, text)
        return swap(naming, naming.of_roles({"place", "room"}), self.pool, rng)

    def object_swap(self, text: str, rng: Rng) -> str | None:
        naming = Naming.of(self.domain, text)
        chosen = naming.of_roles({"thing"})
        if not chosen or len(facts(self.domain, text)) > FEW:
            return None
        return swap(naming, [chosen[int(rng.integers(len(chosen)))]], self.pool, rng)

    def entity_swap(self, text: str, rng: Rng) -> str | None:
        return swap_all(Naming.of(self.domain, text), self.pool, rng)

    def id_change(self, text: str, rng: Rng) -> str | None:
        naming = Naming.of(self.domain, text)
        chosen = naming.of_roles({"thing", "place"})
        if not chosen or len(facts(self.domain, text)) > FEW:
            return None
        return renumber(naming, [chosen[int(rng.integers(len(chosen)))]], rng)

    def number_change(self, text: str, rng: Rng) -> str | None:
        return numbers_changed(text, rng) if len(facts(self.domain, text)) <= FEW else None

    def state_flip(self, text: str, rng: Rng) -> str | None:
        if self.domain != "textworld" and len(facts(self.domain, text)) > FEW:
            return None
        return phrases.flipped(text, phrases.FLIPS[self.domain])

    def step_change(self, text: str, rng: Rng) -> str | None:
        return phrases.flipped(text, phrases.STEPS) if "Directions:" in text else None


def kinds_of(domain: str, golds: Sequence[Gold]) -> list[Kind]:
    """The kinds of change of a domain. Raises InputError for a domain without an SSF parser."""
    if domain not in PARSERS:
        raise InputError(f"domain {domain!r}: no stress test without an SSF parser")
    if domain == "webshop":
        return _shop_kinds(golds)
    games = _Games(domain, golds)
    own: dict[str, list[tuple[str, str, Make]]] = {
        "alfworld": [
            ("entity", "location_swap", games.location_swap),
            ("entity", "object_swap", games.object_swap),
            ("value", "id_change", games.id_change),
        ],
        "scienceworld": [
            ("entity", "entity_swap", games.entity_swap),
            ("value", "number_change", games.number_change),
        ],
        "cookingworld": [
            ("entity", "object_swap", games.object_swap),
            ("entity", "location_swap", games.places_swap),
            ("value", "step_change", games.step_change),
            ("state", "progress_flip", _progress_flip),
        ],
        "textworld": [
            ("entity", "object_swap", games.object_swap),
            ("entity", "location_swap", games.places_swap),
            ("value", "number_change", status_changed),
        ],
    }
    return [
        Kind("paraphrase", "paraphrase", games.paraphrase),
        *(Kind(*kind) for kind in own[domain]),
        Kind("state", "state_flip", games.state_flip),
    ]


def _shop_kinds(golds: Sequence[Gold]) -> list[Kind]:
    from wmlab.metrics.perturb import shop
    from wmlab.metrics.ssf.webshop_page import read_page

    pages = [read_page(gold.text) for gold in golds]
    return [
        Kind("paraphrase", "layout", shop.layout),
        Kind("entity", "product_swap", lambda text, rng: shop.product_swap(text, pages, rng)),
        Kind("value", "id_swap", shop.id_swap),
        Kind("value", "price_change", shop.price_change),
        Kind("value", "option_deletion", shop.option_deletion),
        Kind("value", "count_change", shop.count_change),
        Kind("state", "state_flip", shop.flip),
    ]


def examples(kind: Kind, golds: Sequence[Gold], n: int, seed: int) -> list[tuple[Gold, str]]:
    """At most ``n`` changed observations of a kind, each from another gold, in the golds' order."""
    rng = np.random.default_rng([seed, *kind.name.encode()])
    found: list[tuple[Gold, str]] = []
    for gold in golds:
        if len(found) == n:
            break
        text = kind.make(gold.text, rng)
        if text is not None and text.strip() != gold.text.strip():
            found.append((gold, text))
    return found


def stress(
    transitions: Sequence[Mapping[str, Any]], *, per_class: int = PER_CLASS, seed: int = 0
) -> list[dict[str, Any]]:
    """Rows of contract ``stress``: domain by domain, class by class, kinds in turn.

    A class has fewer than ``per_class`` rows where the transitions offer no more. Raises InputError when
    there is no transition of a domain with an SSF parser.
    """
    domains = sorted({row["domain"] for row in transitions} & set(PARSERS))
    if not domains:
        raise InputError("stress test: no transition of a domain with an SSF parser; give other transitions")
    rows: list[dict[str, Any]] = []
    for domain in domains:
        golds = golds_of(transitions, domain, seed)
        kinds = kinds_of(domain, golds)
        for change in CHANGES:
            of_class = [kind for kind in kinds if kind.change == change]
            made = {kind.name: examples(kind, golds, per_class, seed) for kind in of_class}
            for name, number in _shares({k: len(v) for k, v in made.items()}, per_class).items():
                rows += [_row(domain, change, name, gold, text) for gold, text in made[name][:number]]
    return rows


def _shares(available: Mapping[str, int], total: int) -> dict[str, int]:
    """``total`` dealt out one by one in turn; who has no more is passed over."""
    shares = dict.fromkeys(available, 0)
    while sum(shares.values()) < total:
        open_ = [name for name in shares if shares[name] < available[name]]
        if not open_:
            break
        for name in open_[: total - sum(shares.values())]:
            shares[name] += 1
    return shares


def _row(domain: str, change: str, kind: str, gold: Gold, text: str) -> dict[str, Any]:
    return {
        "domain": domain,
        "change": change,
        "kind": kind,
        "source_id": gold.source_id,
        "gold": gold.text,
        "prediction": text,
        "em": exact_match(text, gold.text),
        "f1": token_f1(text, gold.text),
        "ssf": float(ssf(domain, text, gold.text)),
    }


def summarise(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Figure 3: means of EM, word F1 and SSF, n, and SSF's range: per class, per domain and class, per kind."""
    domains = sorted({row["domain"] for row in rows})

    def table(name: str, chosen: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        values = dict.fromkeys(row[name] for row in chosen)
        return {value: _statistics([row for row in chosen if row[name] == value]) for value in values}

    by_domain = {domain: [row for row in rows if row["domain"] == domain] for domain in domains}
    return {
        "schema": 1,
        "n": len(rows),
        "classes": table("change", rows),
        "domains": {domain: table("change", found) for domain, found in by_domain.items()},
        "kinds": {domain: table("kind", found) for domain, found in by_domain.items()},
    }


def _statistics(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    means = {name: float(np.mean([row[name] for row in rows])) for name in METRICS}
    scores = [row["ssf"] for row in rows]
    return {"n": len(rows), **means, "ssf_min": min(scores), "ssf_max": max(scores)}
