"""Agents behind OpenAI-compatible servers, over real HTTP: what is sent, what ends an episode, what stops a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatStub, Raw, completion
from wmlab.agents.base import Turn
from wmlab.agents.language_model import ChatAgent
from wmlab.agents.planning.prompted import PromptedPolicy
from wmlab.agents.planning.requests import (
    Act,
    Answer,
    Candidate,
    Choose,
    Horizon,
    Imagined,
    Propose,
    Rate,
    Reflect,
)
from wmlab.agents.prompts import COT_RULE, Prompting
from wmlab.agents.registry import Weights, make_agent
from wmlab.config.decoding import Decoding
from wmlab.config.recipes import AgentSpec
from wmlab.domains.base import Observation, Step, Task
from wmlab.errors import InputError
from wmlab.lm import transport
from wmlab.lm.chat import ServedChat
from wmlab.lm.transport import AnswerFailure, ServerFailure
from wmlab.metrics.episodes import read_episodes
from wmlab.rollout.engine import rollout

TASKS = [Task(f"textworld_{n}", "textworld", "g", f"Room {n}") for n in range(1, 25)]
OPENING = [{"role": "system", "content": "s"}, {"role": "user", "content": "Room 1"}]


class Rooms:
    """Every action but "win" is answered by itself; "win" wins."""

    def reset(self, tasks: Any) -> list[Observation | Exception]:
        return [Observation(task.initial_observation, None) for task in tasks]

    def step(self, actions: Any) -> dict[int, Step | Exception]:
        return {at: Step(f"{a}!", 0.0, a == "win", a == "win", None) for at, a in actions.items()}

    def release(self, indices: Any) -> None: ...

    def close(self) -> None: ...


def agent(chat: ChatStub, concurrency: int = 4, **decoding: Any) -> ChatAgent:
    model = ServedChat([chat.url], "m", "agent", Decoding(**decoding), concurrency=concurrency)
    return ChatAgent(model, Prompting("s"))


def play(who: ChatAgent, out: Path, batch: int = 24, tasks: list[Task] = TASKS) -> list[dict[str, Any]]:
    return rollout(
        Rooms(), who, tasks, mode="real", agent_id="a", model_id=None, step_cap=3, out=out, batch_size=batch
    )


def by_room(body: dict[str, Any]) -> str:
    """Room n is won at step n modulo 4, so episodes end at different times and at the cap."""
    room = int(body["messages"][1]["content"].split()[1])
    turn = sum(message["role"] == "assistant" for message in body["messages"])
    return "Thought:\nx\n\nAction:\n" + ("win" if turn == room % 4 else f"go {turn}")


def test_episodes_are_the_same_for_any_batch_and_concurrency(chat: ChatStub, tmp_path: Path) -> None:
    chat.answers = [by_room]
    found = set()
    for batch in (1, 5, 24):
        for concurrency in (1, 8):
            out = tmp_path / f"{batch}-{concurrency}.jsonl"
            rows = play(agent(chat, concurrency), out, batch)
            assert [row["item_id"] for row in rows] == [task.task_id for task in TASKS]
            found.add(out.read_bytes())
    assert len(found) == 1 and sum(row["success"] for row in rows) == 18


def test_what_is_sent_follows_the_recipe(chat: ChatStub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(transport.KEY_VARIABLE, "sk-secret")
    chat.answers = ["Action:\nlook"]
    thinking = {"chat_template_kwargs": {"enable_thinking": False}}
    agent(chat, temperature=None, length_key="max_completion_tokens", max_new_tokens=9, extra=thinking).act(
        [Turn("k", OPENING)]
    )
    body, key = chat.requests[0]
    assert body == {"model": "m", "messages": OPENING, "max_completion_tokens": 9, **thinking}
    assert key == "Bearer sk-secret"


def test_think_blocks_are_no_part_of_the_dialogue(chat: ChatStub) -> None:
    chat.answers = ["<think>Action:\nwrong</think>Thought:\nx\n\nAction:\nwin"]
    decision = agent(chat).act([Turn("k", OPENING)])[0]
    assert (decision.output, decision.action) == ("Thought:\nx\n\nAction:\nwin", "win")


OVERFLOW = Raw(400, json.dumps({"error": {"code": "context_length_exceeded", "message": "x"}}).encode())
VLLM = Raw(400, b'{"error": {"message": "This model\'s maximum context length is 9 tokens."}}')
FILTERED = Raw(
    body=json.dumps(
        {"choices": [{"message": {"content": "Act"}, "finish_reason": "content_filter"}]}
    ).encode()
)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (OVERFLOW, "context_overflow"),
        (VLLM, "context_overflow"),
        (FILTERED, "content_filter"),
        (Raw(400, b'{"error": {"code": "content_filter"}}'), "content_filter"),
        (Raw(body=completion("Action:\nwin")[:20]), "no chat completion"),
        (Raw(400, b"<b>sk-secret</b>"), "status 400"),
    ],
)
def test_a_dialogue_without_an_answer_is_an_error_of_its_episode(
    chat: ChatStub, tmp_path: Path, bad: Raw, said: str
) -> None:
    chat.answers = [lambda body: bad if body["messages"][1]["content"] == "Room 3" else "Action:\nwin"]
    rows = play(agent(chat), tmp_path / "e.jsonl", tasks=TASKS[:4])
    assert [row["status"] for row in rows] == ["finished", "finished", "error", "finished"]
    assert said in rows[2]["error"] and "sk-secret" not in rows[2]["error"]
    assert rows[2]["actions"] == [] and rows[2]["success"] is False
    assert [episode.succeeded for episode in read_episodes(tmp_path / "e.jsonl", "real")] == [
        True, True, False, True,
    ]  # fmt: skip


def cut_short(first: list[int]) -> Callable[[dict[str, Any]], Raw | str]:
    """An answer that breaks off in the middle of its stream, once."""

    def answer(body: dict[str, Any]) -> Raw | str:
        if first:
            return "Action:\nwin"
        first.append(1)
        return Raw(body=completion("Action:\nwin")[:30], headers={"Content-Length": "900"})

    return answer


@pytest.mark.parametrize("passing", [429, 503, "cut"])
def test_what_passes_is_asked_again(chat: ChatStub, tmp_path: Path, passing: int | str) -> None:
    chat.answers = [cut_short([])] if passing == "cut" else [passing, passing, "Action:\nwin"]
    rows = play(agent(chat, concurrency=1), tmp_path / "e.jsonl", tasks=TASKS[:1])
    assert rows[0]["success"] and len(chat.requests) == (2 if passing == "cut" else 3)


def test_a_refused_key_stops_the_run_and_what_was_played_is_kept(chat: ChatStub, tmp_path: Path) -> None:
    chat.answers = ["Action:\nwin"] * 2 + [401]
    out = tmp_path / "e.jsonl"
    with pytest.raises(ServerFailure, match="status 401"):
        play(agent(chat, 1), out, batch=1, tasks=TASKS[:4])
    assert not out.exists()
    chat.answers, before = ["Action:\nwin"], len(chat.requests)
    rows = play(agent(chat, 1), out, batch=1, tasks=TASKS[:4])
    assert all(row["success"] for row in rows) and len(chat.requests) - before == 2


def test_chain_of_thought_does_not_show_earlier_thoughts() -> None:
    told = [*OPENING, {"role": "assistant", "content": "Thought:\nlong\n\nAction:\nlook"}, OPENING[1]]
    react, cot = Prompting.of("textworld"), Prompting.of("textworld", "cot")
    assert react.view(told) == told
    assert [m["content"] for m in cot.view(told)][2] == "Action:\nlook"
    assert cot.system.endswith(COT_RULE) and cot.system.startswith(react.system)


def test_the_released_opening_is_two_turns() -> None:
    view = Prompting.of("webshop", prompt="You are web shopping.", acknowledged=True).view(OPENING)
    assert [m["role"] for m in view] == ["user", "assistant", "user"] and view[1]["content"] == "Ok."


def test_an_agents_weights_fit_its_kind() -> None:
    served = AgentSpec(agent_id="a", kind="served", model="m")
    for spec, weights in (
        (served, Weights()),
        (AgentSpec(agent_id="a", kind="scripted"), Weights(urls=("http://x/v1",))),
        (AgentSpec(agent_id="a", kind="lm"), Weights()),
    ):
        with pytest.raises(InputError, match="agent a"):
            make_agent(spec, "textworld", weights, 0)
    with pytest.raises(InputError, match="has none"):
        prompted = {"source": "panel"}
        spec = AgentSpec(agent_id="a", kind="served", model="m", prompting=prompted)  # type: ignore[arg-type]
        make_agent(spec, "textworld", Weights(urls=("http://x/v1",)), 0)


GOAL = "Welcome! Open the box. Take the key from the box. Go east.\n\n-= Bedroom =-"
TURN = Turn("k", [{"role": "system", "content": "s"}, {"role": "user", "content": GOAL}])
OPTIONS = (Imagined("open box", "The box is open."), Imagined("go east", "A wall.", False))


def policy(chat: ChatStub) -> PromptedPolicy:
    return PromptedPolicy(ServedChat([chat.url], "m", "a", Decoding()), Prompting("s"), "textworld")


@pytest.mark.parametrize(
    ("said", "actions", "fallback"),
    [
        ("1. go EAST\n2. `look`\n3. fly", ["go east", "look"], False),
        ("<think>1. look</think>1. inventory\n2. go west\n3. look", ["inventory", "go west"], False),
        ("I would rather look.", None, True),
    ],
)
def test_proposals_are_listed_actions(
    chat: ChatStub, said: str, actions: list[str] | None, fallback: bool
) -> None:
    chat.answers = [said]
    answer = policy(chat).answer([Propose(TURN, 2)])[0]
    assert isinstance(answer, Answer) and answer.fallback is fallback
    listed = policy(chat)._listed(Propose(TURN, 2))
    assert [one.action for one in answer.value] == (actions or listed[:2])
    asked = chat.requests[0][0]["messages"][-1]["content"]
    assert asked.startswith(GOAL) and all(f"- {action}" in asked for action in listed)


def test_few_candidates_are_not_asked_about(chat: ChatStub) -> None:
    answer = policy(chat).answer([Propose(TURN, 99)])[0]
    assert isinstance(answer, Answer) and answer.calls == 0 and not chat.requests
    assert Candidate("look") in answer.value


@pytest.mark.parametrize(
    ("said", "place", "fallback"),
    [("2", 1, False), ("Option 2.", 1, False), ("go east", 1, False), ("Action:\ngo east", 1, False),
     ("7", 0, True), ("-1", 0, True), ("none of them", 0, True), ("", 0, True)],
)  # fmt: skip
def test_a_choice_is_a_number_or_an_action(chat: ChatStub, said: str, place: int, fallback: bool) -> None:
    chat.answers = [said]
    answer = policy(chat).answer([Choose(TURN, OPTIONS, (0.0, 0.0))])[0]
    assert isinstance(answer, Answer) and (answer.value, answer.fallback) == (place, fallback)


def test_ratings_horizons_and_reflections(chat: ChatStub) -> None:
    chat.answers = [
        "1: 7\n2) 99\n3: 1",
        "1: 5",
        "4 steps",
        "none",
        "Action:\nlook",
        "nonsense",
        AnswerFailure,
    ]
    asks = policy(chat)
    rate, horizon, reflect = Rate(TURN, OPTIONS, (0.0, 0.0)), Horizon(TURN, 3), Reflect(TURN, OPTIONS)
    found = [asks.answer([one])[0] for one in (rate, rate, horizon, horizon, reflect, reflect)]
    told = [(one.value, one.fallback) for one in found if isinstance(one, Answer)]
    assert told == [
        ([0.7, 1.0], False), ([0.5, 0.0], True), (3, False), (3, True), ("look", False), ("open box", True),
    ]  # fmt: skip


def test_a_failed_request_fails_alone(chat: ChatStub) -> None:
    chat.answers = [lambda body: OVERFLOW if "wall" in body["messages"][-1]["content"] else "Action:\nlook"]
    good, bad = policy(chat).answer([Act(TURN), Act(TURN, OPTIONS)])
    assert isinstance(good, Answer) and good.value == "look" and isinstance(bad, AnswerFailure)
