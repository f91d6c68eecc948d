"""Facts of a ScienceWorld observation (memwm.txt B.2 and B.5.2; metrics.md section 4).

The paper's 18 types of fact in its order of priority, and GOAL: a text is first read as a menu, then as
the answer to an action, then as a description; what none of them explains is a message. Names are lower
case without leading articles, numbers are kept as printed.

================================  =================================================================
``AMBIG_OPTION(n, action)``       a choice of an ambiguity menu
``TEMPERATURE(n, celsius)``       a thermometer's reading
``CONNECTED(a, b)``               two electrical ends; b is ``nothing`` when an end is free
``MOVED(thing, place)``           a thing, or the ``agent``, went to a place
``FOCUS(thing)`` ``WAIT(n)``      the confirmed action
``POURED(source, destination)``   likewise
``STATE(thing, s)``               open, closed, on, off, activated, ``not open``, disconnected, broken,
                                  on fire, a stage of life, a trait, a position on a plane, …;
                                  ``STATE(action, words)`` for a refusal that names no thing
``RECIPE(product, ingredient)``   read in a recipe, or mixed just now
``ROOM(name)`` ``LOCATION(name)`` a room, a place outside
``VISIBLE(thing)``                a thing in the room, or the thing looked at
``ON(surface, thing)``            on something
``IN(container, thing)``          in something (``In the sink is: …``), the inventory too
``CONTAINS(container, thing)``    in something (``(containing …)``)
``EMPTY(container)``              nothing in or on it
``DOOR(room, s)``                 a door to a room, open or closed
``GOAL(text)``                    the task, which opens an episode (not in the paper)
``MESSAGE(text)``                 anything else: books, help, text of no known form
================================  =================================================================

The `` [SUCCESS]`` marker is no fact: SSF compares states, and exact match covers the end of a task.
Line breaks separate things; a description that lost them is read by its articles. The score is the F1 of the
fact sets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from wmlab.metrics.ssf.scan import Reading
from wmlab.metrics.ssf.scienceworld_rules import read_menu, read_message
from wmlab.metrics.ssf.scienceworld_scene import read_scene

_NAMES = (
    "ROOM LOCATION VISIBLE ON IN CONTAINS EMPTY STATE DOOR MOVED FOCUS CONNECTED TEMPERATURE WAIT POURED "
    "RECIPE AMBIG_OPTION GOAL MESSAGE"
)
NAMES = frozenset(_NAMES.split())

_CACHE_TEXTS = 2_048
_CACHE_LONGEST = 8_000  # characters; longer texts are parsed each time, so the cache stays small
_PREFIX = re.compile(r"(?:observation|(?:the )?next state(?: is)?) ?: ?")
_TASK = re.compile(r"(?:task description: ?)?your task is to ")
_MARKER = "[success]"
_SPACES = re.compile(r"[^\S\n]+")  # line breaks are structure
_PLACE = re.compile(r"this (room|outside location) is called (?:the )?([^.\n]{1,60})\.")
_INSIDE = re.compile(r"inside (?:the )?([^.:\n]{1,60}) is$")
_INSIDE_LONGEST = 80
# What ends before the colon of a header, and where the things after it are.
_HEADS = (
    ("you also see", "VISIBLE", ""),
    ("in it, you see", "VISIBLE", ""),
    ("here you see", "VISIBLE", ""),
    ("in this location, you see", "VISIBLE", ""),
    ("in your inventory, you see", "IN", "inventory"),
)
_ITEM = re.compile(r"(?:an?|the) .|[a-z0-9' -]{1,60}$")
_WIRE = re.compile(r"(?<=[a-z0-9])its (?=(?:terminal \d|anode|cathode) is connected to:)")


@dataclass(frozen=True, slots=True)
class Header:
    """A header from ``start`` to ``end``: what follows it is in ``relation`` to ``holder``."""

    start: int
    end: int
    relation: str
    holder: str


def _headers(text: str) -> Iterator[Header]:
    """Headers such as ``In it, you see:``, found by their colons."""
    last, colon = 0, text.find(":")
    while colon >= 0:
        if text.endswith("you see", last, colon) or text.endswith("you also see", last, colon):
            for words, relation, holder in _HEADS:
                if text.endswith(words, last, colon):
                    yield Header(colon - len(words), colon + 1, relation, holder)
                    last = colon + 1
                    break
        elif text.endswith(" is", last, colon):
            inside = _INSIDE.search(text, max(last, colon - _INSIDE_LONGEST), colon)
            if inside is not None:
                yield Header(inside.start(), colon + 1, "IN", inside[1])
                last = colon + 1
        colon = text.find(":", colon + 1)


def _parse(text: str) -> frozenset[str]:
    text = "\n".join(text.splitlines()).replace("\t", " ")
    if "  " in text or not text.isascii():
        text = _SPACES.sub(" ", text)
    text = text.lower().strip()
    prefix = _PREFIX.match(text)
    if prefix is not None:
        text = text[prefix.end() :]
    text = text.removesuffix(_MARKER).strip()
    reading = Reading()
    if not text:
        return frozenset()
    headers = list(_headers(text)) if ":" in text else []
    opening = text[: headers[0].start] if headers else text
    place = _PLACE.search(opening) if "is called" in opening else None
    if place is not None:
        reading.add("ROOM" if place[1] == "room" else "LOCATION", place[2].strip())
        opening = f"{opening[: place.start()]} {opening[place.end() :]}"
    _read_plain(reading, opening.strip())
    outer = None
    for number, header in enumerate(headers, start=1):
        end = headers[number].start if number < len(headers) else len(text)
        stop = _end_of_aside(text, header, end) if outer is not None else end
        read_scene(reading, text[header.end : stop], header.relation, header.holder)
        if outer is not None and stop < end:
            read_scene(reading, text[stop:end], outer.relation, outer.holder)
        else:
            outer = header
    return frozenset(reading.facts)


def _end_of_aside(text: str, header: Header, end: int) -> int:
    """Where ``Inside the flower is: pollen``, said of an item within its line, ends; the list goes on below it."""
    line = text.rfind("\n", 0, header.start) + 1
    stop = text.find("\n", header.end, end)
    if stop < 0 or not text[line : header.start].strip() or not text[header.end : stop].strip():
        return end
    return stop


def _read_plain(reading: Reading, text: str) -> None:
    """Text without a header: a menu, answers, one thing that was looked at, or a message."""
    flat = " ".join(text.split())
    if not flat or read_menu(reading, flat) or read_message(reading, flat):
        return
    if _ITEM.match(flat) is not None:
        read_scene(reading, _WIRE.sub(". its ", text) if "its " in text else text, "VISIBLE")
        return
    task = _TASK.match(flat)
    if task is not None:
        reading.add("GOAL", flat[task.end() :])
    else:
        reading.add("MESSAGE", flat)


_parse_cached = lru_cache(maxsize=_CACHE_TEXTS)(_parse)


def parse(text: str) -> frozenset[str]:
    """The facts of one observation (schema above). Total: never raises on a string."""
    return _parse_cached(text) if len(text) <= _CACHE_LONGEST else _parse(text)
