"""CookingWorld: recorded games byte for byte, expert after detours, text-only script, hostile input."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from acting import check_script_survives, scripted
from hypothesis import given, settings
from hypothesis import strategies as st
from wmlab.agents.scripts import script_of
from wmlab.domains.base import SUCCESS_MARKER, RealEnvironment, Step, Task
from wmlab.domains.cookingworld.environment import CookingWorldEnvironment, seed_of
from wmlab.domains.cookingworld.kitchen import Kitchen, split_list
from wmlab.domains.play import check_backend, play_task
from wmlab.domains.registry import make_domain
from wmlab.domains.workers import WorkerPool
from wmlab.errors import EnvironmentFailure, InputError

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / "results" / "cache"
DOMAIN = make_domain("cookingworld", CACHE)
BUNDLED: dict[str, Any] = json.loads(
    (ROOT / "tests" / "data" / "cookingworld_games.json").read_text(encoding="utf-8")
)


@pytest.fixture
def environment() -> Iterator[RealEnvironment]:
    opened = DOMAIN.open(every_step=True, expert=True)
    yield opened
    opened.close()


def room_text(first: str) -> str:
    """The engine's own first observation: without the task before it and the action list behind it."""
    return first.split("\nAVAILABLE ACTIONS: ")[0].partition("\n")[2]


def test_recorded_games_are_reproduced(environment: RealEnvironment) -> None:
    assert getattr(DOMAIN, "parameters", "") == BUNDLED["parameters"]
    for task_id, game in BUNDLED["games"].items():
        task = environment.load(task_id)
        texts = [room_text(environment.reset(task).text)]
        steps = [environment.step(action) for action in game["actions"]]
        texts += [step.observation.removesuffix(SUCCESS_MARKER) for step in steps]
        assert [hashlib.sha256(text.encode()).hexdigest() for text in texts] == game["sha256"]
        assert [step.success for step in steps] == [False] * (len(steps) - 1) + [True]
        assert steps[-1].observation.endswith(SUCCESS_MARKER) and steps[-1].done
        assert sum(step.reward for step in steps) == pytest.approx(1)


def test_real_samples_are_reproduced(environment: RealEnvironment) -> None:
    path = ROOT.parent / "shared" / "samples" / "cookingworld.jsonl"
    if not path.exists():
        pytest.skip("the recorded samples are not beside the repository")
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["step"] == 0:
            task = environment.load(f"cookingworld_{row['seed']}")
            assert (task.goal, room_text(environment.reset(task).text)) == (row["task"], row["observation"])
        else:
            step = environment.step(row["action"])
            assert step.observation.removesuffix(SUCCESS_MARKER) == row["observation"]
            assert step.success == row["task_success"]


def test_expert_wins_and_replays_equal() -> None:
    result = check_backend(DOMAIN, 5)
    assert (result["gold_success"], result["real_floor"], result["problems"]) == (1.0, 1.0, [])
    first = play_task(DOMAIN, "cookingworld_20001", [], False)[0]
    assert (
        first["observation"].startswith("You are hungry!")
        and "AVAILABLE ACTIONS: close" in first["observation"]
    )


def test_expert_comes_back_after_a_detour_and_gives_up_when_it_cannot(environment: RealEnvironment) -> None:
    task = environment.load("cookingworld_20002")
    environment.reset(task)
    whole = environment.expert()
    assert environment.expert() == whole  # asking changes nothing
    for stray in ("inventory", "open trash can", "open door to north", "move north", "fly away"):
        environment.step(stray)
    steps = 0
    while plan := environment.expert():
        step = environment.step(plan[0])
        assert environment.expert() == plan[1:]
        steps += 1
    assert step.success and steps < 60
    environment.reset(task)
    food = next(a for a in whole if a.startswith("take ") and a not in ("take cookbook", "take knife"))
    for action in whole[: whole.index(food) + 1]:
        environment.step(action)
    environment.step(food.replace("take", "eat"))
    assert environment.expert() == []


def test_a_fork_goes_its_own_way(environment: RealEnvironment) -> None:
    environment.reset(environment.load("cookingworld_3"))
    environment.step("open fridge")
    twin = environment.fork()
    assert twin.step("look around") == environment.step("look around")
    twin.step("take cookbook")
    assert "cookbook" in environment.step("look around").observation
    twin.close()


def test_a_changed_game_is_noticed_and_the_end_is_the_end(environment: RealEnvironment) -> None:
    task = environment.load("cookingworld_1")
    with pytest.raises(EnvironmentFailure, match="differs"):
        environment.reset(Task(task.task_id, task.domain, task.goal, task.initial_observation + "x"))
    environment.reset(task)
    for action in environment.expert():
        environment.step(action)
    with pytest.raises(EnvironmentFailure, match="after the end"):
        environment.step("look around")
    with pytest.raises(EnvironmentFailure, match="call reset"):
        DOMAIN.open().fork()


@pytest.mark.parametrize(
    "bad", ["cookingworld_", "cookingworld_1000", "cookingworld_1/..", "../x", "cookingworld_²"]
)
def test_an_id_is_never_a_path(bad: str) -> None:
    with pytest.raises(InputError, match="not a CookingWorld task"):
        seed_of(bad)


