"""alfworld's official evaluation games, when the user has them: as a folder or as one compact file.

A folder is ``json_2.1.1`` (or its parent) with ``valid_train``, ``valid_seen``, ``valid_unseen``; a game is
``<type>/<trial>/game.tw-pddl``. The compact file is JSON Lines, perhaps gzipped, one game a line with
``split``, ``task_id`` (the trial), ``task_type``, ``task_text`` and ``pddl_problem``. Task ids carry the
item ids of AgentGym and Word2World (formats.md 7.3), listed in resources/alfworld_item_ids.txt. The
problem and the task sentence are the game's; rules and wording are the wheel's.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from wmlab.domains.alfworld.games import PREFIX, SCHEMA, Record, number_of, read_record
from wmlab.domains.registry import check_split
from wmlab.errors import InputError
from wmlab.io.atomic import write_json

FOLDERS = {"test": "valid_train", "seen": "valid_seen", "unseen": "valid_unseen"}
FOLDERS |= {folder: folder for folder in ("valid_seen", "valid_unseen")}  # as AgentGym's server names them
_TASK = re.compile(r'Your task is to: ([^"\\\n]+)"')
_FIX = "give alfworld's json_2.1.1 folder or the compact evaluation file"


@cache
def item_ids() -> dict[str, int]:
    """Trial → item id of the 474 solvable evaluation games."""
    text = resources.files("wmlab").joinpath("resources", "alfworld_item_ids.txt").read_text(encoding="utf-8")
    pairs = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {trial: int(number) for number, trial in pairs}


@dataclass(frozen=True)
class OfficialGames:
    """The games of a path; an unpacked compact file is kept under ``cache_dir``."""

    path: Path
    cache_dir: Path

    def numbers(self, split: str) -> list[int]:
        """Item ids of a split that are there, ascending. Raises InputError for a split that nobody has."""
        if split in ("train", "validation"):
            raise InputError(
                f"split {split}: {self.path} holds evaluation games; train and validate on generated ones "
                "(leave out the option games)"
            )
        check_split(split, tuple(FOLDERS))
        found = self._index().get(FOLDERS[split], {})
        if not found:
            raise InputError.at(self.path, f"no games of {FOLDERS[split]}", _FIX)
        return sorted(found)

    def record(self, task_id: str) -> Record:
        """The game of an item id. Raises InputError when it is not there."""
        number = number_of(task_id)
        for games in self._index().values():
            if number in games:
                return _read_folder_game(Path(games[number]), task_id)
        raise InputError.at(
            self.path, f"no game for task {task_id}", "use an id of the splits test, seen or unseen"
        )

    def _index(self) -> dict[str, dict[int, str]]:
        """Folder name of a split → item id → file of the game."""
        if self.path.is_dir():
            return _scan(self.path)
        if self.path.is_file():
            return _unpack(self.path, self.cache_dir)
        raise InputError.at(self.path, "no such file or folder", _FIX)


@cache
def _scan(path: Path) -> dict[str, dict[int, str]]:
    root = path / "json_2.1.1" if (path / "json_2.1.1").is_dir() else path
    found: dict[str, dict[int, str]] = {}
    for folder in dict.fromkeys(FOLDERS.values()):
        for file in sorted((root / folder).glob("*/*/game.tw-pddl")):
            number = item_ids().get(file.parent.name)
            if number is not None:
                found.setdefault(folder, {})[number] = str(file)
    if not found:
        raise InputError.at(path, "no evaluation game of alfworld is in it", _FIX)
    return found


def _read_folder_game(file: Path, task_id: str) -> Record:
    if file.suffix == ".json":
        record = read_record(file)
        if record is None:
            raise InputError.at(file, "not a whole game", "delete its folder; it is unpacked again")
        return record
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        problem, grammar = data["pddl_problem"], data["grammar"]
        task = _TASK.search(grammar)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError.at(file, f"not a game of alfworld ({type(error).__name__}: {error})", _FIX) from None
    if not isinstance(problem, str) or task is None:
        raise InputError.at(file, "the game has no problem or no task sentence", _FIX)
    return Record(task_id, file.parents[1].name.split("-")[0], task[1], problem)


@cache
def _unpack(path: Path, cache_dir: Path) -> dict[str, dict[int, str]]:
    """Split a compact file into one file a game, once; the index is written last and marks it whole."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    folder = cache_dir / f"alfworld-official-{digest}"
    index = folder / "index.json"
    if not index.exists():
        numbers: dict[str, list[int]] = {}
        for row, game in enumerate(_rows(path), start=1):
            split, number, record = _read_row(path, row, game)
            numbers.setdefault(split, []).append(number)
            write_json(folder / f"{record.task_id}.json", {"schema": SCHEMA, **asdict(record)})
        write_json(index, numbers)
    listed: dict[str, list[int]] = json.loads(index.read_text(encoding="utf-8"))
    return {split: {n: str(folder / f"{PREFIX}{n}.json") for n in ns} for split, ns in listed.items()}


def _rows(path: Path) -> Iterator[Any]:
    """JSON values of the lines. Raises InputError naming the line that is not one."""
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    row = 0
    try:
        with gzip.open(path, "rt", encoding="utf-8") if packed else path.open(encoding="utf-8") as lines:
            for line in lines:
                row += 1
                yield json.loads(line)
    except (ValueError, OSError, EOFError) as error:
        raise InputError.at(path, f"not readable as JSON Lines ({error})", _FIX, max(row, 1)) from None


def _read_row(path: Path, row: int, game: Any) -> tuple[str, int, Record]:
    names = ("split", "task_id", "task_type", "task_text", "pddl_problem")
    if not isinstance(game, dict) or not all(isinstance(game.get(name), str) for name in names):
        raise InputError.at(path, f"a game lacks one of {', '.join(names)} as text", _FIX, row)
    number = item_ids().get(game["task_id"])
    if number is None or game["split"] not in FOLDERS.values():
        raise InputError.at(
            path, f"{game['task_id'][:80]!r} is not an evaluation game of alfworld", _FIX, row
        )
    record = Record(f"{PREFIX}{number}", game["task_type"], game["task_text"], game["pddl_problem"])
    return game["split"], number, record
