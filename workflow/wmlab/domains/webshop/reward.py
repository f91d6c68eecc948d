"""The reward of a purchase: how much of the goal's type, attributes, options and price it meets.

    total = (attributes met + options met + [price within bound]) / (attributes + options + 1) * type

``compat`` reproduces upstream with its quirks: only the purchased side of a named option is reduced to a
colour word, the goal side is compared as ``name value``, and any chosen option may meet any wanted one. So
``small`` meets ``size: x-small``, and no purchase meets ``color: r.brown2060``. ``strict`` compares an
option with the one chosen under its name. feasibility/environments.md 5.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from wmlab.domains.webshop.catalogue import Product
from wmlab.domains.webshop.goals import Goal, GoalOption
from wmlab.domains.webshop.nouns import Tagger

MODES = ("compat", "strict")
THRESHOLD = 85
PATH_SEPARATOR = "›"
# Upstream's alphabetical list; the first one found inside a value stands for it.
_COLOUR_LIST = (
    "alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel "
    "camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry "
    "cream crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey "
    "heather indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight "
    "mint mocha multicolor mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow "
    "red rose royal rust sand sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal "
    "tiger turquoise violet walnut wheat white wine yellow"
)
_LATIN_1 = dict.fromkeys(range(128, 256))
COLOURS = tuple(_COLOUR_LIST.split())


class Score(NamedTuple):
    """A reward and its parts; each part is a share in [0, 1] except ``type``, one of 0, 0.1, 0.5, 1."""

    total: float
    type: float
    attributes: float | None
    options: float | None
    price: bool


def similar(first: str, second: str) -> bool:
    """thefuzz's token_set_ratio above 85, which drops Latin-1 letters first (equality is tested)."""
    from rapidfuzz import fuzz, utils

    sides = (utils.default_process(text.translate(_LATIN_1)) for text in (first, second))
    return round(fuzz.token_set_ratio(*sides)) > THRESHOLD


def normalise_colour(value: str) -> str:
    """The first colour word found inside ``value``, or ``value``."""
    return next((colour for colour in COLOURS if colour in value), value)


def score(
    goal: Goal,
    wanted: Product,
    bought: Product,
    price: float,
    chosen: Mapping[str, str],
    nouns: Tagger,
    mode: str = "compat",
) -> Score:
    """The reward for buying ``bought`` at ``price`` with the ``chosen`` options. ``wanted`` is the goal's product."""
    kind = type_factor(wanted, bought, nouns)
    attributes = sum(_has_attribute(bought, attribute) for attribute in goal.attributes)
    meets = _option_met if mode == "compat" else _option_met_strictly
    options = sum(meets(option, chosen) for option in goal.options)
    within = price <= goal.price_upper
    whole = len(goal.attributes) + len(goal.options) + 1
    total = (attributes + options + within) / whole * kind
    return Score(
        total,
        kind,
        attributes / len(goal.attributes) if goal.attributes else None,
        options / len(goal.options) if goal.options else None,
        within,
    )


def type_factor(wanted: Product, bought: Product, nouns: Tagger) -> float:
    """1, 0.5, 0.1 or 0 by query, category path and the share of the wanted title's nouns."""
    target = nouns(wanted.title)
    overlap = len(set(target) & set(nouns(bought.title)))
    title = overlap / len(target) if target else 0.2
    if title == 0:
        return 0.0
    if title < 0.1:
        return 0.1
    related = wanted.query == bought.query or len(_path(wanted) & _path(bought)) >= 2
    return 1.0 if related or title > 0.2 else 0.5


def _path(product: Product) -> set[str]:
    return {part.strip() for part in product.product_category.split(PATH_SEPARATOR)}


def _has_attribute(product: Product, attribute: str) -> bool:
    if any(similar(own, attribute) for own in product.attributes):
        return True
    texts = (product.title, " ".join(product.bullets), product.description)
    return any(attribute in text.lower() for text in texts)


def _option_met(option: GoalOption, chosen: Mapping[str, str]) -> bool:
    """Upstream's comparison; a named goal option is a (name, value) pair there, and ``in`` means membership."""
    if option.name is None:
        target = normalise_colour(option.value)
    else:
        pair = (option.name, option.value)
        target = next((colour for colour in COLOURS if colour in pair), f"{option.name} {option.value}")
    return any(similar(normalise_colour(value), target) for value in chosen.values())


def _option_met_strictly(option: GoalOption, chosen: Mapping[str, str]) -> bool:
    if option.name is None:
        return any(value == option.value.lower() or similar(value, option.value) for value in chosen.values())
    return chosen.get(option.name) == option.value
