"""TextWorld: published tasks byte for byte, the fast generator, the environment, worker processes."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from acting import scripted
from wmlab.domains.actions import MAX_ACTION_CHARACTERS, normalise_action
from wmlab.domains.base import SUCCESS_MARKER, Step, Task
from wmlab.domains.panels import load_task, read_panel, write_panel
from wmlab.domains.play import check_backend, play_task
from wmlab.domains.registry import make_domain
from wmlab.domains.textworld.environment import REFUSAL, TextWorldEnvironment
from wmlab.domains.textworld.games import ensure_game, game_path, seed_of
from wmlab.domains.textworld.goals import read_goal
from wmlab.domains.workers import WorkerPool
from wmlab.errors import EnvironmentFailure, InputError

ROOT = Path(__file__).resolve().parents[1]
CACHE = str(ROOT / "results" / "cache")
DOMAIN = make_domain("textworld", CACHE)
HASHES: dict[str, str] = json.loads(
    (ROOT / "tests" / "data" / "textworld_initial_observations.json").read_text(encoding="utf-8")
)["sha256"]


@pytest.mark.slow
def test_all_200_published_initial_observations_are_reproduced() -> None:
    ids = sorted(HASHES, key=seed_of)
    assert ids == [f"textworld_{n}" for n in range(1, 201)]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        tasks = list(pool.map(load_task, [DOMAIN] * 200, ids, chunksize=10))
    different = [
        task.task_id
        for task in tasks
        if hashlib.sha256(task.initial_observation.encode()).hexdigest() != HASHES[task.task_id]
    ]
    assert different == []


def test_the_published_file_has_the_bundled_hashes() -> None:
    path = ROOT.parent / "shared" / "data" / "init_contexts" / "textworld" / "wm_instruct_test.json"
    if not path.exists():
        pytest.skip(f"the released init contexts are not beside the repository ({path.name})")
    for row in json.loads(path.read_text(encoding="utf-8")):
        text = row["messages"][0]["content"]
        assert hashlib.sha256(text.encode()).hexdigest() == HASHES[f"textworld_{row['id']}"]
        goal = text.split("\n-= Bedroom")[0].rpartition("$")[2]
        assert len(read_goal(goal)) in (8, 9, 12)


@pytest.mark.slow
def test_the_fast_generator_writes_the_stock_bytes(tmp_path: Path) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        stock = pool.submit(_stock_game, 7, str(tmp_path / "stock.z8")).result()
        path = pool.submit(ensure_game, tmp_path, 7).result()
    assert path.read_bytes() == stock


def _stock_game(seed: int, path: str) -> bytes:
    from textworld import GameOptions
    from textworld.challenges.tw_simple import simple
    from textworld.generator import compile_game

    options = GameOptions()
    options.seeds = seed
    options.path = path
    compile_game(simple.make({"rewards": "balanced", "goal": "detailed", "test": False}, options), options)
    return Path(path).read_bytes()


@pytest.mark.parametrize(
    "bad", ["textworld_", "textworld_1/../2", "textworld_-1", "webshop_3", "textworld_²", "../x"]
)
def test_an_id_is_never_a_path(bad: str) -> None:
    with pytest.raises(InputError, match="not a TextWorld task"):
        seed_of(bad)


def test_games_are_cached_by_version_and_seed() -> None:
    assert game_path("c", 5).parts[-1] == "textworld_5.z8"
    assert "textworld-1." in str(game_path("c", 5))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("  open   box \n", "open box"),
        ("look\nquit", "look quit"),
        ("a\x00b\x1b[31m", "a b [31m"),
        ("x" * 10_000_000, "x" * MAX_ACTION_CHARACTERS),
        ("\u202eopen", "open"),
    ],
)
def test_actions_become_one_printable_line(text: str, want: str) -> None:
    assert normalise_action(text) == want
    assert normalise_action(want) == want


def test_expert_wins_with_marker_and_score_and_replays_equal() -> None:
    rows = play_task(DOMAIN, "textworld_1", [], True)
    assert rows[0]["step"] == 0 and rows[0]["action"] is None
    assert "\nAVAILABLE ACTIONS: " in rows[0]["observation"]
    assert all("AVAILABLE ACTIONS" not in row["observation"] for row in rows[1:])
    assert [row["success"] for row in rows] == [False] * (len(rows) - 1) + [True]
    assert rows[-1]["observation"].endswith(SUCCESS_MARKER) and "*** The End ***" in rows[-1]["observation"]
    assert sum(row["reward"] for row in rows) == 3
    assert "-= Bedroom =-0/2" in rows[1]["observation"]
    result = check_backend(DOMAIN, 1)
    assert (result["gold_success"], result["real_floor"], result["problems"]) == (1.0, 1.0, [])


def test_meta_commands_and_empty_actions_are_refused_without_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = TextWorldEnvironment(CACHE)
    monkeypatch.chdir(tmp_path)  # where the interpreter would save
    environment.reset(environment.load("textworld_1"))
    status = "-= Bedroom =-0/1"
    for action in ("", "save", "QUIT", "undo", "tw-print player id", "restart\nlook", "\\help", "look\\s"):
        step = environment.step(action)
        assert REFUSAL in step.observation and status in step.observation and not step.done
    chained = ("look. save", "look.SCRIPT", "look, then restart", "take key and quit", "x bed. tw-print player id", "i; undo")  # fmt: skip
    for action in chained:
        step = environment.step(action)
        assert REFUSAL in step.observation and status in step.observation and not step.done
    assert "-= Bedroom =-0/2" in environment.step("inventory").observation
    assert "-= Bedroom =-0/4" in environment.step("look. open chest drawer").observation
    assert list(tmp_path.iterdir()) == []
    environment.close()


@pytest.mark.parametrize("action", ["é" * 200, "a" + "é" * 200, "\U0001f600" * 60, "b " * 90 + "\U0001f600" * 5, "x" * 10**7])  # fmt: skip
def test_characters_of_several_bytes_are_not_cut_in_the_middle(action: str) -> None:
    environment = TextWorldEnvironment(CACHE)
    environment.reset(environment.load("textworld_1"))
    assert REFUSAL in environment.step(action).observation
    environment.close()


def test_a_fork_goes_its_own_way() -> None:
    environment = TextWorldEnvironment(CACHE)
    environment.reset(environment.load("textworld_1"))
    environment.step("open antique trunk")
    twin = environment.fork()
    taken = twin.step("take old key from antique trunk").observation
    assert "You take the old key" in taken
    assert environment.step("take old key from antique trunk").observation == taken
    environment.close()
    twin.close()


def test_forks_of_forks_are_independent() -> None:
    """At every step of a won game a fork is led astray, and the game goes on as if there were none."""
    rows = play_task(DOMAIN, "textworld_3", [], True)
    environment = TextWorldEnvironment(CACHE, every_step=True)
    environment.reset(environment.load("textworld_3"))
    for row in rows[1:]:
        stray = environment.fork()
        stray.step("look")
        deeper = stray.fork()
        twin = environment.fork()
        stray.step("inventory")
        step, other = environment.step(row["action"]), twin.step(row["action"])
        assert (step, step.observation) == (other, row["observation"])
        assert "carrying" in deeper.step("inventory").observation
        for one in (stray, deeper, twin):
            one.close()
    assert step.success
    environment.close()


def test_eating_the_goal_is_a_loss() -> None:
    rows = play_task(DOMAIN, "textworld_1", [], True)
    actions = [row["action"] for row in rows[1:]]
    food = actions[-1].removeprefix("put ").removesuffix(" on stove")
    lost = play_task(DOMAIN, "textworld_1", [*actions[:-1], f"eat {food}"], False)
    assert lost[-1]["done"] and not lost[-1]["success"] and SUCCESS_MARKER not in lost[-1]["observation"]


def test_real_samples_are_reproduced() -> None:
    path = ROOT.parent / "shared" / "samples" / "textworld.jsonl"
    if not path.exists():
        pytest.skip("the recorded samples are not beside the repository")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["seed"] == 1]
    environment = TextWorldEnvironment(CACHE)
    first = environment.load("textworld_1").initial_observation
    assert first.split("\nAVAILABLE")[0] == rows[0]["observation"]
    environment.reset(environment.load("textworld_1"))
    for row in rows[1:]:
        step = environment.step(row["action"])
        assert step.observation.removesuffix(SUCCESS_MARKER) == row["observation"]
        if step.done:
            break
    environment.close()


def test_scripted_agent_reads_the_goal_and_wins_from_text_alone() -> None:
    for seed in (1, 2, 3, 4):
        assert scripted(DOMAIN, f"textworld_{seed}")[-1].success
    noisy = [[s.observation for s in scripted(DOMAIN, "textworld_3", 0.4)] for _ in range(2)]
    assert noisy[0] == noisy[1]


def test_goal_sentences_become_commands() -> None:
    goal = (
        "Welcome to TextWorld! First of all, you could, like, look and see that the antique trunk inside the bedroom "
        "is opened. Then, recover the old key from the antique trunk. After picking up the old key, make absolutely "
        "sure that the wooden door is unlocked. Then, insert the old key into the wooden door's lock to unlock it. "
        "With that done, make an effort to go to the east. Then, lift the half of a bag of chips from the floor of "
        "the garden. Okay, and then, rest the milk on the stove inside the kitchen. Alright, thanks!"
    )
    assert [clause.command for clause in read_goal(goal)] == [
        "open antique trunk",
        "take old key from antique trunk",
        "unlock wooden door with old key",
        "unlock wooden door with old key",
        "go east",
        "take half of a bag of chips",
        "put milk on stove",
    ]


def test_a_killed_worker_loses_its_own_episodes_only() -> None:
    tasks = [load_task(DOMAIN, f"textworld_{n}") for n in (1, 2)]
    with WorkerPool(DOMAIN.open, 2) as pool:
        assert [first.text for first in pool.reset(tasks)] == [t.initial_observation for t in tasks]  # type: ignore[union-attr]
        victim: Any = pool._workers[1]
        os.kill(victim.process.pid, signal.SIGKILL)
        victim.process.join()
        answers = pool.step({0: "inventory", 1: "inventory"})
        assert isinstance(answers[0], Step)
        assert isinstance(answers[1], EnvironmentFailure) and "died" in str(answers[1])
        assert [type(x).__name__ for x in pool.reset(tasks)] == ["Observation", "Observation"]
        pids = [worker.process.pid for worker in pool._workers if worker is not None]
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid or 0), 0)


def test_a_changed_game_is_noticed() -> None:
    task = load_task(DOMAIN, "textworld_1")
    other = Task(task.task_id, task.domain, task.goal, task.initial_observation + "x")
    environment = TextWorldEnvironment(CACHE)
    with pytest.raises(EnvironmentFailure, match="differs"):
        environment.reset(other)
    environment.close()


def test_panels_are_frozen_by_content(tmp_path: Path) -> None:
    task = Task("textworld_1", "textworld", "goal", "first")
    path = tmp_path / "panel.json"
    write_panel(path, "textworld", "test", [task])
    assert read_panel(path) == [task]
    broken = json.loads(path.read_text())
    broken["tasks"][0]["initial_observation"] = "changed"
    path.write_text(json.dumps(broken))
    with pytest.raises(InputError, match=r"panel\.json, row 1.*sha256"):
        read_panel(path)
