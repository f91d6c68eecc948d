"""The bundled catalogue: invented products in the official files' format, from a curated vocabulary and a seed.

Nothing is scraped: brands, kinds, attributes and sentences are the project's own
(``resources/webshop/vocabulary.toml``). Titles read like a shop's and stay within twelve words, and
attributes and options come from small pools, so that a small world model can learn them.
"""

from __future__ import annotations

import hashlib
import json
import random
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

SIZE = 1200
SEED = 20
MOST = 200_000
TITLE_WORDS = 12
PRODUCTS, ATTRIBUTES, HUMAN = "products.json", "attributes.json", "human.json"

_CENTS = (0.99, 0.99, 0.95, 0.49, 0.0)
_SMALL_WORDS = frozenset(("of", "and", "or", "for", "with", "by", "de", "in"))
_HUMAN = (
    "i am looking for {what}{options}.",
    "i need {what}{options}.",
    "please find {what} for me{options}.",
    "i want to buy {what}{options}.",
)


class Draft(NamedTuple):
    """One product in the three official forms."""

    product: dict[str, Any]
    attributes: dict[str, Any]
    human: list[dict[str, Any]]


@dataclass(frozen=True)
class Vocabulary:
    """What vocabulary.toml holds."""

    brands: tuple[str, ...]
    options: dict[str, dict[str, Any]]
    kinds: tuple[dict[str, Any], ...]


@cache
def vocabulary() -> Vocabulary:
    """The curated vocabulary, read once a process."""
    path = Path(__file__).parents[2] / "resources" / "webshop" / "vocabulary.toml"
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    return Vocabulary(tuple(data["brands"]), data["options"], tuple(data["kind"]))


