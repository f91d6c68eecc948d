"""The rollout loop: order, cap, errors as data, resume after whole episodes, replay to the recorded end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import tiny_models as tiny
from wmlab.agents.base import Decision, Turn
from wmlab.agents.scripted import ScriptedAgent
from wmlab.domains.base import Observation, Step, Task
from wmlab.domains.panels import load_task, write_panel
from wmlab.domains.registry import make_domain
from wmlab.domains.world_model import WorldModelBatch
from wmlab.errors import EnvironmentFailure
from wmlab.lm.chat import LocalChat
from wmlab.metrics.episodes import read_episodes
from wmlab.rollout.engine import rollout
from wmlab.rollout.replay import RecordedAgent

CACHE = Path("results/cache")
TASKS = [Task(f"textworld_{n}", "textworld", "g", f"{tiny.FIRST} {n}") for n in range(1, 6)]


class Counting:
    """A world that ends episode i after i+1 steps; odd tasks win; task 3 breaks at its second step."""

    def __init__(self) -> None:
        self.resets: list[str] = []

    def reset(self, tasks: Sequence[Task]) -> list[Observation | Exception]:
        self.tasks, self.steps = list(tasks), [0] * len(tasks)
        self.resets += [task.task_id for task in tasks]
        return [Observation(task.initial_observation, None) for task in tasks]

    def step(self, actions: Mapping[int, str]) -> dict[int, Step | Exception]:
        answers: dict[int, Step | Exception] = {}
        for index in actions:
            self.steps[index] += 1
            number = int(self.tasks[index].task_id.split("_")[1])
            done = self.steps[index] == number
            if number == 3 and self.steps[index] == 2:
                answers[index] = EnvironmentFailure("worker died")
            else:
                answers[index] = Step(f"step {self.steps[index]}", 1.0, done, done and number % 2 == 1, None)
        return answers

    def release(self, indices: Sequence[int]) -> None: ...

    def close(self) -> None: ...


class Looker:
    system_prompt = "look"

    def left(self, key: str, turn: int) -> bool:
        return True

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        return [Decision("Action:\nlook", "look", 2) for _ in turns]

    def finish(self, keys: Sequence[str]) -> None: ...


def play(world: Any, agent: Any, out: Path, **changed: Any) -> list[dict[str, Any]]:
    options: dict[str, Any] = {
        "mode": "real",
        "agent_id": "a",
        "model_id": None,
        "step_cap": 4,
        "batch_size": 2,
    }
    return rollout(world, agent, TASKS, out=out, **{**options, **changed})


def test_every_task_has_one_episode_in_panel_order(tmp_path: Path) -> None:
    rows = play(Counting(), Looker(), tmp_path / "e.jsonl")
    assert [row["item_id"] for row in rows] == [task.task_id for task in TASKS]
    assert [row["status"] for row in rows] == ["finished", "finished", "error", "finished", "step_cap"]
    assert [row["success"] for row in rows] == [True, False, False, False, False]
    assert [row["n_steps"] for row in rows] == [1, 2, 2, 4, 4]
    assert rows[2]["error"] == "worker died" and rows[1]["score"] == 2.0 and rows[1]["tokens"]["agent"] == 4
    episodes = read_episodes(tmp_path / "e.jsonl", "real")
    assert [episode.status for episode in episodes] == [row["status"] for row in rows]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["e.jsonl", "e.jsonl.timing.json"]


def test_a_killed_rollout_resumes_after_its_whole_episodes(tmp_path: Path) -> None:
    whole = play(Counting(), Looker(), tmp_path / "whole.jsonl", run="r")
    first = tmp_path / ".cut.jsonl.r.partial"
    first.write_text("".join(json.dumps(row) + "\n" for row in whole[:2]) + '{"item_id": "textworld_3", "mo')
    world = Counting()
    resumed = play(world, Looker(), tmp_path / "cut.jsonl", run="r")
    assert world.resets == ["textworld_3", "textworld_4", "textworld_5"]
    assert resumed == whole
    assert (tmp_path / "cut.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_a_changed_run_continues_nothing(tmp_path: Path) -> None:
    (tmp_path / ".e.jsonl.old.partial").write_text('{"item_id": "textworld_1"}\n')
    world = Counting()
    play(world, Looker(), tmp_path / "e.jsonl", run="new")
    assert len(world.resets) == len(TASKS)


def test_a_replay_ends_where_its_recording_ends(tmp_path: Path) -> None:
    play(Counting(), Looker(), tmp_path / "wm.jsonl", mode="wm", model_id="m", step_cap=1)
    recorded = read_episodes(tmp_path / "wm.jsonl", "wm")
    rows = play(
        Counting(), RecordedAgent(recorded), tmp_path / "w2r.jsonl", mode="w2r", model_id="m", step_cap=50
    )
    assert [row["n_steps"] for row in rows] == [1] * 5
    assert [row["success"] for row in rows] == [True, False, False, False, False]
    assert [row["actions"] for row in rows] == [["look"]] * 5


@pytest.mark.parametrize("text", ["You win! [SUCCESS] or not", "[SUCCESS]x"])
def test_only_the_models_own_final_marker_ends_an_episode(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from wmlab.lm.base import Completion

    world = WorldModelBatch(LocalChat(tiny.tiny_lm(), 256))
    world.reset(TASKS[:1])
    answers = [Completion(text, (1,), "stop")]
    monkeypatch.setattr(world.chat, "answer", lambda *_: answers)
    step = world.step({0: "say [SUCCESS]"})[0]
    assert isinstance(step, Step) and not step.done
    answers[0] = Completion("You win! [SUCCESS]", (1,), "stop")
    step = world.step({0: "look"})[0]
    assert isinstance(step, Step) and step.done and step.success


def test_a_world_model_serves_the_loop(tmp_path: Path) -> None:
    world = WorldModelBatch(LocalChat(tiny.tiny_lm(), 8))
    rows = play(world, ScriptedAgent(), tmp_path / "wm.jsonl", mode="wm", model_id="tiny", step_cap=2)
    assert all(row["status"] == "step_cap" and row["n_steps"] == 2 for row in rows)
    assert all(
        row["messages"][1]["content"] == task.initial_observation
        for row, task in zip(rows, TASKS, strict=True)
    )


def test_a_rollout_asks_memory_with_what_the_model_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from wmlab.config.memory import MemoryRecipe
    from wmlab.lm.base import Completion
    from wmlab.memory.bank import Entry, entry_id
    from wmlab.memory.context import WorldMemory
    from wmlab.memory.retrieve import Retriever

    key = (("schema", "open"), ("object", "box"), ("room", "attic"))
    rule = Entry(
        entry_id("textworld", "transition", key),
        "transition",
        key,
        "dust",
        "",
        {"task_hashes": ["aa"]},
        2,
        (),
    )
    memory = WorldMemory(Retriever("textworld", [rule], budget=400, bm25_entries=0), MemoryRecipe())
    world = WorldModelBatch(LocalChat(tiny.tiny_lm(), 256), memory)
    asked: list[list[dict[str, str]]] = []

    def answer(keys: object, chats: list[list[dict[str, str]]]) -> list[Completion]:
        asked.extend(chats)
        return [Completion("-= Attic =-", (1,), "stop")]

    monkeypatch.setattr(world.chat, "answer", answer)
    world.reset(TASKS[:1])
    for action in ("open box", "go up", "open box", "look"):
        world.step({0: action})
    told = [chat[-1]["content"] for chat in asked]
    # The attic exists in the model's own prediction only; the block is not kept in later prompts.
    assert (told[0], told[1], told[3]) == ("open box", "go up", "look")
    assert told[2].startswith("[BEGIN TEXTWORLD_MEMORY]\n") and told[2].endswith("open box")
    assert [m["content"] for m in asked[3] if m["role"] == "user"] == [
        "open box",
        "go up",
        "open box",
        "look",
    ]


def test_a_rollout_killed_for_real_ends_with_the_same_bytes(tmp_path: Path) -> None:
    domain = make_domain("webshop", CACHE, {"size": 100})
    tasks = [load_task(domain, task) for task in domain.task_ids("test", 1, 6)]
    write_panel(tmp_path / "panel.json", "webshop", "test", tasks, {"size": 100})

    def command(name: str) -> list[str]:
        agent = '{"agent_id": "s", "kind": "scripted", "epsilon": 0.3}'
        return [
            sys.executable, "-m", "wmlab", "rollout", "real", "--agent", agent, "--panel", str(tmp_path / "panel.json"),
            "--out", str(tmp_path / name), "--cache", str(CACHE), "--batch", "1", "--workers", "1",
        ]  # fmt: skip

    subprocess.run(command("whole.jsonl"), check=True, capture_output=True)
    killed = subprocess.Popen(command("cut.jsonl"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline, partial = time.monotonic() + 60, None
    while time.monotonic() < deadline and killed.poll() is None:
        partial = next(iter(tmp_path.glob(".cut.jsonl.*.partial")), None)
        if partial is not None and partial.read_bytes().count(b"\n") >= 1:
            break
        time.sleep(0.002)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (tmp_path / "cut.jsonl").exists() and partial is not None, "it ended before it was killed"
    before = partial.read_bytes().count(b"\n")
    ended = subprocess.run(command("cut.jsonl"), check=True, capture_output=True, text=True)
    assert 1 <= before < 6
    assert (tmp_path / "cut.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert "/6 won, 0 errors" in ended.stdout
    totals = [json.loads((tmp_path / f"{n}.jsonl.meta.json").read_text()) for n in ("cut", "whole")]
    assert totals[0]["errors"] == totals[1]["errors"] == 0
