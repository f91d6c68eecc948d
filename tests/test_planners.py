"""Planners over a policy and a simulator: budgets, failures, switches, the real environment as the upper bound."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tiny_models as tiny
from planning import START, Toy, UniformPolicy, decide
from wmlab.agents.base import Decision, Turn
from wmlab.agents.language_model import ChoosingAgent
from wmlab.agents.planning.itp import Itp
from wmlab.agents.planning.likelihood import LikelihoodPolicy
from wmlab.agents.planning.lookahead import Lookahead
from wmlab.agents.planning.mcts import Rap
from wmlab.agents.planning.planner import PlanningAgent
from wmlab.agents.planning.requests import (
    Answer,
    Candidate,
    Choose,
    Imagine,
    Imagined,
    Propose,
    Request,
    tally,
)
from wmlab.agents.planning.simulator import EnvironmentSimulator, WorldModelSimulator
from wmlab.agents.react import format_output
from wmlab.config.load import load_study
from wmlab.config.plan import Plan
from wmlab.domains.base import Task
from wmlab.domains.panels import load_task
from wmlab.domains.recovery import RecoveringPool
from wmlab.domains.registry import make_domain
from wmlab.errors import InputError
from wmlab.io.jsonl import write_jsonl
from wmlab.lm.chat import LocalChat
from wmlab.lm.transport import AnswerFailure
from wmlab.metrics.episodes import Episode
from wmlab.metrics.planning import PLANNING_KEYS, planning_gain
from wmlab.report.inputs import load_objects
from wmlab.report.planning import planning
from wmlab.report.render import write_table_files
from wmlab.rollout.engine import rollout
from wmlab.rollout.kept import Kept

ROOT = Path(__file__).resolve().parents[1]
CACHE = Path("results/cache")
FORK = Toy(
    {"start": {"a": "dull", "b": "won"}, "dull": {"a": "dull", "b": "won"}, "won": {}},
    won=frozenset({"won"}),
    ratings={"dull": 0.2, "won": 1.0},
)


def test_lookahead_takes_what_the_world_shows_to_win() -> None:
    plan = decide(FORK, Lookahead()(START))
    assert plan.action == "b" and plan.trace["chosen"] == 1
    assert [one["prediction"] for one in plan.trace["options"]] == ["dull", "won"]
    rated = decide(FORK, Lookahead(decide="rate")(START))
    assert rated.action == "b" and [one["value"] for one in rated.trace["options"]] == [0.2, 1.0]


def test_a_single_candidate_is_taken_without_imagining() -> None:
    toy = Toy({"start": {"only": "x"}})
    assert decide(toy, Lookahead()(START)).action == "only"
    assert [type(one) for one in toy.asked] == [Propose]


def dialogue(*actions: str) -> Turn:
    messages = list(START.messages)
    for action in actions:
        messages.append({"role": "assistant", "content": format_output(action)})
        messages.append({"role": "user", "content": "start"})
    return Turn("t", messages)


@pytest.mark.parametrize(
    ("done", "barred"),
    [((), set()), (("a", "a"), {"a"}), (("a", "b", "a"), {"b"}), (("b", "a"), set()), (("a", "b"), set())],
)
def test_the_released_loop_block_is_a_switch(done: tuple[str, ...], barred: set[str]) -> None:
    toy = Toy({"start": {"a": "x", "b": "y", "c": "z"}, "x": {}, "y": {}, "z": {}})
    decide(toy, Lookahead(block_loops=True)(dialogue(*done)))
    assert toy.asked[0] == Propose(dialogue(*done), 5, without=frozenset(barred))
    decide(toy, Lookahead()(dialogue(*done)))
    assert next(one for one in toy.asked[1:] if isinstance(one, Propose)).without == frozenset()


def test_itp_imagines_its_own_future_and_reflects() -> None:
    plan = decide(FORK, Itp(depth=3)(START))
    assert plan.trace["horizon"] == 3 and [one["action"] for one in plan.trace["future"]] == ["a"] * 3
    assert plan.action == "a"


class Faulty:
    """A policy that cannot answer about one episode."""

    system_prompt = "s"

    def answer(self, requests: Sequence[Request]) -> list[Answer | AnswerFailure]:
        return [
            AnswerFailure("no answer") if one.turn.key == "bad" else Answer(self.value(one), 3)
            for one in requests
        ]

    def value(self, one: Request) -> Any:
        return 0 if isinstance(one, Choose) else [Candidate("a"), Candidate("b")]


class Counted:
    def __init__(self) -> None:
        self.batches: list[int] = []

    def imagine(self, requests: Sequence[Imagine]) -> list[Answer | AnswerFailure]:
        self.batches.append(len(requests))
        return [Answer([Imagined(a, "x") for a in one.actions], 10, len(one.actions)) for one in requests]

    def finish(self, keys: Sequence[str]) -> None: ...


def test_a_failure_ends_its_own_episode_and_budgets_are_counted() -> None:
    simulator = Counted()
    agent = PlanningAgent(Lookahead(candidates=2), Faulty(), simulator)
    good, bad, other = agent.act([Turn(key, START.messages) for key in ("good", "bad", "other")])
    assert bad.error == "no answer" and bad.action == ""
    for one in (good, other):
        assert isinstance(one, Decision) and one.error is None and one.action == "a"
        assert one.plan is not None
        assert one.plan["calls"] == {"policy": 2, "world_model": 2}  # K + 2 in all
        assert one.plan["tokens"] == {"policy": 6, "world_model": 10}
    assert simulator.batches == [2]  # one batched call for both episodes
    assert tally([good.plan, other.plan])["world_model_calls"] == 4  # type: ignore[list-item]


TASKS = [Task(f"textworld_{n}", "textworld", "g", f"{tiny.FIRST} {n}") for n in range(1, 6)]


def planned(batch: int, cache: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """A tiny agent and a tiny world model, both of random weights."""
    simulator = WorldModelSimulator(LocalChat(tiny.tiny_lm(1), 12), TASKS)
    agent = PlanningAgent(Lookahead(candidates=3), LikelihoodPolicy(ChoosingAgent(tiny.tiny_lm())), simulator)
    turns = [
        Turn(
            task.task_id,
            [
                {"role": "system", "content": agent.system_prompt},
                {"role": "user", "content": task.initial_observation},
                {"role": "assistant", "content": format_output("look")},
                {"role": "user", "content": f"You see a box. {at}"},
            ],
        )
        for at, task in enumerate(TASKS)
    ]
    found = []
    for start in range(0, len(turns), batch):
        found += agent.act(turns[start : start + batch])
    return [{"action": one.action, "plan": one.plan} for one in found]


def rounded(rows: list[dict[str, Any]]) -> list[Any]:
    """Decisions without the last digits of their priors, which depend on the shape of a batch."""
    return [
        (
            row["action"],
            row["plan"]["chosen"],
            [(o["action"], o["prediction"], round(o["prior"], 3)) for o in row["plan"]["options"]],
        )
        for row in rows
    ]


def test_plans_do_not_depend_on_the_batch() -> None:
    assert rounded(planned(1)) == rounded(planned(2)) == rounded(planned(5))


def test_branches_are_what_whole_dialogues_give() -> None:
    chat = LocalChat(tiny.tiny_lm(1), 12)
    chats = [
        [*tiny.history(2)[:-1], {"role": "user", "content": action}] for action in ("look", "go east", "x")
    ]
    branched = chat.answer_branches(["k"] * 3, chats)
    longer = [[*tiny.history(3)[:-1], {"role": "user", "content": action}] for action in ("look", "go up")]
    again = chat.answer_branches(["k"] * 2, longer)  # goes on from the cached beginning
    fresh = [LocalChat(tiny.tiny_lm(1), 12).answer(["k"], [one])[0] for one in (*chats, *longer)]
    assert [one.text for one in (*branched, *again)] == [one.text for one in fresh]  # type: ignore[union-attr]


def played(tmp_path: Path, agent: Any, tasks: list[Task], name: str, cap: int = 20) -> list[dict[str, Any]]:
    with RecoveringPool(make_domain("textworld", CACHE).open, 1) as pool:
        return rollout(
            pool, agent, tasks, mode="real", agent_id="a", model_id=None, step_cap=cap,
            out=tmp_path / f"{name}.jsonl", batch_size=8,
        )  # fmt: skip


def test_tree_search_in_the_real_environment_solves_what_its_agent_cannot(tmp_path: Path) -> None:
    domain = make_domain("textworld", CACHE)
    task = load_task(domain, "textworld_3")
    steps = gold(domain, task)
    ahead = 2

    class Late(UniformPolicy):
        """Knows the first steps of the game and nothing after them."""

        def answer(self, requests: Sequence[Request]) -> list[Answer | AnswerFailure]:
            answers = []
            for one, found in zip(requests, super().answer(requests), strict=True):
                taken = sum(m["role"] == "assistant" for m in one.turn.messages)
                path = getattr(one, "path", ())
                if taken + len(path) < len(steps) - ahead and isinstance(one, Propose):
                    found = Answer([Candidate(steps[taken + len(path)])])
                answers.append(found)
            return answers

    reverse = lambda found: list(reversed(found))  # noqa: E731
    policy = Late("textworld", reverse)
    oracle = EnvironmentSimulator(domain.open, [task])
    try:
        base = played(tmp_path, PlanningAgent(Lookahead(1), policy, oracle), [task], "base", len(steps) + 4)
        searched = played(
            tmp_path,
            PlanningAgent(Rap(iterations=120, candidates=30, depth=ahead, exploration=0.3), policy, oracle),
            [task], "rap", len(steps) + 4,
        )  # fmt: skip
    finally:
        oracle.close()
    assert not base[0]["success"] and searched[0]["success"]


def gold(domain: Any, task: Task) -> list[str]:
    environment = domain.open(expert=True)
    environment.reset(task)
    found = environment.expert()
    environment.close()
    return list(found)


def test_lookahead_with_the_real_environment_is_not_worse_than_its_agent(tmp_path: Path) -> None:
    domain = make_domain("textworld", CACHE)
    tasks = [load_task(domain, f"textworld_{n}") for n in (1, 2, 3)]
    oracle = EnvironmentSimulator(domain.open, tasks)
    try:
        base = played(tmp_path, PlanningAgent(Lookahead(1), FollowingPolicy(), oracle), tasks, "base", 14)
        ahead = played(tmp_path, PlanningAgent(Lookahead(3), FollowingPolicy(), oracle), tasks, "ahead", 14)
    finally:
        oracle.close()
    assert sum(row["success"] for row in ahead) >= sum(row["success"] for row in base) > 0
    # What the planner was shown before it acted is what then happened: the simulator is the environment.
    for row in ahead:
        seen = [m["content"] for m in row["messages"] if m["role"] == "user"][1:]
        for step in row["plan"]:
            assert step["options"][step["chosen"]]["prediction"] == seen[step["step"]]


class FollowingPolicy(UniformPolicy):
    """The goal's commands in order: the first that was not taken yet."""

    def __init__(self) -> None:
        super().__init__("textworld")

    def answer(self, requests: Sequence[Request]) -> list[Answer | AnswerFailure]:
        answers = []
        for one, found in zip(requests, super().answer(requests), strict=True):
            done = sum(m["role"] == "assistant" for m in one.turn.messages)
            if isinstance(one, Propose):
                listed = super()._value(Propose(one.turn, 99, one.path))
                found = Answer([*listed[done:], *listed[:done]][: one.most])
            answers.append(found)
        return answers


