"""Rewards: BehR against a hand-made forward pass, savings, failures, the registry, offline scoring."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import tiny_models as tiny
import torch
from wmlab.agents.scripts import script_of
from wmlab.errors import InputError
from wmlab.lm.build import save_model
from wmlab.metrics.ssf import ssf
from wmlab.rewards.base import RewardInput
from wmlab.rewards.behr import SHAPES, BehaviourConsistency
from wmlab.rewards.mixed import physical_facts
from wmlab.rewards.offline import score_rows
from wmlab.rewards.reference import ReferenceAgent
from wmlab.rewards.registry import NAMES, make_reward

GOLD = list(tiny.STATES.values())
ACTIONS = list(tiny.STATES)


def item(step: int = 0, action: str | None = "take key") -> RewardInput:
    return RewardInput("textworld", tiny.history(step), GOLD[step], action)


def by_hand(lm: Any, step: int, state: str, action: str) -> float:
    """Mean log-probability per action token from one plain forward pass over the whole prompt."""
    tokenizer = lm.tokenizer
    text = f"<|system|>{script_of('textworld').SYSTEM_PROMPT}<|end|>"
    for message in tiny.history(step):
        if message["role"] == "user":
            text += f"<|assistant|>Action:\n{message['content']}<|end|>"
        else:
            text += f"<|user|>{message['content']}<|end|>"
    text += f"<|user|>{state}<|end|><|assistant|>Action:\n"
    prefix = tokenizer.encode(text)
    target = tokenizer.encode(action)
    logprobs = torch.log_softmax(lm.model(input_ids=torch.tensor([prefix + target])).logits[0], -1)
    values = [float(logprobs[len(prefix) - 1 + i, t]) for i, t in enumerate(target)]
    return sum(values) / len(values)


def test_behr_is_the_change_of_the_actions_mean_logprob() -> None:
    lm = tiny.tiny_lm(3)
    wrong = "You can't see any such thing."
    record = BehaviourConsistency(ReferenceAgent(lm))([item()], [[wrong]])[0][0]
    predicted, real = by_hand(lm, 0, wrong, "take key"), by_hand(lm, 0, GOLD[0], "take key")
    assert record.l_pred == pytest.approx(predicted, abs=1e-5)
    assert record.l_real == pytest.approx(real, abs=1e-5)
    assert record.delta == pytest.approx(predicted - real, abs=1e-5)
    assert record.reward == pytest.approx(math.exp(-abs(predicted - real)), abs=1e-5)
    assert record.n_tokens == len(lm.tokenizer.encode("take key"))


def test_equal_predictions_cost_no_call_and_equal_candidates_one() -> None:
    reference = ReferenceAgent(tiny.tiny_lm(3))
    reward = BehaviourConsistency(reference)
    gold = reward([item()], [[GOLD[0], f"  {GOLD[0]}\n"]])[0]
    assert [r.reward for r in gold] == [1.0, 1.0] and [r.delta for r in gold] == [0.0, 0.0]
    assert reference.calls == 0 and reference.prefill_tokens == 0
    mixed = reward([item()], [["x", "y", "x", GOLD[0], "x"]])[0]
    assert reference.calls == 3  # the real state, x and y
    assert mixed[0] == mixed[2] == mixed[4] and mixed[3].reward == 1.0
    tokens = reference.prefill_tokens
    reward([item()], [["z"]])
    assert reference.calls == 4  # the real state is known by now
    assert reference.prefill_tokens > tokens
    reward([item()], [["z", "x"]])
    assert reference.calls == 4


def test_a_batch_equals_single_scoring() -> None:
    items = [item(0), item(1, "go east"), item(2, "put key on stove")]
    states = [["a b", "c"], ["You take nothing."], ["\n-= Garden =-", GOLD[2]]]
    together = BehaviourConsistency(ReferenceAgent(tiny.tiny_lm(3)))(items, states)
    for one, group, records in zip(items, states, together, strict=True):
        alone = BehaviourConsistency(ReferenceAgent(tiny.tiny_lm(3)))([one], [group])[0]
        assert [r.reward for r in records] == pytest.approx([r.reward for r in alone], abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_the_gold_observation_has_the_highest_reward(name: str) -> None:
    reward = make_reward(name, {}, lambda: ReferenceAgent(tiny.tiny_lm(3)))
    best = {"behr_l1": 0.0, "behr_l2": 0.0}.get(name, 1.0)
    for step, action in ((0, "take key"), (1, "go east"), (2, "put key on stove")):
        gold, other = reward([item(step, action)], [[GOLD[step], "Nothing happens at all."]])[0]
        assert gold.reward == best
        assert other.reward is not None and other.reward <= best


def test_shapes_of_delta() -> None:
    values = {name: make(2.0)(-0.25) for name, make in SHAPES.items()}
    assert values == {
        "behr": math.exp(-0.5),
        "behr_cauchy": 1 / 1.5,
        "behr_linear": 0.5,
        "behr_l1": -0.5,
        "behr_l2": -0.125,
    }


def test_a_failure_is_typed_and_never_cached() -> None:
    reference = ReferenceAgent(tiny.tiny_lm(3), max_context=150)
    reward = BehaviourConsistency(reference)
    long = reward([item()], [["word " * 200]])[0][0]
    assert long.reward is None and long.status == "failed" and "exceeds 150" in str(long.error)
    end = reward([item(3, None)], [["x", GOLD[3]]])[0]
    assert [r.status for r in end] == ["failed", "failed"]
    reference.max_context = 512
    with torch.no_grad():
        reference.lm.model.lm_head.weight.fill_(math.nan)
    before = dict(reference._cache)
    broken = reward([item(1, "go east")], [["x"]])[0][0]
    assert broken.reward is None and "finite" in str(broken.error)
    assert dict(reference._cache) == before


def test_registry_names_the_near_match_and_the_parameters() -> None:
    with pytest.raises(InputError, match="did you mean 'behr_cauchy'"):
        make_reward("behr_couchy", {}, None)
    with pytest.raises(InputError, match="unknown parameters"):
        make_reward("f1", {"scale": 2.0}, None)
    with pytest.raises(InputError, match="--reference"):
        make_reward("behr", {}, None)


def test_offline_rows_and_their_costs() -> None:
    row = {"id": 1, "domain": "textworld", "history": tiny.history(0), "gold": GOLD[0], "action": "take key"}
    reference = ReferenceAgent(tiny.tiny_lm(3))
    rows = [{**row, "candidates": [GOLD[0]]}, {**row, "id": 2, "candidates": ["x"]}]
    scored = score_rows(rows, "rows.jsonl", BehaviourConsistency(reference), reference)
    assert [r["calls"] for r in scored] == [0, 2]
    assert scored[0]["prefill_tokens"] == 0 < scored[1]["prefill_tokens"]
    assert set(scored[1]["records"][0]) == {
        "reward",
        "delta",
        "l_pred",
        "l_real",
        "n_tokens",
        "status",
        "error",
    }
    for broken in (
        {"gold": 3},
        {"history": []},
        {"history": tiny.history(0)[1:]},
        {"candidates": [1]},
        {"action": 2},
    ):
        with pytest.raises(InputError, match=r"rows\.jsonl, row 1"):
            score_rows([{**rows[1], **broken}], "rows.jsonl", BehaviourConsistency(reference), reference)


PAGE = (
    "Page 1 (Total results: 50) [SEP] B000000001 [SEP] Mug [SEP] $5.00 [SEP] B000000002 [SEP] Cup [SEP] $7.50"
)


@pytest.mark.parametrize(
    ("prediction", "gold", "value"),
    [
        (PAGE, PAGE, 1.0),
        (PAGE.replace("B000000002", "B000000003"), PAGE, (4 * 0.5 + 3 + 2) / 9),
        (PAGE.replace("$7.50", "$8.50").replace("Page 1", "Page 2"), PAGE, (4 + 3 * 0.5) / 9),
        (PAGE + " [SEP] Rating: 4.0", PAGE, 1.0),  # only what the real state shows counts
        ("", PAGE, 0.0),
        ("Price: $5.00 [SEP] Rating: 4.0", "Price: $5.00 [SEP] Rating: N.A.", 3 / 4.5),
        ("Price: $1,299.00", "Price: $1,299.00 [SEP] Rating: N.A.", 3 / 4.5),
        ("You open the red box.", "You open the box. You see a key.", 4 / 7),
        ("", "", 1.0),
        (" ", "", 1.0),
        ("word", "", 0.0),
    ],
)
def test_physical_facts(prediction: str, gold: str, value: float) -> None:
    assert physical_facts(prediction, gold) == pytest.approx(value, abs=1e-12)


def test_mixed_rewards_are_their_parts() -> None:
    reference = ReferenceAgent(tiny.tiny_lm(3))
    states = [GOLD[0], "You take the key from the box.", "x", "x"]
    behr = BehaviourConsistency(reference)([item()], [states])[0]
    for name, parameters, mix in (
        ("behr_facts", {}, lambda b, s: 0.8 * b + 0.2 * physical_facts(s, GOLD[0])),
        ("behr_facts", {"behavior_weight": 1.0, "facts_weight": 3.0}, lambda b, s: b + 3 * physical_facts(s, GOLD[0])),
        ("behr_ssf", {}, lambda b, s: b * ssf("textworld", s, GOLD[0])),
    ):  # fmt: skip
        records = make_reward(name, parameters, lambda: reference)([item()], [states])[0]
        for state, alone, record in zip(states, behr, records, strict=True):
            assert alone.reward is not None and record.delta == alone.delta and record.l_pred == alone.l_pred
            assert record.reward == pytest.approx(mix(alone.reward, state), abs=1e-12)
    failed = make_reward("behr_ssf", {}, lambda: reference)([item(action=None)], [["x"]])[0][0]
    assert failed.reward is None and failed.status == "failed" and failed.error
    with pytest.raises(InputError, match="at least 0"):
        make_reward("behr_facts", {"facts_weight": -1.0}, lambda: reference)
    with pytest.raises(InputError, match="unknown parameters"):
        make_reward("behr_ssf", {"facts_weight": 1.0}, lambda: reference)


def test_reward_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from wmlab.cli.main import main

    lm = tiny.tiny_lm(3)
    save_model(tmp_path / "agent", lm.model, lm.tokenizer)
    row = {
        "id": "a",
        "domain": "textworld",
        "history": tiny.history(0),
        "gold": GOLD[0],
        "action": "take key",
    }
    (tmp_path / "rows.jsonl").write_text(json.dumps({**row, "candidates": [GOLD[0], "x"]}) + "\n")
    out = tmp_path / "out.jsonl"
    arguments = ["score", "rewards", "--reward", "behr", "--reference", str(tmp_path / "agent")]
    with pytest.raises(SystemExit) as done:
        main([*arguments, "--input", str(tmp_path / "rows.jsonl"), "--out", str(out)])
    assert done.value.code in (0, None)
    (result,) = [json.loads(line) for line in out.read_text().splitlines()]
    assert result["records"][0]["reward"] == 1.0 and 0 < result["records"][1]["reward"] < 1
    assert capsys.readouterr().out.startswith(f"{out}: 2 rewards, 0 failed")


def test_every_bundled_gold_observation_scores_the_maximum() -> None:
    from wmlab.metrics.text import exact_match, rouge_l, token_f1

    path = Path(__file__).parent / "data" / "textworld_observations.jsonl"
    texts = [json.loads(line)["observation"] for line in path.read_text(encoding="utf-8").splitlines()]
    texts += [
        m["content"]
        for row in json.loads((path.parent / "textworld_corpus.json").read_text())
        for m in row["messages"]
    ]
    assert len(texts) > 50
    for text in texts:
        assert (exact_match(text, text), token_f1(text, text), rouge_l(text, text)) == (1.0, 1.0, 1.0)
        assert ssf("textworld", text, text) == 1.0
    items = [RewardInput("textworld", tiny.history(0), text, "take key") for text in texts]
    for name in NAMES:
        reference = ReferenceAgent(tiny.tiny_lm(3))
        records = make_reward(name, {}, lambda made=reference: made)(items, [[text] for text in texts])  # type: ignore[misc]
        best = 0.0 if name in ("behr_l1", "behr_l2") else 1.0
        assert {group[0].reward for group in records} == {best}
        assert reference.calls == 0
