"""An agent with skills: where blocks stand, what is recorded, and what a wrong configuration is told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tiny_models as tiny
from skill_rows import AT_FRIDGE, KITCHEN, REFUSED, TAKE, numbered, solved
from test_skill_guidance import rule
from wmlab.agents.advised import AdvisedAgent
from wmlab.agents.base import Decision, Turn
from wmlab.agents.language_model import ChatAgent, ChoosingAgent
from wmlab.agents.prompts import Prompting
from wmlab.agents.registry import Weights
from wmlab.config.load import load_study
from wmlab.config.plan import Plan
from wmlab.domains.base import Task
from wmlab.domains.panels import write_panel
from wmlab.domains.world_model import WorldModelBatch
from wmlab.errors import InputError
from wmlab.lm.chat import LocalChat
from wmlab.memory.bank import Entry, write_bank
from wmlab.memory.retrieve import estimated_tokens
from wmlab.metrics.episodes import read_episodes
from wmlab.rollout.engine import rollout
from wmlab.rollout.stages import Settings, World, player_of, run_world_model
from wmlab.skills.distil import distil
from wmlab.skills.guidance import Guide, open_guide
from wmlab.skills.prompt import without_skill

ROOT = Path(__file__).resolve().parents[1]
REFUSED_RULE = rule("Do not repeat it.", "refused")
TASKS = [Task(f"textworld_{n}", "textworld", "g", f"{tiny.FIRST} {n}") for n in range(3)]
WITH_SKILLS = "agents: {clone-large-skill: {kind: lm, weights: clone-large, choose: true, skills: true}}\n"


class Reader:
    """Remembers what it was given and looks."""

    system_prompt = "look"

    def __init__(self) -> None:
        self.read: list[list[dict[str, str]]] = []

    def left(self, key: str, turn: int) -> bool:
        return True

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        self.read += [[dict(message) for message in turn.messages] for turn in turns]
        return [Decision("Action:\nlook", "look") for _ in turns]

    def finish(self, keys: Sequence[str]) -> None: ...


def dialogue(*turns: tuple[str, str]) -> list[dict[str, str]]:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": KITCHEN}]
    for action, answer in turns:
        messages += [
            {"role": "assistant", "content": f"Action:\n{action}"},
            {"role": "user", "content": answer},
        ]
    return messages


def test_blocks_stand_before_the_first_and_the_present_observation_of_a_copy() -> None:
    skills, _ = distil("alfworld", numbered([solved("a"), solved("b"), solved("c")]))
    reader = Reader()
    agent = AdvisedAgent(reader, Guide("alfworld", [*skills, REFUSED_RULE]))
    first, stuck = dialogue(), dialogue(AT_FRIDGE, (TAKE, REFUSED))
    free = dialogue(AT_FRIDGE, (TAKE, REFUSED), AT_FRIDGE)
    plain = [[dict(message) for message in told] for told in (first, stuck, free)]
    told = [agent.act([Turn("k", messages)])[0] for messages in (first, stuck, free)]
    assert [first, stuck, free] == plain  # what is recorded is not touched
    start = agent.guide.start("heat some apple and put it in cabinet.")
    assert start.entries and told[0].advice == tuple(one.id for one in start.entries)
    assert told[1].advice == (REFUSED_RULE.id,) and told[2].advice == ()
    for shown, messages in zip(reader.read, plain, strict=True):
        assert shown[1]["content"] == start.block + KITCHEN
        assert [{**m, "content": without_skill(m["content"])} for m in shown] == messages
    at = [["STEP_GUIDANCE" in m["content"] for m in shown] for shown in reader.read]
    assert at == [[False] * 2, [False] * 5 + [True], [False] * 8]


def played(out: Path, agent: Any, batch: int = 3) -> list[dict[str, Any]]:
    world = WorldModelBatch(LocalChat(tiny.tiny_lm(1, "wm"), 256))
    rows = rollout(
        world, agent, TASKS, mode="wm", agent_id="a", model_id="wm", step_cap=3, out=out, batch_size=batch
    )
    return [{name: value for name, value in row.items() if name != "timing"} for row in rows]


def always(*flags: str) -> list[Entry]:
    return [rule("Look around.", flag) for flag in flags]


def test_an_empty_bank_changes_nothing_and_a_batch_neither(tmp_path: Path) -> None:
    def agent() -> ChatAgent:
        return ChatAgent(LocalChat(tiny.tiny_lm(), 8), Prompting.of("textworld"))

    plain = played(tmp_path / "plain.jsonl", agent())
    assert played(tmp_path / "empty.jsonl", AdvisedAgent(agent(), Guide("textworld", []))) == plain
    assert all(row["advice"] == [] for row in plain)
    guide = Guide("textworld", always("refused", "repeated", "no_change", "in_circles"), step_budget=100)
    rows = played(tmp_path / "advised.jsonl", AdvisedAgent(agent(), guide))
    assert rows == played(tmp_path / "alone.jsonl", AdvisedAgent(agent(), guide), batch=1)
    assert any(row["advice"] for row in rows)
    assert not any("[BEGIN " in m["content"] for row in rows for m in row["messages"])
    read = read_episodes(tmp_path / "advised.jsonl", "wm", "wm")
    assert [list(episode.advice) for episode in read] == [row["advice"] for row in rows]


def test_candidates_are_those_of_the_observations_alone() -> None:
    reads = ChoosingAgent(tiny.tiny_lm())
    reader = Reader()
    AdvisedAgent(reader, Guide("textworld", always("refused"))).act([Turn("k", dialogue((TAKE, REFUSED)))])
    assert reads.candidates(reader.read[0]) == reads.candidates(dialogue((TAKE, REFUSED)))


def test_banks_are_guarded_and_given_once(tmp_path: Path) -> None:
    path = tmp_path / "bank.jsonl"
    write_bank(path, [rule("Do not.", "refused", tasks=("0123456789abcdef",))])
    opened = open_guide("alfworld", [path], '{"most_rules": 1}', estimated_tokens)
    assert opened.domain == "alfworld"
    with pytest.raises(InputError, match="evaluation tasks"):
        open_guide("alfworld", [path], "{}", estimated_tokens, frozenset({"0123456789abcdef"}))
    with pytest.raises(InputError, match="earlier bank"):
        open_guide("alfworld", [path, path], "{}", estimated_tokens)


def test_a_script_with_skills_is_refused(tmp_path: Path) -> None:
    write_panel(tmp_path / "panel.json", "textworld", "test", TASKS, {})
    write_bank(tmp_path / "bank.jsonl", [])
    scripted = '{"agent_id": "s", "kind": "scripted"}'
    with pytest.raises(InputError, match="a script reads no advice"):
        run_world_model(
            player_of(scripted, Weights(), [tmp_path / "bank.jsonl"], "{}"),
            World(tmp_path),
            Settings(tmp_path / "panel.json", tmp_path / "o.jsonl", 2, 2),
        )


@pytest.mark.parametrize(
    ("overlay", "said"),
    [
        ("agents: {scripted: {skills: true}}\n", "a script reads no advice"),
        ("agents: {x: {kind: lm, weights: scripted}}\n", "agents.x.weights: 'scripted' is not defined"),
        ("agents: {x: {kind: lm, weights: clone-large, architecture: tiny}}\n", "leave them out"),
        ("skills: {summariser: {url: http://x/v1}}\n", "skills.summariser.model"),
        ("skills: {guidance: none}\n", "skills.guidance"),
        (WITH_SKILLS + "study: {reference_agent: clone-large-skill}\n", "another agent's weights"),
    ],
)
def test_a_wrong_configuration_is_told(tmp_path: Path, overlay: str, said: str) -> None:
    (tmp_path / "o.yaml").write_text(overlay)
    with pytest.raises(InputError, match=said):
        load_study([tmp_path / "o.yaml"], base=ROOT / "config.yaml")


def test_an_agent_with_skills_in_the_plan(tmp_path: Path) -> None:
    (tmp_path / "o.yaml").write_text(WITH_SKILLS + "study: {agents: [clone-large, clone-large-skill]}\n")
    plan = Plan(load_study([tmp_path / "o.yaml"], base=ROOT / "config.yaml"))
    assert plan.lm_agents() == ["clone-large"]  # one training for both
    assert plan.acting_weights("textworld", "clone-large-skill") == [
        plan.agent_weights("textworld", "clone-large")
    ]
    assert plan.advice("textworld", "clone-large") == []
    assert [Path(path).name for path in plan.advice("textworld", "clone-large-skill")] == [
        "skills.jsonl",
        "guidance.jsonl",
    ]