def overlay(tmp_path: Path, text: str) -> Plan:
    (tmp_path / "o.yaml").write_text(text)
    return Plan(load_study([tmp_path / "o.yaml"], base=ROOT / "config.yaml"))


def test_the_studys_plans(tmp_path: Path) -> None:
    plan = overlay(
        tmp_path,
        "planners: {ahead: {kind: memwm, skills: true}}\n"
        "planning: {planners: [ahead, rap], agents: [clone-large], methods: [mem_sft], oracle: true}\n",
    )
    assert [folder.removeprefix("results/study/plan/") for folder in plan.plans()] == [
        f"{domain}/{world}/clone-large/{planner}"
        for world_of in ("tiny/mem_sft/seed0", "real/oracle/seed0")
        for domain in ("textworld", "webshop")
        for world in (world_of,)
        for planner in ("ahead", "rap")
    ]
    assert "skills" not in plan.planner("ahead")  # the planner's settings, not what its agent reads
    assert plan.planner_advice("webshop", "clone-large", "ahead") == plan.skill_banks("webshop")
    assert plan.planner_advice("webshop", "clone-large", "rap") == []
    nobody = overlay(tmp_path, "planning: {planners: []}\n")
    assert nobody.plans() == [] and nobody.planning_reports() == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("planning: {planners: [x]}\n", "planning.planners: 'x' is not defined"),
        ("planning: {agents: []}\n", "give `agents`"),
        ("planning: {methods: [], oracle: false}\n", "give `agents`"),
        ("planning: {agents: [scripted]}\n", "'scripted' cannot plan with `judge: likelihood`"),
        ("planners: {lookahead: {kind: rap, judge: prompted}}\n", "cannot plan with `judge: prompted`"),
        ("planners: {lookahead: {candidates: 1}}\n", "planners.lookahead.candidates"),
        ("agents: {x: {kind: served, model: m}}\n", "needs `model` and `urls`"),
        ("agents: {x: {kind: scripted, urls: [http://x/v1]}}\n", "no other has them"),
    ],
)
def test_a_wrong_plan_is_told(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        overlay(tmp_path, text)


def test_what_planning_gives(tmp_path: Path) -> None:
    def episode(n: int, won: bool, plan: tuple[Any, ...] = (), status: str = "finished") -> Episode:
        return Episode(
            f"t{n}", "real", "a", None, (), ("x",) * (n + 1), 0.0, 0.0, won, status, n + 1, None, plan=plan
        )

    step = {"step": 0, "calls": {"policy": 2, "world_model": 4}, "tokens": {"policy": 6, "world_model": 90}}
    base = [episode(n, n in (0, 1)) for n in range(4)]
    ahead = [episode(n, n in (0, 2, 3), ({**step, "fallbacks": n},)) for n in range(4)]
    ahead[3] = episode(3, True, (step,), "error")  # an errored episode is a failure whatever it says
    found = planning_gain([f"t{n}" for n in range(4)], base, ahead, "f")
    assert (found["SR_base"], found["SR_plan"], found["n_error"]) == (0.5, 0.5, 1)
    assert found["mcnemar"] == {"plan_only": 1, "base_only": 1, "p": 1.0, "method": "exact"}
    assert found["steps"] == {"plan": {"all": 2.0, "solved": 2.0}, "base": {"all": 2.5, "solved": 1.5}}
    assert found["cost"]["fallbacks"] == 3 and found["cost"]["a_step"]["world_model_tokens"] == 90.0
    low, high = found["difference_ci"]
    swapped = planning_gain([f"t{n}" for n in range(4)], ahead, base, "f")["difference_ci"]
    assert low == -high and swapped == [-high, -low]
    with pytest.raises(InputError, match="1 tasks have no pair"):
        planning_gain(["t0", "t9"], base, ahead, "f")


def test_a_kept_run_is_taken_only_for_the_same_tasks(tmp_path: Path) -> None:
    rows = [
        {"item_id": task.task_id, "task_sha256": task.sha256, "agent_id": "a", "status": "finished"}
        for task in TASKS
    ]
    write_jsonl(tmp_path / "run.jsonl", rows)
    kept = Kept(tmp_path / "kept", "key")
    assert kept.take(tmp_path / "x.jsonl", TASKS, "a") is None
    kept.put(tmp_path / "run.jsonl")
    assert kept.take(tmp_path / "x.jsonl", TASKS, "a") == rows
    assert (tmp_path / "x.jsonl").read_bytes() == (tmp_path / "run.jsonl").read_bytes()
    assert kept.take(tmp_path / "y.jsonl", TASKS[1:], "a") is None
    assert kept.take(tmp_path / "y.jsonl", TASKS, "b") is None
    write_jsonl(tmp_path / "bad.jsonl", [{**rows[0], "status": "error"}, *rows[1:]])
    other = Kept(tmp_path / "kept", "other")
    other.put(tmp_path / "bad.jsonl")
    assert other.take(tmp_path / "z.jsonl", TASKS, "a") is None  # a run with an error is played again


def test_the_table_of_planning(tmp_path: Path) -> None:
    def gain(place: str, planner: str, won: float, base: float = 0.25) -> str:
        path = tmp_path / "plan" / place / planner / "gain.json"
        path.parent.mkdir(parents=True)
        names = ("policy_calls", "world_model_calls", "policy_tokens", "world_model_tokens")
        record = {
            "planner": planner, "world_model": "m", "n": 8, "n_error": 0, "SR_plan": won, "SR_base": base,
            "SR_plan_ci": [0.0, 1.0], "SR_base_ci": [0.0, 1.0], "difference": won - base,
            "difference_ci": [-0.1, 0.4], "mcnemar": {"plan_only": 2, "base_only": 0, "p": 0.5},
            "steps": {"plan": {"solved": 7.0}, "base": {"solved": None}},
            "cost": {"a_step": dict.fromkeys(names, 2.0)},
        }  # fmt: skip
        path.write_text(json.dumps(record))
        return str(path)

    paths = [
        gain("textworld/tiny/behr/seed0/clone", "rap", 0.375),
        gain("textworld/tiny/behr/seed0/clone", "lookahead", 0.5),
        gain("textworld/real/oracle/seed0/clone", "lookahead", 0.75),
    ]
    table = planning(load_objects(paths, PLANNING_KEYS))
    shown = [
        [row.values[key].value for key in ("planner", "method", "sr", "difference")] for row in table.rows
    ]
    assert shown == [
        ["none", None, 0.25, None],
        ["lookahead", "BehR", 0.5, 0.25],
        ["lookahead", "Real (oracle)", 0.75, 0.5],
        ["rap", "BehR", 0.375, 0.125],
    ]
    assert table.marks[2, "sr"] == "best" and table.marks[1, "sr"] == "second"
    write_table_files(table, tmp_path / "tables")
    assert "Real (oracle)" in (tmp_path / "tables" / "planning.tex").read_text()
    with pytest.raises(InputError, match="the same study cell"):
        other = tmp_path / "again" / "plan" / "textworld/tiny/behr/seed0/clone" / "rap" / "gain.json"
        other.parent.mkdir(parents=True)
        other.write_text(Path(paths[0]).read_text())
        load_objects([*paths, str(other)], PLANNING_KEYS)
