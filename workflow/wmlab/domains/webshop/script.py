"""How to shop from text alone: search the instruction's words, inspect promising products, choose, buy.

Every turn is decided from the page last read and from what was clicked, so that a stray action costs
turns, not the episode. What a product lacks can only be seen on its page and under Features; the script
looks at a few products and buys the first that has everything, or else the best.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from wmlab.domains.webshop.analysis import analyse
from wmlab.domains.webshop.goals import Instruction, read_instruction
from wmlab.domains.webshop.pages import (
    SEARCH_BAR,
    USUAL_NAMES,
    DonePage,
    ItemPage,
    Listing,
    Reading,
    ResultsPage,
    StartPage,
    SubPage,
    option_groups,
    read,
)

SYSTEM_PROMPT = (
    "You shop on a website that you see as text. The instruction names a product, its qualities, its options and a "
    "price limit. Each turn you read the page and answer with exactly two parts,\n"
    "Thought:\n<what you look for next>\n\nAction:\n<one action>\n"
    "An action is search[words] where a search bar is offered, or click[text] with a text from the page's list. "
    "Choose every option that the instruction names before you click[buy now]."
)
IDLE = "click[search]"
MOST_INSPECTED = 4
MOST_PAGES = 3
MOST_OFFERED = 2
_SHOWN = re.compile(r"Instruction: \[SEP\] (?P<text>.*?) \[SEP\] ", re.DOTALL)
_COURTESY = re.compile(
    r"\b(?:find me|i am looking for|i need|i want to buy|please find|for me)\b", re.IGNORECASE
)
_AMOUNT = re.compile(r"\$(\d+(?:\.\d+)?)")
_OPTION_NAMES = tuple(f"{name} " for name in USUAL_NAMES)
_WORDS = re.compile(r"[^\s,]+")
_JOINTS = frozenset(("with", "for", "and", "&", "a", "an", "the"))
_HARMLESS = (IDLE, "click[help]", "click[price]")


class Script:
    """One shopping trip."""

    def __init__(self, first_observation: str) -> None:
        self.goal = instruction_of(first_observation)
        self.wanted = frozenset(analyse(self.goal.base))
        self.reading = read(first_observation)
        self.queries = queries(self.goal)
        self.tried = 0  # searches made
        self.product = ""  # the product whose page is open, lowercased id
        self.chosen: set[str] = set()
        self.known: dict[str, str] = {}  # id → what was read of it
        self.featured: set[str] = set()  # ids whose features were read
        self.options_missing: set[str] = set()
        self.seen_on: dict[str, int] = {}  # id → results page
        self.final = ""  # the product to buy, once decided
        self.pending = ""

    def read(self, observation: str) -> None:
        """Take in the answer to the script's own action."""
        action, self.pending = self.pending, ""
        self._count(action)
        reading = read(observation)
        if reading is None:
            return
        self.reading, page = reading, reading.page
        texts: tuple[str, ...] = (page.title,) if isinstance(page, ItemPage) else ()
        if isinstance(page, SubPage) and action == "click[features]":
            texts = page.texts
            self.featured.add(self.product)
        if self.product and texts:
            self.known[self.product] = " ".join((self.known.get(self.product, ""), *texts))
        if isinstance(page, ResultsPage):
            self.seen_on.update({item.asin.lower(): page.page for item in page.products})

    def _count(self, action: str) -> None:
        """Remember what the action did to what no page shows."""
        page = None if self.reading is None else self.reading.page
        if action.startswith("search["):
            self.tried += 1
            self.seen_on.clear()
            self.chosen.clear()
        elif isinstance(page, ResultsPage) and action[6:-1] in {item.asin.lower() for item in page.products}:
            self.product = action[6:-1]
            self.chosen.clear()
        elif isinstance(page, ItemPage) and action.startswith("click["):
            self.chosen.add(action[6:-1])

    def next(self) -> tuple[str, str] | None:
        """(thought, action) for the page last read; None after the purchase."""
        if self.reading is None or isinstance(self.reading.page, DonePage):
            return None
        thought, self.pending = self._choose(self.reading)
        return thought, self.pending

    def _choose(self, reading: Reading) -> tuple[str, str]:
        page = reading.page
        if isinstance(page, StartPage):
            return "Search for the product.", f"search[{self.queries[self.tried % len(self.queries)]}]"
        if isinstance(page, ResultsPage):
            return self._pick(page)
        if isinstance(page, ItemPage):
            return self._inspect(page, reading.admissible)
        return "Back to the product.", "click[< prev]"

    def _pick(self, page: ResultsPage) -> tuple[str, str]:
        fresh = [
            item for item in page.products if item.asin.lower() not in self.known and self._affordable(item)
        ]
        inspected = [asin for asin in self.known if asin not in self.options_missing]
        if fresh and len(inspected) < MOST_INSPECTED and not self.final:
            best = max(fresh, key=lambda item: (self._coverage(item.title), -page.products.index(item)))
            return "Look at the most promising product.", f"click[{best.asin.lower()}]"
        if not inspected and not self.final and page.products and page.page < MOST_PAGES:
            return "Nothing here; see more results.", "click[next >]"
        if not self.final:
            pool = inspected or list(self.known) or [item.asin.lower() for item in page.products]
            self.final = max(pool, key=lambda asin: self._coverage(self.known.get(asin, "")), default="")
        at = self.seen_on.get(self.final, 0)
        if at == page.page:
            return "This one fits best.", f"click[{self.final}]"
        if at == 0:
            return "Search again.", "click[back to search]"
        return "The best one was on another page.", "click[< prev]" if at < page.page else "click[next >]"

    def _inspect(self, page: ItemPage, admissible: tuple[str, ...] | None) -> tuple[str, str]:
        asked = self._asked(option_groups(page, admissible))
        if asked is None and self.final != self.product:
            self.options_missing.add(self.product)
            return "An option is missing here.", "click[< prev]"
        if self.final != self.product and not self._complete():
            if self.product not in self.featured:
                return "Check its features.", "click[features]"
            return "It lacks something; look at others.", "click[< prev]"
        self.final = self.product
        for value in asked or ():
            if value not in self.chosen:
                return "Choose an option.", f"click[{value}]"
        return "All that was asked for is chosen.", "click[buy now]"

    def _asked(self, groups: Sequence[tuple[str, Sequence[str]]]) -> list[str] | None:
        """The values to click, one a group at most; None when one that is asked for is not offered."""
        if self.goal.options:
            wanted = dict.fromkeys(value.lower() for _, value in self.goal.options)
            offered = {value.lower() for _, values in groups for value in values}
            return list(wanted) if offered >= wanted.keys() else None
        asked: list[str] = []
        for name, values in groups:
            named = _named(self.goal.base, values)
            if not named and _named(self.goal.base, [name]):
                return None
            asked += sorted(named, key=len)[-1:]
        return asked

    def _complete(self) -> bool:
        """Whether all that the instruction asks for was read of the open product; the kind's name may differ."""
        return self._coverage(self.known.get(self.product, "")) >= len(qualities(self.goal.base))

    def _coverage(self, text: str) -> float:
        """Qualities found in the text, and a fraction for the instruction's other words."""
        terms = set(analyse(text))
        found = sum(quality <= terms for quality in qualities(self.goal.base))
        return found + len(self.wanted & terms) / (len(self.wanted) + 1)

    def fitting(self, page: ResultsPage) -> list[Listing]:
        """The affordable products whose titles fit best; all when none is affordable."""
        left = [item for item in page.products if self._affordable(item)] or list(page.products)
        return sorted(left, key=lambda item: -self._coverage(item.title))[:MOST_OFFERED]

    def _affordable(self, item: Listing) -> bool:
        amounts = [float(amount) for amount in _AMOUNT.findall(item.price)]
        return self.goal.price_upper is None or not amounts or min(amounts) <= self.goal.price_upper

    def idle(self) -> str:
        """The search button does nothing by itself."""
        return IDLE

    def skip(self) -> None:
        """Take the proposed action for done."""
        if self.pending.startswith("click[") and self.reading is not None:
            self._count(self.pending)
            if isinstance(self.reading.page, ResultsPage):
                self.known.setdefault(self.product, "")

    def wander(self, rng: np.random.Generator, harmless: bool) -> str:
        """Something else: a refused click, or also any click of the page."""
        options = list(_HARMLESS)
        if not harmless and self.reading is not None and self.reading.admissible:
            options += [action for action in self.reading.admissible if action != SEARCH_BAR]
        return options[int(rng.integers(len(options)))]


