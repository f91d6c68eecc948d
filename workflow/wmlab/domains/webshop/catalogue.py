"""Products: reading rows of the official product and attribute files, row by row and strictly.

Rules of the official engine (feasibility/environments.md 5.2): ids longer than ten characters, ``nan`` and
repeated ids are dropped; the query is lowercased; option names and values are lowercased, ``/`` in a value
becomes `` | ``; a product without attributes has DUMMY_ATTR; no price means 100 dollars. Rows that the
official engine would crash on are dropped here too, each with its reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from wmlab.domains.webshop.pages import SEPARATOR

DUMMY_ATTRIBUTE = "DUMMY_ATTR"
NO_PRICE = 100.0
MAX_ID = 10
MAX_TEXT = 200_000
MAX_BOUND = 1_000_000.0
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_ID = re.compile(r"[0-9A-Za-z]+")
_AMOUNT = re.compile(r"[^0-9.]")


class RejectedRow(ValueError):
    """A row that cannot be used; the text is a reason without the row's own content, so that reasons count up."""


@dataclass(frozen=True, slots=True)
class Product:
    """One product. ``pricing``: no, one or two amounts in dollars. ``options``: groups in page order."""

    asin: str
    title: str
    category: str
    query: str
    product_category: str
    pricing: tuple[float, ...]
    options: tuple[tuple[str, tuple[str, ...]], ...]
    description: str
    bullets: tuple[str, ...]
    attributes: tuple[str, ...]

    @property
    def price_text(self) -> str:
        """As pages show it: ``$877.8``, ``$10.0 to $20.5``, ``$100.0`` when there is none."""
        if not self.pricing:
            return f"${NO_PRICE}"
        return " to ".join(f"${amount}" for amount in self.pricing)

    @property
    def searchable(self) -> str:
        """The text that search indexes: title, description, first bullet, options; lowercased."""
        groups = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options)
        first = self.bullets[0] if self.bullets else ""
        return f"{self.title} {self.description} {first} {groups}".lower()

    def record(self) -> str:
        """The product as one line of JSON."""
        facts = (self.asin, self.title, self.category, self.query, self.product_category, self.pricing)
        return _ENCODER.encode((*facts, self.options, self.description, self.bullets, self.attributes))


def from_record(record: str) -> Product:
    """Inverse of :meth:`Product.record`."""
    asin, title, category, query, path, pricing, options, description, bullets, attributes = json.loads(
        record
    )
    groups = tuple((name, tuple(values)) for name, values in options)
    return Product(
        asin,
        title,
        category,
        query,
        path,
        tuple(pricing),
        groups,
        description,
        tuple(bullets),
        tuple(attributes),
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """What the attribute file says of a product."""

    attributes: tuple[str, ...]
    instruction: str
    instruction_attributes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HumanInstruction:
    """One usable instruction of the human file; ``options`` are bare values."""

    instruction: str
    attributes: tuple[str, ...]
    options: tuple[str, ...]


def read_product(row: object) -> Product:
    """Check one row of the product file; attributes are in another file. Raises RejectedRow with the reason."""
    if not isinstance(row, dict):
        raise RejectedRow("not an object")
    asin = row.get("asin")
    if not isinstance(asin, str) or not _ID.fullmatch(asin) or asin == "nan":
        raise RejectedRow("asin is not letters and digits")
    if len(asin) > MAX_ID:
        raise RejectedRow(f"asin is longer than {MAX_ID} characters")
    title = _text(row, "name").strip()
    if not title:
        raise RejectedRow("name is empty")
    bullets = row.get("small_description") or []
    if isinstance(bullets, str):
        bullets = [bullets]
    product = Product(
        asin,
        title,
        _text(row, "category"),
        _text(row, "query").lower().strip(),
        _text(row, "product_category"),
        read_pricing(row.get("pricing")),
        _options(row.get("customization_options")),
        _text(row, "full_description"),
        _texts(bullets, "small_description"),
        (DUMMY_ATTRIBUTE,),
    )
    shown = (title, product.description, *product.bullets, *(v for _, vs in product.options for v in vs))
    if any(SEPARATOR.strip() in text for text in shown):
        raise RejectedRow(f"a text holds the page separator {SEPARATOR.strip()}")
    if sum(map(len, shown)) > MAX_TEXT:
        raise RejectedRow(f"more than {MAX_TEXT} characters of text")
    return product


def read_pricing(value: object) -> tuple[float, ...]:
    """``$877.80`` → (877.8,), ``$19.99$27.99`` → two amounts, empty → (). Raises RejectedRow."""
    if value is None:
        return ()
    if not isinstance(value, str):
        raise RejectedRow("pricing is not text")
    amounts = []
    for part in value.split("$")[1:3]:
        try:
            amounts.append(float(_AMOUNT.sub("", part)))
        except ValueError:
            raise RejectedRow("pricing has no number after a dollar sign") from None
    if any(not 0 <= amount < MAX_BOUND for amount in amounts):
        raise RejectedRow("pricing is out of range")
    return tuple(amounts)


def read_entry(value: object) -> Entry:
    """Check one entry of the attribute file. Raises RejectedRow."""
    if not isinstance(value, dict):
        raise RejectedRow("not an object")
    instruction = _text(value, "instruction")
    wanted = _texts(value.get("instruction_attributes") or [], "instruction_attributes")
    if SEPARATOR.strip() in instruction:
        raise RejectedRow("instruction holds the page separator")
    if instruction and not wanted:
        raise RejectedRow("instruction without instruction_attributes")
    return Entry(_texts(value.get("attributes") or [], "attributes"), instruction, wanted)


def read_human(value: object) -> HumanInstruction | None:
    """Check one instruction of the human file; None when it names no attributes (skipped upstream)."""
    if not isinstance(value, dict):
        raise RejectedRow("not an object")
    wanted = _texts(value.get("instruction_attributes") or [], "instruction_attributes")
    instruction = _text(value, "instruction").strip(".")
    if not wanted:
        return None
    if not instruction:
        raise RejectedRow("instruction is empty")
    if SEPARATOR.strip() in instruction:
        raise RejectedRow("instruction holds the page separator")
    return HumanInstruction(
        instruction, wanted, _texts(value.get("instruction_options") or [], "instruction_options")
    )


def _text(row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RejectedRow(f"{key} is not text")
    return value


def _texts(value: object, key: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise RejectedRow(f"{key} is not a list of texts")
    return tuple(value)


def _options(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not value:
        return ()
    if not isinstance(value, dict):
        raise RejectedRow("customization_options is not an object")
    groups: dict[str, tuple[str, ...]] = {}
    for name, choices in value.items():
        if choices is not None:
            groups[str(name).lower().strip()] = tuple(_values(choices))
    return tuple(group for group in groups.items() if group[1])


def _values(choices: object) -> Iterator[str]:
    if not isinstance(choices, list):
        raise RejectedRow("a customization option is not a list")
    for choice in choices:
        value = choice.get("value") if isinstance(choice, dict) else None
        if not isinstance(value, str):
            raise RejectedRow("a customization option has no value")
        text = value.strip().replace("/", " | ").lower()
        if text:
            yield text
