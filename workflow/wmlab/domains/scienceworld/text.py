"""Reading ScienceWorld's text: refusals, menus, rooms, doors, devices. Text in, facts out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MENU = "Ambiguous request: "
_REFUSALS = (
    "No known action matches that input.",
    "Unknown action.",
    "The door is not open.",
    "Its not clear how to",
    "It's not clear how to",
    "I'm not sure how to",
    "That is already open",
    "That is already closed",
    MENU,
)
_OPTION = re.compile(r"^(\d+):\t(.+?)(?: \(in .*\))?$", re.MULTILINE)
_ROOM = re.compile(r"^This (?:room|outside location) is called the ([\w -]+?)\.")
_MOVED = re.compile(r"^You (?:move|teleport) to the ([\w -]+?)\.")
_DOOR = re.compile(r"A door to the ([\w -]+?) \(that is (open|closed)\)")
_LID = re.compile(r"(?:The|the) ([\w -]+?) door is (open|closed)\b")
_DEVICE = re.compile(r"\ban? ([\w -]+?), which is turned (on|off)\b")
_FREE = ("look around", "inventory", "task", "wait1", "wait")


def is_refusal(observation: str) -> bool:
    """Whether an action had no effect: not understood, ambiguous, or blocked."""
    return observation.startswith(_REFUSALS)


def menu_options(observation: str) -> dict[str, str]:
    """The choices of an ambiguity menu by number, without their places; {} when there is no menu."""
    if not observation.startswith(MENU):
        return {}
    return dict(_OPTION.findall(observation))


def room_of(observation: str) -> str | None:
    """The room that a look or a move tells of."""
    for line in (observation, observation.partition("\n")[2]):
        match = _ROOM.match(line) or _MOVED.match(line)
        if match is not None:
            return match[1]
    return None


def doors(look: str) -> dict[str, bool]:
    """Rooms behind the doors of this one, and whether their door is open."""
    return {room: state == "open" for room, state in _DOOR.findall(look)}


def plausible(look: str, objects: Sequence[str]) -> tuple[str, ...]:
    """Actions worth trying here, from the room's description and the names of what is in it.

    The simulator's own list takes 100 to 900 ms and has up to thousands of entries, nearly all of them
    pairs of objects; this one takes two cheap calls and has about four a thing.
    """
    actions = list(_FREE)
    around = doors(look)
    for room, open_ in around.items():
        actions += [f"go to {room}", f"close door to {room}"] if open_ else [f"open door to {room}"]
    lids = [(name, state) for name, state in _LID.findall(look) if not name.startswith("A ")]
    for name, state in lids:
        actions.append(f"{'close' if state == 'open' else 'open'} {name}")
    for name, state in _DEVICE.findall(look):
        actions.append(f"{'deactivate' if state == 'on' else 'activate'} {name}")
    skipped = {"agent", "air", *around, room_of(look) or ""}
    things = [name for name in objects if name not in skipped and "door" not in name.split()]
    for verb in ("look at", "pick up", "focus on"):
        actions += [f"{verb} {name}" for name in things]
    return tuple(dict.fromkeys(actions))


def names(actions: Iterable[str]) -> list[str]:
    """The things that ``look at`` actions name, in order."""
    return list(dict.fromkeys(a.removeprefix("look at ") for a in actions if a.startswith("look at ")))
