"""Plans from any state of a household game, in milliseconds: what the expert does after a detour.

FastDownward needs seconds a plan and knows only the planner's own state. The six goals have one shape:
bring one or two objects of a type, perhaps treated at a tool, to a receptacle of a type, or hold one by a
lamp. So every choice of objects, receptacle and place for what hinders the hands is walked through on a
sketch of the state (positions, hands, open doors) and the shortest walk wins. It is then played on a copy
of the world: what is returned does reach the goal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations

from wmlab.domains.alfworld.pddl import NONE
from wmlab.domains.alfworld.world import Game, World, bound

TOOLS = {"isclean": ("cleanobject", "sinkbasintype"), "ishot": ("heatobject", "microwavetype")}
TOOLS["iscool"] = ("coolobject", "fridgetype")
_CANDIDATES = 8  # objects of the goal's type that are tried, nearest ids first

Move = tuple[str, dict[str, str]]
"""An action's name and the parameters that tell its operators apart."""


@dataclass(frozen=True)
class Goal:
    """A goal of one of the six task types, read from the PDDL problem. Types end in ``type``."""

    objects: str
    receptacles: str | None
    number: int
    treatment: str | None  # isclean, ishot, iscool
    lamp: str | None


def read_goal(game: Game) -> Goal | None:
    """The goal in those terms; None when it has another shape (sliced or nested objects)."""
    if len(game.problem.goal) != 1:
        return None
    literals = game.problem.goal[0].literals
    known = {"objecttype", "receptacletype", "inreceptacle", "=", "istoggled", "toggleable", "holds"}
    known |= {"receptacleatlocation", "atlocation", "cleanable", "heatable", "coolable", *TOOLS}
    if any(literal.predicate not in known for literal in literals):
        return None
    types = {lit.arguments[0]: lit.arguments[1] for lit in literals if lit.predicate == "objecttype"}
    places = [lit.arguments[1] for lit in literals if lit.predicate == "receptacletype"]
    lamps = [types[lit.arguments[0]] for lit in literals if lit.predicate == "istoggled"]
    treatments = [lit.predicate for lit in literals if lit.predicate in TOOLS]
    wanted = [kind for kind in types.values() if kind not in lamps]
    if not wanted or len(set(wanted)) != 1 or bool(places) == bool(lamps):
        return None
    return Goal(
        wanted[0],
        places[0] if places else None,
        len(wanted),
        treatments[0] if treatments else None,
        lamps[0] if lamps else None,
    )


@dataclass
class _Walk:
    """A sketch of the state while a candidate plan is walked."""

    at: str
    held: str | None
    opened: frozenset[str]
    moves: list[Move] = field(default_factory=list)

    def copy(self) -> _Walk:
        return _Walk(self.at, self.held, self.opened, list(self.moves))


