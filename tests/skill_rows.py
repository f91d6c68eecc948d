"""Trajectories, hand-made, for the tests of world skill."""

from __future__ import annotations

from typing import Any

KITCHEN = (
    "You are in the middle of a room. Looking quickly around you, you see a cabinet 1, a fridge 1, and a "
    "microwave 1.\n\nYour task is to: heat some apple and put it in cabinet."
)
REFUSED = "Nothing happens."
AT_FRIDGE = ("go to fridge 1", "You arrive at fridge 1. The fridge 1 is closed.")
TAKE = "take apple 1 from fridge 1"
OPENED = ("open fridge 1", "You open the fridge 1. The fridge 1 is open. In it, you see a apple 1.")
HEATED = (
    (TAKE, "You pick up the apple 1 from the fridge 1."),
    ("go to microwave 1", "You arrive at microwave 1. The microwave 1 is open. In it, you see nothing."),
    ("heat apple 1 with microwave 1", "You heat the apple 1 using the microwave 1."),
    ("go to cabinet 1", "You arrive at cabinet 1. On the cabinet 1, you see nothing."),
    ("move apple 1 to cabinet 1", "You move the apple 1 to the cabinet 1. [SUCCESS]"),
)


def trajectory(name: str, *turns: tuple[str, str], solved: bool = False, **changes: Any) -> dict[str, Any]:
    """A row of the trajectories contract; the first observation differs with the name, so tasks differ."""
    steps = [
        {"action": action, "observation": answer, "reward": 0.0, "done": False, "admissible": None}
        for action, answer in turns
    ]
    if solved:
        steps[-1]["done"] = True
    base = {
        "trajectory_id": name, "domain": "alfworld", "task_id": f"alfworld_{name}", "split": "train",
        "source": "agent", "goal": "heat some apple and put it in cabinet.",
        "task_type": "pick_heat_then_place_in_recep", "initial_observation": f"-= {name} =-\n{KITCHEN}",
        "privileged": None, "steps": steps, "success": solved, "score": 1.0 if solved else 0.0,
    }  # fmt: skip
    return {**base, **changes}


def solved(name: str, *detour: tuple[str, str], **changes: Any) -> dict[str, Any]:
    """An apple is heated and placed, with a detour before the fridge is opened."""
    return trajectory(name, AT_FRIDGE, *detour, OPENED, *HEATED, solved=True, **changes)


def failing(name: str, **changes: Any) -> dict[str, Any]:
    """The closed fridge is not opened."""
    return trajectory(name, AT_FRIDGE, (TAKE, REFUSED), (TAKE, REFUSED), **changes)


def numbered(rows: list[dict[str, Any]]) -> list[tuple[str, int, dict[str, Any]]]:
    """Rows as ``mine`` and ``distil`` take them."""
    return [("rows", number, row) for number, row in enumerate(rows)]
