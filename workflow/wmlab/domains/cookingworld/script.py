"""How to act in CookingWorld from text alone: read the recipe, gather, prepare, cook, eat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wmlab.domains.cookingworld.kitchen import CUTS, DEVICES, UNKNOWN, Kitchen

SYSTEM_PROMPT = (
    "You act in a text game about cooking. Each turn you read what happened and answer with exactly two parts,\n"
    "Thought:\n<what the recipe asks for now>\n\nAction:\n<one command>\n"
    "Read the cookbook, gather the ingredients, do what the directions say, prepare the meal and eat it. Commands\n"
    "look like: read cookbook, open fridge, take knife, open door to north, move north, dice red potato,\n"
    "cook red potato in oven (roasts; the stove fries, the barbeque grills), prepare meal, eat meal."
)
COMMON = ("look around", "inventory", "read cookbook", "prepare meal", "eat meal")
GIVE_UP_AFTER = 3
_DIRECTIONS = ("north", "south", "east", "west")


class Script:
    """Where one episode stands in its recipe."""

    def __init__(self, first_observation: str) -> None:
        self.kitchen = Kitchen()
        self.kitchen.read("", first_observation)
        self._proposed = ""
        self._refused: dict[str, int] = {}

    def read(self, observation: str) -> None:
        """Take in the answer; a command refused time and again is taken for impossible."""
        self.kitchen.read(self._proposed, observation)
        if observation.startswith(UNKNOWN):
            times = self._refused[self._proposed] = self._refused.get(self._proposed, 0) + 1
            if times >= GIVE_UP_AFTER:
                self.skip()

    def next(self) -> tuple[str, str] | None:
        """What the recipe asks for now, and its command."""
        planned = self.kitchen.next()
        self._proposed = planned[1] if planned is not None else ""
        return planned

    def idle(self) -> str:
        """Looking changes nothing."""
        return "look around"

    def skip(self) -> None:
        """Take the present command for done: the thing is taken, the step made, the container opened."""
        verb, _, rest = (self._proposed or (self.kitchen.next() or ("", ""))[1]).partition(" ")
        kitchen = self.kitchen
        if verb == "take":
            kitchen.carried.add(rest)
        elif verb in CUTS:
            kitchen.done.add((verb, rest))
        elif verb == "cook":
            thing, _, device = rest.partition(" in ")
            kitchen.done.update((how, thing) for how, where in DEVICES.items() if where == device)
        elif verb == "open":
            kitchen.room.closed.discard(rest)
            kitchen.room.shut.discard(rest.removeprefix("door to "))
        elif verb == "move":
            kitchen.room.exits.pop(rest, None)
        elif verb == "prepare":
            kitchen.meal = True

    def wander(self, rng: np.random.Generator, harmless: bool) -> str:
        """Look about; or also walk off, close or take something."""
        room = self.kitchen.room
        options = ["look around", "inventory", *(f"examine {name}" for name in sorted(room.fixtures)[:4])]
        if not harmless:
            options += [f"move {_DIRECTIONS[int(rng.integers(4))]}"]
            options += [f"take {name}" for name in sorted(room.things)[:3]]
            options += [f"close {name}" for name in sorted(room.fixtures - room.closed)[:3]]
        return options[int(rng.integers(len(options)))]


def candidates(observations: Sequence[str], actions: Sequence[str] = ()) -> list[str]:
    """Commands about what the observations name: ways, containers, things and the recipe's steps."""
    kitchen = Kitchen()
    for observation in observations:
        kitchen.read("", observation)
    commands: dict[str, None] = dict.fromkeys(COMMON)
    for room in kitchen.rooms.values():
        for direction in room.exits:
            commands |= dict.fromkeys((f"open door to {direction}", f"move {direction}"))
        commands |= dict.fromkeys(f"open {name}" for name in sorted(room.closed))
        commands |= dict.fromkeys(f"take {name}" for name in sorted(room.things))
    commands |= dict.fromkeys(f"take {name}" for name in [*kitchen.ingredients, "knife"])
    for verb, thing in kitchen.directions:
        commands[f"{verb} {thing}" if verb in CUTS else f"cook {thing} in {DEVICES[verb]}"] = None
    return list(commands)
