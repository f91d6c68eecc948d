"""Changes of WebShop pages for the stress test: layout, products, ids, prices, numbers, options, buttons.

Pages are taken without their block of admissible actions, which repeats the page's buttons. The shopping
goal at the top of a page is the user's and stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from wmlab.domains.base import SUCCESS_MARKER
from wmlab.metrics.ssf.webshop_page import Page, Product, read_page

SEPARATOR = " [SEP] "
LEAST_TOKENS = 150
"""A results page that is used for id swaps is at least this long: each id is one token of it."""

_AMOUNT = re.compile(r"\$(\d[\d,]*(?:\.\d+)?)")
_COUNT = re.compile(r"Page (\d+) \(Total results: (\d+)\)")
_TABS = ("Description", "Features", "Reviews", "Buy Now")
_LOWERED = ("Back to Search", "< Prev", "Next >", *_TABS)
_SCORE = re.compile(r"(Your score \(min 0\.0, max 1\.0\)(?: \[SEP\] |: ?))([01](?:\.\d+)?)")
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"


def _parts(text: str) -> tuple[list[str], int]:
    """The page's fields, and how many at the top are the goal's."""
    parts = text.split(SEPARATOR)
    return parts, 2 if parts[0] == "Instruction:" else 3 if parts[0] == "WebShop" else 0


def layout(text: str, rng: np.random.Generator) -> str | None:
    """Lower-case buttons, another spelling of prices, fields on lines of their own, the usual prefix."""
    parts, goal = _parts(text)
    changed = [part.lower() if part in _LOWERED else part for part in parts[goal:]]
    changed = [_AMOUNT.sub(r"$ \1", part) if part.startswith(("$", "Price: $")) else part for part in changed]
    return "Next state: " + "\n[SEP] ".join([*parts[:goal], *changed])


def _new_id(old: str, text: str, rng: np.random.Generator) -> str:
    while True:
        new = old[:-3] + "".join(_LETTERS[i] for i in rng.integers(len(_LETTERS), size=3))
        if new not in text:
            return new


def id_swap(text: str, rng: np.random.Generator) -> str | None:
    """The ids of all three top products changed, on a long results page."""
    page = read_page(text)
    if page.kind != "search" or len(page.products) < 3 or len(text.split()) < LEAST_TOKENS:
        return None
    for product in page.products:
        text = text.replace(product.id, _new_id(product.id, text, rng))
    return text


def product_swap(text: str, pages: Sequence[Page], rng: np.random.Generator) -> str | None:
    """Other products in the place of the top ones (id and title), or another title on a product's page."""
    page = read_page(text)
    parts, goal = _parts(text)
    order = rng.permutation(len(pages)).tolist()
    if page.kind == "product" and page.title:
        for index in order:
            title = pages[index].title
            if title and title != page.title:
                return SEPARATOR.join(
                    [*parts[:goal], *(title if p == page.title else p for p in parts[goal:])]
                )
    if page.kind == "search" and page.products:
        shown = {product.id for product in page.products}
        others: list[Product] = []
        for index in order:
            others += [p for p in pages[index].products if p.id not in shown and p.id not in text]
            if len(others) >= len(page.products):
                table: dict[str, str] = {}
                for old, new in zip(page.products, others, strict=False):
                    table |= {old.id: new.id, old.title: new.title}
                return SEPARATOR.join([*parts[:goal], *(table.get(part, part) for part in parts[goal:])])
    return None


def price_change(text: str, rng: np.random.Generator) -> str | None:
    """Every price multiplied by one factor between 1.5 and 3."""
    parts, goal = _parts(text)
    factor = 1.5 + 1.5 * float(rng.random())

    def dearer(match: re.Match[str]) -> str:
        return f"${float(match[1].replace(',', '')) * factor:.2f}"

    changed = [_AMOUNT.sub(dearer, p) if p.startswith(("$", "Price: $")) else p for p in parts[goal:]]
    return SEPARATOR.join([*parts[:goal], *changed]) if changed != parts[goal:] else None


def count_change(text: str, rng: np.random.Generator) -> str | None:
    """Another page number and another number of results."""
    shift = int(rng.integers(1, 10))
    changed = _COUNT.sub(lambda m: f"Page {int(m[1]) + shift} (Total results: {int(m[2]) + shift})", text)
    return changed if changed != text else None


def option_deletion(text: str, rng: np.random.Generator) -> str | None:
    """Half (rounded up) of a product page's option values gone."""
    page = read_page(text)
    values = [value for _, found in page.options for value in found]
    if page.kind != "product" or not values:
        return None
    gone = set(rng.choice(values, size=-(-len(values) // 2), replace=False).tolist())
    parts, goal = _parts(text)
    last = next((i for i, part in enumerate(parts) if part == page.title), len(parts))
    kept = [p for i, p in enumerate(parts) if not (goal <= i < last and p.lower() in gone)]
    return SEPARATOR.join(kept)


def flip(text: str, rng: np.random.Generator) -> str | None:
    """What can be done next turned round: the paging button, a product's tabs, a purchase's outcome."""
    page = read_page(text)
    parts, goal = _parts(text)
    head, body = parts[:goal], parts[goal:]
    if page.kind == "search":
        turned = {"Next >": "< Prev", "< Prev": "Next >"}
        if set(turned) <= set(body):  # in the middle: made the last page
            return SEPARATOR.join([*head, *(part for part in body if part != "Next >")])
        changed = [turned.get(part, part) for part in body]
        return SEPARATOR.join([*head, *changed]) if changed != body else None
    if page.kind == "product":
        return SEPARATOR.join([*head, *(part for part in body if part not in _TABS)])
    if page.kind == "terminal":
        outcome = _SCORE.sub(lambda m: m[1] + ("0.0" if float(m[2]) >= 1.0 else "1.0"), text)
        if outcome == text:
            return None
        marked = text.rstrip().endswith(SUCCESS_MARKER.strip())
        return outcome.rstrip().removesuffix(SUCCESS_MARKER) if marked else outcome + SUCCESS_MARKER
    return None
