"""Facts of a ScienceWorld observation (memwm.txt B.2 and B.5.2; metrics.md section 4).

The paper's 18 types of fact, in its order of priority: a text is first read as a menu, then as the answer
to an action, then as a description; what none of them explains is a message. Names are lower case without
leading articles, numbers are kept as printed.

================================  =================================================================
``AMBIG_OPTION(n, action)``       a choice of an ambiguity menu
``TEMPERATURE(n, celsius)``       a thermometer's reading
``CONNECTED(a, b)``               two electrical ends; b is ``nothing`` when an end is free
``MOVED(thing, place)``           a thing, or the ``agent``, went to a place
``FOCUS(thing)`` ``WAIT(n)``      the confirmed action
``POURED(source, destination)``   likewise
``STATE(thing, s)``               open, closed, on, off, activated, ``not open``, disconnected, broken,
                                  on fire, a stage of life, a trait, a position on a plane, …
``RECIPE(product, ingredient)``   read in a recipe, or mixed just now
``ROOM(name)`` ``LOCATION(name)`` a room, a place outside
``VISIBLE(thing)``                a thing in the room, or the thing looked at
``ON(surface, thing)``            on something
``IN(container, thing)``          in something (``In the sink is: …``), the inventory too
``CONTAINS(container, thing)``    in something (``(containing …)``)
``EMPTY(container)``              nothing in or on it
``DOOR(room, s)``                 a door to a room, open or closed
``MESSAGE(text)``                 anything else: refusals, the task, books
================================  =================================================================

The `` [SUCCESS]`` marker is no fact: SSF compares states, and exact match covers the end of a task.
Line breaks separate things; a description that lost them is read by its articles.

:func:`extract` takes a fallback, such as a language model, for a long text that no rule explains; short
messages (``SHORT`` characters) are facts as they are and never reach it. The score is the F1 of the fact sets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from wmlab.metrics.ssf.scienceworld_rules import read_menu, read_message
from wmlab.metrics.ssf.scienceworld_scene import Reading, read_scene

NAMES = frozenset(
    "ROOM LOCATION VISIBLE ON IN CONTAINS EMPTY STATE DOOR MOVED FOCUS CONNECTED TEMPERATURE WAIT POURED "
    "RECIPE AMBIG_OPTION MESSAGE".split()
)
SHORT = 200
Fallback = Callable[[str], Iterable[str]]

_CACHE_TEXTS = 2_048
_CACHE_LONGEST = 8_000  # characters; longer texts are parsed each time, so the cache stays small
_PREFIX = re.compile(r"(?:observation|(?:the )?next state(?: is)?) ?: ?")
_MARKER = "[success]"
_SPACES = re.compile(r"[^\S\n]+")
_HEADER = re.compile(
    r"this (?P<kind>room|outside location) is called (?:the )?(?P<name>[^.\n]{1,60})\."
    r"|(?:in it|here|in this location),? you see: ?"
    r"|(?P<also>you also see: ?)"
    r"|in your (?P<bag>inventory), you see: ?"
    r"|inside (?:the )?(?P<in>[^.:\n]{1,60}?) is: ?"
)
_ITEM = re.compile(r"(?:an?|the) .|[a-z0-9' -]{1,60}$")
_FACT = re.compile(r"([A-Z_]{1,20})\(([^\n]{1,400})\)")
_WIRE = re.compile(r"(?<=[a-z0-9])its (?=(?:terminal \d|anode|cathode) is connected to:)")


def _read(text: str) -> tuple[Reading, bool]:
    """Facts, and whether a rule explains the text (otherwise they are messages)."""
    text = _SPACES.sub(" ", text.replace("\r\n", "\n").replace("\r", "\n")).lower().strip()
    prefix = _PREFIX.match(text)
    if prefix is not None:
        text = text[prefix.end() :]
    text = text.removesuffix(_MARKER).strip()
    reading = Reading()
    if not text:
        return reading, True
    first = _HEADER.search(text)
    before = text if first is None else text[: first.start()]
    explained = _read_plain(reading, before.strip())
    while first is not None:
        following = _HEADER.search(text, first.end())
        body = text[first.end() : following.start() if following is not None else len(text)]
        _read_section(reading, first, body)
        first = following
    return reading, explained


def _read_plain(reading: Reading, text: str) -> bool:
    """Text without a header: a menu, answers, one thing that was looked at, or a message."""
    if not text:
        return True
    flat = " ".join(text.split())
    if read_menu(reading, flat) or read_message(reading, flat):
        return True
    if _ITEM.match(flat) is not None and "?" not in flat:
        read_scene(reading, _WIRE.sub(". its ", text), "VISIBLE")
        return True
    reading.add("MESSAGE", flat)
    return False


def _read_section(reading: Reading, header: re.Match[str], body: str) -> None:
    """What follows a header, up to the next one."""
    if header["kind"]:
        reading.add("ROOM" if header["kind"] == "room" else "LOCATION", header["name"].strip())
        rest = " ".join(body.split())
        if rest:
            reading.add("MESSAGE", rest)
    elif header["bag"]:
        read_scene(reading, body, "IN", "inventory")
    elif header["in"]:
        read_scene(reading, body, "IN", header["in"])
    else:
        read_scene(reading, body, "VISIBLE")


def _parse(text: str) -> frozenset[str]:
    return frozenset(_read(text)[0].facts)


_parse_cached = lru_cache(maxsize=_CACHE_TEXTS)(_parse)


def parse(text: str) -> frozenset[str]:
    """The facts of one observation (schema above). Total: never raises on a string."""
    return _parse_cached(text) if len(text) <= _CACHE_LONGEST else _parse(text)


def extract(text: str, fallback: Fallback | None = None) -> frozenset[str]:
    """Facts by rules, and by ``fallback`` only for a long text that no rule explains.

    ``fallback`` gets the observation and returns facts; those that are no complete fact of the schema are
    dropped, and when none is left the message stays. What it raises is the caller's.
    """
    reading, explained = _read(text)
    only_message = all(fact.startswith("MESSAGE(") for fact in reading.facts)
    if fallback is None or explained or not only_message or len(text) <= SHORT:
        return frozenset(reading.facts)
    found = set()
    for line in fallback(text):
        match = _FACT.fullmatch(line.strip())
        if match is not None and match[1] in NAMES:
            found.add(f"{match[1]}({match[2]})")
    return frozenset(found or reading.facts)
