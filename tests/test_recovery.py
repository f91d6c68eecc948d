"""Worker processes that are killed: their episodes are played again elsewhere, counted, and come out equal."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from toy_domains import ToyDomain, ToyEnvironment
from wmlab.agents.base import Decision, Turn
from wmlab.agents.registry import Weights
from wmlab.agents.scripted import ScriptedAgent
from wmlab.domains.base import Observation, Step, Task
from wmlab.domains.jobs import in_workers
from wmlab.domains.panels import load_task, write_panel
from wmlab.domains.recovery import RETRIES, RecoveringPool
from wmlab.domains.registry import make_domain
from wmlab.domains.workers import WorkerLost
from wmlab.errors import EnvironmentFailure
from wmlab.metrics.episodes import read_episodes
from wmlab.rollout import stages
from wmlab.rollout.engine import rollout
from wmlab.rollout.replay import RecordedAgent

CACHE = Path(__file__).resolve().parents[1] / "results" / "cache"
TOY = ToyDomain("alfworld")
TASKS = [TOY.open().load(f"alfworld_{n}") for n in (2, 5, 8, 11)]  # each needs three presses


@dataclass(frozen=True)
class Counted:
    """Opens toys that write down every start, and kill their worker as often as ``deaths`` says."""

    folder: Path
    deaths: int = 0

    def __call__(self) -> ToyEnvironment:
        return Counting(self)


class Counting(ToyEnvironment):
    def __init__(self, source: Counted) -> None:
        super().__init__("alfworld")
        self.source = source

    def note(self, name: str) -> int:
        """Append to a file and say how often that was done before."""
        with (self.source.folder / name).open("a") as file:
            before = file.tell()
            file.write("x")
        return before

    def reset(self, task: Task) -> Observation:
        self.load(task.task_id)
        self.note(task.task_id)
        return super().reset(task)

    def step(self, action: str) -> Step:
        if action == "stumble" and self.note("deaths") < self.source.deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        if action == "drift":
            return Step(f"start {self.note('drift')}", 0.0, False, False, None)
        return super().step(action)


def kill(pool: Any, slot: int) -> int:
    """SIGKILL the worker of a slot; returns its process id."""
    process = pool._pool._workers[slot].process
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    return int(process.pid)


def starts(folder: Path) -> list[int]:
    return [len((folder / task.task_id).read_text()) for task in TASKS]


def test_a_killed_worker_costs_no_episode(tmp_path: Path) -> None:
    with RecoveringPool(Counted(tmp_path), 2) as pool:
        assert [first.text for first in pool.reset(TASKS)] == [t.initial_observation for t in TASKS]  # type: ignore[union-attr]
        pool.step(dict.fromkeys(range(4), "press"))
        kill(pool, 1)
        answers = pool.step(dict.fromkeys(range(4), "press"))
        assert {step.observation for step in answers.values()} == {"Pressed 2 of 3 (você: press)."}  # type: ignore[union-attr]
        assert pool.retries == {0: 0, 1: 1, 2: 0, 3: 1} and starts(tmp_path) == [1, 2, 1, 2]
        pool.release([1])
        kill(pool, 1)
        answers = pool.step({0: "press", 2: "wait", 3: "press"})
        assert [answers[i].success for i in (0, 2, 3)] == [True, False, True]  # type: ignore[union-attr]
        assert pool.retries == {0: 0, 1: 1, 2: 0, 3: 2}
        assert [first.text for first in pool.reset(TASKS[:1])] == [TASKS[0].initial_observation]  # type: ignore[union-attr]
        assert pool.retries == {0: 0}


@pytest.mark.parametrize("deaths", [1, RETRIES])
def test_an_action_that_kills_now_and_then_is_tried_again(tmp_path: Path, deaths: int) -> None:
    with RecoveringPool(Counted(tmp_path, deaths), 1) as pool:
        pool.reset(TASKS[:1])
        pool.step({0: "press"})
        step = pool.step({0: "stumble"})[0]
        assert isinstance(step, Step) and step.observation == "Pressed 1 of 3 (você: stumble)."
        assert pool.retries == {0: deaths}


def test_the_episode_that_kills_its_worker_fails_alone(tmp_path: Path) -> None:
    with RecoveringPool(Counted(tmp_path), 1) as pool:
        pool.reset(TASKS)
        pool.step(dict.fromkeys(range(4), "press"))
        answers = pool.step({0: "press", 1: "press", 2: "die", 3: "press"})
        assert isinstance(answers[2], WorkerLost) and "exit code -9" in str(answers[2])
        assert pool.retries[2] == RETRIES
        pool.release([2])
        last = pool.step(dict.fromkeys((0, 1, 3), "press"))
        assert [step.success for step in last.values()] == [True] * 3  # type: ignore[union-attr]
        # Back once after the first loss; 0 and 1 once more, after the killer took their new worker down.
        assert (pool.retries[0], pool.retries[1], pool.retries[3]) == (2, 2, 1)


def test_a_start_that_kills_is_an_error_as_data(tmp_path: Path) -> None:
    with RecoveringPool(Fatal(), 2) as pool:
        answers = pool.reset(TASKS[:2])
        assert all(isinstance(answer, WorkerLost) for answer in answers)
        assert pool.retries == {0: RETRIES, 1: RETRIES}


class Fatal:
    def __call__(self) -> ToyEnvironment:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def test_a_worker_that_hangs_is_killed_and_its_neighbour_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RecoveringPool(Counted(tmp_path), 1) as pool:
        pool.reset(TASKS[:2])
        monkeypatch.setattr("wmlab.domains.workers.STEP_TIMEOUT_S", 3.0)
        answers = pool.step({0: "press", 1: "hang"})
        assert isinstance(answers[0], Step) and answers[0].observation.startswith("Pressed 1")
        assert isinstance(answers[1], WorkerLost) and str(answers[1]).endswith("did not answer in 3 s")
        assert pool.retries == {0: 2, 1: 1}  # hanging alone is not tried again


def test_an_episode_that_differs_when_played_again_is_an_error(tmp_path: Path) -> None:
    with RecoveringPool(Counted(tmp_path), 1) as pool:
        pool.reset(TASKS[:1])
        pool.step({0: "press"})
        pool.step({0: "drift"})
        kill(pool, 0)
        answer = pool.step({0: "press"})[0]
        assert isinstance(answer, EnvironmentFailure) and not isinstance(answer, WorkerLost)
        assert str(answer) == f"{TASKS[0].task_id}: played again after its worker died, step 1 differs"


class Killing:
    """An agent beside which a worker is killed before the actions of some turns."""

    def __init__(self, agent: Any, pool: Any, turns: Sequence[int]) -> None:
        self.agent, self.pool, self.turns, self.turn = agent, pool, turns, 0
        self.killed: list[int] = []
        self.system_prompt = agent.system_prompt

    def left(self, key: str, turn: int) -> bool:
        return bool(self.agent.left(key, turn))

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        if self.turn in self.turns:
            self.killed.append(kill(self.pool, self.turns.index(self.turn) % 2))
        self.turn += 1
        decisions: list[Decision] = self.agent.act(turns)
        return decisions

    def finish(self, keys: Sequence[str]) -> None:
        self.agent.finish(keys)


def play(domain: Any, tasks: list[Task], agent: Any, mode: str, out: Path, turns: Sequence[int]) -> list[Any]:
    before = _processes()  # the tasks' own JVM
    with RecoveringPool(domain.open, 2) as pool:
        killing = Killing(agent, pool, turns)
        rows = rollout(
            pool,
            killing,
            tasks,
            mode=mode,
            agent_id="s",
            model_id=None,
            step_cap=50,
            out=out,
            batch_size=8,
        )
        during = _processes() - before
    assert len(killing.killed) == len(turns)
    assert during and not (during | set(killing.killed)) & _processes()
    return rows


def _processes() -> set[int]:
    """Living children and theirs: workers, JVMs."""
    found = set()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.status() != psutil.STATUS_ZOMBIE and "resource_tracker" not in " ".join(child.cmdline()):
                found.add(child.pid)
    return found


def plain(rows: list[Any]) -> list[Any]:
    return [{k: v for k, v in row.items() if k not in ("timing", "retries", "mode")} for row in rows]


@pytest.mark.parametrize("name", ["textworld", "webshop", "cookingworld"])
def test_a_rollout_and_its_replay_outlive_killed_workers(name: str, tmp_path: Path) -> None:
    domain = make_domain(name, CACHE)
    tasks = [load_task(domain, task_id) for task_id in domain.task_ids("test", 1, 4)]
    wanted = play(domain, tasks, ScriptedAgent(name), "real", tmp_path / "calm.jsonl", ())
    rows = play(domain, tasks, ScriptedAgent(name), "real", tmp_path / "real.jsonl", (1, 3))
    assert sum(row["retries"] for row in wanted) == 0 and plain(rows) == plain(wanted)
    assert [row["retries"] for row in rows] == [1, 1, 1, 1]
    recorded = read_episodes(tmp_path / "real.jsonl", "real")
    assert [episode.retries for episode in recorded] == [1, 1, 1, 1]
    replayed = play(domain, tasks, RecordedAgent(recorded), "w2r", tmp_path / "floor.jsonl", (2, 3))
    assert plain(replayed) == plain(wanted) and [row["retries"] for row in replayed] == [1, 1, 1, 1]


def test_the_stage_counts_its_retries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    domain = make_domain("webshop", CACHE)
    write_panel(tmp_path / "panel.json", "webshop", "test", [load_task(domain, "webshop_0")])

    class Watched(RecoveringPool):
        def step(self, actions: Any) -> Any:
            if not self._episodes[0].played:
                kill(self, 0)
            return super().step(actions)

    monkeypatch.setattr(stages, "RecoveringPool", Watched)
    agent, out = '{"agent_id": "s", "kind": "scripted"}', tmp_path / "real.jsonl"
    player = stages.player_of(agent, Weights(), None, "{}")
    stages.run_real(player, stages.Settings(tmp_path / "panel.json", out, batch=8), stages.Games(CACHE, 1))
    assert capsys.readouterr().out == f"{out}: 1/1 won, 0 errors, 1 retries\n"
    meta = json.loads(Path(f"{out}.meta.json").read_text())
    assert (meta["errors"], meta["retries"]) == (0, 1)


def fragile(job: tuple[Path, int, int]) -> tuple[int, int]:
    """Note a start in a file; die as often as asked, then answer."""
    path, number, deaths = job
    with path.open("a") as file:
        before = file.tell()
        file.write("x")
    if before < deaths:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 99:
        raise EnvironmentFailure("the job itself")
    return number, before


@pytest.mark.parametrize("workers", [1, 2])
def test_jobs_whose_process_dies_are_done_again(tmp_path: Path, workers: int) -> None:
    deaths = (0, 1, 0, RETRIES, 0)
    jobs = [(tmp_path / str(number), number, times) for number, times in enumerate(deaths)]
    results = list(in_workers(fragile, jobs, workers))
    assert [number for number, _ in results] == [0, 1, 2, 3, 4]
    assert all(before >= wanted for (_, before), wanted in zip(results, deaths, strict=True))


def test_a_job_that_always_kills_and_one_that_fails_end_with_their_error(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match="job 2 of 3: its worker process died 3 times"):
        list(in_workers(fragile, [(tmp_path / str(n), n, 9 * (n == 1)) for n in range(3)], 2))
    with pytest.raises(EnvironmentFailure, match="the job itself"):
        list(in_workers(fragile, [(tmp_path / "99", 99, 0)], 2))
    assert list(in_workers(fragile, [], 2)) == []