@lru_cache(maxsize=1024)
def instruction_of(observation: str) -> Instruction:
    """The instruction on a page, taken apart; a person's has no options that could be told from its words."""
    shown = _SHOWN.search(observation)
    return read_instruction(shown["text"] if shown else "")


def _named(base: str, values: Sequence[str]) -> list[str]:
    """The values that stand in the text as whole words, lowercased."""
    text = f" {base.lower()} ".replace(",", " ").replace(".", " ")
    return [value.lower() for value in values if f" {value.lower()} " in text]


def keywords(base: str) -> list[str]:
    """The words that tell something of the product, in order."""
    words = _WORDS.findall(_COURTESY.sub(" ", base))
    return [word for word in words if word.lower() not in _JOINTS]


@lru_cache(maxsize=1024)
def qualities(base: str) -> tuple[frozenset[str], ...]:
    """What is asked for as sets of terms: the parts between commas, ``with`` and ``for``; not the kind itself.

    The part before the first ``with`` or ``for`` ends with the kind of product: of its last piece nothing
    is required.
    """
    text = _COURTESY.sub(" ", base)
    parts = re.split(r"\s(?:with|for)\s", text)
    head = re.split(r", ", parts[0])[:-1]
    tail = [piece for part in parts[1:] for piece in part.split(", ")]
    named = (piece for piece in (*head, *tail) if not piece.startswith(_OPTION_NAMES))
    found = (frozenset(analyse(piece)) for piece in named)
    return tuple(terms for terms in found if terms)


