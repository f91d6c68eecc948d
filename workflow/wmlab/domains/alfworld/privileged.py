"""What only the world model is told of a household: all contents and switches at the start.

Layout of Word2World's ``# Environment Information`` block (formats.md 1.1, 1.3), its body without the
heads: furniture with contents or a door, sorted by name; lists end without a full stop.
"""

from __future__ import annotations

from wmlab.domains.alfworld.pddl import NONE
from wmlab.domains.alfworld.world import Game


def describe(game: Game) -> str:
    """The two sections for the initial state of a game."""
    facts, names = game.problem.facts, game.names
    contents: dict[str, list[str]] = {}
    for thing, place in facts.get("inreceptacle", NONE):
        contents.setdefault(place, []).append(names[thing])
    doors = {atom[0] for atom in facts.get("openable", NONE)}
    opened = {atom[0] for atom in facts.get("opened", NONE)}
    lines = []
    for place in sorted(contents.keys() | doors | opened, key=names.__getitem__):
        name = names[place]
        inside = "".join(f", a {thing}" for thing in sorted(contents.get(place, ())))[2:]
        if place in opened:
            door = f"{name} is opened, "
        elif place in doors:
            door = f"{name} is closed, if opened, "
        else:
            door = ""
        where = f"on the {name}, you see {inside}" if inside else "in it, you see nothing."
        lines.append(door + where if door else where[0].upper() + where[1:])
    toggled = {atom[0] for atom in facts.get("istoggled", NONE)}
    switches = sorted(
        f"{names[thing]} is {'on' if thing in toggled else 'off'}"
        for (thing,) in facts.get("toggleable", NONE)
    )
    sections = [("=== Objects on Receptacles ===", lines), ("=== Toggle States ===", switches)]
    return "\n\n".join("\n".join([head, *(f" - {line}" for line in body)]) for head, body in sections if body)