def generate(size: int = SIZE, seed: int = SEED) -> Iterator[Draft]:
    """``size`` products, kinds in turn, each from its own stream of (seed, number): prefixes agree."""
    kinds = vocabulary().kinds
    for number in range(size):
        kind = kinds[number % len(kinds)]
        yield _draft(kind, number // len(kinds) + 1, random.Random(f"{seed}/{number}"))


def write_catalogue(folder: Path, size: int = SIZE, seed: int = SEED) -> str:
    """Write products.json, attributes.json and human.json; return the sha256 over the three, in this order."""
    folder.mkdir(parents=True, exist_ok=True)
    drafts = list(generate(size, seed))
    products = [draft.product for draft in drafts]
    attributes = {draft.product["asin"]: draft.attributes for draft in drafts}
    human = {draft.product["asin"]: draft.human for draft in drafts if draft.human}
    digest = hashlib.sha256()
    for name, value in ((PRODUCTS, products), (ATTRIBUTES, attributes), (HUMAN, human)):
        data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        (folder / name).write_bytes(data)
        digest.update(data)
    return digest.hexdigest()


def _draft(kind: dict[str, Any], number: int, rng: random.Random) -> Draft:
    brand, form = rng.choice(vocabulary().brands), rng.choice(kind["forms"])
    pre = _some(rng, kind["pre"], 1, 3)
    having = _some(rng, kind["with"], 1, 2)
    aims = _some(rng, kind["for"], 0, 1)
    asin = f"B0{kind['code']}{number:04d}"
    customization = _options(kind, rng)
    product = {
        "asin": asin,
        "name": _title(kind, brand, form, pre, having, aims, rng),
        "full_description": _description(brand, form, pre, having, aims),
        "small_description": _bullets(form, pre, having, aims),
        "pricing": _pricing(kind["price"], rng),
        "customization_options": customization or "",
        "images": [],
        "category": kind["category"],
        "query": kind["phrase"],
        "product_category": kind["path"],
    }
    attributes: dict[str, Any] = {"attributes": [*pre, *having, *aims]}
    wanted = (_keep(rng, pre, 0.6), _keep(rng, having, 0.6), _keep(rng, aims, 0.5))
    if not any(wanted):
        wanted = (pre[:1], [], [])
    if rng.random() < 0.85:
        attributes["instruction"] = f"Find me {_phrase(kind['phrase'], *wanted)}"
        attributes["instruction_attributes"] = [a for part in wanted for a in part]
    human = [_human(asin, kind, wanted, customization, rng)] if rng.random() < 0.5 else []
    return Draft(product, attributes, human)


def _some(rng: random.Random, pool: Sequence[str], least: int, most: int) -> list[str]:
    """A few of the pool, in the pool's order."""
    chosen = set(rng.sample(range(len(pool)), min(rng.randint(least, most), len(pool))))
    return [item for index, item in enumerate(pool) if index in chosen]


def _keep(rng: random.Random, items: Sequence[str], share: float) -> list[str]:
    return [item for item in items if rng.random() < share]


def _phrase(what: str, pre: Sequence[str], having: Sequence[str], aims: Sequence[str]) -> str:
    """``non slip women's sandals with rubber sole for daily wear``, as the official instructions are built."""
    text = f"{', '.join(pre)} {what}" if pre else what
    text += f" with {', '.join(having)}" if having else ""
    return text + (f" for {', '.join(aims)}" if aims else "")


def _title(
    kind: dict[str, Any],
    brand: str,
    form: str,
    pre: Sequence[str],
    having: Sequence[str],
    aims: Sequence[str],
    rng: random.Random,
) -> str:
    """One of four shapes, shortened until it has at most TITLE_WORDS words."""
    who = f"{kind['who']} " if "who" in kind else ""
    first, feature = _capital(rng.choice(pre)), _capital(rng.choice(having))
    shapes = (
        [f"{brand} {who}{first} {form}", f" with {feature}"],
        [f"{brand} {who}{form}", f", {first}", f", {feature}"],
        [f"{brand} {who}{form}", f" for {_capital(aims[0])}" if aims else f" with {feature}", f", {first}"],
        [f"{who}{form} by {brand}", f", {first}", f" & {feature}"],
    )
    parts = rng.choice(shapes)
    while len("".join(parts).split()) > TITLE_WORDS:
        parts.pop()
    return "".join(parts)


def _capital(text: str) -> str:
    return " ".join(word if word in _SMALL_WORDS else word[:1].upper() + word[1:] for word in text.split())


def _bullets(form: str, pre: Sequence[str], having: Sequence[str], aims: Sequence[str]) -> list[str]:
    lines = [f"{item.capitalize()} {form.lower()}" for item in pre]
    lines += [f"Made with {item}" for item in having]
    return lines + [f"Suited for {item}" for item in aims]


def _description(
    brand: str, form: str, pre: Sequence[str], having: Sequence[str], aims: Sequence[str]
) -> str:
    return f"{brand} makes this {_phrase(form.lower(), pre, having, aims)}."


def _options(kind: dict[str, Any], rng: random.Random) -> dict[str, list[dict[str, str]]]:
    """Each group takes a run of its pool: neighbouring sizes, a few colours."""
    groups = {}
    for key in kind["options"]:
        group = vocabulary().options[key]
        values: list[str] = group["values"]
        length = min(rng.randint(2, 4), len(values))
        start = rng.randint(0, len(values) - length)
        groups[group["name"].title()] = [{"value": value} for value in values[start : start + length]]
    return groups


def _pricing(bounds: Sequence[int], rng: random.Random) -> str:
    """One price, now and then a range, rarely none, as the official strings have it."""
    low = rng.randint(*bounds) + rng.choice(_CENTS)
    shape = rng.random()
    if shape < 0.04:
        return ""
    return f"${low:.2f}" if shape < 0.88 else f"${low:.2f}${low + rng.randint(2, 20):.2f}"


def _human(
    asin: str,
    kind: dict[str, Any],
    wanted: tuple[Sequence[str], Sequence[str], Sequence[str]],
    customization: dict[str, list[dict[str, str]]],
    rng: random.Random,
) -> dict[str, Any]:
    """An instruction as a person would type it, in the human file's form."""
    chosen = {name.lower(): rng.choice(values)["value"] for name, values in customization.items()}
    asked = "".join(f", {name} {value}" for name, value in chosen.items())
    text = rng.choice(_HUMAN).format(what=_phrase(kind["phrase"], *wanted), options=asked)
    return {
        "asin": asin,
        "instruction": text,
        "attributes": [a for part in wanted for a in part],
        "options": [f"{name}: {value}" for name, value in chosen.items()],
        "instruction_attributes": [a for part in wanted for a in part],
        "instruction_options": list(chosen.values()),
        "assignment_id": "",
        "worker_id": "",
    }
