"""tw-simple games: the papers' TextWorld family, generated from a seed.

``tw-make tw-simple --rewards balanced --goal detailed --seed N`` is the family of the BehR paper;
its test ids are seeds 1..200. The stock generator compiles each game twice (once only to replay the
walkthrough through the Z-machine) and parses the knowledge base anew every time. ``generate`` replays
the walkthrough on the logical state instead and keeps the knowledge base: half the time, the same
``.ni`` and ``.z8`` bytes (tested).

Not thread-safe, like TextWorld itself: call it in worker processes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from wmlab.errors import EnvironmentFailure, InputError

PREFIX = "textworld_"
SETTINGS = {"rewards": "balanced", "goal": "detailed", "test": False}


def seed_of(task_id: str) -> int:
    """The generator seed of ``textworld_N``. Raises InputError on any other id (ids are never paths)."""
    number = task_id.removeprefix(PREFIX)
    if not task_id.startswith(PREFIX) or not (number.isascii() and number.isdigit()) or len(number) > 9:
        raise InputError(f"task id {task_id[:80]!r}: not a TextWorld task; use {PREFIX}N with N a seed")
    return int(number)


def game_path(cache_dir: str | Path, seed: int) -> Path:
    """Where the compiled game of ``seed`` is kept; the TextWorld version is part of the path."""
    return Path(cache_dir) / f"textworld-{metadata.version('textworld')}" / f"{PREFIX}{seed}.z8"


def ensure_game(cache_dir: str | Path, seed: int) -> Path:
    """Return the compiled game of ``seed``, generating it when it is absent.

    The ``.json`` is renamed into place before the ``.z8``, so a ``.z8`` marks a whole game and two
    processes may race: both write the same bytes.
    """
    target = game_path(cache_dir, seed)
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.stem}."))
    try:
        generate(seed, work / target.name)
        for suffix in (".json", ".z8"):
            os.replace((work / target.name).with_suffix(suffix), target.with_suffix(suffix))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def generate(seed: int, path: Path) -> None:
    """Generate and compile one game to ``path`` (``.z8``; ``.json`` and ``.ni`` land beside it)."""
    from textworld import GameOptions
    from textworld.challenges.tw_simple import simple
    from textworld.generator import compile_game

    options = GameOptions()
    options.seeds = seed
    options.path = str(path)
    with _fast_generator(simple):
        game = simple.make(SETTINGS, options)
    try:
        compile_game(game, options)
    except Exception as error:
        raise EnvironmentFailure(
            f"TextWorld seed {seed}: compilation failed ({type(error).__name__}: {error})"
        ) from error


@cache
def _knowledge_base(path: str) -> Any:
    from textworld.generator.data import KnowledgeBase

    return KnowledgeBase.load(path)


class _CachedKnowledgeBase:
    """Stands where the challenge looks up its loader."""

    @staticmethod
    def load(path: str) -> Any:
        return _knowledge_base(str(path))


@cache
def _maker() -> type:
    import textworld
    from textworld.generator.game import GameProgression
    from textworld.generator.inform7 import Inform7Game

    class LogicalMaker(textworld.GameMaker):  # type: ignore[misc]
        """GameMaker whose walkthrough is replayed on the logical state, without compiling."""

        def set_walkthrough(self, commands: list[str]) -> None:
            game = self.build()
            progression, inform = GameProgression(game), Inform7Game(game)
            events = {event: event.copy() for quest in self.quests for event in quest.win_events}
            tracked = [event for quest in progression.quest_progressions for event in quest.win_events]
            actions: list[Any] = []
            for index, command in enumerate(commands):
                before = [item.triggered for item in tracked]
                valid = progression.valid_actions
                action = valid[inform.gen_commands_from_actions(valid).index(command)]
                progression.update(action)
                actions.append(action)
                for was_triggered, item in zip(before, tracked, strict=True):
                    if item.triggered and not was_triggered:
                        events[item.event].actions = list(actions)
                        events[item.event].commands = commands[: index + 1]
            for event, done in events.items():
                event.actions, event.commands = done.actions, done.commands

    return LogicalMaker


@contextlib.contextmanager
def _fast_generator(simple: Any) -> Iterator[None]:
    stock = simple.textworld.GameMaker, simple.KnowledgeBase
    simple.textworld.GameMaker, simple.KnowledgeBase = _maker(), _CachedKnowledgeBase
    try:
        yield
    finally:
        simple.textworld.GameMaker, simple.KnowledgeBase = stock
