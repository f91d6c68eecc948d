"""WebShop's site cache: where a session stands, the key of the page it asks for, pages as entries.

The shop is one site for all tasks, so a page seen in training is the page a later task sees. Keys, from the
actions of the history alone (a click that its page did not list changes nothing):

==========================================================  ===============================================
``page=results; query=q; number=n``                          a results page (kind ``page``)
``page=item; asin=A; options=a | b``, then ``page=item; asin=A``  a product with its chosen options, then
                                                             the product (kind ``state_cache``)
``page=tab; asin=A; tab=features``                           description, features, reviews (``page``)
==========================================================  ===============================================

The start page and the last page hold nothing that a cache could know, and a page that the history shows is not
asked for. A results page whose query was never seen falls back to BM25 over the cached results, a product to
BM25 over the cached products by the title that a results page gave it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from wmlab.domains.webshop import pages
from wmlab.memory.bank import Key
from wmlab.memory.keys import History, Probe, Query
from wmlab.memory.prompt import FIELD, shorten, without_block

TEXT_CHARACTERS = 600
_ACTION = re.compile(r"\s*(search|click)\[(.*)\]\s*", re.DOTALL | re.IGNORECASE)
_ASIN = re.compile(r"[a-z0-9]{10}")
_TABS = frozenset(tab.casefold() for tab in pages.ITEM_TABS)
_BLOCK = pages.BLOCK_HEAD.strip()
SEARCHED = frozenset({"results", "item"})
"""Kinds of pages that BM25 searches."""


@dataclass(frozen=True, slots=True)
class Place:
    """A session's page. ``options`` are (group, value) pairs chosen on the product, sorted."""

    page: str = "start"  # start, results, item, tab, done
    query: str = ""
    number: int = 1
    asin: str = ""
    options: tuple[tuple[str, str], ...] = ()
    tab: str = ""


@lru_cache(maxsize=4_096)
def _groups(observation: str) -> dict[str, str]:
    """Option value to its group, from an item page."""
    reading = pages.read(observation)
    if reading is None or not isinstance(reading.page, pages.ItemPage):
        return {}
    groups = pages.option_groups(reading.page, reading.admissible)
    return {value.casefold(): name.casefold() for name, values in groups for value in values}


def _is_listed(argument: str, observation: str) -> bool:
    """Whether a page offers a click; True where it has no list of actions."""
    start = observation.rfind(_BLOCK)
    return start < 0 or f"'click[{argument}]'" in " ".join(observation[start:].casefold().split())


def follow(place: Place, action: str, observation: str) -> Place:
    """The place an action leads to from ``place``, whose page is ``observation``; the same place if nowhere."""
    found = _ACTION.fullmatch(action)
    if found is None or place.page == "done":
        return place
    argument = " ".join(found[2].casefold().split())
    if found[1].casefold() == "search":
        return Place("results", argument) if argument else place  # the shop searches from any page
    if place.page == "start" or not _is_listed(argument, observation):
        return place
    if argument == pages.BACK.casefold():
        return Place()
    if argument == pages.PREVIOUS.casefold():
        if place.page == "tab":
            return replace(place, page="item", tab="")
        if place.page == "item":
            return Place("results", place.query, place.number)
        return replace(place, number=max(1, place.number - 1))
    if place.page == "results":
        if argument == pages.NEXT.casefold():
            return replace(place, number=place.number + 1)
        if _ASIN.fullmatch(argument):
            return replace(place, page="item", asin=argument.upper())
        return place
    if place.page == "item":
        return _on_item(place, argument, observation)
    return place


def _on_item(place: Place, argument: str, observation: str) -> Place:
    if argument in _TABS:
        return replace(place, page="tab", tab=argument)
    if argument == pages.BUY.casefold():
        return replace(place, page="done")
    group = _groups(observation).get(argument)
    if group is None:
        return place
    return replace(place, options=tuple(sorted({**dict(place.options), group: argument}.items())))


def visited(history: History) -> list[Place]:
    """The places of a history's actions, in order; that of the last one is still to be shown."""
    place, observation = Place(), ""
    found = [place]
    for message in history:
        if message["role"] == "user":
            place = follow(place, without_block(message["content"]), observation)
            found.append(place)
        else:
            observation = message["content"]
    return found


def locate(history: History) -> Place:
    """The place that a history's last action, its last message, leads to."""
    return visited(history)[-1]


def probes(place: Place) -> tuple[Probe, ...]:
    """The keys of a place, most specific first; none for the start page and the last page."""
    if place.page == "results":
        key: Key = (("page", "results"), ("query", place.query), ("number", str(place.number)))
        return (("page", key),)
    if place.page == "tab":
        return (("page", (("page", "tab"), ("asin", place.asin), ("tab", place.tab))),)
    if place.page != "item":
        return ()
    product: Key = (("page", "item"), ("asin", place.asin))
    if not place.options:
        return (("state_cache", product),)
    chosen = " | ".join(f"{group}: {value}" for group, value in place.options)
    return (("state_cache", (*product, ("options", chosen))), ("state_cache", product))


def kind_of_page(key: Key) -> str:
    """``results``, ``item``, ``tab``; ``chosen`` for a product with options."""
    return "chosen" if len(key) > 2 and key[0][1] == "item" else key[0][1]


def query(history: History) -> Query:
    """What the prediction of a page asks for: nothing where the history shows that very page already.

    Words for the last resort: what was searched, or the title that a results page gave the product.
    """
    *before, place = visited(history)
    shown = {probe for one in before for probe in probes(one)[:1]}
    chain = tuple(probe for probe in probes(place) if probe not in shown)
    pages_of = kind_of_page(chain[-1][1]) if chain else ""
    if pages_of not in SEARCHED:
        return Query((chain,) if chain else (), "")
    return Query(
        (chain,), place.query if pages_of == "results" else listed_title(history, place.asin), pages_of
    )


def listed_title(history: History, asin: str) -> str:
    """The title of a product on the last results page that lists it; "" where none does."""
    for message in reversed(history):
        if message["role"] == "assistant" and asin in message["content"]:
            for one in _listed(message["content"]):
                if one.asin == asin:
                    return one.title
    return ""


@lru_cache(maxsize=4_096)
def _listed(observation: str) -> tuple[pages.Listing, ...]:
    reading = pages.read(observation)
    return (
        reading.page.products if reading is not None and isinstance(reading.page, pages.ResultsPage) else ()
    )


def record(place: Place, observation: str) -> str | None:
    """A page as one line of the cache; None when it shows nothing to keep, or not the page of ``place``.

    Fields are the page's own, in its order and between its separators.
    """
    reading = pages.read(observation)
    if reading is None:
        return None
    page = reading.page
    if isinstance(page, pages.ResultsPage) and place.page == "results" and page.page == place.number:
        listed = (text for one in page.products for text in (one.asin, one.title, one.price))
        return FIELD.join((f"search[{place.query}] page {page.page} (Total results: {page.total})", *listed))
    if isinstance(page, pages.ItemPage) and place.page == "item":
        chosen = ["selected " + ", ".join(f"{group} {value}" for group, value in place.options)]
        facts = (*page.options, page.title, f"Price: {page.price}", *(chosen if place.options else ()))
        return FIELD.join((f"product {place.asin}", *facts))
    if isinstance(page, pages.SubPage) and place.page == "tab":
        text = shorten(FIELD.join(page.texts), TEXT_CHARACTERS) or "empty"
        return FIELD.join((f"product {place.asin} {place.tab}", text))
    return None