class Planner:
    """Plans in one game."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self.goal = read_goal(game)
        facts = game.problem.facts
        self.where = {atom[0]: atom[1] for atom in sorted(facts.get("receptacleatlocation", NONE))}
        self.openable = {atom[0] for atom in facts.get("openable", NONE)}
        typed = facts.get("objecttype", NONE) | facts.get("receptacletype", NONE)
        self.kind = {atom[0]: atom[1] for atom in sorted(typed)}
        self.fits = facts.get("cancontain", NONE)
        self.movable = {atom[0] for atom in facts.get("pickupable", NONE)}
        self.receptacles = sorted(r for r, _ in facts.get("receptacletype", NONE) if r in self.where)

    def plan(self, world: World) -> list[str]:
        """Commands from the present state to the goal; [] when it is reached, out of reach or of another kind."""
        if self.goal is None or world.won():
            return []
        place = next((place for _, place in world.facts.get("atlocation", NONE)), "")
        held = next((item for _, item in world.facts.get("holds", NONE)), None)
        opened = frozenset(atom[0] for atom in world.facts.get("opened", NONE))
        inside: dict[str, list[str]] = {}
        for item, receptacle in sorted(world.facts.get("inreceptacle", NONE)):
            if receptacle in self.where:
                inside.setdefault(item, []).append(receptacle)
        walks = self._walks(world, self.goal, _Walk(place, held, opened), inside)
        for walk in sorted(walks, key=lambda walk: len(walk.moves)):
            commands = self._play(world.copy(), walk.moves)
            if commands:
                return commands
        return []

    def _play(self, world: World, moves: list[Move]) -> list[str]:
        """The moves as commands, played on ``world``; [] when one is not possible or the goal is not reached."""
        commands = []
        for name, wanted in moves:
            action = self.game.grounder.actions[name]
            for command, operator in self.game.commands_of(action, world.facts).items():
                if wanted.items() <= bound(*operator).items():
                    commands.append(command)
                    self.game.grounder.apply(*operator, world.facts)
                    break
            else:
                return []
            if world.won():
                return commands  # sometimes earlier than planned: a thing can be at two places at once
        return []

    def _walks(self, world: World, goal: Goal, start: _Walk, inside: dict[str, list[str]]) -> Iterator[_Walk]:
        items = [i for i, kind in sorted(self.kind.items()) if kind == goal.objects]
        items = [i for i in items if i == start.held or (i in self.movable and i in inside)]
        items.sort(key=lambda i: i != start.held)
        if goal.lamp is not None:
            lamps = [i for i in inside if self.kind.get(i) == goal.lamp]
            lit = {atom[0] for atom in world.facts.get("istoggled", NONE)}
            for item in items[:_CANDIDATES]:
                for lamp in lamps:
                    for place in inside[lamp]:
                        for walk in self._fetch(start, item, inside):
                            self._go(walk, place)
                            if lamp not in lit:
                                walk.moves.append(("toggleobject", {"o": lamp, "r": place}))
                            yield walk
            return
        targets = [r for r in self.receptacles if self.kind[r] == goal.receptacles]
        treated = {atom[0] for atom in world.facts.get(goal.treatment, NONE)} if goal.treatment else set()
        for target in targets:
            there = [i for i in items if target in inside.get(i, ())] if goal.treatment is None else []
            outside = [i for i in items if i not in there]
            missing = goal.number - len(there[: goal.number])
            nearest = outside if missing == 1 else outside[:4]
            for chosen in permutations(nearest[:_CANDIDATES], missing):
                yield from self._bring(start, chosen, target, goal, treated, inside)

    def _bring(
        self,
        start: _Walk,
        items: tuple[str, ...],
        target: str,
        goal: Goal,
        treated: set[str],
        inside: dict[str, list[str]],
    ) -> Iterator[_Walk]:
        """Bring the items in this order, each treated first when the goal asks for it."""
        if not items:
            yield start
            return
        tools = [""]
        if goal.treatment is not None and items[0] not in treated:
            action, kind = TOOLS[goal.treatment]
            tools = [r for r in self.receptacles if self.kind[r] == kind][:2]
        for fetched in self._fetch(start, items[0], inside):
            for tool in tools:
                walk = fetched.copy()
                if tool:
                    self._go(walk, tool)
                    walk.moves.append((action, {"o": items[0], "r": tool}))
                self._put(walk, target)
                yield from self._bring(walk, items[1:], target, goal, treated, inside)

    def _fetch(self, start: _Walk, item: str, inside: dict[str, list[str]]) -> Iterator[_Walk]:
        """Take the item into the hands, putting down first what they hold."""
        if start.held == item:
            yield start.copy()
            return
        for place in inside.get(item, ())[:2]:
            for spot in self._spots(start, place):
                walk = start.copy()
                if spot:
                    self._put(walk, spot)
                self._reach(walk, place)
                walk.moves.append(("pickupobject", {"o": item, "r": place}))
                walk.held = item
                yield walk

    def _spots(self, walk: _Walk, place: str) -> list[str]:
        """Where to put down what the hands hold: here, at the next stop, or the first open place."""
        if walk.held is None:
            return [""]
        kind = self.kind.get(walk.held, "")
        fitting = [r for r in self.receptacles if (self.kind[r], kind) in self.fits]
        fitting.sort(key=lambda r: (r in self.openable and r not in walk.opened, r))
        here = [r for r in fitting if self.where[r] == walk.at][:1]
        near = [r for r in fitting if self.where[r] == self.where[place]][:1]
        return list(dict.fromkeys([*here, *near, *fitting[:1]]))

    def _go(self, walk: _Walk, receptacle: str) -> None:
        if walk.at != self.where[receptacle]:
            walk.moves.append(("gotolocation", {"r": receptacle}))
            walk.at = self.where[receptacle]

    def _reach(self, walk: _Walk, receptacle: str) -> None:
        self._go(walk, receptacle)
        if receptacle in self.openable and receptacle not in walk.opened:
            walk.moves.append(("openobject", {"r": receptacle}))
            walk.opened |= {receptacle}

    def _put(self, walk: _Walk, receptacle: str) -> None:
        self._reach(walk, receptacle)
        walk.moves.append(("putobject", {"o": walk.held or "", "r": receptacle}))
        walk.held = None
