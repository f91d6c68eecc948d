"""Pages in text mode: values that render to the observation text, and parse back from it.

The text is the visible strings of a page joined by `` [SEP] `` (feasibility/environments.md 5.6). All but
the last page end with the block of admissible actions that the Word2World client appends. For every page
of the real shop, ``write(read(text)) == text``; hidden state (chosen options) is on the last page only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wmlab.domains.base import SUCCESS_MARKER

SEPARATOR = " [SEP] "
BLOCK_HEAD = "\n\nYour admissible actions of the current situation are: \n[\n"
BLOCK_TAIL = "\n]."
SEARCH_BAR = "search[<your query>]"
PER_PAGE = 10
SHOP, INSTRUCTION, SEARCH = "WebShop", "Instruction:", "Search"
BACK, PREVIOUS, NEXT = "Back to Search", "< Prev", "Next >"
ITEM_TABS = ("Description", "Features", "Reviews")
BUY = "Buy Now"
RATING = "N.A."
_COUNT = re.compile(r"Page (?P<page>\d{1,6}) \(Total results: (?P<total>\d{1,9})\)")
_DONE_HEAD = (
    *("Thank you for shopping with us!", "Your code:", "None", "(Paste it in your MTurk interface.)"),
    *("Purchased", "asin"),
)
_DONE_MIDDLE = (
    *("attrs", "None", "category", "None", "query", "None", "product category", "None", "Target", "asin"),
    *("options", "attrs", "price upper", "instuction text", "category", "product category", "query"),  # sic
    *("Goal", "None", "Reward", "Your score (min 0.0, max 1.0)"),
)
_DONE_TAIL = ("Reward Details", "None")
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "'": "\\u0027"}


@dataclass(frozen=True, slots=True)
class Listing:
    """A product on a results page."""

    asin: str
    title: str
    price: str


@dataclass(frozen=True, slots=True)
class StartPage:
    """The page with the search bar."""

    instruction: str


@dataclass(frozen=True, slots=True)
class ResultsPage:
    """One page of hits; ``total`` counts all of them. ``instruction`` is None where a source dropped it."""

    instruction: str | None
    page: int
    total: int
    previous: bool
    products: tuple[Listing, ...]


@dataclass(frozen=True, slots=True)
class ItemPage:
    """A product; ``options`` are its group names and values in one run, as the text has them."""

    instruction: str | None
    options: tuple[str, ...]
    title: str
    price: str
    rating: str = RATING


@dataclass(frozen=True, slots=True)
class SubPage:
    """Description, features or reviews: the texts under the buttons."""

    instruction: str | None
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DonePage:
    """After Buy Now; ``options`` is JSON text, ``score`` a Python float's."""

    asin: str
    options: str
    score: str


Page = StartPage | ResultsPage | ItemPage | SubPage | DonePage


@dataclass(frozen=True, slots=True)
class Reading:
    """An observation taken apart; ``admissible`` is None where no block was appended."""

    page: Page
    admissible: tuple[str, ...] | None
    success: bool


def render(page: Page) -> str:
    """The page's text, without the block of actions."""
    return SEPARATOR.join(_strings(page))


def _strings(page: Page) -> Iterable[str]:
    if isinstance(page, StartPage):
        return (SHOP, INSTRUCTION, page.instruction, SEARCH)
    if isinstance(page, DonePage):
        return (
            *(*_DONE_HEAD, page.asin, "options", page.options),
            *(*_DONE_MIDDLE, page.score, *_DONE_TAIL),
        )
    head = () if page.instruction is None else (INSTRUCTION, page.instruction)
    if isinstance(page, ResultsPage):
        count = f"Page {page.page} (Total results: {page.total})"
        arrows = (PREVIOUS, NEXT) if page.previous else (NEXT,)
        texts = (text for item in page.products for text in (item.asin, item.title, item.price))
        return (*head, BACK, count, *arrows, *texts)
    if isinstance(page, SubPage):
        return (*head, BACK, PREVIOUS, *page.texts)
    facts = (page.title, f"Price: {page.price}", f"Rating: {page.rating}")
    return (*head, BACK, PREVIOUS, *page.options, *facts, *ITEM_TABS, BUY)


