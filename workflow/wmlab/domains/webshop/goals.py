"""Goals: what a customer asks for, how upstream draws them, and how to read an instruction back.

A synthetic goal is a product's instruction with one combination of its options; a human goal is a line
that a person wrote. Both may end with a price bound, drawn from the next four tens above the product's
price (feasibility/environments.md 5.3). The order of goals is a shuffle: with seed 42 and 6,910 goals it
is the order of the published test ids (tested).
"""

from __future__ import annotations

import math
import random
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from wmlab.domains.webshop.catalogue import NO_PRICE, HumanInstruction, Product

PRICE_STEPS = range(10, 1000, 10)
NO_BOUND = 1_000_000.0
_PRICE_TEXT = re.compile(r",? and price lower than (?P<bound>\d{1,7}(?:\.\d{1,2})?) dollars\s*\Z")
_NEXT_OPTION = re.compile(r", and (?=[^:,]{1,40}: )")


@dataclass(frozen=True, slots=True)
class GoalOption:
    """One wanted option; human goals name the value only."""

    name: str | None
    value: str


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal. ``price_upper`` is NO_BOUND where the text has no bound."""

    asin: str
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[GoalOption, ...]
    price_upper: float


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction taken apart: ``base`` names product and attributes."""

    base: str
    options: tuple[tuple[str, str], ...]
    price_upper: float | None


def draw_price(product: Product, rng: random.Random) -> float:
    """The price a purchase is judged by: a uniform draw inside a price range."""
    if not product.pricing:
        return NO_PRICE
    return product.pricing[0] if len(product.pricing) == 1 else rng.uniform(*product.pricing)


def draw_bound(price: float, rng: random.Random) -> float | None:
    """The larger of two of the next four tens above ``price``; None when fewer than two are left."""
    above = [step for step in PRICE_STEPS if step > price][:4]
    return float(max(rng.sample(above, 2))) if len(above) >= 2 else None


def order(n: int, seed: int) -> array[int]:
    """Position in the shuffled list → position in catalogue order."""
    positions = array("I", range(n))
    random.Random(seed).shuffle(positions)
    return positions


def n_combinations(product: Product) -> int:
    """How many synthetic goals a product gives: one for each combination of its options."""
    return math.prod(len(values) for _, values in product.options)


def combination(product: Product, number: int) -> tuple[GoalOption, ...]:
    """The ``number``-th combination: names sorted, the last one varying fastest."""
    chosen: list[GoalOption] = []
    for name, values in sorted(product.options, reverse=True):
        number, at = divmod(number, len(values))
        chosen.append(GoalOption(name, values[at]))
    return tuple(reversed(chosen))


def price_text(bound: float | None) -> str:
    """``, and price lower than 50.00 dollars``, or nothing."""
    return "" if bound is None else f", and price lower than {bound:.2f} dollars"


def synthetic_goal(
    product: Product, instruction: str, attributes: Sequence[str], number: int, bound: float | None
) -> Goal:
    """The goal of one combination of options."""
    options = combination(product, number)
    wanted = ", and ".join(f"{option.name}: {option.value}" for option in options)
    text = f"{instruction} with {wanted}" if wanted else instruction
    upper = NO_BOUND if bound is None else bound
    return Goal(product.asin, text + price_text(bound), tuple(attributes), options, upper)


def human_goal(product: Product, human: HumanInstruction, bound: float | None) -> Goal:
    """The goal of a person's instruction."""
    options = tuple(GoalOption(None, value) for value in human.options)
    upper = NO_BOUND if bound is None else bound
    return Goal(product.asin, human.instruction + price_text(bound), human.attributes, options, upper)


def read_instruction(text: str) -> Instruction:
    """Take an instruction apart; inverse of :func:`synthetic_goal`'s text where values hold no ``, and x: ``."""
    price = _PRICE_TEXT.search(text[-80:])
    bound = float(price["bound"]) if price else None
    body = text[: len(text) - len(price[0])] if price else text
    colon = body.find(": ")
    joint = body.rfind(" with ", 0, colon) if colon >= 0 else -1
    if joint < 0 or "," in body[joint:colon]:
        return Instruction(body, (), bound)
    pairs = [part.partition(": ") for part in _NEXT_OPTION.split(body[joint + len(" with ") :])]
    return Instruction(body[:joint], tuple((name, value) for name, _, value in pairs), bound)
