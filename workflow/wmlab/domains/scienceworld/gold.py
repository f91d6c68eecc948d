"""Frozen solutions: the simulator's gold paths are found anew, and differently, each time it is asked.

A path is generated once a cache, replayed from a fresh load exactly as an episode would play it, cut at
the step that completes the task, and kept with what the replay came to. A path that does not reach the
full score is kept too, as unfinished: no expert then, and the reason can be counted.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from wmlab.domains.scienceworld.engine import Engine
from wmlab.domains.scienceworld.text import is_refusal
from wmlab.errors import EnvironmentFailure

ATTEMPTS = 2
MAX_STEPS = 400


@dataclass(frozen=True)
class Gold:
    """Actions to success, the indices of those that are refused on the way, and the replay's score."""

    actions: tuple[str, ...]
    refused: tuple[int, ...]
    score: int  # of the replay: 100 when finished
    attempts: int

    @property
    def finished(self) -> bool:
        """Whether the replay completed the task with the full score."""
        return self.score == 100


def folder(cache_dir: str | Path) -> Path:
    """Where the paths of this scienceworld version are kept."""
    return Path(cache_dir) / f"scienceworld-{metadata.version('scienceworld')}" / "gold"


def gold_path(cache_dir: str | Path, engine: Engine, task: str, variation: int, simplification: str) -> Gold:
    """The frozen solution of a task, generated when it is absent. The engine is left loaded with anything.

    Two processes may race: the first file stays, both use it.
    """
    suffix = "".join(f".{part}" for part in simplification.split(",") if part)
    path = folder(cache_dir) / f"{task}_{variation}{suffix}.json"
    if not path.exists():
        _freeze(path, _generate(engine, task, variation, simplification))
    try:
        row: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Gold(tuple(row["actions"]), tuple(row["refused"]), int(row["score"]), int(row["attempts"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EnvironmentFailure(f"{path}: not a frozen gold path ({error}); delete it") from None


def _generate(engine: Engine, task: str, variation: int, simplification: str) -> Gold:
    best: Gold | None = None
    for attempt in range(1, ATTEMPTS + 1):
        engine.load(task, variation, simplification, gold=True)
        found = _replay(engine, task, variation, simplification, engine.gold(), attempt)
        if best is None or found.score > best.score:
            best = found
        if found.finished:
            break
    assert best is not None
    return best


def _replay(
    engine: Engine, task: str, variation: int, simplification: str, actions: list[str], attempt: int
) -> Gold:
    engine.load(task, variation, simplification)
    engine.act("look around")  # as an episode's reset does
    done: list[str] = []
    refused: list[int] = []
    for action in actions[:MAX_STEPS]:
        answer = engine.act(action)
        if is_refusal(answer.text):
            refused.append(len(done))
        done.append(action)
        if answer.completed or answer.score < 0:
            break
    return Gold(tuple(done), tuple(refused), engine.score, attempt)


def _freeze(path: Path, gold: Gold) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".gold.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(asdict(gold), stream)
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    finally:
        Path(name).unlink()


def summary(cache_dir: str | Path) -> dict[str, int]:
    """How many paths are frozen: ``finished``, ``unfinished``, and of those ``lost`` (score below 0)."""
    counts: Counter[str] = Counter(finished=0, unfinished=0, lost=0)
    for path in folder(cache_dir).glob("*.json"):
        score = int(json.loads(path.read_text(encoding="utf-8"))["score"])
        counts["finished" if score == 100 else "unfinished"] += 1
        counts["lost"] += score < 0
    return dict(counts)