def test_splits_are_the_engines_folds_and_do_not_meet() -> None:
    ids = {split: DOMAIN.task_ids(split, 1, 999) for split in ("train", "validation", "test")}
    assert [ids[split][0] for split in ids] == ["cookingworld_1", "cookingworld_10001", "cookingworld_20001"]
    assert len({task_id for split in ids.values() for task_id in split}) == 3 * 999
    with pytest.raises(InputError, match="999"):
        DOMAIN.task_ids("test", 2, 999)
    with pytest.raises(InputError, match="split"):
        DOMAIN.task_ids("dev", 1, 1)


@pytest.mark.parametrize(
    "options", [{"rooms": 3}, {"locations": 99}, {"ingredients": "2"}, {"doors": 0.5}, {"distractors": -1}]
)
def test_bad_options_are_named(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="option"):
        make_domain("cookingworld", CACHE, options)


def test_hostile_actions_get_an_answer(environment: RealEnvironment) -> None:
    environment.reset(environment.load("cookingworld_5"))
    for action in (
        "",
        "x" * 10_000_000,
        "\x00\x1b[31m",
        "look\naround",
        '"}\\',
        "\u202e",
        "take " * 1000,
        "ß" * 99,
    ):
        step = environment.step(action)
        assert not step.done and step.observation
    assert "You are in the kitchen" in environment.step("  look \n around").observation


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=60), max_size=6), st.text(max_size=200))
def test_the_script_survives_any_text(answers: list[str], first: str) -> None:
    check_script_survives("cookingworld", first, answers)


def test_text_is_read_as_commands_need_it() -> None:
    assert split_list("a knife, a raw red potato, and some salt") == ["knife", "red potato", "salt"]
    assert split_list("a block of cheese, and a roasted diced carrot") == ["block of cheese", "carrot"]
    assert split_list("nothing") == []
    kitchen = Kitchen()
    kitchen.read(
        "",
        "You are in the kitchen. In one part of the room you see a stove. You also see a fridge that is closed. "
        "In another part of the room you see a counter that has a knife, and a cookbook on it. \n"
        "To the North you see a closed screen door. Through an open plain door, to the West you see the pantry. ",
    )
    assert (kitchen.here, kitchen.room.things, kitchen.room.closed) == (
        "kitchen",
        {"knife", "cookbook"},
        {"fridge"},
    )
    assert kitchen.room.exits == {"north": None, "west": "pantry"} and kitchen.room.shut == {"north"}


def test_scripted_agent_cooks_from_text_alone() -> None:
    for task_id in DOMAIN.task_ids("test", 1, 12):
        assert scripted(DOMAIN, task_id)[-1].success
    noisy = [[s.observation for s in scripted(DOMAIN, "cookingworld_20003", 0.4)] for _ in range(2)]
    assert noisy[0] == noisy[1]
    big = make_domain("cookingworld", CACHE, {"locations": 11, "ingredients": 5, "distractors": 10})
    assert scripted(big, "cookingworld_20001", cap=120)[-1].success


def test_candidates_hold_what_the_script_does() -> None:
    module = script_of("cookingworld")
    environment = DOMAIN.open()
    first = environment.reset(environment.load("cookingworld_20004")).text
    script, observations = module.Script(first), [first]
    while (planned := script.next()) is not None:
        assert planned[1] in module.candidates(observations)
        step = environment.step(planned[1])
        if step.done:
            break
        script.read(step.observation)
        observations.append(step.observation)
    assert step.success and len(module.candidates(observations)) < 80
    environment.close()


def test_workers_serve_episodes_and_leave_no_jvm() -> None:
    tasks = [CookingWorldEnvironment(BUNDLED["parameters"]).load(f"cookingworld_{n}") for n in (1, 2, 3)]
    with WorkerPool(DOMAIN.open, 1) as pool:  # three episodes share one JVM
        assert [getattr(first, "text", first) for first in pool.reset(tasks)] == [
            task.initial_observation for task in tasks
        ]
        answers = pool.step({0: "open fridge", 1: "open fridge", 2: "look around"})
        assert all(isinstance(answer, Step) for answer in answers.values())


@pytest.mark.slow
def test_random_episodes_leave_memory_flat() -> None:
    rng = np.random.default_rng(1)
    environment = DOMAIN.open(every_step=True)
    sizes = []
    for number in range(300):
        first = environment.reset(environment.load(f"cookingworld_{1 + number}"))
        admissible, seen = first.admissible or (), dict.fromkeys(first.admissible or ())
        for _ in range(30):
            step = environment.step(DOMAIN.stray(rng, admissible, list(seen)))
            if step.done:
                break
            admissible = step.admissible or ()
            seen.update(dict.fromkeys(admissible))
        if number % 100 == 99:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            sizes.append((pages, environment._now.lease.jvm.resident_mb()))  # type: ignore[attr-defined]
    environment.close()
    assert sizes[-1][0] < 1.05 * sizes[0][0] and sizes[-1][1] < 300
