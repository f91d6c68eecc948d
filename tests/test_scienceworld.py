"""ScienceWorld: panels, equal answers to the stock simulator, determinism, expert, script, hostile input."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from acting import check_script_survives, scripted
from hypothesis import given, settings
from hypothesis import strategies as st
from wmlab.agents.scripts import script_of
from wmlab.domains.base import SUCCESS_MARKER, Task
from wmlab.domains.panels import load_task
from wmlab.domains.play import check_backend
from wmlab.domains.registry import make_domain
from wmlab.domains.scienceworld import tasks
from wmlab.domains.scienceworld.engine import Engine
from wmlab.domains.scienceworld.environment import ScienceWorldEnvironment
from wmlab.domains.scienceworld.gold import Gold, gold_path, summary
from wmlab.domains.scienceworld.hashing import add_hash, patched_class
from wmlab.domains.scienceworld.text import is_refusal, menu_options, plausible, room_of
from wmlab.domains.scienceworld.walk import CANCEL, Walk
from wmlab.domains.workers import WorkerPool
from wmlab.errors import EnvironmentFailure, InputError

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / "results" / "cache"
DOMAIN = make_domain("scienceworld", CACHE)
HASHES: dict[str, Any] = json.loads(
    (ROOT / "tests" / "data" / "scienceworld_hashes.json").read_text(encoding="utf-8")
)
ETO_TEST = {  # formats.md: 211 pairs, in the file's order
    **dict.fromkeys(("boil", "change-the-state-of-matter-of", "freeze", "melt"), range(21, 30)),
    "measure-melting-point-known-substance": range(327, 337),
    "use-thermometer": range(405, 415),
    **dict.fromkeys(("power-component", "power-component-renewable-vs-nonrenewable-energy"), range(15, 20)),
    "test-conductivity": range(675, 685),
    "test-conductivity-of-unknown-substances": range(450, 460),
    **dict.fromkeys(
        ("find-animal", "find-living-thing", "find-non-living-thing", "find-plant"), range(225, 235)
    ),
    **dict.fromkeys(("grow-fruit", "grow-plant"), range(93, 103)),
    "chemistry-mix": range(24, 32),
    **dict.fromkeys(
        ("chemistry-mix-paint-secondary-color", "chemistry-mix-paint-tertiary-color"), range(27, 36)
    ),
    "lifespan-longest-lived": range(93, 103),
    "lifespan-longest-lived-then-shortest-lived": range(93, 103),
    "lifespan-shortest-lived": range(93, 103),
    "identify-life-stages-1": range(9, 14),
    "identify-life-stages-2": range(6, 10),
}


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture(scope="module")
def environment() -> Iterator[ScienceWorldEnvironment]:
    opened = ScienceWorldEnvironment(CACHE, every_step=True, expert=True)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    opened = Engine()
    yield opened
    opened.close()


# Panels


def test_the_flat_index_is_agentgyms() -> None:
    flat = tasks.flat_index()
    assert len(flat) == 4639 and flat[:2] == [("boil", 0), ("boil", 1)]
    assert tasks.parse("sciworld_41") == ("melt", 11)
    assert not {task for task, _ in flat} & {"grow-plant", "grow-fruit", "mendelian-genetics-known-plant"}
    agentgym = make_domain("scienceworld", CACHE, {"panel": "agentgym"})
    ids = agentgym.task_ids("test", 1, 100)
    assert ids[0] == "sciworld_21" and all(re.fullmatch(r"sciworld_\d+", task_id) for task_id in ids)


def test_etos_test_split_is_derived_and_its_random_ones_are_refused() -> None:
    eto = make_domain("scienceworld", CACHE, {"panel": "eto"})
    pairs = [(task, variation) for task, variations in ETO_TEST.items() for variation in variations]
    assert len(pairs) == 211
    assert [tasks.parse(task_id) for task_id in eto.task_ids("test", 1, 211)] == pairs
    assert getattr(eto, "simplification", "") == "easy"
    with pytest.raises(InputError, match=r"train_indices\.json"):
        eto.task_ids("train", 1, 1)


def test_released_lists_are_read_and_bad_ones_named(tmp_path: Path) -> None:
    (tmp_path / "train_indices.json").write_text(
        json.dumps([["task-6-lifespan-(longest-lived)", 2], ["task-9-mendellian-genetics-(known-plant)", 3]])
    )
    (tmp_path / "sciworld_test.json").write_text(json.dumps([{"item_id": "sciworld_606"}]))
    eto = make_domain("scienceworld", CACHE, {"panel": "eto", "lists": str(tmp_path)})
    assert eto.task_ids("train", 1, 2) == [
        "scienceworld_lifespan-longest-lived_2",
        "scienceworld_mendelian-genetics-known-plant_3",
    ]
    agentgym = make_domain("scienceworld", CACHE, {"panel": "agentgym", "lists": str(tmp_path)})
    assert agentgym.task_ids("test", 1, 1) == ["sciworld_606"]
    for text, row in (
        ("[[1]]", ", row 0: item_id is null"),
        ('[{"item_id": "../x"}]', ", row 0: item_id is"),
        ('[{"item_id": "sciworld_4639"}]', ", row 0: task id 'sciworld_4639': not a ScienceWorld task"),
        ("{", "readable"),
        ("3", "array"),
    ):
        (tmp_path / "sciworld_test.json").write_text(text)
        with pytest.raises(InputError, match=row):
            agentgym.task_ids("test", 1, 1)
    for bad in ('[["boil"]]', '[["boil", 30]]', "[3]", '[["x/../y", 1]]', '["ab"]'):
        (tmp_path / "dev_indices.json").write_text(bad)
        with pytest.raises(InputError, match=r"dev_indices\.json, row 0: .*not a"):
            eto.task_ids("validation", 1, 1)


def test_splits_do_not_meet_and_validation_is_dev() -> None:
    everything = make_domain("scienceworld", CACHE, {"tasks": "all"})
    sizes = {"train": 3592, "validation": 1796, "test": 1819}
    seen = [task_id for split, n in sizes.items() for task_id in everything.task_ids(split, 1, n)]
    assert len(set(seen)) == len(seen) == sum(tasks.COUNT.values()) == 7207
    assert tasks.official("boil", "dev") == range(14, 21)
    assert len({tasks.parse(task_id)[0] for task_id in DOMAIN.task_ids("test", 1, 8)}) == 8
    with pytest.raises(InputError, match="1819"):
        everything.task_ids("test", 1819, 2)


@pytest.mark.parametrize(
    "bad",
    [
        "sciworld_",
        "sciworld_4639",
        "scienceworld_boil_30",
        "scienceworld_x_1",
        "../x",
        "sciworld_²",
        "boil_3",
    ],
)
def test_an_id_is_never_a_path(bad: str) -> None:
    with pytest.raises(InputError, match="not a ScienceWorld task"):
        tasks.parse(bad)


@pytest.mark.parametrize(
    "options",
    [{"panel": "x"}, {"tasks": "boil,fly"}, {"simplification": "hard"}, {"admissible": "none"}, {"size": 1}],
)
def test_bad_options_are_named(options: dict[str, str]) -> None:
    with pytest.raises(InputError, match="domain scienceworld"):
        make_domain("scienceworld", CACHE, options)


def test_the_tables_are_the_simulators(engine: Engine) -> None:
    assert engine.counts() == tasks.COUNT
    for task in ("boil", "identify-life-stages-2", "chemistry-mix"):
        engine.load(task, 0)
        assert {
            part: list(tasks.official(task, part)) for part in ("train", "dev", "test")
        } == engine.splits()


# The simulator


def test_first_observations_and_privileged_block_are_what_they_were(
    environment: ScienceWorldEnvironment,
) -> None:
    plain = ScienceWorldEnvironment(CACHE)
    for task_id, digest in HASHES["initial"].items():
        assert sha(plain.load(task_id).initial_observation) == digest
    plain.load("scienceworld_find-animal_226")
    block = plain.privileged
    assert sha(block) == HASHES["privileged_find-animal_226"] and plain.privileged == block
    assert re.findall(r"^=== (.+) ===$", block, re.MULTILINE) == [
        "Goal Progress",
        "Possible Actions",
        "Per-Room Observations",
    ]
    assert block.count("== Room: ") > 10 and "\nPossible Objects: " in block and " - teleport OBJ\n" in block
    plain.close()


def test_lean_steps_answer_as_the_stock_interface(engine: Engine) -> None:
    actions = [
        *(
            "inventory",
            "open door",
            "cancel",
            "open door",
            "0",
            "help",
            "objects",
            "task",
            "fly",
            "go to outside",
        ),
        *("look around", "pick up axe", "wait", "focus on air", "inventory"),
    ]
    engine.load("boil", 3)
    ours = [(engine.act(action).text, engine.score) for action in actions]
    engine.load("boil", 3)
    with engine._turn("stock"):
        server = engine._server
        stock = [(str(server.step(action)), round(100 * float(server.getScore()))) for action in actions]
    assert ours == stock
    assert ours[1][0].startswith("Ambiguous request") and ours[2][0].startswith("Unknown action")
    assert ours[-1][1] == -100


def test_objects_are_hashed_by_their_number(engine: Engine) -> None:
    engine.load("find-animal", 2)
    with engine._turn("hash"):
        thing = engine._agent.agent()
        assert thing.hashCode() == thing.uuid() > 0
    for broken in (b"", b"not a class file", b"\xca\xfe\xba\xbe\x00\x00\x00\x34\x00\x05\x07"):
        with pytest.raises((ValueError, struct.error, IndexError)):
            add_hash(broken)
    with pytest.raises(EnvironmentFailure, match="cannot be read"):
        patched_class(Path(__file__))


def test_episodes_in_one_jvm_do_not_disturb_each_other(engine: Engine) -> None:
    """Animals wander by global random numbers: an episode alone and an interleaved one are equal."""
    walk = ["open door to outside", "go to outside", *["wait1", "look around"] * 6]
    engine.load("find-animal", 2)
    alone = [engine.act(action).text for action in walk]
    other = Engine()
    engine.load("find-animal", 2)
    other.load("find-plant", 7, "teleportAction")
    mixed = []
    for action in walk:
        mixed.append(engine.act(action).text)
        other.act("teleport greenhouse")
        assert other.objects() and engine.objects() and len(other.valid_actions()) > 50
    other.close()
    assert mixed == alone


def test_equal_actions_give_equal_bytes_when_loaded_anew(environment: ScienceWorldEnvironment) -> None:
    result = check_backend(replace(DOMAIN, tasks=("chemistry-mix-paint-secondary-color", "find-plant")), 2)  # type: ignore[type-var]
    assert (result["gold_success"], result["real_floor"], result["problems"]) == (1.0, 1.0, [])


def test_real_samples_are_reproduced_up_to_the_order_of_things() -> None:
    path = ROOT.parent / "shared" / "samples" / "scienceworld.jsonl"
    if not path.exists():
        pytest.skip("the recorded samples are not beside the repository")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    engine, equal, compared = Engine(), 0, 0
    for row in rows:
        if row.get("simplification") is None:
            continue  # recorded with gaps
        if row["step"] == 0:
            engine.load(row["task"], row["variation"], row["simplification"])
        text = engine.act("look around" if row["step"] == 0 else row["action"]).text
        equal += text == row["observation"]
        compared += 1
        assert sorted(re.findall(r"\w+", text)) == sorted(re.findall(r"\w+", row["observation"]))
    engine.close()
    assert compared > 100 and equal >= 0.9 * compared


# Episodes


def test_expert_wins_with_marker_and_full_score(environment: ScienceWorldEnvironment) -> None:
    task = environment.load("scienceworld_find-animal_226")
    first = environment.reset(task)
    assert task.goal.startswith("Your task is to find") and first.text.startswith(task.goal + "\nThis ")
    assert "look around" in (first.admissible or ()) and "AVAILABLE" not in first.text
    steps = []
    while plan := environment.expert():
        steps.append(environment.step(plan[0]))
    assert [step.success for step in steps] == [False] * (len(steps) - 1) + [True]
    assert steps[-1].observation.endswith(SUCCESS_MARKER) and steps[-1].done
    assert sum(step.reward for step in steps) <= 100 and environment.score == 100
    with pytest.raises(EnvironmentFailure, match="after the end"):
        environment.step("look around")


def test_a_wrong_focus_loses_the_task(environment: ScienceWorldEnvironment) -> None:
    environment.reset(environment.load("scienceworld_find-animal_226"))
    before = environment.counts["lost"]
    step = environment.step("focus on agent")
    assert step.done and not step.success and environment.score == -100 and step.reward < -99
    assert SUCCESS_MARKER not in step.observation and environment.counts["lost"] == before + 1
    assert environment.expert() == []


def test_menus_are_shown_answered_and_left(environment: ScienceWorldEnvironment) -> None:
    environment.reset(environment.load("scienceworld_boil_3"))
    step = environment.step("open door")
    assert step.observation.startswith("Ambiguous request") and step.admissible == tuple(
        menu_options(step.observation)
    )
    assert environment.expert()[0] == CANCEL
    assert "Unknown action" in environment.step(CANCEL).observation
    assert environment.counts["menus"] >= 1
    environment.step("open door")
    assert "open" in environment.step("0").observation


def test_expert_comes_back_after_a_detour(environment: ScienceWorldEnvironment) -> None:
    environment.reset(environment.load("scienceworld_power-component_18"))
    whole = environment.expert()
    for stray in (
        "look around",
        "open door to kitchen",
        "go to kitchen",
        "fly",
        "pick up thermometer",
        "inventory",
    ):
        environment.step(stray)
    assert environment.expert()[-len(whole) :] == whole
    steps = 0
    while plan := environment.expert():
        step = environment.step(plan[0])
        steps += 1
    assert step.success and steps == len(whole) + 2


def test_a_fork_goes_its_own_way(environment: ScienceWorldEnvironment) -> None:
    environment.reset(environment.load("scienceworld_power-component_18"))
    environment.step("open door to kitchen")
    twin = environment.fork()
    assert twin.expert() == environment.expert()
    moved = twin.step("go to kitchen")
    assert "kitchen" in room_text(environment.step("look around").observation, "hallway")
    assert environment.step("go to kitchen").observation == moved.observation
    twin.close()


def room_text(observation: str, room: str) -> str:
    assert room_of(observation) == room
    return observation


def test_gold_paths_are_frozen_and_counted(tmp_path: Path, engine: Engine) -> None:
    first = gold_path(tmp_path, engine, "find-non-living-thing", 0, "")
    assert first.finished and gold_path(tmp_path, engine, "find-non-living-thing", 0, "") == first
    (path,) = list(tmp_path.rglob("*.json"))
    row = json.loads(path.read_text())
    path.with_name("boil_0.json").write_text(json.dumps({**row, "score": -100}))
    assert summary(tmp_path) == {"finished": 1, "unfinished": 1, "lost": 1}
    path.write_text("{")
    with pytest.raises(EnvironmentFailure, match="delete it"):
        gold_path(tmp_path, engine, "find-non-living-thing", 0, "")


def test_an_unfinished_path_is_no_expert() -> None:
    assert Walk(Gold(("look around",), (), 40, 2), "").remaining() == []


def test_walks_undo_what_they_can_and_notice_what_they_cannot() -> None:
    gold = Gold(("open door to kitchen", "go to kitchen", "open fridge"), (), 100, 1)
    walk = Walk(gold, "x\nThis room is called the hallway. In it, you see:")
    walk.record("go to workshop", "You move to the workshop.")
    walk.record("close cupboard", "The cupboard is now closed.")
    assert walk.remaining() == ["open cupboard", "go to hallway", *gold.actions]
    walk.record("open cupboard", "The cupboard is now open.")
    walk.record("go to hallway", "You move to the hallway.")
    walk.record("open door to kitchen", "The door is now open.")
    assert walk.remaining() == list(gold.actions[1:])
    walk.record("go to kitchen", "The door is not open.")
    assert walk.lost and walk.remaining() == []


def test_a_changed_task_is_noticed(environment: ScienceWorldEnvironment) -> None:
    task = environment.load("scienceworld_find-animal_226")
    with pytest.raises(EnvironmentFailure, match="differs"):
        environment.reset(Task(task.task_id, task.domain, task.goal, task.initial_observation + "x"))
    with pytest.raises(EnvironmentFailure, match="call reset"):
        ScienceWorldEnvironment(CACHE).fork()


def test_hostile_actions_get_an_answer(environment: ScienceWorldEnvironment) -> None:
    environment.reset(environment.load("scienceworld_find-animal_226"))
    hostile = (
        "",
        "x" * 10_000_000,
        "\x00\x1b[31m",
        "look\naround",
        "(a,b),c",
        "\u202e",
        "open " * 1000,
        "-1",
        '"}\\',
    )
    for action in hostile:
        step = environment.step(action)
        assert not step.done and step.observation
    environment.close()  # closing twice and using it again are both fine
    environment.close()
    assert environment.load("scienceworld_find-animal_226").domain == "scienceworld"


# Text and script


def test_plausible_actions_are_few_and_mostly_possible(environment: ScienceWorldEnvironment) -> None:
    environment.reset(environment.load("scienceworld_power-component_18"))
    cheap = environment.admissible()
    exact = set(environment._world.valid_actions())
    kept = [a for a in cheap if not a.startswith(("go to", "open door", "close door"))]
    assert len(cheap) < 130 and sum(a in exact for a in kept) > 0.4 * len(kept)


@pytest.mark.parametrize(
    ("text", "refused", "room"),
    [
        ("No known action matches that input.", True, None),
        ("The door is not open.", True, None),
        ("You move to the art studio.", False, "art studio"),
        ("Your task is x\nThis outside location is called the outside. Here you see:", False, "outside"),
        ("This room is called the living room. In it, you see:", False, "living room"),
    ],
)
def test_text_is_read(text: str, refused: bool, room: str | None) -> None:
    assert (is_refusal(text), room_of(text)) == (refused, room)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=60), max_size=6), st.text(max_size=200))
def test_reading_survives_any_text(answers: list[str], first: str) -> None:
    for task in (
        "",
        "Your task is to find a(n) animal. First. Then, move it to the red box in the kitchen.\n",
    ):
        check_script_survives("scienceworld", task + first, answers)
    walk = Walk(Gold(("look around",), (), 100, 1), first)
    for answer in answers:
        walk.record(answer, first)
    assert isinstance(walk.remaining(), list) and plausible(first, answers)


def test_scripted_agent_solves_the_short_tasks_from_text_alone() -> None:
    module = script_of("scienceworld")

    def among_candidates(action: str, observations: list[str]) -> None:
        known = module.candidates(observations)
        assert action in known and len(known) < 120

    for task_id in DOMAIN.task_ids("test", 9, 8):
        steps = scripted(DOMAIN, task_id, watch=among_candidates)
        assert steps and steps[-1].success, task_id


# Processes


def test_a_killed_worker_loses_its_episode_only_and_leaves_no_jvm() -> None:
    frozen = [load_task(DOMAIN, f"scienceworld_find-animal_{n}") for n in (225, 226)]
    with WorkerPool(DOMAIN.open, 1) as pool:
        assert [getattr(first, "text", first) for first in pool.reset(frozen)] == [
            task.initial_observation for task in frozen
        ]
        victim: Any = pool._workers[0]
        children = jvms_of(victim.process.pid)
        assert len(children) == 1
        os.kill(victim.process.pid, signal.SIGKILL)
        victim.process.join()
        answers = pool.step({0: "inventory", 1: "inventory"})
        assert all(isinstance(answer, EnvironmentFailure) for answer in answers.values())
        assert [type(first).__name__ for first in pool.reset(frozen)] == ["Observation", "Observation"]
        children += jvms_of(pool._workers[0].process.pid)  # type: ignore[union-attr]
    for pid in children:
        assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()


def jvms_of(pid: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
            command = (status.parent / "cmdline").read_text()
        except OSError:
            continue
        if int(fields[1]) == pid and "py4j.GatewayServer" in command:
            found.append(int(status.parent.name))
    return found


@pytest.mark.slow
def test_random_episodes_leave_memory_flat_and_nothing_crashes() -> None:
    everything = make_domain("scienceworld", CACHE, {"tasks": "all"})
    rng = np.random.default_rng(2)
    environment: Any = everything.open(every_step=True)
    sizes = []
    for number, task_id in enumerate(everything.task_ids("train", 1, 90)):
        first = environment.reset(environment.load(task_id))
        admissible, seen = first.admissible, dict.fromkeys(first.admissible)
        for _ in range(8):
            step = environment.step(everything.stray(rng, admissible, list(seen)))
            if step.done:
                break
            admissible = step.admissible
            seen.update(dict.fromkeys(admissible))
        if number % 30 == 29:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            sizes.append((pages, environment._world._lease.jvm.resident_mb()))
    environment.close()
    assert sizes[-1][0] < 1.05 * sizes[0][0] and sizes[-1][1] < 900
