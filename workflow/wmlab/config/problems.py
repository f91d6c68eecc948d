"""Turn a pydantic failure into one line: the dotted key, its value, what is expected, the near match."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from types import UnionType
from typing import Any, get_args, get_origin

from pydantic import BaseModel, Tag, ValidationError

Location = tuple[int | str, ...]
VARIANT = "variant-"
"""How tags of alternative sections begin: pydantic puts them into a problem's location, a user never wrote them."""
_MARKERS = ("function-", VARIANT)


def near_match(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: the closest known one, or all of them."""
    known = [str(known) for known in names]
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(known)}" if known else "none is known here"


def describe(error: ValidationError, model: type[BaseModel], data: Any) -> str:
    """One line for the first problem of ``error``, and how many more there are."""
    problems = error.errors(include_url=False)
    # A misspelt key is also a missing key: the unknown one says more.
    first = min(problems, key=lambda problem: problem["type"] != "extra_forbidden")
    location = tuple(first["loc"])
    key = dotted(location)
    if first["type"] == "extra_forbidden":
        known = fields_at(model, location[:-1])
        text = f"unknown key {key!r}; {near_match(str(location[-1]), known)}"
    elif first["type"] == "missing":
        text = f"key {key!r} is missing; add it"
    elif first["type"] == "value_error":
        reason = str(first["ctx"]["error"])
        text = f"{key}: {reason}" if key else reason
    else:
        value = value_at(data, location)
        shown = repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:57]}..."
        expected = first["msg"].removeprefix("Input should be ").replace("Input should ", "it should ")
        text = f"{key} is {shown}; expected {expected}"
    # What a section gets wrong is found again wherever it is inherited: that is one problem.
    more = len({(problem["type"], problem["loc"][-1:], repr(problem["input"])) for problem in problems}) - 1
    return text + (f" (and {more} more problem{'s' if more > 1 else ''})" if more else "")


def location_of(error: ValidationError) -> Location:
    """Where the problem that ``describe`` reports is."""
    problems = error.errors(include_url=False)
    return tuple(min(problems, key=lambda problem: problem["type"] != "extra_forbidden")["loc"])


def dotted(location: Location) -> str:
    """``("a", "b", 0)`` as ``a.b.0``; pydantic's own markers are left out."""
    return ".".join(str(part) for part in location if not str(part).startswith(_MARKERS))


def fields_at(model: type[BaseModel], location: Location) -> list[str]:
    """Names of the keys that ``model`` knows at ``location``; a level of ``dict[str, Model]`` takes any key."""
    current: Any = model
    for part in location:
        if str(part).startswith(VARIANT):
            current = _variant(current, str(part))
        elif get_origin(current) is dict:
            current = get_args(current)[1]
        else:
            field = current.model_fields.get(str(part)) if _is_model(current) else None
            current = None if field is None else _inner(field.annotation)
    return list(current.model_fields) if _is_model(current) else []


def _inner(annotation: Any) -> Any:
    """``X`` of ``X | None``; anything else as it is."""
    options = [option for option in get_args(annotation) if option is not type(None)]
    return options[0] if isinstance(annotation, UnionType) and len(options) == 1 else annotation


def _variant(annotation: Any, tag: str) -> Any:
    """The section of a tagged union that has this tag."""
    union = get_args(annotation)[0]
    for option in get_args(union):
        section, *told = get_args(option)
        if any(isinstance(mark, Tag) and mark.tag == tag for mark in told):
            return section
    return None


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def value_at(data: Any, location: Location) -> Any:
    """The value that the user gave at ``location``, or the nearest one above it."""
    current = data
    for part in location:
        if str(part).startswith(_MARKERS):
            continue
        try:
            current = current[part]
        except (KeyError, IndexError, TypeError):
            break
    return current
