"""What an ALFWorld player knows from text alone: the task, the furniture, what was seen where.

Both dialects are read (``move``/``put … in/on``, with and without ``You arrive at …``). A world model's
text is read the same way; sentences that are not understood change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

NAME = r"[a-z]+ \d+"
_ITEM = re.compile(rf"\ba ({NAME})\b")
_SEEN = re.compile(rf"\b(?:On|In) the ({NAME}), you see ([^.]*)\.")
_INSIDE = re.compile(rf"The ({NAME}) is open\.(?: In it, you see ([^.]*)\.)?")
_CLOSED = re.compile(rf"(?:The ({NAME}) is closed|You close the ({NAME}))\.")
_ARRIVED = re.compile(rf"You arrive at ({NAME})\.")
_OPENED = re.compile(rf"You open the ({NAME})\.")
_TAKEN = re.compile(rf"You pick up the ({NAME}) from the ({NAME})\.")
_PUT = re.compile(rf"You (?:move|put) the ({NAME}) (?:to|in/on) the ({NAME})\.")
_TREATED = re.compile(rf"You (clean|heat|cool) the ({NAME}) using the ({NAME})\.")
_LIT = re.compile(rf"You turn on the ({NAME})\.")
_ROOM = re.compile(r"Looking quickly around you, you see ([^.]*)\.")
_TASK = re.compile(r"Your task is to: ([^\n]*)")
REFUSED = "Nothing happens."

_THING = r"(?P<thing>[a-z]+)"
_PLACE = r"(?P<place>[a-z]+)"
_TASKS = tuple(
    (re.compile(pattern), treatment, number)
    for pattern, treatment, number in (
        (rf"(?:put two|find two) {_THING} (?:in|and put them in) {_PLACE}", "", 2),
        (
            rf"put a clean {_THING} in {_PLACE}|clean some (?P<t2>[a-z]+) and put it in (?P<p2>[a-z]+)",
            "clean",
            1,
        ),
        (rf"put a hot {_THING} in {_PLACE}|heat some (?P<t2>[a-z]+) and put it in (?P<p2>[a-z]+)", "heat", 1),
        (
            rf"put a cool {_THING} in {_PLACE}|cool some (?P<t2>[a-z]+) and put it in (?P<p2>[a-z]+)",
            "cool",
            1,
        ),
        (rf"put (?:a|some) {_THING} (?:in|on) {_PLACE}", "", 1),
    )
)
_LOOK = re.compile(
    r"(?:look at (?P<t1>[a-z]+) under the|examine the (?P<t2>[a-z]+) with the) (?P<lamp>[a-z]+)"
)


@dataclass(frozen=True)
class Errand:
    """The task: bring ``number`` of a class of ``thing`` to a class of ``place``, or hold one by a ``lamp``."""

    thing: str
    place: str = ""
    treatment: str = ""  # clean, heat, cool
    number: int = 1
    lamp: str = ""


def read_task(text: str) -> Errand | None:
    """The errand of a first observation; None when its sentence is of another kind."""
    found = _TASK.search(text)
    sentence = found[1].strip().rstrip(".").lower() if found else ""
    look = _LOOK.fullmatch(sentence)
    if look:
        return Errand(look["t1"] or look["t2"], lamp=look["lamp"])
    for pattern, treatment, number in _TASKS:
        match = pattern.fullmatch(sentence)
        if match:
            parts = match.groupdict()
            thing, place = parts["thing"] or parts.get("t2"), parts["place"] or parts.get("p2")
            return Errand(str(thing), str(place), treatment, number)
    return None


@dataclass
class Memory:
    """Everything read so far. ``contents`` of furniture not looked into is absent."""

    furniture: list[str] = field(default_factory=list)
    contents: dict[str, list[str]] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    doors: set[str] = field(default_factory=set)
    at: str = ""
    held: str = ""
    treated: set[tuple[str, str]] = field(default_factory=set)
    lit: set[str] = field(default_factory=set)
    old_words: bool = False  # put … in/on … instead of move … to …

    @classmethod
    def of(cls, first_observation: str) -> Memory:
        """Start from the first observation."""
        room = _ROOM.search(first_observation)
        furniture = _ITEM.findall(room[1]) if room else []
        actions = first_observation.partition("\nAVAILABLE ACTIONS: ")[2].split(",")
        old = len(actions) > 1 and "help" not in [action.strip() for action in actions]
        return cls(list(dict.fromkeys(reversed(furniture))), old_words=old)

    def read(self, text: str) -> None:
        """Take in an observation."""
        for name in _ARRIVED.findall(text):
            if name in self.furniture:
                self.at = name
        for name, things in [*_SEEN.findall(text), *_INSIDE.findall(text)]:
            self.contents[name] = _ITEM.findall(things)
            self.closed.discard(name)
            self.at = name
        for names in _CLOSED.findall(text):
            name = names[0] or names[1]
            self.closed.add(name)
            self.doors.add(name)
            self.at = name
        for name in _OPENED.findall(text):
            self.closed.discard(name)
            self.doors.add(name)
        for thing, place in _TAKEN.findall(text):
            self.held = thing
            self.contents[place] = [item for item in self.contents.get(place, []) if item != thing]
        for thing, place in _PUT.findall(text):
            self.held = "" if self.held == thing else self.held
            self.contents.setdefault(place, []).append(thing)
        for treatment, thing, _ in _TREATED.findall(text):
            self.treated.add((treatment, thing))
        self.lit.update(_LIT.findall(text))

    def put(self, thing: str, place: str) -> str:
        """The command for putting a thing down, in the dialect at hand."""
        return f"put {thing} in/on {place}" if self.old_words else f"move {thing} to {place}"

    def places_of(self, kind: str) -> Iterator[tuple[str, str]]:
        """(thing, furniture) for everything of a class that was seen and not taken."""
        for place, things in self.contents.items():
            for thing in things:
                if kind_of(thing) == kind:
                    yield thing, place

    def of_kind(self, kind: str) -> list[str]:
        """Furniture of a class, in the order of its numbers."""
        return sorted((name for name in self.furniture if kind_of(name) == kind), key=number_of)


def kind_of(name: str) -> str:
    """``mug 2`` → mug."""
    return name.partition(" ")[0]


def number_of(name: str) -> int:
    """``mug 2`` → 2."""
    return int(name.partition(" ")[2] or 0)
