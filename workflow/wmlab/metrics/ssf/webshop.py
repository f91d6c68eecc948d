"""SSF of WebShop: weighted fields of the page (memwm.txt B.3 and B.5.3; metrics.md section 4).

The score is the weighted mean of the similarities of the gold page type's fields. With equal page types
every field is compared; with different ones a field that the prediction lacks scores 0, also where gold
has none either, so that a text which is no page scores 0.

===========  ==========================================================================================
page         fields, in percent of the paper's weights
===========  ==========================================================================================
search       page_type 10, page_number 10, total_results 10, previous 5, next 5, back 5, ids 30,
             titles 15, prices 10; products are the first three
product      page_type 15, title 20, price 15, option_keys 10, option_groups 10, previous 5, back 5,
             description 5, features 5, reviews 5, buy_now 5
terminal     page_type 30, purchased 20, chosen 20, score 20, success 10          (not in the paper)
start        page_type 30, search 10, texts 60                                    (not in the paper)
detail       page_type 30, previous 5, back 5, texts 60                           (not in the paper)
unknown      page_type 20, texts 80                                               (not in the paper)
===========  ==========================================================================================

The paper weights the first two and calls the last three "unknown"; they are told apart so that the
search bar, a description and a text that is no page do not count as one type.

Similarities: equality of categorical fields and buttons; set F1 of ids, option names, (option, value)
pairs and chosen options; token F1 of titles and texts; of prices 1 - |p - g| / g, at least 0, mean of
both ends of a range. Titles and prices are aligned by shared id only, and a product of one page that the
other lacks counts as a title and a price of similarity 0 (2 x sum / (n + n'), the F1 of soft matches).

:func:`parse` writes the same fields as facts: ``PAGE(type)`` (not of an unknown page), ``PAGE_NUMBER(n)``, ``TOTAL_RESULTS(n)``,
``BUTTON(name)``, ``PRODUCT(id)``, ``TITLE(id, title)``, ``PRICE(id, low, high)``; on a product page
``TITLE(title)``, ``PRICE(low, high)``, ``OPTION(name)``, ``OPTION(name, value)``; on the last page
``PURCHASED(id)``, ``CHOSEN(name, value)``, ``REWARD(score)``; ``SUCCESS()``; ``TEXT(text)`` on start and
detail pages, ``MESSAGE(text)`` on unknown ones. Case of titles is kept, all comparisons ignore it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from wmlab.metrics.ssf.webshop_page import Page, Price, Product, read_page
from wmlab.metrics.text import token_f1

Weights = Mapping[str, float]
Similarities = dict[str, float]


@dataclass(frozen=True)
class Scheme:
    """Weights of the fields by page type, on any positive scale: the score divides by their sum."""

    name: str
    weights: Mapping[str, Weights]

    def score(self, page_type: str, similarities: Similarities) -> float:
        """Weighted mean of the similarities, in [0, 1]."""
        weights = self.weights[page_type]
        total = math.fsum(weights.values())
        value = math.fsum(weight * similarities[name] for name, weight in weights.items()) / total
        return min(1.0, max(0.0, value))

    def scaled(self, name: str, factors: Mapping[str, float]) -> Scheme:
        """A scheme whose named fields weigh ``factors`` times as much, on every page that has them."""
        scaled = {
            kind: {key: weight * factors.get(key, 1.0) for key, weight in weights.items()}
            for kind, weights in self.weights.items()
        }
        return Scheme(name, scaled)

    def perturbed(self, name: str, rng: np.random.Generator, share: float = 0.2) -> Scheme:
        """A scheme with every weight changed by a factor drawn from [1 - share, 1 + share]."""
        drawn = {
            kind: {key: weight * float(rng.uniform(1 - share, 1 + share)) for key, weight in weights.items()}
            for kind, weights in self.weights.items()
        }
        return Scheme(name, drawn)


PAPER = Scheme(
    "paper",
    {
        "search": {
            "page_type": 10, "page_number": 10, "total_results": 10, "previous": 5, "next": 5, "back": 5,
            "ids": 30, "titles": 15, "prices": 10,
        },
        "product": {
            "page_type": 15, "title": 20, "price": 15, "option_keys": 10, "option_groups": 10, "previous": 5,
            "back": 5, "description": 5, "features": 5, "reviews": 5, "buy_now": 5,
        },
        "terminal": {"page_type": 30, "purchased": 20, "chosen": 20, "score": 20, "success": 10},
        "start": {"page_type": 30, "search": 10, "texts": 60},
        "detail": {"page_type": 30, "previous": 5, "back": 5, "texts": 60},
        "unknown": {"page_type": 20, "texts": 80},
    },
)  # fmt: skip
"""In percent: sums of such integers are exact, so a swap of all three ids scores 45 / 100."""

_UNIFORM = Scheme("uniform", {kind: dict.fromkeys(weights, 1.0) for kind, weights in PAPER.weights.items()})
_IDENTITY = dict.fromkeys(("ids", "titles", "title", "purchased"), 2.0)
_OPTIONS = dict.fromkeys(("prices", "price", "option_keys", "option_groups", "chosen"), 2.0)
_BUTTONS = dict.fromkeys(
    ("previous", "next", "back", "description", "features", "reviews", "buy_now", "search"), 2.0
)
SCHEMES = (
    PAPER,
    _UNIFORM,
    PAPER.scaled("product identity", _IDENTITY),
    PAPER.scaled("price and options", _OPTIONS),
    PAPER.scaled("affordances", _BUTTONS),
)
"""The paper's weights and four others; ``PAPER.perturbed`` draws the random ones."""


