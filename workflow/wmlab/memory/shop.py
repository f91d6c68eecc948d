"""WebShop's site cache: where a session stands, the key of the page it asks for, pages as entries.

The shop is one site for all tasks, so a page seen in training is the page a later task sees. Keys, from the
actions of the history alone (a click that its page did not list changes nothing):

==========================================================  ===============================================
``page=results; query=q; number=n``                          a results page (kind ``page``)
``page=item; asin=A; options=a | b``, then ``page=item; asin=A``  a product with its chosen options, then
                                                             the product (kind ``state_cache``)
``page=tab; asin=A; tab=features``                           description, features, reviews (``page``)
==========================================================  ===============================================

The start page and the last page hold nothing that a cache could know. A results page whose query was never
seen falls back to BM25 over the cached pages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from wmlab.domains.webshop import pages
from wmlab.memory.bank import Key
from wmlab.memory.keys import History, Probe, Query
from wmlab.memory.prompt import shorten

TITLE_CHARACTERS = 100
TEXT_CHARACTERS = 600
_ACTION = re.compile(r"\s*(search|click)\[(.*)\]\s*", re.DOTALL | re.IGNORECASE)
_ASIN = re.compile(r"[a-z0-9]{10}")
_TABS = frozenset(tab.casefold() for tab in pages.ITEM_TABS)
_BLOCK = pages.BLOCK_HEAD.strip()


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


def locate(history: History) -> Place:
    """The place that a history's last action, its last message, leads to."""
    place, observation = Place(), ""
    for message in history:
        if message["role"] == "user":
            place = follow(place, message["content"], observation)
        else:
            observation = message["content"]
    return place


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


def query(history: History) -> Query:
    """What the prediction of a page asks for."""
    place = locate(history)
    chain = probes(place)
    words = place.query if place.page == "results" else ""
    return Query((chain,) if chain else (), words)


def record(place: Place, observation: str) -> str | None:
    """A page as one line of the cache; None when it shows nothing to keep, or not the page of ``place``."""
    reading = pages.read(observation)
    if reading is None:
        return None
    page = reading.page
    if isinstance(page, pages.ResultsPage) and place.page == "results" and page.page == place.number:
        listed = "; ".join(
            f"{one.asin} | {shorten(one.title, TITLE_CHARACTERS)} | {one.price}" for one in page.products
        )
        head = f"search[{place.query}] page {page.page} of {page.total} results"
        return f"{head}; products: {listed or 'none'}"
    if isinstance(page, pages.ItemPage) and place.page == "item":
        return _product(place, page, pages.option_groups(page, reading.admissible))
    if isinstance(page, pages.SubPage) and place.page == "tab":
        text = " [SEP] ".join(page.texts)
        return f"product {place.asin} {place.tab}: {shorten(text, TEXT_CHARACTERS) or 'empty'}"
    return None


def _product(place: Place, page: pages.ItemPage, groups: Sequence[tuple[str, list[str]]]) -> str:
    parts = [f"product {place.asin} | {shorten(page.title, TITLE_CHARACTERS)} | {page.price}"]
    parts += [f"{name}: {', '.join(values)}" for name, values in groups]
    if place.options:
        parts.append("selected " + ", ".join(f"{group} {value}" for group, value in place.options))
    return shorten("; ".join(parts), TEXT_CHARACTERS)