def queries(goal: Instruction) -> list[str]:
    """Searches worth making: product and qualities; with the options; the product's part alone."""
    words = keywords(goal.base)
    values = [value for _, value in goal.options]
    head = keywords(re.split(r"\s(?:with|for)\s", _COURTESY.sub(" ", goal.base))[0].rpartition(", ")[2])
    found = (" ".join(words), " ".join([*words, *values]), " ".join(head))
    return list(
        dict.fromkeys(query.lower().replace("[", " ").replace("]", " ")[:180] for query in found)
    ) or ["shop"]


def candidates(observations: Sequence[str], actions: Sequence[str] = ()) -> list[str]:
    """Searches made from the instruction, where there is a search bar; then what the page lists, narrowed.

    As in the other domains a small model chooses among what the goal's text names: of the results the products
    whose titles fit it best, of a product's options the values that it asks for and that were not clicked yet.
    What cannot be narrowed stays.
    """
    latest = read(observations[-1])
    goal = instruction_of(observations[0])
    listed = [action for action in (latest.admissible if latest else None) or () if action != IDLE]
    found = [f"search[{query}]" for query in queries(goal)] if SEARCH_BAR in listed or not listed else []
    page = latest.page if latest else None
    left_out: set[str] = set()
    if isinstance(page, ResultsPage):
        fitting = Script(observations[0]).fitting(page)
        left_out = {f"click[{item.asin.lower()}]" for item in page.products if item not in fitting}
    elif isinstance(page, ItemPage) and latest is not None:
        left_out = _not_asked(goal, option_groups(page, latest.admissible)) | _clicked(observations, actions)
    return list(dict.fromkeys([*found, *(a for a in listed if a != SEARCH_BAR and a not in left_out)]))


def _clicked(observations: Sequence[str], actions: Sequence[str]) -> set[str]:
    """Values clicked since the open product was opened: a page does not show them."""
    clicks: set[str] = set()
    for observation, action in zip(observations[-2::-1], actions[::-1], strict=False):
        before = read(observation)
        if before is None or not isinstance(before.page, ItemPage | SubPage):
            break
        if isinstance(before.page, ItemPage):
            values = {v.lower() for _, group in option_groups(before.page, before.admissible) for v in group}
            clicks |= {action} & {f"click[{value}]" for value in values}
    return clicks


def _not_asked(goal: Instruction, groups: Sequence[tuple[str, Sequence[str]]]) -> set[str]:
    """Clicks of values that the goal does not name, in groups of which it names one."""
    wanted = {value.lower() for _, value in goal.options} or {
        value for _, values in groups for value in _named(goal.base, values)
    }
    clicks: set[str] = set()
    for _, values in groups:
        offered = {value.lower() for value in values}
        if offered & wanted:
            clicks |= {f"click[{value}]" for value in offered - wanted}
    return clicks
