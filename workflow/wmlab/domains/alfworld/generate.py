"""Household games drawn from a seed: a floor plan of the wheel, furnished, with one of six tasks.

Floor plans, what fits where, what can be cleaned, heated, cooled, sliced, the PDDL goals and the task
sentences are the wheel's (gen/layouts, gen/constants.py, gen/goal_library.py). Furniture of one class is
capped, so that a room fits the context of a small model; furniture that the layout files name without a
place (stove burners, toasters, towel holders, …) gets one. A draw is a pure function of (seed, draw).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from wmlab.domains.alfworld import wheel

TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
_TREATMENT = {
    "pick_clean_then_place_in_recep": ("Cleanable", "SinkBasin"),
    "pick_heat_then_place_in_recep": ("Heatable", "Microwave"),
    "pick_cool_then_place_in_recep": ("Coolable", "Fridge"),
}
_LAMP = "DeskLamp"
_LAMP_STANDS = ("Desk", "SideTable", "Dresser", "CoffeeTable", "DiningTable", "Shelf")
_SEVERAL = {"StoveBurner": 4, "HandTowelHolder": 2, "Shelf": 2}  # of furniture without a place in the layout
_KINDS = (8, 13)  # classes of things in a room besides the wanted one
_COPIES = (1, 1, 1, 2, 2, 3)  # how many of a class


@dataclass(frozen=True)
class Draw:
    """A drawn game before it is checked. ``core`` is its problem without the things the task does not name."""

    task_type: str
    scene: int
    task: str
    problem: str
    core: str


@dataclass(frozen=True)
class _Room:
    """Furniture: id → (class, location id); classes of things that belong into the scene."""

    furniture: Mapping[str, tuple[str, str]]
    things: Sequence[str]


def draw_game(seed: int, draw: int, per_class: int) -> Draw | None:
    """The game of (seed, draw); None when the floor plan drawn offers no such task."""
    rng = Random(f"alfworld {seed} {draw}")
    task_type = TASK_TYPES[seed % len(TASK_TYPES)]
    constants, library = wheel.data_module("constants"), wheel.data_module("goal_library")
    rooms = sorted(constants.GOALS_VALID[task_type])
    scene = rng.choice(list(constants.SCENE_TYPE[rng.choice(rooms)]))
    room = _read_room(rng, scene, per_class)
    goal = _choose_goal(rng, task_type, room)
    if goal is None:
        return None
    wanted, target = goal
    lamp = _LAMP if task_type == "look_at_obj_in_light" else ""
    stuff = _furnish(rng, task_type, room, wanted, target)
    if stuff is None:
        return None
    words = {"obj": wanted, "recep": target, "toggle": lamp, "mrecep": ""}
    task = rng.choice(library.gdict[task_type]["templates"]).format(
        **{k: w.lower() for k, w in words.items()}
    )
    # The wheel's goal text closes the parenthesis of (define ….
    goal_text = library.gdict[task_type]["pddl"].format(**words).replace("#", "-")
    start = _start(rng, room)
    named = [entry for entry in stuff if entry[0] in (wanted, lamp)]
    problems = (_problem(seed, room, start, entries, goal_text) for entries in (stuff, named))
    return Draw(task_type, scene, f"{task}.", *problems)


def _code(kind: str, *coordinates: float) -> str:
    """An id as the simulator spells it: ``Mug|+00.10|-01.20`` with its signs written out."""
    return _spell("|".join([kind, *(f"{value:+06.2f}" for value in coordinates)]))


def _spell(identity: str) -> str:
    for sign, word in (("|", "_bar_"), ("-", "_minus_"), ("+", "_plus_"), (".", "_dot_")):
        identity = identity.replace(sign, word)
    return identity


def _read_room(rng: Random, scene: int, per_class: int) -> _Room:
    constants = wheel.data_module("constants")
    places = json.loads(wheel.text("gen", "layouts", f"FloorPlan{scene}-openable.json"))
    classes = json.loads(wheel.text("gen", "layouts", f"FloorPlan{scene}-objects.json"))
    stands = set(constants.VAL_RECEPTACLE_OBJECTS) - set(constants.MOVABLE_RECEPTACLES)
    by_class: dict[str, dict[str, str]] = {}
    for identity, pose in sorted(places.items()):
        parts = identity.split("|")
        kind = parts[-1] if not parts[-1][-1:].isdigit() else parts[0]
        if kind in stands:
            x, z, rotation, horizon = pose
            spot = f"loc|{int(x * 4)}|{int(z * 4)}|{int(rotation) // 90}|{int(horizon)}"
            by_class.setdefault(kind, {})[_spell(identity)] = _spell(spot)
    for kind in sorted((set(classes) & stands) - set(by_class)):
        for _ in range(_SEVERAL.get(kind, 1)):
            x, z = round(rng.uniform(-4, 4), 2), round(rng.uniform(-4, 4), 2)
            spot = f"loc|{int(x * 4)}|{int(z * 4)}|{rng.randrange(4)}|{rng.choice((15, 45, 60))}"
            name = f"{kind}|{x:+06.2f}|{rng.uniform(0, 2):+06.2f}|{z:+06.2f}"
            if kind.endswith("Basin"):
                name = f"{kind.removesuffix('Basin')}{name.removeprefix(kind)}|{kind}"
            by_class.setdefault(kind, {})[_spell(name)] = _spell(spot)
    furniture = {}
    for kind, members in sorted(by_class.items()):
        names = sorted(members)
        if per_class and len(names) > per_class:
            names = sorted(rng.sample(names, per_class))
        furniture.update({name: (kind, members[name]) for name in names})
    movable = set().union(*constants.VAL_RECEPTACLE_OBJECTS.values())
    things = [kind for kind in sorted(set(classes)) if kind in movable]
    return _Room(furniture, things)


def _fitting(room: _Room, thing: str) -> list[str]:
    """Furniture that can hold a class of things."""
    fits = wheel.data_module("constants").VAL_RECEPTACLE_OBJECTS
    return [name for name, (kind, _) in room.furniture.items() if thing in fits[kind]]


def _choose_goal(rng: Random, task_type: str, room: _Room) -> tuple[str, str] | None:
    """(class of the wanted thing, class of the target); the target is empty for looking at a thing."""
    constants = wheel.data_module("constants")
    kinds = {kind for kind, _ in room.furniture.values()}
    if task_type == "look_at_obj_in_light":
        wanted = [thing for thing in room.things if _fitting(room, thing)]
        return (rng.choice(wanted), "") if wanted and kinds & set(_LAMP_STANDS) else None
    ability, tool = _TREATMENT.get(task_type, ("", ""))
    if tool and tool not in kinds:
        return None
    pairs = [
        (thing, kind)
        for thing in room.things
        if not ability or thing in constants.VAL_ACTION_OBJECTS[ability]
        for kind in sorted(kinds - {tool})
        if thing in constants.VAL_RECEPTACLE_OBJECTS[kind]
        and any(room.furniture[name][0] != kind for name in _fitting(room, thing))
    ]
    return rng.choice(pairs) if pairs else None


def _furnish(
    rng: Random, task_type: str, room: _Room, wanted: str, target: str
) -> list[tuple[str, str, str]] | None:
    """(class, id, where it is) of everything in the room; the wanted ones are never at a target already."""
    counts = {wanted: rng.choice(_COPIES)}
    if task_type == "pick_two_obj_and_place":
        counts[wanted] = max(2, counts[wanted])
    others = [thing for thing in room.things if thing != wanted and _fitting(room, thing)]
    for thing in rng.sample(others, min(len(others), rng.randint(*_KINDS))):
        counts[thing] = rng.choice(_COPIES)
    stuff = []
    for thing, number in sorted(counts.items()):
        places = _fitting(room, thing)
        if thing == wanted:
            places = [name for name in places if room.furniture[name][0] != target]
        for _ in range(number):
            stuff.append((thing, _code(thing, *(rng.uniform(-4, 4) for _ in range(3))), rng.choice(places)))
    if task_type == "look_at_obj_in_light":
        for kind in _LAMP_STANDS:
            stands = [name for name, (this, _) in room.furniture.items() if this == kind]
            if stands:
                stuff.append(
                    (_LAMP, _code(_LAMP, *(rng.uniform(-4, 4) for _ in range(3))), rng.choice(stands))
                )
                break
    return stuff if len({name for _, name, _ in stuff}) == len(stuff) else None


def _start(rng: Random, room: _Room) -> str:
    """A location without furniture."""
    taken = {spot for _, spot in room.furniture.values()}
    while True:
        spot = _spell(f"loc|{rng.randint(-16, 16)}|{rng.randint(-16, 16)}|{rng.randrange(4)}|30")
        if spot not in taken:
            return spot


def _problem(seed: int, room: _Room, start: str, stuff: Sequence[tuple[str, str, str]], goal: str) -> str:
    """The PDDL problem, with the predicates that alfworld's own problem files carry."""
    constants = wheel.data_module("constants")
    actions, fits = constants.VAL_ACTION_OBJECTS, constants.VAL_RECEPTACLE_OBJECTS
    stands = sorted({kind for kind, _ in room.furniture.values()})
    kinds = sorted({kind for kind, _, _ in stuff})
    objects = [
        *(f"{kind}Type - otype" for kind in kinds),
        *(f"{kind}Type - rtype" for kind in stands),
        *(f"{name} - object" for _, name, _ in stuff),
        *(f"{name} - receptacle" for name in room.furniture),
        *(f"{spot} - location" for spot in sorted({start, *(spot for _, spot in room.furniture.values())})),
    ]
    facts = [f"atLocation agent1 {start}"]
    for name, (kind, spot) in room.furniture.items():
        facts += [f"receptacleType {name} {kind}Type", f"receptacleAtLocation {name} {spot}"]
        if kind in constants.OPENABLE_CLASS_SET:
            facts.append(f"openable {name}")
    for kind, name, place in stuff:
        facts += [f"objectType {name} {kind}Type", f"inReceptacle {name} {place}"]
        facts.append(f"objectAtLocation {name} {room.furniture[place][1]}")
        abilities = [
            a for a in ("Cleanable", "Heatable", "Coolable", "Toggleable", "Sliceable") if kind in actions[a]
        ]
        facts += [f"{ability.lower()} {name}" for ability in abilities]
        if kind != _LAMP:
            facts.append(f"pickupable {name}")
        if kind in constants.MOVABLE_RECEPTACLES_SET:
            facts.append(f"isReceptacleObject {name}")
    facts += [f"canContain {s}Type {k}Type" for s in stands for k in kinds if k in fits[s]]
    inits = "\n".join(f"(  {fact})" for fact in facts).replace("(  ", "  (")
    return (
        f"(define (problem household_{seed})\n(:domain alfred)\n(:objects\n  agent1 - agent\n  "
        + "\n  ".join(objects)
        + f"\n)\n(:init\n{inits}\n)\n{goal.strip()}\n"
    )
