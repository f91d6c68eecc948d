"""The forms of fact a language model may extract, by domain: the parsers' own schemas, as lines of a prompt.

A line is a form, ``NAME(argument, argument)``, and what it says. An argument with ``|`` lists its words; ``…``
after the last one means that commas inside it are its own. Facts and names that come from the text have to
stand in it; words of a form may be added. What only the parsers write (`` [SUCCESS]``, ``MESSAGE``) is not here.
WebShop has no lines: its pages are read by their layout alone (memwm.txt B.3).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_LINES = {
    "alfworld": """
ON(place, thing) a thing is seen on a surface
IN(place, thing) a thing is seen in a container
EMPTY(place) nothing is seen on or in it
STATE(thing, open|closed|heated|cooled|cleaned|dirty|sliced|on|off|normal) the state a thing is left in
CLEANED(thing, place) it was cleaned with a sink; never also a STATE
HEATED(thing, place) it was heated with an appliance
COOLED(thing, place) it was cooled with an appliance
SLICED(thing, tool) it was sliced with a tool
TAKEN(thing, place) it was picked up from there
PLACED(thing, place) it was put or moved there
CARRYING(thing…) it is carried; CARRYING(nothing)
FACING(places…) the furniture the player stands before, in alphabetical order, one fact
NEAR(place, thing…) a thing lies beside the place, or beside several, which come first
AT(place) the player arrived there and nothing else is said
SEES(thing…) it is seen in a glance around the room
NO_EFFECT() nothing happened
NO_SWITCH(thing) it cannot be switched
TASK(words…) the task, in the text's words
""",
    "scienceworld": """
ROOM(name) the room described
LOCATION(name) a place outside
VISIBLE(thing) a thing is seen, the agent and substances too
ON(surface, thing) it is on something
IN(container, thing) it is in something, the inventory too
CONTAINS(container, thing) what stands in brackets after "containing"
EMPTY(container) nothing in or on it
STATE(thing, words…) open, closed, on, off, activated, deactivated, broken and the like
DOOR(room, open|closed) a door to a room
MOVED(thing, place) it went there; the agent too
FOCUS(thing) the confirmed focus
CONNECTED(end, end) two electrical ends
TEMPERATURE(number, celsius) a thermometer's reading
WAIT(number) iterations waited
POURED(source, destination) what was poured where
RECIPE(product, ingredient) one fact an ingredient
AMBIG_OPTION(number, action…) a choice of a menu
GOAL(words…) the task, in the text's words
""",
    "cookingworld": """
CARRYING(item) it is carried or was just taken; CARRYING(nothing)
INGREDIENT(item) the recipe needs it
STEP(chop|slice|dice|fry|roast|grill|cook|prepare, item) a step of the recipe
STATE(thing, chopped|sliced|diced|raw|fried|roasted|grilled|cooked|open|closed) its state
COOKED(item, device) it was cooked with it
ON(place, item) where it is
IN(place, item) where it is
PLACED(item, place) it was just put there
EMPTY(place) nothing is on or in it
ROOM(room) the room described
HERE(thing) a plain thing of the room
DOOR(north|south|east|west, door, open|closed) a door
LEADS(north|south|east|west, room) a way without a door
BEHIND(door, room) where it leads
EATEN(item) it was eaten
PROGRESS(words…) a report of progress
REFUSED(words…) why an action was refused
TASK(words…) the task, in the text's words
""",
    "textworld": """
ROOM(room) the room described
AT(room) the room of the status line
SCORE(number) the score of the status line
TURN(number) the turn of the status line
EXIT(north|south|east|west) an exit without a door
DOOR(door, north|south|east|west) an exit through a door
HERE(thing) a piece of furniture of the room
STATE(thing, open|closed|locked|unlocked) its state
EMPTY(thing) nothing in or on it
IN(thing, container) the thing is in it
ON(thing, supporter) the thing is on it
FLOOR(thing) it lies on the floor
CARRYING(thing) it is carried; CARRYING(nothing)
DID(verb…) the confirmed action (open, close, lock, unlock, take, drop, put, insert, eat, wait), then its things
REFUSED(words…) why an action was refused
SCORED(words…) by how much the score changed, as printed
GOAL(words…) a sentence of the objective
""",
}
DOMAINS = tuple(_LINES)
# Words that forms of several facts add to the text's own.
_ADDED = frozenset({"nothing", "agent", "inventory", "celsius", "wait"})
_FORM = re.compile(r"(?P<form>(?P<name>[A-Z_]{1,20})\((?P<arguments>[^()]*)\)) (?P<says>.+)")


@dataclass(frozen=True)
class Form:
    """One form of fact: how many arguments it has, and the words of those that are not free."""

    line: str
    n: int
    rest: bool
    words: tuple[frozenset[str], ...]

    def arguments(self, inside: str) -> list[str] | None:
        """The arguments of a fact of this form; None when it is none."""
        if not self.n:
            return [] if not inside.strip() else None
        split = inside.split(",", self.n - 1) if self.rest else inside.split(",")
        found = [" ".join(argument.split()).casefold() for argument in split]
        if len(found) != self.n or not all(found):
            return None
        allowed = all(not words or word in words for word, words in zip(found, self.words, strict=True))
        return found if allowed else None


@lru_cache(maxsize=8)
def forms(domain: str) -> dict[str, Form]:
    """Name → form of a domain's facts; {} where no model may extract any."""
    found: dict[str, Form] = {}
    for line in _LINES.get(domain, "").strip().splitlines():
        match = _FORM.fullmatch(line)
        assert match is not None, line
        arguments = [a.strip() for a in match["arguments"].split(",")] if match["arguments"] else []
        words = tuple(frozenset(a.rstrip("…").split("|")) if "|" in a else frozenset() for a in arguments)
        found[match["name"]] = Form(line, len(arguments), match["arguments"].endswith("…"), words)
    return found


@lru_cache(maxsize=8)
def added_words(domain: str) -> frozenset[str]:
    """Words that facts of a domain may hold though the text does not."""
    chosen = (words for form in forms(domain).values() for words in form.words)
    return _ADDED.union(*chosen)
