"""A WebShop observation taken apart, as written or as predicted (memwm.txt B.5.3).

The text is split at ``[SEP]`` after an optional ``Next state:`` prefix; the block of admissible actions
and the `` [SUCCESS]`` marker are set aside. Reading is total and linear: what a page lacks is None or
empty, whatever the text, and the same fields are read for every kind of page.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import NamedTuple

TOP = 3
"""Products of a results page that are compared."""

_CACHE_TEXTS = 1_024
_CACHE_LONGEST = 16_000  # characters; longer texts are read each time, so the cache stays small

_PREFIX = re.compile(r"(?:the )?next state(?: is)? ?: ?", re.IGNORECASE)
_MARKER = "[SUCCESS]"
_SEPARATOR = "[SEP]"
_BLOCK = "Your admissible actions of the current situation are:"
_COUNT = re.compile(r"page (\d{1,9}) ?\( ?total results ?: ?(\d{1,9}) ?\)", re.IGNORECASE)
_ID = re.compile(r"[A-Z0-9]{10}")
_AMOUNT = r"\$ ?(\d[\d,]{0,12}(?:\.\d{1,12})?)"
_PRICE = re.compile(rf"{_AMOUNT}(?: (?:to|-) {_AMOUNT})?")
_PRICE_LABEL = re.compile(r"price ?: ?", re.IGNORECASE)
_SCORE = re.compile(r"[01](?:\.\d{1,20})?")

_BUTTONS = {
    "Back to Search": "back",
    "< Prev": "previous",
    "Next >": "next",
    "Description": "description",
    "Features": "features",
    "Reviews": "reviews",
    "Buy Now": "buy_now",
    "Search": "search",
}
AFFORDANCES = {
    written: name
    for text, name in _BUTTONS.items()
    for written in (text, text.lower(), text.upper(), text.title())
}
"""Buttons as written, in the usual cases: looking a string up is cheaper than lowering each one."""
_WRITTEN = frozenset(AFFORDANCES)
_PAGE = ("Page", "page", "PAGE")
_TABS = ("description", "features", "reviews", "buy_now")

_KEYS = (
    "size|color|style|flavor|material|pattern|pack size|count|scent|shape|length|width|height|capacity|format"
    "|edition|configuration|platform|finish|fit|quantity|unit count|number of items|number of pieces|pieces"
    "|item package quantity|package quantity|package type|flavor name|scent name|color name|size name"
    "|style name|pattern name|team name|model name|model number|model|fit type|material type|metal type"
    "|gem type|stone type|hair type|skin type|wattage|voltage|power source|connector type|compatible model"
    "|special size|special size type|size type|ring size|band size|cup size|lens color|frame color|band color"
    "|item shape|item form|item weight|item dimensions|display size|screen size|memory storage capacity"
    "|hardware platform|operating system|product packaging|offer type|age range|set name|design|theme"
    "|letter|occasion|light source type|base material|wood type|grade|gauge|thickness|volume"
)
KEYS = frozenset(_KEYS.split("|"))
"""Names of option groups (sizes, colours, …); any other text after one is a value of that group."""

Price = tuple[float, float]


class Product(NamedTuple):
    """A product on a results page; a price is a range, of one amount where both ends are equal."""

    id: str
    title: str
    price: Price


class Page(NamedTuple):
    """The fields of one observation. ``options`` are groups with their values, ``chosen`` names with values,
    ``texts`` the strings of a page that has no other fields.

    ``kind``: ``product``, ``search`` (results), ``terminal``, and for what the paper calls unknown
    ``start`` (the search bar), ``detail`` (description, features or reviews) or ``unknown``.
    """

    kind: str
    number: int | None = None
    total: int | None = None
    affordances: frozenset[str] = frozenset()
    products: tuple[Product, ...] = ()
    title: str | None = None
    price: Price | None = None
    options: tuple[tuple[str, tuple[str, ...]], ...] = ()
    texts: tuple[str, ...] = ()
    purchased: str | None = None
    chosen: tuple[tuple[str, str], ...] = ()
    score: float | None = None
    success: bool = False


def read_price(text: str) -> Price | None:
    """``$9.99`` or ``$9.99 to $12.5``; None for anything else."""
    match = _PRICE.fullmatch(text)
    if match is None:
        return None
    low = float(match[1].replace(",", ""))
    return low, low if match[2] is None else float(match[2].replace(",", ""))


def _products(parts: list[str], start: int) -> tuple[Product, ...]:
    """The first triples (id, title, price) with different ids."""
    found: dict[str, Product] = {}
    at, last = start, len(parts) - 2
    while at < last and len(found) < TOP:
        name = parts[at]
        if len(name) == 10 and _ID.fullmatch(name):
            price = read_price(parts[at + 2])
            if price is not None:
                found.setdefault(name, Product(name, parts[at + 1], price))
                at += 3
                continue
        at += 1
    return tuple(found.values())


def _options(parts: list[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Option groups; the first text names one even when it is no usual name."""
    groups: dict[str, list[str]] = {}
    values: list[str] | None = None
    for part in parts:
        if not part or part in AFFORDANCES:
            continue
        text = part.lower()
        if values is None or text in KEYS:
            values = groups.setdefault(text, [])
        else:
            values.append(text)
    return tuple((key, tuple(found)) for key, found in groups.items())


