"""How to act in ALFWorld from text alone: look for the thing, treat it, bring it where the task says.

The player knows nothing but what it has read. It looks where a thing of that class is usually kept,
open surfaces before drawers and cabinets, and remembers what it saw on the way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wmlab.domains.alfworld.reading import REFUSED, Memory, kind_of, number_of, read_task

SYSTEM_PROMPT = (
    "You do chores in a household. Each turn you read what happened and answer with exactly two parts,\n"
    "Thought:\n<what you still need>\n\nAction:\n<one command>\n"
    "Give a single command, such as go to desk 1, open drawer 2, take mug 1 from desk 1, heat mug 1 with microwave 1, "
    "clean mug 1 with sinkbasin 1, use desklamp 1, inventory, look. Put a thing down with the wording that is listed."
)
TOOLS = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
PATIENCE = 2  # refusals of one action before it is given up
_THINGS = {
    "food": "apple bread egg lettuce potato tomato",
    "kitchen": "bowl butterknife cup dishsponge fork glassbottle kettle knife ladle mug pan peppershaker plate pot "
    "saltshaker spatula spoon winebottle",
    "bath": "candle cloth handtowel plunger scrubbrush soapbar soapbottle spraybottle tissuebox toiletpaper "
    "toiletpaperroll towel",
}
_GROUP_OF = {thing: group for group, things in _THINGS.items() for thing in things.split()}
_SURFACES = (
    "countertop",
    "diningtable",
    "desk",
    "sidetable",
    "coffeetable",
    "dresser",
    "shelf",
    "bed",
    "sofa",
)
_USUAL = {
    "food": ("countertop", "diningtable", "fridge", "sinkbasin", "sidetable", "garbagecan", "microwave"),
    "kitchen": (
        "countertop",
        "diningtable",
        "sinkbasin",
        "stoveburner",
        "sidetable",
        "shelf",
        "coffeemachine",
        "fridge",
        "microwave",
    ),
    "bath": (
        "countertop",
        "toilet",
        "sinkbasin",
        "cart",
        "garbagecan",
        "toiletpaperhanger",
        "shelf",
        "bathtubbasin",
    ),
    "other": (*_SURFACES, "armchair", "ottoman", "tvstand", "garbagecan"),
}
_KEEPERS = ("cabinet", "drawer", "fridge", "safe")


class Script:
    """Where one episode stands."""

    def __init__(self, first_observation: str) -> None:
        self.memory = Memory.of(first_observation)
        self.errand = read_task(first_observation)
        self.placed: set[str] = set()
        self.target = ""  # all things go to one piece of furniture
        self.visited: set[str] = set()
        self.refusals: dict[str, int] = {}
        self.last = ""
        self.rounds = 0

    def read(self, observation: str) -> None:
        """The answer to the action last proposed."""
        memory, action = self.memory, self.last
        refused = observation.strip().startswith(REFUSED)
        if action.startswith("go to "):
            self.visited.add(action.removeprefix("go to "))
        if action.startswith("examine ") and not refused:
            self.visited.add(action.removeprefix("examine "))
        before = memory.held
        memory.read(observation)
        if before and not memory.held and self.errand and memory.at == self.target:
            self.placed.add(before)
        if not refused:
            return
        self.refusals[action] = self.refusals.get(action, 0) + 1
        if action.startswith("go to "):
            memory.at = action.removeprefix("go to ")  # refused where one already stands
            memory.contents.pop(memory.at, None)
        elif action.startswith("examine "):
            memory.at = ""
        elif self.refusals[action] >= PATIENCE:
            self._give_up(action)
        else:
            memory.at = ""  # moved by something else: walk there again

    def _give_up(self, action: str) -> None:
        """An action that is refused again and again is not what the notes say."""
        words = action.split()
        if words[0] == "take":
            place = " ".join(words[4:6])
            things = self.memory.contents.get(place, [])
            self.memory.contents[place] = [t for t in things if t != " ".join(words[1:3])]
        elif words[0] in ("move", "put") and self.target:
            self.visited.add(self.target)
            self.target = ""
        elif words[0] == "open":
            self.memory.closed.discard(" ".join(words[1:3]))
            self.memory.contents.setdefault(" ".join(words[1:3]), [])

    def next(self) -> tuple[str, str] | None:
        """What the errand asks for now."""
        step = self._next()
        if step is not None:
            self.last = step[1]
        return step

    def _next(self) -> tuple[str, str] | None:
        errand, memory = self.errand, self.memory
        if errand is None or len(self.placed) >= errand.number:
            return None
        if kind_of(memory.held) != errand.thing:
            if memory.held:
                return self._put_away()
            wanted = [
                (thing, place)
                for thing, place in memory.places_of(errand.thing)
                if thing not in self.placed and not (self._counts(thing) and kind_of(place) == errand.place)
            ]
            if wanted:
                thing, place = min(wanted, key=lambda pair: pair[1] != memory.at)
                return self._at(place, f"take {thing} from {place}", f"I need the {errand.thing}.")
            return self._search(_USUAL[_GROUP_OF.get(errand.thing, "other")], f"I look for a {errand.thing}.")
        if errand.lamp:
            lamps = list(memory.places_of(errand.lamp))
            if not lamps:
                return self._search(_SURFACES, f"I look for a {errand.lamp}.")
            lamp, place = lamps[0]
            return self._at(
                place, f"use {lamp}", f"I hold the {errand.thing}; now the {errand.lamp}.", inside=False
            )
        if errand.treatment and (errand.treatment, memory.held) not in memory.treated:
            for tool in memory.of_kind(TOOLS[errand.treatment]):
                command = f"{errand.treatment} {memory.held} with {tool}"
                if self.refusals.get(command, 0) < PATIENCE:
                    return self._at(tool, command, f"I {errand.treatment} it first.", inside=False)
        if not self.target or self.target not in memory.furniture:
            self.target = self._choose_target()
        if not self.target:
            return None
        return self._at(
            self.target, memory.put(memory.held, self.target), f"It belongs to the {errand.place}."
        )

    def _counts(self, thing: str) -> bool:
        """Whether a thing that lies at a target already is as the task wants it."""
        errand = self.errand
        return errand is not None and not errand.treatment and errand.number == 1

    def _choose_target(self) -> str:
        """Where the wanted things are already, else the nearest to open, else the first."""
        errand, memory = self.errand, self.memory
        places = memory.of_kind(errand.place) if errand else []
        fresh = [p for p in places if self.refusals.get(memory.put(memory.held, p), 0) < PATIENCE] or places
        fresh.sort(
            key=lambda p: (p != memory.at, p in memory.closed or p not in memory.contents, number_of(p))
        )
        return fresh[0] if fresh else ""

    def _at(self, place: str, command: str, thought: str, inside: bool = True) -> tuple[str, str]:
        """Go there, open it when that is needed, do it."""
        if self.memory.at != place:
            return thought, f"go to {place}"
        if inside and place in self.memory.closed:
            return thought, f"open {place}"
        return thought, command

    def _search(self, usual: Sequence[str], thought: str) -> tuple[str, str] | None:
        """Look into the next piece of furniture: here first, then the usual places, then the rest."""
        memory = self.memory
        here = memory.at
        if here and here in memory.closed and here not in memory.contents:
            return thought, f"open {here}"
        if here and here not in memory.contents and self.refusals.get(f"examine {here}", 0) < 1:
            return thought, f"examine {here}"
        rest = [name for name in memory.furniture if name not in memory.contents and name not in self.visited]
        rest += [name for name in memory.closed if name not in memory.contents and name not in rest]
        if not rest:
            if self.rounds >= PATIENCE:
                return None
            self.rounds += 1  # something may have been missed or moved: once more
            self.visited.clear()
            self.refusals.clear()
            memory.contents.clear()
            return thought, "look"
        ranks = {kind: rank for rank, kind in enumerate(dict.fromkeys((*usual, *_KEEPERS)))}
        rest.sort(key=lambda name: (ranks.get(kind_of(name), len(ranks)), kind_of(name), number_of(name)))
        return thought, f"go to {rest[0]}"

    def _put_away(self) -> tuple[str, str]:
        """Free the hands of something that is not wanted: here, else on any surface."""
        memory = self.memory
        places = [memory.at] if memory.at else []
        places += [name for kind in (*_SURFACES, *_KEEPERS) for name in memory.of_kind(kind)]
        for place in places:
            command = memory.put(memory.held, place)
            if self.refusals.get(command, 0) < 1:
                return self._at(place, command, "My hands must be free.")
        return "My hands must be free.", "inventory"

    def idle(self) -> str:
        """Looking changes nothing."""
        return "look"

    def skip(self) -> None:
        """Take the present step for done."""
        memory = self.memory
        words = self.last.split()
        if not words:
            return
        if words[0] == "go":
            self.visited.add(" ".join(words[2:4]))
            memory.at = " ".join(words[2:4])
        elif words[0] == "take":
            memory.held = " ".join(words[1:3])
        elif words[0] in ("move", "put"):
            self.placed.add(memory.held)
            memory.held = ""
        elif words[0] in TOOLS:
            memory.treated.add((words[0], " ".join(words[1:3])))
        elif words[0] == "open":
            memory.closed.discard(" ".join(words[1:3]))
            memory.contents.setdefault(" ".join(words[1:3]), [])

    def wander(self, rng: np.random.Generator, harmless: bool) -> str:
        """Look around; or also walk off, close a door, put something down."""
        memory = self.memory
        options = ["look", "inventory"]
        if memory.at:
            options.append(f"examine {memory.at}")
        if not harmless:
            options += (
                [f"go to {memory.furniture[int(rng.integers(len(memory.furniture)))]}"]
                if memory.furniture
                else []
            )
            options += [f"close {memory.at}"] if memory.at in memory.doors else []
            options += [memory.put(memory.held, memory.at)] if memory.held and memory.at else []
        return options[int(rng.integers(len(options)))]


def candidates(observations: Sequence[str], actions: Sequence[str] = ()) -> list[str]:
    """Commands that the text so far suggests, those about the present place first."""
    memory = Memory.of(observations[0])
    for observation in observations[1:]:
        memory.read(observation)
    here, held = memory.at, memory.held
    commands = []
    if here:
        commands += [f"open {here}", f"close {here}"] if here in memory.doors else []
        commands += (
            [f"take {thing} from {here}" for thing in memory.contents.get(here, ())] if not held else []
        )
        commands += [
            f"use {thing}" for thing in memory.contents.get(here, ()) if kind_of(thing).endswith("lamp")
        ]
        if held:
            commands += [
                f"{verb} {held} with {here}" for verb, kind in TOOLS.items() if kind_of(here) == kind
            ]
            commands.append(memory.put(held, here))
    commands += [f"go to {name}" for name in memory.furniture if name != here]
    commands += [f"examine {held}"] if held else []
    return list(dict.fromkeys([*commands, *([f"examine {here}"] if here else []), "inventory", "look"]))