def parse(text: str) -> Page | None:
    """The page a text shows; None when it is no page. Linear in the text's length."""
    parts = text.split(SEPARATOR)
    if parts[0] == SHOP:
        whole = len(parts) == 4 and parts[1] == INSTRUCTION and parts[3] == SEARCH
        return StartPage(parts[2]) if whole else None
    if parts[0] == _DONE_HEAD[0]:
        return _parse_done(parts)
    instruction = parts[1] if parts[0] == INSTRUCTION and len(parts) > 1 else None
    rest = parts if instruction is None else parts[2:]
    if len(rest) < 2 or rest[0] != BACK:
        return None
    count = _COUNT.fullmatch(rest[1])
    if count:
        return _parse_results(instruction, int(count["page"]), int(count["total"]), rest[2:])
    if rest[1] != PREVIOUS:
        return None
    item = rest[2:]
    if (
        len(item) >= 7
        and tuple(item[-4:]) == (*ITEM_TABS, BUY)
        and item[-5].startswith("Rating: ")
        and item[-6].startswith("Price: ")
    ):
        return ItemPage(instruction, tuple(item[:-7]), item[-7], item[-6][7:], item[-5][8:])
    return SubPage(instruction, tuple(item))


def _parse_results(instruction: str | None, page: int, total: int, rest: list[str]) -> ResultsPage | None:
    previous = rest[:1] == [PREVIOUS]
    rest = rest[previous:]
    if rest[:1] != [NEXT] or len(rest) % 3 != 1:
        return None
    listings = tuple(Listing(*rest[at : at + 3]) for at in range(1, len(rest), 3))
    return ResultsPage(instruction, page, total, previous, listings)


def _parse_done(parts: list[str]) -> DonePage | None:
    at = len(_DONE_HEAD)
    if len(parts) != at + 3 + len(_DONE_MIDDLE) + 1 + len(_DONE_TAIL):
        return None
    page = DonePage(parts[at], parts[at + 2], parts[at + 3 + len(_DONE_MIDDLE)])
    return page if list(_strings(page)) == parts else None


def with_actions(text: str, admissible: Sequence[str]) -> str:
    """The text with its block of admissible actions."""
    return text + block(admissible)


def block(admissible: Iterable[str]) -> str:
    """The block alone: one quoted action a line."""
    return BLOCK_HEAD + "\n".join(f"'{action}'," for action in admissible) + BLOCK_TAIL


def read(observation: str) -> Reading | None:
    """Take an observation apart; None when it shows no page of the shop."""
    success = observation.endswith(SUCCESS_MARKER)
    text = observation.removesuffix(SUCCESS_MARKER) if success else observation
    admissible = None
    start = text.rfind(BLOCK_HEAD)
    if start >= 0 and text.endswith(BLOCK_TAIL):
        inner = text[start + len(BLOCK_HEAD) : -len(BLOCK_TAIL)]
        lines = inner.split("',\n") if inner else []
        if lines and lines[-1].endswith("',"):
            lines[-1] = lines[-1][:-2]
            admissible = tuple(line.removeprefix("'") for line in lines)
            text = text[:start]
    page = parse(text)
    return None if page is None else Reading(page, admissible, success)


def write(reading: Reading) -> str:
    """Inverse of :func:`read`."""
    text = render(reading.page)
    if reading.admissible is not None:
        text = with_actions(text, reading.admissible)
    return text + (SUCCESS_MARKER if reading.success else "")


def chosen_options(options: Mapping[str, str]) -> str:
    """Chosen options as the last page prints them: sorted keys, JSON made safe for HTML."""
    text = json.dumps(dict(options), sort_keys=True)
    return re.sub(r"[<>&']", lambda match: _ESCAPES[match[0]], text)


def option_groups(page: ItemPage, admissible: Sequence[str] | None) -> list[tuple[str, list[str]]]:
    """The option groups of an item page as (name, values).

    The text alone does not tell names from values: with ``admissible`` a text that cannot be clicked is a
    name; without it the usual names (color, size, ...) are.
    """
    clickable = {action[6:-1] for action in admissible or () if action.startswith("click[")}
    groups: list[tuple[str, list[str]]] = []
    for text in page.options:
        named = text.lower() not in clickable if admissible is not None else text in USUAL_NAMES
        if named or not groups:
            groups.append((text, []))
        else:
            groups[-1][1].append(text)
    return groups


USUAL_NAMES = frozenset(
    ("color", "size", "style", "flavor name", "scent", "scent name", "fit type", "item shape", "capacity")
) | frozenset(
    ("material type", "pattern name", "team name", "special size", "flavor", "shape", "length", "width")
)