def _chosen(text: str) -> tuple[tuple[str, str], ...]:
    """Options as the last page prints them: a flat JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(value, dict):
        return ()
    return tuple((k.lower(), str(v).lower()) for k, v in value.items() if isinstance(v, str | int | float))


def _after(parts: list[str], label: str) -> str | None:
    """The string after a label."""
    try:
        return parts[parts.index(label) + 1]
    except (ValueError, IndexError):
        return None


def _terminal(parts: list[str], affordances: frozenset[str], success: bool) -> Page:
    label = next((at for at, part in enumerate(parts) if part.lower().startswith("your score")), len(parts))
    words = parts[label].rpartition(":")[2].strip() if label < len(parts) else ""
    value = words if _SCORE.fullmatch(words) else (parts[label + 1] if label + 1 < len(parts) else "")
    purchased = _after(parts, "asin")
    return Page(
        "terminal",
        affordances=affordances,
        purchased=purchased if purchased and _ID.fullmatch(purchased) else None,
        chosen=_chosen(_after(parts, "options") or ""),
        score=float(value) if _SCORE.fullmatch(value) else None,
        success=success,
    )


def _without_block(text: str) -> str:
    block = text.find(_BLOCK)
    # Stripped, because the blank line before the block would cost a pass over the page.
    return text if block < 0 else text[:block].rstrip()


def _split(text: str) -> list[str]:
    """The strings between the separators, each with single spaces; the common case takes no pass of its own."""
    # Only a space is both printable and white: other text may hold line breaks or wide spaces.
    odd = "\n" in text or "\t" in text or "\r" in text if text.isascii() else not text.isprintable()
    if odd or "  " in text:
        text = _without_block(" ".join(text.split()))
    if text.count(_SEPARATOR) == text.count(f" {_SEPARATOR} "):
        return text.strip().split(f" {_SEPARATOR} ")
    return [part.strip() for part in text.split(_SEPARATOR)]


def _read(text: str) -> Page:
    text = text.strip()
    success = text.endswith(_MARKER)
    if success:
        text = text[: -len(_MARKER)].rstrip()
    text = _without_block(text)
    if text[:1] in "NnTt":
        prefix = _PREFIX.match(text)
        text = text[prefix.end() :] if prefix is not None else text
    parts = _split(text)
    search_bar = AFFORDANCES.get(parts[-1]) == "search"
    # The instruction is the user's text: nothing in it is part of the page.
    body = parts[2:] if parts[0] == "Instruction:" else parts
    return _classify(body, text, search_bar, success)


def _price_at(parts: list[str]) -> int:
    """Where the price field is, or -1."""
    for at, part in enumerate(parts):
        if part[:1] in "Pp":
            label = _PRICE_LABEL.match(part)
            if label is not None and read_price(part[label.end() :]) is not None:
                return at
    return -1


def _product_page(parts: list[str], at: int, affordances: frozenset[str], success: bool) -> Page:
    """A product page whose price field is at ``at``: before it the title, before that the options."""
    label = _PRICE_LABEL.match(parts[at])
    named = at > 0 and parts[at - 1] not in AFFORDANCES
    return Page(
        "product",
        affordances=affordances,
        title=parts[at - 1] if named else None,
        price=read_price(parts[at][label.end() :]) if label else None,
        options=_options(parts[: max(at - 1, 0)]),
        success=success,
    )


def _classify(parts: list[str], text: str, search_bar: bool, success: bool) -> Page:
    """Page kinds in the paper's order: product, results, terminal, then the three kinds of unknown."""
    affordances = frozenset([AFFORDANCES[written] for written in _WRITTEN.intersection(parts)])
    # "price lower than" stands in every goal.
    at = _price_at(parts) if "rice:" in text or "rice :" in text or "RICE" in text else -1
    if at >= 0 and (
        not affordances.isdisjoint(_TABS) or any(part[:6].lower() == "rating" for part in parts[at:])
    ):
        return _product_page(parts, at, affordances, success)
    number = total = None
    if "esults" in text or "ESULTS" in text:
        for at, part in enumerate(parts):
            count = _COUNT.fullmatch(part) if part[:4] in _PAGE else None
            if count is None:
                continue
            products = _products(parts, at + 1)
            number, total = int(count[1]), int(count[2])
            # Without an id it is no results page, except that no hits show none.
            if products or total == 0:
                return Page("search", number, total, affordances, products, success=success)
            break
    opening = parts[0].lower() if parts else ""
    if opening.startswith("thank you for shopping") or any(
        part in ("Reward", "Reward Details") or part.startswith("Your score") for part in parts
    ):
        return _terminal(parts, affordances, success)
    if search_bar and opening == "webshop":
        return Page("start", affordances=affordances, texts=tuple(parts[2:-1]), success=success)
    texts = tuple(part for part in parts if part and part not in AFFORDANCES)
    detail = number is None and {"back", "previous"} <= affordances
    return Page("detail" if detail else "unknown", number, total, affordances, texts=texts, success=success)


_read_cached = lru_cache(maxsize=_CACHE_TEXTS)(_read)


def read_page(text: str) -> Page:
    """The page a text shows. Total: never raises on a string."""
    return _read_cached(text) if len(text) <= _CACHE_LONGEST else _read(text)
