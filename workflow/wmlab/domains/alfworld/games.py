"""Generated games by seed, kept in the cache folder: ``alfworld_N`` is always the same game.

A game is drawn (generate.py); FastDownward solves it without the things that the task does not name
(with them, a few draws in a hundred take it minutes); the plan found must win the whole game, and is
stored with it. A draw that fails, or that is not solved in time, is followed by the next draw of the same
seed. The limit is some hundred times the usual half second, so that any machine keeps the same draw.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from wmlab.domains.alfworld import wheel
from wmlab.domains.alfworld.downward import solve
from wmlab.domains.alfworld.generate import draw_game
from wmlab.domains.alfworld.world import read_game
from wmlab.errors import EnvironmentFailure, InputError
from wmlab.io.atomic import write_json

PREFIX = "alfworld_"
SCHEMA = 1
DRAWS = 40
PLANNER_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Record:
    """A game as it is stored. ``plan`` holds FastDownward's operators; empty where none were asked for."""

    task_id: str
    task_type: str
    task: str
    problem: str
    plan: tuple[str, ...] = ()
    scene: str = ""
    draw: int = 0


def number_of(task_id: str) -> int:
    """The number of ``alfworld_N``. Raises InputError on any other id (ids are never paths)."""
    number = task_id.removeprefix(PREFIX)
    if not task_id.startswith(PREFIX) or not (number.isascii() and number.isdigit()) or len(number) > 9:
        raise InputError(f"task id {task_id[:80]!r}: not an ALFWorld task; use {PREFIX}N with N a number")
    return int(number)


def game_path(cache_dir: str | Path, seed: int, per_class: int) -> Path:
    """Where the game of ``seed`` is kept; alfworld's version and the furniture cap are part of the path."""
    folder = f"alfworld-{metadata.version('alfworld')}-{per_class}"
    return Path(cache_dir) / folder / f"{PREFIX}{seed}.json"


def ensure_game(cache_dir: str | Path, seed: int, per_class: int) -> Record:
    """The game of ``seed``, generated and written atomically when it is absent or unreadable."""
    path = game_path(cache_dir, seed, per_class)
    if path.exists():
        record = read_record(path)
        if record is not None:
            return record
    record = generate(seed, per_class)
    write_json(path, {"schema": SCHEMA, **asdict(record)})
    return record


def read_record(path: Path) -> Record | None:
    """A stored game; None when the file is not whole (it is then made again)."""
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
        if row.pop("schema") != SCHEMA:
            return None
        return Record(**{**row, "plan": tuple(row["plan"])})
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def generate(seed: int, per_class: int) -> Record:
    """The first draw of the seed that is solvable. Raises EnvironmentFailure when no draw is."""
    domain = wheel.text("data", "alfred.pddl")
    for draw in range(DRAWS):
        drawn = draw_game(seed, draw, per_class)
        if drawn is None:
            continue
        game = read_game(drawn.problem, drawn.task, "move")
        operators = solve(domain, drawn.core, PLANNER_TIMEOUT_S)
        if operators and game.start().follow(operators):
            scene = f"FloorPlan{drawn.scene}"
            return Record(
                f"{PREFIX}{seed}", drawn.task_type, drawn.task, drawn.problem, tuple(operators), scene, draw
            )
    raise EnvironmentFailure(f"{PREFIX}{seed}: no solvable game in {DRAWS} draws")
