"""The expert: from any point of a session to the wanted product with the wanted options, and the purchase."""

from __future__ import annotations

from collections.abc import Mapping

from wmlab.domains.webshop.catalogue import Product
from wmlab.domains.webshop.goals import Goal
from wmlab.domains.webshop.pages import BACK, BUY, NEXT, PER_PAGE, PREVIOUS
from wmlab.domains.webshop.session import View
from wmlab.domains.webshop.shop import Shop

QUERY_CHARACTERS = 180
MOST_TURNS = 5


def plan(shop: Shop, goal: Goal, view: View, chosen: Mapping[str, str]) -> list[str]:
    """Actions from here to a purchase with reward 1; [] when the goal cannot be met, or the episode is over.

    Some upstream goals cannot be met under ``compat`` (reward.py). The search for the product uses its title.
    """
    position = shop.position(goal.asin)
    product = shop.product(position)
    options = wanted_options(product, goal)
    if view.kind == "done" or shop.score(goal, position, options).total < 1:
        return []
    buying = [_click(value) for name, value in options.items() if chosen.get(name) != value] + [_click(BUY)]
    if view.position == position and view.kind in ("item", "sub"):
        return ([_click(PREVIOUS)] if view.kind == "sub" else []) + buying
    fresh = [_click(value) for value in options.values()] + [_click(BUY)]
    way: list[str] = []
    if view.kind in ("item", "sub"):  # of another product
        way = [_click(PREVIOUS)] * (2 if view.kind == "sub" else 1)
    if view.kind != "start":
        turns = _turns(shop.hits(view.query), position, view.page)
        if turns is not None:
            return [*way, *turns, _click(product.asin), *fresh]
        way = [_click(BACK)]
    query = gold_query(shop, product)
    if query is None:
        return []
    turns = _turns(shop.hits(query), position, 1)
    return [*way, f"search[{query}]", *(turns or []), _click(product.asin), *fresh]


def wanted_options(product: Product, goal: Goal) -> dict[str, str]:
    """Group name → value to choose. Human goals name values only: the group that has it, or has it nearest."""
    from rapidfuzz import fuzz

    chosen: dict[str, str] = {}
    for option in goal.options:
        if option.name is not None:
            chosen[option.name] = option.value
            continue
        ranked = [
            (value == option.value.lower(), fuzz.token_set_ratio(value, option.value.lower()), name, value)
            for name, values in product.options
            for value in values
            if name not in chosen
        ]
        if ranked:
            _, _, name, value = max(ranked)
            chosen[name] = value
    return {name: chosen[name] for name, _ in product.options if name in chosen}


def gold_query(shop: Shop, product: Product) -> str | None:
    """The product's title, or more of its text until search finds it; None when it never does."""
    position = shop.position(product.asin)
    texts = (product.title, f"{product.title} {' '.join(product.bullets[:1])}", product.searchable)
    for text in texts:
        query = " ".join(text.replace("[", " ").replace("]", " ").lower().split())[:QUERY_CHARACTERS].strip()
        if position in shop.hits(query):
            return query
    return None


def _turns(hits: tuple[int, ...], position: int, page: int) -> list[str] | None:
    """Clicks from results page ``page`` to the one that shows the product; None when it is not there or far."""
    if position not in hits:
        return None
    distance = hits.index(position) // PER_PAGE + 1 - page
    if abs(distance) > MOST_TURNS:
        return None
    return [_click(NEXT if distance > 0 else PREVIOUS)] * abs(distance)


def _click(text: str) -> str:
    return f"click[{text.lower()}]"
