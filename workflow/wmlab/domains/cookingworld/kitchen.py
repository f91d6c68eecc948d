"""What CookingWorld's text tells: rooms, doors, containers, things, recipe, and what has been done.

Text in, facts out: no game state. ``Kitchen`` is filled from observations and says what to do next.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

UNKNOWN = "Unknown action"
CUTS = ("chop", "slice", "dice")
DEVICES = {"roast": "oven", "fry": "stove", "grill": "barbeque"}
_PAST = {
    "roast": "roasted",
    "fry": "fried",
    "grill": "grilled",
    "chop": "chopped",
    "slice": "sliced",
    "dice": "diced",
}
_STATES = ("raw", *_PAST.values())
_UNLIKELY = ("trash can", "dishwasher")
_ROOM = re.compile(r"You are in the ([\w -]+?)\.")
_THING = re.compile(r"(?:you see|There is also|You also see) an? ([\w -]+?)(?=,| that |\.)([^.]*)\.")
_CONTENTS = re.compile(r"that has (.+?) (?:on|in) it")
_EXIT = re.compile(
    r"(?:Through an open [\w -]+, to|To) the (North|South|East|West) you see (?:a (closed) [\w -]+|the ([\w -]+))\."
)
_REVEALED = re.compile(r"You open the [\w -]+, revealing the ([\w -]+)\.")
_INSIDE = re.compile(r"(?:contains|contain) (.+?)\.\s*$")


def split_list(text: str) -> list[str]:
    """``a knife, a raw red potato, and some salt`` as the names that commands use: knife, red potato, salt."""
    names = []
    for part in re.split(r", and |, | and ", text):
        words = part.strip().split()
        while words and words[0] in ("a", "an", "some", "the", *_STATES):
            words = words[1:]
        if words and words != ["nothing"]:
            names.append(" ".join(words))
    return names


@dataclass
class Room:
    """A room as last seen: things lying in view, closed containers, ways out (None: unknown behind it)."""

    things: set[str] = field(default_factory=set)
    fixtures: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    exits: dict[str, str | None] = field(default_factory=dict)
    shut: set[str] = field(default_factory=set)


class Kitchen:
    """Everything read so far. ``here`` is None until a room has been described."""

    def __init__(self) -> None:
        self.rooms: dict[str, Room] = {}
        self.here: str | None = None
        self.carried: set[str] = set()
        self.ingredients: list[str] = []
        self.directions: list[tuple[str, str]] = []
        self.done: set[tuple[str, str]] = set()
        self.meal = False
        self.stale = False  # a command was refused: look before going on

    @property
    def room(self) -> Room:
        """The present room."""
        return self.rooms.setdefault(self.here or "", Room())

    def read(self, action: str, observation: str) -> None:
        """Take in the answer to an action ("" for the first observation)."""
        described = _ROOM.search(observation)
        if described is not None:
            self._describe(described[1], observation, action)
        elif observation.startswith(UNKNOWN):
            self.stale = True
        elif "Ingredients:" in observation and "Directions:" in observation:
            self._recipe(observation)
        elif observation.startswith("Inventory"):
            lines = [line.strip() for line in observation.split("\n")[1:]]
            self.carried = {name for line in lines for name in split_list(line.rstrip("."))}
            self.meal = "meal" in self.carried
        elif observation.startswith("You open the") and action.startswith("open door to "):
            revealed = _REVEALED.match(observation)
            direction = action.removeprefix("open door to ")
            self.room.exits[direction] = revealed[1] if revealed else None
            self.room.shut.discard(direction)
        elif action.startswith("close door to ") and observation.startswith("You close"):
            self.room.shut.add(action.removeprefix("close door to "))
        else:
            self._did(action, observation)

    def _describe(self, name: str, observation: str, action: str) -> None:
        if action.startswith("move ") and self.here is not None:
            self.room.exits[action.removeprefix("move ")] = name
        known = self.rooms.get(name, Room())
        room = self.rooms[name] = Room()
        self.here, self.stale = name, False
        for thing, rest in _THING.findall(observation):
            room.fixtures.add(thing)
            if "closed" in rest:
                room.closed.add(thing)
            contents = _CONTENTS.search(rest)
            if contents is not None:
                room.things.update(split_list(contents[1]))
        for direction, shut, behind in _EXIT.findall(observation):
            way = direction.lower()
            room.exits[way] = behind or known.exits.get(way)
            if shut:
                room.shut.add(way)

    def _recipe(self, observation: str) -> None:
        head, _, tail = observation.partition("Directions:")
        listed = head.partition("Ingredients:")[2]
        self.ingredients = [line.strip() for line in listed.split("\n") if line.strip()]
        self.directions = []
        for line in tail.split("\n"):
            verb, _, thing = line.strip().partition(" the ")
            if verb in CUTS or verb in DEVICES:
                self.directions.append((verb, thing))

    def _did(self, action: str, observation: str) -> None:
        verb, _, rest = action.partition(" ")
        if verb == "take" and observation.startswith("You take the"):
            self.carried.add(rest)
            self.room.things.discard(rest)
        elif verb == "put" and observation.startswith("You put"):
            thing = rest.partition(" in ")[0].partition(" on ")[0]
            self.carried.discard(thing)
            self.room.things.add(thing)
        elif verb == "open" and observation.startswith("You open the"):
            self.room.closed.discard(rest)
            inside = _INSIDE.search(observation)
            if inside is not None:
                self.room.things.update(split_list(inside[1]))
        elif verb == "close" and observation.startswith("You close the"):
            self.room.closed.add(rest)
        elif verb in CUTS and observation.startswith(f"You {verb} the"):
            self.done.add((verb, rest))
        elif verb == "cook" and observation.startswith("You "):
            how = observation.split()[1]
            self.done.add((how, rest.partition(" in ")[0]))
        elif action == "prepare meal" and observation.startswith("Adding the meal"):
            self.meal = True
        elif verb == "eat" and observation.startswith("You eat the"):
            self.carried.discard(rest)

    def next(self) -> tuple[str, str] | None:
        """(thought, command) towards the meal; None when nothing more can be done."""
        if self.stale or self.here is None:
            return "That did not work; see where things are.", "look around"
        if self.meal:
            return "The meal is ready.", "eat meal"
        if not self.ingredients:
            if "cookbook" in self.room.things or "cookbook" in self.carried:
                return "The recipe comes first.", "read cookbook"
            return self._reach("kitchen") or self._search("the cookbook")
        open_steps = [step for step in self.directions if step not in self.done]
        wanted = [name for name in self.ingredients if name not in self.carried]
        if any(verb in CUTS for verb, _ in open_steps) and "knife" not in self.carried:
            wanted.append("knife")
        for name in wanted:
            if name in self.room.things:
                return f"The {name} is here and needed.", f"take {name}"
        for name in wanted:
            for room in self.rooms:
                if name in self.rooms[room].things and room != self.here:
                    return self._reach(room)
        if wanted:
            return self._search(f"the {wanted[0]}")
        if open_steps:
            verb, thing = open_steps[0]
            if verb in CUTS:
                return f"The recipe says {verb} the {thing}.", f"{verb} {thing}"
            device = DEVICES[verb]
            if device in self.room.fixtures:
                return f"The recipe says {verb} the {thing}.", f"cook {thing} in {device}"
            for room in self.rooms:
                if device in self.rooms[room].fixtures:
                    return self._reach(room)
            return self._search(f"a {device}")
        if self.here != "kitchen":
            return self._reach("kitchen")
        return "Everything is prepared.", "prepare meal"

    def _search(self, what: str) -> tuple[str, str] | None:
        """Open what is closed here, then go where nobody has been, then open the unlikely containers."""
        likely = sorted(self.room.closed - set(_UNLIKELY), key=lambda name: (name != "fridge", name))
        if likely:
            return f"Looking for {what}.", f"open {likely[0]}"
        step = self._route(lambda room: room is None)
        if step is None:
            step = self._route(lambda room: room is not None and bool(room.closed - set(_UNLIKELY)))
        if step is not None:
            return f"Looking for {what}.", step
        if self.room.closed:
            return f"Looking for {what}.", f"open {min(self.room.closed)}"
        step = self._route(lambda room: room is not None and bool(room.closed))
        return None if step is None else (f"Looking for {what}.", step)

    def _reach(self, name: str) -> tuple[str, str] | None:
        goal = self.rooms.get(name)
        step = None if goal is None else self._route(lambda room: room is goal)
        return None if step is None else (f"Going to the {name}.", step)

    def _route(self, wanted: Callable[[Room | None], bool]) -> str | None:
        """First command of the shortest known way to a room that ``wanted`` accepts (None: an unseen one)."""
        here = self.here or ""
        seen, frontier = {here}, [(here, "")]
        while frontier:
            name, first = frontier.pop(0)
            room = self.rooms.get(name)
            if room is None:
                continue
            for direction in sorted(room.exits):
                behind = room.exits[direction] or f"?{name} {direction}"
                if behind in seen:
                    continue
                seen.add(behind)
                step = first or self._through(direction)
                if wanted(self.rooms.get(behind)):
                    return step
                frontier.append((behind, step))
        return None

    def _through(self, direction: str) -> str:
        return f"open door to {direction}" if direction in self.room.shut else f"move {direction}"
