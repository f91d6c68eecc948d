"""One customer's session: where they are, what they chose, and what each action changes.

Arguments are lowercased; an action that the page does not offer leaves it unchanged; ``search[...]`` works
from any page; choosing an option shows nowhere until the purchase (feasibility/environments.md 5.6).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from wmlab.domains.actions import MAX_ACTION_CHARACTERS, normalise_action
from wmlab.domains.webshop.catalogue import Product
from wmlab.domains.webshop.pages import (
    BACK,
    BUY,
    ITEM_TABS,
    NEXT,
    PER_PAGE,
    PREVIOUS,
    SEARCH,
    SEARCH_BAR,
    DonePage,
    ItemPage,
    Page,
    ResultsPage,
    StartPage,
    SubPage,
    chosen_options,
)
from wmlab.domains.webshop.shop import Shop

Kind = Literal["start", "results", "item", "sub", "done"]
Effect = tuple[str, str]
"""What a click does: its kind and argument, e.g. ("item", "17"), ("color", value) for an option."""


@dataclass(frozen=True, slots=True)
class View:
    """The page shown. ``page`` counts from 1; ``position`` is the product's; ``tab`` is one of ITEM_TABS."""

    kind: Kind = "start"
    query: str = ""
    page: int = 1
    position: int = -1
    tab: str = ""


@dataclass
class Session:
    """Mutable state of an episode.

    ``clicks`` maps each clickable text of the page to its effect, in page order; ``admissible`` are the
    actions as the page's block lists them.
    """

    shop: Shop
    instruction: str
    view: View = View()
    chosen: dict[str, str] = field(default_factory=dict)
    clicks: dict[str, Effect] = field(init=False)
    admissible: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._show(self.view)

    @property
    def done(self) -> bool:
        """Whether something was bought."""
        return self.view.kind == "done"

    def copy(self) -> Session:
        """An independent session at the same point."""
        return Session(self.shop, self.instruction, self.view, dict(self.chosen))

    def act(self, action: str) -> bool:
        """Take one action; False when the page does not offer it."""
        text = normalise_action(action)
        end = text.rfind("]")
        if end < 0 and len(text) >= MAX_ACTION_CHARACTERS:
            end = len(text)  # cut, not left open
        verb, argument = text[:6], text[6:end].lower()
        if text.startswith("search[") and end > 0:
            return self._search(text[7:end].strip().lower())
        if verb != "click[" or end < 0:
            return False
        effect = self.clicks.get(argument)
        if effect is None:
            effect = {_key(name): effect for name, effect in self.clicks.items()}.get(argument)
        return effect is not None and self._click(*effect)

    def _search(self, query: str) -> bool:
        if not query:
            return False
        self._show(View("results", query))
        self.chosen.clear()
        return True

    def _click(self, kind: str, argument: str) -> bool:
        view = self.view
        if kind == "option":
            name, _, value = argument.partition("\0")
            self.chosen[name] = value
        elif kind == "back":
            self.chosen.clear()
            self._show(View())
        elif kind == "turn":
            self._show(replace(view, page=view.page + int(argument)))
        elif kind == "item":
            self.chosen.clear()
            self._show(replace(view, kind="item", position=int(argument)))
        elif kind == "tab":
            self._show(replace(view, kind="sub", tab=argument))
        elif kind == "leave":
            up: Kind = "item" if view.kind == "sub" else "results"
            self._show(replace(view, kind=up, tab=""))
        elif kind == "buy":
            self._show(replace(view, kind="done"))
        else:
            return False  # the search button does nothing by itself
        return True

    def _show(self, view: View) -> None:
        self.view = view
        self.clicks = self._clickables()
        bar = (SEARCH_BAR,) if view.kind == "start" else ()
        self.admissible = (*bar, *[f"click[{text}]" for text in self.clicks])

    def _clickables(self) -> dict[str, Effect]:
        """In page order; a text that appears twice keeps its place and takes the later effect, as upstream."""
        view = self.view
        if view.kind == "done":
            return {}
        if view.kind == "start":
            return {SEARCH.lower(): ("none", "")}
        found: dict[str, Effect] = {BACK.lower(): ("back", "")}
        if view.kind == "results":
            if view.page > 1:
                found[PREVIOUS.lower()] = ("turn", "-1")
            found[NEXT.lower()] = ("turn", "1")
            for position in self.shown():
                found[self.shop.product(position).asin.lower()] = ("item", str(position))
            return found
        found[PREVIOUS.lower()] = ("leave", "")
        if view.kind == "item":
            found.update({tab.lower(): ("tab", tab) for tab in ITEM_TABS})
            found[BUY.lower()] = ("buy", "")
            for name, values in self.shop.product(view.position).options:
                found.update({value: ("option", f"{name}\0{value}") for value in values})
        return found

    def shown(self) -> tuple[int, ...]:
        """Positions of the products on the present results page."""
        start = (self.view.page - 1) * PER_PAGE
        return self.shop.hits(self.view.query)[start : start + PER_PAGE]

    def page(self, score: float = 0.0) -> Page:
        """The page shown; ``score`` is what the last one reports."""
        view, shop = self.view, self.shop
        if view.kind == "start":
            return StartPage(self.instruction)
        if view.kind == "results":
            total = len(shop.hits(view.query))
            listings = tuple([shop.listing(position) for position in self.shown()])
            return ResultsPage(self.instruction, view.page, total, view.page > 1, listings)
        product = shop.product(view.position)
        if view.kind == "done":
            return DonePage(product.asin, chosen_options(self.chosen), str(score))
        if view.kind == "sub":
            return SubPage(self.instruction, _texts(product, view.tab))
        groups = tuple(text for name, values in product.options for text in (name, *values))
        return ItemPage(self.instruction, groups, product.title, product.price_text)


def _key(text: str) -> str:
    """A clickable text as it arrives in an action: one line, possibly cut."""
    return normalise_action(f"click[{text}]")[6:].removesuffix("]").lower()


def _texts(product: Product, tab: str) -> tuple[str, ...]:
    """What a tab shows; empty texts leave no trace, reviews are always empty."""
    texts = {"Description": (product.description,), "Features": product.bullets}.get(tab, ())
    return tuple(text.strip() for text in texts if text.strip())