def _set_f1(left: Iterable[object], right: Iterable[object]) -> float:
    a, b = set(left), set(right)
    return 2.0 * len(a & b) / (len(a) + len(b)) if a or b else 1.0


def _price_similarity(prediction: Price | None, gold: Price | None) -> float:
    if prediction is None or gold is None:
        return float(prediction is gold)
    if prediction == gold:
        return 1.0
    return sum(_close(p, g) for p, g in zip(prediction, gold, strict=True)) / 2


def _close(prediction: float, gold: float) -> float:
    if gold == 0.0:
        return float(prediction == 0.0)
    return max(0.0, 1.0 - abs(prediction - gold) / gold)


def _text_similarity(prediction: str, gold: str) -> float:
    return 1.0 if prediction == gold else token_f1(prediction, gold)


def _products(prediction: tuple[Product, ...], gold: tuple[Product, ...]) -> Similarities:
    """Ids, titles and prices; titles and prices of products that only one page has are 0."""
    if prediction == gold:
        return {"ids": 1.0, "titles": 1.0, "prices": 1.0}
    by_id = {product.id: product for product in prediction}
    pairs = [(by_id[product.id], product) for product in gold if product.id in by_id]
    share = 2.0 / (len(prediction) + len(gold))
    return {
        "ids": len(pairs) * share,
        "titles": sum(_text_similarity(p.title, g.title) for p, g in pairs) * share,
        "prices": sum(_price_similarity(p.price, g.price) for p, g in pairs) * share,
    }


def _pairs(page: Page) -> list[tuple[str, str]]:
    return [(key, value) for key, values in page.options for value in values]


def _optional_title(prediction: str | None, gold: str | None) -> float:
    if prediction is None or gold is None:
        return float(prediction is gold)
    return _text_similarity(prediction, gold)


def similarities(prediction: Page, gold: Page) -> Similarities:
    """The similarity of every field of gold's page type, each in [0, 1], weights not yet applied."""
    same = prediction.kind == gold.kind
    found: Similarities = {"page_type": float(same)}
    shown, wanted = prediction.affordances, gold.affordances
    for name in PAPER.weights[gold.kind]:
        if name in BUTTONS:
            found[name] = float((name in shown) == (name in wanted) and (same or name in shown))
    if gold.kind == "search":
        found["page_number"] = float(prediction.number == gold.number)
        found["total_results"] = float(prediction.total == gold.total)
        found |= _products(prediction.products, gold.products) if same or prediction.products else _NONE
    elif gold.kind == "product":
        found["title"] = _optional_title(prediction.title, gold.title)
        found["price"] = _price_similarity(prediction.price, gold.price)
        if same or prediction.options:
            found["option_keys"] = _set_f1(
                (key for key, _ in prediction.options), (key for key, _ in gold.options)
            )
            found["option_groups"] = _set_f1(_pairs(prediction), _pairs(gold))
        else:
            found["option_keys"] = found["option_groups"] = 0.0
    elif gold.kind == "terminal":
        found["purchased"] = float(prediction.purchased == gold.purchased and same)
        found["chosen"] = _set_f1(prediction.chosen, gold.chosen) if same else 0.0
        found["score"] = float(prediction.score == gold.score and same)
        found["success"] = float(prediction.success == gold.success and same)
    else:
        found["texts"] = _text_similarity(" ".join(prediction.texts), " ".join(gold.texts)) if same else 0.0
    return found


BUTTONS = ("previous", "next", "back", "description", "features", "reviews", "buy_now", "search")
_NONE: Similarities = {"ids": 0.0, "titles": 0.0, "prices": 0.0}


def compare(prediction: str, gold: str, scheme: Scheme = PAPER) -> float:
    """The score of a predicted observation, in [0, 1]."""
    left, right = read_page(prediction), read_page(gold)
    if left == right:
        return 1.0
    return scheme.score(right.kind, similarities(left, right))


def _amounts(price: Price) -> str:
    return f"{price[0]:g}, {price[1]:g}"


def parse(text: str) -> frozenset[str]:
    """The fields of one observation as facts (schema above). Total: never raises on a string."""
    page = read_page(text)
    facts = [] if page.kind == "unknown" else [f"PAGE({page.kind})"]
    facts += [f"BUTTON({name})" for name in page.affordances]
    if page.success:
        facts.append("SUCCESS()")
    if page.number is not None:
        facts += [f"PAGE_NUMBER({page.number})", f"TOTAL_RESULTS({page.total})"]
    for item in page.products:
        facts += [
            f"PRODUCT({item.id})",
            f"TITLE({item.id}, {item.title})",
            f"PRICE({item.id}, {_amounts(item.price)})",
        ]
    if page.title is not None:
        facts.append(f"TITLE({page.title})")
    if page.price is not None:
        facts.append(f"PRICE({_amounts(page.price)})")
    for key, values in page.options:
        facts.append(f"OPTION({key})")
        facts += [f"OPTION({key}, {value})" for value in values]
    if page.purchased is not None:
        facts.append(f"PURCHASED({page.purchased})")
    facts += [f"CHOSEN({key}, {value})" for key, value in page.chosen]
    if page.score is not None:
        facts.append(f"REWARD({page.score:g})")
    name = "MESSAGE" if page.kind == "unknown" else "TEXT"
    facts += [f"{name}({words})" for words in page.texts]
    return frozenset(facts)
