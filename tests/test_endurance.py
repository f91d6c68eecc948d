"""Long random play: what it counts, and a small run of real backends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_domains import ToyDomain, ToyEnvironment
from typer.testing import CliRunner
from wmlab.cli.env import app
from wmlab.domains import endurance
from wmlab.domains.base import Observation, Task
from wmlab.domains.endurance import endure, grows
from wmlab.domains.registry import make_domain

CACHE = Path(__file__).resolve().parents[1] / "results" / "cache"


class Loading(ToyEnvironment):
    def reset(self, task: Task) -> Observation:
        self.load(task.task_id)
        return super().reset(task)


@dataclass(frozen=True)
class Saying(ToyDomain):
    """A toy whose explorer says one thing."""

    word: str = "press"

    def open(self, *, every_step: bool = False, expert: bool = False) -> ToyEnvironment:
        return Loading(self.name)

    def stray(self, rng: np.random.Generator, admissible: Sequence[str], seen: Sequence[str]) -> str:
        return self.word


def test_it_counts_steps_and_leaves_nothing() -> None:
    found = endure(Saying("textworld"), 6, 50)
    # Tasks 2, 3, 4, 5, 6, 1 of the toy need 3, 1, 2, 3, 1, 2 presses.
    assert (found["episodes"], found["steps"], found["errors"], found["left"]) == (6, 12, 0, 0)
    assert len(found["megabytes"]) == 3 and found["megabytes"][0] > 10


@pytest.mark.parametrize(("word", "said"), [("die", "died (exit code -9)"), ("fail", "the toy broke")])
def test_errors_are_counted_and_the_next_episode_goes_on(word: str, said: str) -> None:
    found = endure(Saying("textworld", word), 3, 50)
    assert (found["errors"], found["steps"], found["left"]) == (3, 0, 0)
    assert all(said in problem for problem in found["problems"]) and len(found["problems"]) == 3


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [([], False), ([9.0], False), ([100.0, 100.0, 129.0], False), ([90.0, 100.0, 131.0], True), ([200.0, 90.0], False)],
)  # fmt: skip
def test_memory_grows_beyond_a_tenth_and_the_slack(sizes: list[float], wanted: bool) -> None:
    assert grows(sizes) is wanted


@pytest.mark.parametrize("name", ["textworld", "webshop"])
def test_real_backends_endure(name: str) -> None:
    found = endure(make_domain(name, CACHE), 12, 30)
    assert (found["errors"], found["left"]) == (0, 0) and found["steps"] > 60
    assert not grows(found["megabytes"])


def test_the_command_reports_and_fails_on_errors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lasting: dict[str, Any] = {
        "episodes": 4,
        "steps": 9,
        "errors": 0,
        "megabytes": [50.0, 51.0, 51.4],
        "left": 0,
    }
    monkeypatch.setattr(endurance, "endure", lambda *_: lasting)
    monkeypatch.setattr(
        "wmlab.domains.play.check_backend",
        lambda *_: {"n": 1, "gold_success": 1.0, "real_floor": 1.0, "steps_per_s": 5.0, "problems": []},
    )
    arguments = ["check", "--domain", "webshop", "--n", "1", "--random", "4", "--cache", str(tmp_path)]
    ended = CliRunner().invoke(app, arguments)
    assert ended.exit_code == 0
    assert (
        "webshop: 4 random episodes, 9 steps, 0 errors, memory 50/51/51 MB, 0 processes left" in ended.stdout
    )
    lasting["left"] = 1
    assert CliRunner().invoke(app, arguments).exit_code != 0
