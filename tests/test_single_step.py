"""Single-step scores with a real, tiny reference agent: rules or a model read the facts, failures are no scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chat_server import ChatStub
from wmlab.config.recipes import Architecture, TokenizerRecipe
from wmlab.lm.build import new_model
from wmlab.lm.hf import HFModel
from wmlab.lm.tokenizer import train_tokenizer
from wmlab.metrics.evaluate import score_predictions, summarise
from wmlab.metrics.ssf.extractor import Extractor
from wmlab.rewards.reference import ReferenceAgent

GOLD = "You arrive at desk 1. On the desk 1, you see a mug 1, and a pen 2."
OTHER = "You arrive at desk 1. On the desk 1, you see a mug 1."


def transition(name: str, observation: str, action: str | None) -> dict[str, Any]:
    history = [{"role": "system", "content": "A room."}, {"role": "user", "content": "go to desk 1"}]
    return {
        "transition_id": name,
        "domain": "alfworld",
        "history": history,
        "observation": observation,
        "next_action": action,
        "action_type": "go",
    }


TRUTH = [transition("a", GOLD, "take mug 1"), transition("b", GOLD, None), transition("c", OTHER, "look")]
PREDICTED = [
    {"transition_id": name, "model_id": "m", "prediction": text}
    for name, text in (("a", GOLD), ("b", OTHER), ("c", "Nothing happens."))
]


@pytest.fixture(scope="module")
def agent() -> ReferenceAgent:
    tokenizer = train_tokenizer([GOLD, OTHER, "take mug 1"] * 3, TokenizerRecipe(vocab_size=300))
    architecture = Architecture(
        hidden_size=16, layers=1, heads=2, kv_heads=1, intermediate_size=32, max_position=1024
    )
    return ReferenceAgent(HFModel(new_model(architecture, tokenizer, 0).eval(), tokenizer, "tiny"))


def reading(body: dict[str, Any]) -> str:
    """A model that reads lists, and answers prose about anything else."""
    text = json.loads(body["messages"][1]["content"])["observation"]
    if "you see" not in text:
        return "I see nothing here."
    things = [thing for thing in ("mug 1", "pen 2") if thing in text]
    return "\n".join(["BEGIN_FACTS", *(f"ON(desk 1, {thing})" for thing in things), "END_FACTS"])


def test_rules_read_the_facts(agent: ReferenceAgent) -> None:
    rows = score_predictions(PREDICTED, TRUTH, agent, "p")
    assert [row["ssf"] for row in rows] == [1.0, pytest.approx(2 / 3), 0.0]
    assert [row["em"] for row in rows] == [1.0, 0.0, 0.0] and "ssf_error" not in rows[0]
    assert [row["behr"] is None for row in rows] == [False, True, False] and rows[0]["behr"] == 1.0
    found = summarise(rows, TRUTH)
    assert (found["n"], found["n_ssf"], found["n_behr"], found["n_error"]) == (3, 3, 2, 0)
    assert found["ssf"] == pytest.approx(5 / 9)


def test_a_model_reads_the_facts_and_its_failure_is_counted(
    agent: ReferenceAgent, chat: ChatStub, tmp_path: Path
) -> None:
    chat.answers = [reading]
    extractor = Extractor.opened("alfworld", "llm", chat.url, "m", tmp_path / "answers.sqlite", 2)
    assert extractor is not None and extractor.model == "m"
    rows = score_predictions(PREDICTED, TRUTH, agent, "p", extractor=extractor)
    assert [row["ssf"] for row in rows] == [1.0, pytest.approx(2 / 3), None]
    assert [row["ssf_error"] for row in rows][:2] == [None, None]
    assert "BEGIN_FACTS" in rows[2]["ssf_error"] and rows[2]["behr"] is not None
    found = summarise(rows, TRUTH)
    assert (found["n"], found["n_ssf"], found["n_error"]) == (3, 2, 1)
    assert found["ssf"] == pytest.approx(5 / 6)
    assert extractor.counts["answered"] == 2 and extractor.counts["failed"] == 1
