"""How to act in ScienceWorld from text alone, for the tasks with short solutions.

Handled: find-* (focus on a thing of a kind, bring it to a box), lifespan-* (which animal lives longest or
shortest) and power-component (a battery, two wires). What the text does not tell is common knowledge:
the house's plan, which is the same in all tasks, and how long animals live. For other tasks the script
has nothing to do.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence

import numpy as np

from wmlab.domains.scienceworld.text import doors, is_refusal, menu_options, room_of

SYSTEM_PROMPT = (
    "You act in a house where elementary science can be done. Each turn you read what happened and answer\n"
    "with exactly two parts,\n"
    "Thought:\n<what the task asks for now>\n\nAction:\n<one command>\n"
    "Commands look like: look around, inventory, open door to kitchen, go to kitchen, pick up thermometer,\n"
    "move pillow to red box, focus on pillow, use thermometer on water, pour cup into jug, mix jug,\n"
    "activate stove, connect battery anode to red wire terminal 1, wait1. When a request is ambiguous, answer\n"
    "with the number of the action meant. Focus only on what the task names: a wrong focus loses it."
)
COMMON = ("look around", "inventory", "wait1")
HOUSE = {
    "hallway": ("art studio", "bedroom", "greenhouse", "kitchen", "living room", "workshop"),
    "kitchen": ("bathroom", "hallway", "outside"),
    "outside": ("foundry", "greenhouse", "kitchen"),
    "greenhouse": ("hallway", "outside"),
    "art studio": ("hallway",),
    "bedroom": ("hallway",),
    "living room": ("hallway",),
    "workshop": ("hallway",),
    "bathroom": ("kitchen",),
    "foundry": ("outside",),
}
LONG_LIVED = ("giant tortoise", "parrot", "crocodile", "elephant", "brown bear")
SHORT_LIVED = ("ant", "dragonfly", "chameleon", "hedgehog", "mouse")
_FIND = re.compile(
    r"find an? ?\(?n?\)? ([\w-]+(?: thing)?)\. .*move it to the ([\w ]+ box) in the ([\w ]+)\."
)
_POWER = re.compile(r"turn on the ([\w ]+)\. First, focus")
_LINE = re.compile(r"^\t(?:an? |the )?([\w -]+?)(?:$|\.| \(|,)", re.MULTILINE)
_POT = re.compile(r"a (flower pot \d+) \(containing a ([\w ]+?(?: tree| plant)?) in the \w+ stage")
_WIRE = re.compile(r"\ban? (\w+ wire)\b")
_LIFE = re.compile(r"^(?:baby|juvenile|adult) ([\w ]+)$|^([\w ]+) egg$")
_FIXED = ("agent", "substance", "ground", "fire pit", "fountain", "axe", "shovel", "air", "box", "door")

Moves = Generator[tuple[str, str], str, None]


class Script:
    """Where one episode stands in its task. A plan is a generator: it yields commands, it is sent answers."""

    def __init__(self, first_observation: str) -> None:
        self.room = room_of(first_observation) or "hallway"
        self.looks = {self.room: first_observation.partition("\n")[2]}
        self.open = {(self.room, behind) for behind, is_open in doors(first_observation).items() if is_open}
        self._plan = self._solve(first_observation.partition("\n")[0])
        self._pending = next(self._plan, None)

    def next(self) -> tuple[str, str] | None:
        """What the task asks for now, and its command."""
        return self._pending

    def read(self, observation: str) -> None:
        """Take in the answer to the pending command."""
        where = room_of(observation)
        if where is not None:
            if observation.startswith("This"):
                self.looks[where] = observation
                self.open -= {pair for pair in self.open if pair[0] == where}
                self.open |= {(where, behind) for behind, is_open in doors(observation).items() if is_open}
            self.room = where
        self._advance(observation)

    def skip(self) -> None:
        """Take the pending command for done."""
        self._advance("")

    def idle(self) -> str:
        """Looking takes no time and changes nothing."""
        return "look around"

    def wander(self, rng: np.random.Generator, harmless: bool) -> str:
        """Look at something; or also walk off, close a door or pick something up."""
        look = self.looks.get(self.room, "")
        things = _things(look)[:6] or ["air"]
        thing = things[int(rng.integers(len(things)))]
        options = ["look around", "inventory", f"look at {thing}"]
        if not harmless:
            options.append(f"pick up {thing}")
            options += [f"{verb} {room}" for room in doors(look) for verb in ("go to", "close door to")]
        return options[int(rng.integers(len(options)))]

    def _advance(self, answer: str) -> None:
        if self._pending is None:
            return
        try:
            self._pending = self._plan.send(answer)
        except StopIteration:
            self._pending = None

    def _solve(self, task: str) -> Moves:
        found, powered = _FIND.search(task), _POWER.search(task)
        if found is not None:
            yield from self._find(*found.groups())
        elif "life span" in task:
            yield from self._go("outside")
            for wanted, known in (("longest", LONG_LIVED), ("shortest", SHORT_LIVED)):
                if f"with the {wanted}" in task:
                    yield from self._focus(lambda known=known: [a for a in known if a in self._animals()])
        elif powered is not None and "renewable" not in task:
            yield from self._power(powered[1])

    def _go(self, goal: str) -> Moves:
        """Walk to a room and know what is in it."""
        while self.room != goal:
            step = _towards(self.room, goal)
            if step is None:
                return
            if (self.room, step) not in self.open:
                answer = yield f"The way to the {goal} is through the {step}.", f"open door to {step}"
                if is_refusal(answer):
                    yield "That did not work; see where this is.", "look around"
                    continue
                self.open |= {(self.room, step), (step, self.room)}
            answer = yield f"On to the {goal}.", f"go to {step}"
            if is_refusal(answer):
                self.open.discard((self.room, step))
                yield "That did not work; see where this is.", "look around"
        if goal not in self.looks or "You also see" not in self.looks[goal]:
            yield f"See what is in the {goal}.", "look around"

    def _do(self, thought: str, command: str, place: str = "") -> Generator[tuple[str, str], str, str]:
        """A command, and the choice from its menu: the option in ``place``, else the first."""
        answer = yield thought, command
        if menu_options(answer):
            fitting = [line for line in answer.split("\n") if ":\t" in line and place in line]
            number = fitting[0].split(":")[0] if fitting else "0"
            answer = yield "Several things are called that.", number
        return answer

    def _focus(self, choices: object) -> Moves:
        """Focus on the first choice that works."""
        assert callable(choices)
        for name in choices():
            answer = yield from self._do(f"The {name} is what the task asks for.", f"focus on {name}")
            if not is_refusal(answer):
                return

    def _find(self, kind: str, box: str, goal: str) -> Moves:
        if kind.startswith("non-living"):
            yield from self._go(goal)
            for name in _things(self.looks.get(goal, "")):
                answer = yield from self._do(f"A {name} is not alive.", f"focus on {name}")
                if not is_refusal(answer):
                    yield from self._do(f"It belongs in the {box}.", f"move {name} to {box}")
                    return
            return
        if kind == "plant":
            yield from self._go("greenhouse")
            pots = _POT.findall(self.looks.get("greenhouse", ""))
            for pot, plant in pots:
                answer = yield from self._do(f"A {plant} is a plant.", f"focus on {plant}", pot)
                if not is_refusal(answer):
                    yield from self._bring(pot, box, goal)
                    return
            return
        yield from self._go("outside")
        for name in self._animals():
            answer = yield from self._do(f"A {name} is an animal, so it lives.", f"focus on {name}")
            if not is_refusal(answer):
                yield from self._bring(name, box, goal)
                return

    def _bring(self, name: str, box: str, goal: str) -> Moves:
        yield from self._do(f"The {name} has to be moved.", f"pick up {name}")
        yield from self._go(goal)
        yield from self._do(f"It belongs in the {box}.", f"move {name} to {box}", "in inventory")

    def _power(self, device: str) -> Moves:
        yield from self._go("workshop")
        yield from self._do(f"The {device} is what the task asks for.", f"focus on {device}")
        wires = list(dict.fromkeys(_WIRE.findall(self.looks.get("workshop", ""))))
        if len(wires) < 2:
            return
        one, two = wires[:2]
        for command in (
            f"connect battery anode to {one} terminal 1",
            f"connect battery cathode to {two} terminal 1",
            f"connect {one} terminal 2 to cathode in {device}",
            f"connect {two} terminal 2 to anode in {device}",
        ):
            yield from self._do("A circuit needs a wire to each pole.", command)
        for _ in range(3):
            yield "The current takes a moment; looking takes no time.", "wait1"

    def _animals(self) -> list[str]:
        return [name for thing in _lines(self.looks.get("outside", "")) if (name := _species(thing))]


def _towards(room: str, goal: str) -> str | None:
    """The next room on the shortest way through the house."""
    reached: dict[str, str] = {goal: goal}
    frontier = [goal]
    while frontier:
        here = frontier.pop(0)
        for neighbour in HOUSE.get(here, ()):
            if neighbour not in reached:
                reached[neighbour] = here
                frontier.append(neighbour)
    return reached.get(room) if room != goal else None


def _lines(look: str) -> list[str]:
    return _LINE.findall(look.partition("You also see")[0])


def _species(thing: str) -> str:
    match = _LIFE.match(thing)
    return (match[1] or match[2]) if match is not None else ""


def _things(look: str) -> list[str]:
    """Lifeless things in a room, those with a name of their own first."""
    names = [name for name in _lines(look) if not _species(name) and not any(word in name for word in _FIXED)]
    return sorted(dict.fromkeys(names), key=names.count)


def candidates(observations: Sequence[str], actions: Sequence[str] = ()) -> list[str]:
    """Ways out of the present room, things and animals seen, in the commands these tasks need; a menu's numbers."""
    task = observations[0].partition("\n")[0]
    commands = dict.fromkeys((*menu_options(observations[-1]), *COMMON))
    rooms = [room for text in observations if (room := room_of(text)) is not None]
    for room in HOUSE.get(rooms[-1] if rooms else "", ()):
        commands |= dict.fromkeys((f"open door to {room}", f"go to {room}"))
    looks = [
        text for text in (observations[0].partition("\n")[2], *observations[1:]) if text.startswith("This")
    ]
    found, powered = _FIND.search(task), _POWER.search(task)
    if found is not None:
        for name in _movable(found[1], looks):
            commands |= dict.fromkeys((f"focus on {name}", f"pick up {name}", f"move {name} to {found[2]}"))
    elif "life span" in task:
        named = {_species(line) for look in looks for line in _lines(look)}
        commands |= dict.fromkeys(f"focus on {name}" for name in LONG_LIVED + SHORT_LIVED if name in named)
    elif powered is not None:
        wires = sorted({wire for look in looks for wire in _WIRE.findall(look)})[:4]
        commands[f"focus on {powered[1]}"] = None
        for wire in wires:
            for pole in ("anode", "cathode"):
                commands[f"connect battery {pole} to {wire} terminal 1"] = None
                commands[f"connect {wire} terminal 2 to {pole} in {powered[1]}"] = None
    return list(commands)


def _movable(kind: str, looks: Sequence[str]) -> list[str]:
    """What a find task's answer may be: lifeless things, plants and their pots, or animals."""
    lines = [line for look in looks for line in _lines(look)]
    if kind.startswith("non-living"):
        return list(dict.fromkeys(name for look in looks[-2:] for name in _things(look)))
    plants = [name for look in looks for pot in _POT.findall(look) for name in pot]
    animals = [name for line in lines if (name := _species(line))]
    return list(
        dict.fromkeys(plants if kind == "plant" else animals if kind == "animal" else animals + plants)
    )
