"""Decision-critical perturbations: what each does, by hand and by property; the study's scores and table."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import tiny_models as tiny
from chat_server import ChatStub
from hypothesis import given, settings
from hypothesis import strategies as st
from perturbed import transition
from ssf_properties import recorded
from wmlab.agents.react import parse_action
from wmlab.domains.conventions import with_page_actions
from wmlab.errors import InputError
from wmlab.lm.base import Sampling
from wmlab.lm.build import save_model
from wmlab.metrics.perturb.decision import PERTURBATIONS, Decision, drop_irrelevant, find_target, perturb
from wmlab.metrics.perturb.pieces import Pieces, mention, replace_mentions
from wmlab.metrics.perturb.study import draw_samples, score_samples, summarise
from wmlab.rewards.actions import ActionConsistency, MultiActionConsistency, probed
from wmlab.rewards.base import RewardInput
from wmlab.rewards.behr import BehaviourConsistency
from wmlab.rewards.reference import ReferenceAgent

DESK = "You arrive at desk 1. On the desk 1, you see a mug 1, a pen 2, a book 3, and a bowl 1."
SAFE = "You arrive at safe 1. On the safe 1, you see a watch 1, and a key 4."
PAGE = with_page_actions(
    "Instruction: [SEP] find a mug [SEP] Back to Search [SEP] B01 [SEP] Blue mug [SEP] $5.0 [SEP] B02 [SEP] Red cup",
    ["click[back to search]", "click[b01]", "click[b02]"],
)


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def decision(text: str, action: str, domain: str = "alfworld") -> Decision:
    target = find_target(domain, action, text)
    assert target is not None
    return Decision(domain, text, action, target)


@pytest.mark.parametrize(
    ("domain", "action", "text", "target"),
    [
        ("alfworld", "take mug 1 from desk 1", DESK, "mug 1"),
        ("alfworld", "go to desk 1", DESK, "desk 1"),
        ("alfworld", "take mug 2 from desk 2", DESK, "mug"),
        ("alfworld", "inventory", DESK, None),
        ("textworld", "take old key from antique trunk", "In the antique trunk is an Old  key.", "old key"),
        ("textworld", "open screen door", "A closed screen door leads east.", "screen door"),
        ("textworld", "go east", "An exit to the east.", "east"),
        ("webshop", "click[B01]", PAGE, "b01"),
        ("webshop", "click[buy now]", PAGE, None),
        ("webshop", "search[mug]", "WebShop [SEP] Search", None),
    ],
)
def test_the_target_is_what_the_observation_names_of_the_action(
    domain: str, action: str, text: str, target: str | None
) -> None:
    assert find_target(domain, action, text) == target


def test_each_perturbation_by_hand() -> None:
    one, other = decision(DESK, "take mug 1 from desk 1"), decision(SAFE, "take watch 1 from safe 1")
    texts, missing = perturb(one, [one, other], rng())
    assert missing is None and tuple(texts) == PERTURBATIONS
    assert texts["oracle"] == DESK
    assert sorted(texts["reorder"].split()) == sorted(DESK.split()) and texts["reorder"] != DESK
    # Of five pieces two name desk or mug; of the other three (pen, book, bowl) two go, the full stop stays.
    assert "You arrive at desk 1. On the desk 1, you see a mug 1" in texts["drop_irrelevant"]
    assert sum(word in texts["drop_irrelevant"] for word in ("pen 2", "book 3", "bowl 1")) == 1
    assert texts["drop_irrelevant"].endswith(".")
    assert texts["truncate"] == "You arrive at desk 1. On the desk 1, you see a mug 1, a pen 2"
    assert (
        texts["drop_target"]
        == "You arrive at desk 1. On the desk 1, you see a pen 2, a book 3, and a bowl 1."
    )
    assert texts["replace_target"] == DESK.replace("mug 1", "watch 1")
    assert texts["unrelated"] == SAFE


ROOM = (
    "-= Kitchen =-\nAh, the kitchen. You see a stove, which is big. On the table you see a cup, a jar and a note.\n\n"
    "There is an exit to the east.\n\n\nYour score has just gone up by one point.\n\n> -= Kitchen =-1/2"
)


def test_what_is_irrelevant() -> None:
    one = decision(ROOM, "take cup from table", "textworld")
    left = {drop_irrelevant(one, np.random.default_rng(seed)) for seed in range(40)}
    # Four things may go (an item of a list, three sentences), and two of them do; the layout stays as it is.
    item, sentences = (
        ", a jar and a note",
        ("Ah, the kitchen.", " You see a stove, which is big.", "There is an exit to the east."),
    )
    assert None not in left and len(left) == 6
    for text in left:
        assert text is not None
        assert (item in text) + sum(sentence.strip() in text for sentence in sentences) == 2
        assert text.startswith("-= Kitchen =-\n") and "On the table you see a cup" in text
        assert text.endswith("\n\n\nYour score has just gone up by one point.\n\n> -= Kitchen =-1/2")
    feedback = (
        "You take the cup from the table.\n\nYour score has just gone up by one point.\n\n> -= Kitchen =-1/2"
    )
    assert drop_irrelevant(decision(feedback, "put cup on stove", "textworld"), rng()) is None


def test_pieces_go_without_a_trace_in_the_layout() -> None:
    text = "First.\n\nOn it you see a cup, a jar, and a pen. Last, but not least.\nEnd"
    pieces = Pieces.of("textworld", text, items=True)
    assert pieces.pieces == (
        "First.",
        "On it you see a cup",
        "a jar",
        "a pen.",
        "Last, but not least.",
        "End",
    )
    assert pieces.without({3}) == "First.\n\nOn it you see a cup, a jar. Last, but not least.\nEnd"
    assert pieces.without({2, 3}) == "First.\n\nOn it you see a cup. Last, but not least.\nEnd"
    assert pieces.without({1, 2, 3}) == "First.\n\nLast, but not least.\nEnd"
    assert pieces.without({0, 4, 5}) == "On it you see a cup, a jar, and a pen."
    assert pieces.units({0, 1, 2, 3, 5}) == [{0}, {1, 2, 3}, {5}] and pieces.units({1, 3, 4}) == [{3}, {4}]
    assert pieces.first(3) == "First.\n\nOn it you see a cup, a jar"


def test_a_page_loses_its_target_in_the_block_too() -> None:
    one = decision(PAGE, "click[b01]", "webshop")
    other = decision(PAGE.replace("B01", "B03").replace("b01", "b03"), "click[b03]", "webshop")
    texts, missing = perturb(one, [one, other], rng())
    assert missing is None
    assert not mention("b01").search(texts["drop_target"]) and "'click[b02]'" in texts["drop_target"]
    assert texts["replace_target"] == PAGE.replace("B01", "B03").replace("b01", "b03")
    assert "Your admissible actions" not in texts["truncate"]
    assert "Instruction: [SEP] find a mug" in texts["drop_irrelevant"]  # the goal is no content to drop


def test_what_cannot_be_perturbed_says_why() -> None:
    only = decision("You see a mug 1.", "take mug 1")
    assert perturb(only, [only], rng()) == ({}, "reorder")
    alone = decision(DESK, "take mug 1 from desk 1")
    assert perturb(alone, [alone], rng()) == ({}, "replace_target")


texts = st.one_of(st.sampled_from([DESK, SAFE, PAGE, *recorded("alfworld"), *recorded("webshop")]), st.text())


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["alfworld", "webshop"]), texts, st.booleans())
def test_pieces_join_to_the_text(domain: str, text: str, items: bool) -> None:
    pieces = Pieces.of(domain, text, items=items)
    assert pieces.join() == text
    assert pieces.without(set()) == text
    assert pieces.without(set(range(len(pieces.pieces)))) == ""
    assert pieces.reordered(range(len(pieces.pieces))) == text


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(recorded("alfworld")), st.integers(0, 1000))
def test_targets_are_kept_or_lost_as_the_name_says(text: str, seed: int) -> None:
    words = [word.strip(".,") for word in text.split()]
    named = [f"{a} {b}" for a, b in pairwise(words) if b.isdecimal()]
    if not named:
        return
    one = decision(text, f"take {named[seed % len(named)]}")
    pool = [one, decision(SAFE, "take watch 1 from safe 1"), decision(DESK, "take mug 1 from desk 1")]
    made, missing = perturb(one, pool, np.random.default_rng(seed))
    assert (made, missing) == perturb(one, pool, np.random.default_rng(seed))
    if missing is not None:
        return
    target = mention(one.target)
    assert made["oracle"] == text
    assert target.search(made["drop_irrelevant"]) and target.search(made["reorder"])
    for name in ("drop_target", "replace_target", "unrelated"):
        assert not target.search(made[name]), name
    assert len(made["drop_irrelevant"]) < len(text) > len(made["drop_target"])


def test_names_are_replaced_at_once_and_in_their_case() -> None:
    swapped = replace_mentions(
        "The Mug 1 and the mug 12. MUG 1, pen 1!", {"mug 1": "pen 1", "pen 1": "mug 1"}
    )
    assert swapped == "The Pen 1 and the mug 12. PEN 1, mug 1!"


# Rewards ------------------------------------------------------------------------------------------

GOLD = list(tiny.STATES.values())


def item(**changes: Any) -> RewardInput:
    given = {"alternatives": ("go east", "open box"), **changes}
    return RewardInput("textworld", tiny.history(0), GOLD[0], "take key", **given)


def test_multi_action_behr_is_the_mean_gap_over_actions() -> None:
    reference = ReferenceAgent(tiny.tiny_lm(3))
    wrong = "You can't see any such thing."
    record = MultiActionConsistency(reference, scale=2.0)([item()], [[wrong, GOLD[0], wrong]])[0]
    gaps = []
    for action in ("take key", "go east", "open box"):
        alone = RewardInput("textworld", tiny.history(0), GOLD[0], action)
        delta = BehaviourConsistency(ReferenceAgent(tiny.tiny_lm(3)))([alone], [[wrong]])[0][0].delta
        assert delta is not None
        gaps.append(abs(delta))
    assert record[0].reward == pytest.approx(math.exp(-2.0 * sum(gaps) / 3), abs=1e-5)
    assert record[0].delta == pytest.approx(sum(gaps) / 3, abs=1e-5)
    assert record[0] == record[2] and record[1].reward == 1.0
    assert reference.calls == 6  # three actions, each after the real state and after one other


def test_probed_actions_are_the_logged_one_and_a_stable_draw() -> None:
    many = tuple(f"go {number}" for number in range(30))
    drawn = probed(item(alternatives=many), 8)
    assert drawn[0] == "take key" and len(set(drawn)) == 9
    assert drawn == probed(item(alternatives=many[::-1]), 8)
    assert probed(item(alternatives=("take key", " ")), 8) == ["take key"]
    assert len(probed(item(alternatives=()), 3)) > 1  # the domain's script knows some


def test_acs_compares_greedy_actions() -> None:
    lm = tiny.tiny_lm(3)
    reference = ReferenceAgent(lm)
    states = [GOLD[0], "x", GOLD[2], "x"]
    said = reference.act([item()], [states])[0]
    assert said[1] == said[3] and reference.calls == 3
    by_hand = []
    for state in states[:3]:
        chat = [*reference._chat(item()), {"role": "user", "content": state}]
        ids = [*lm.encode(chat), *lm.tokenizer.encode("Action:\n", add_special_tokens=False)]
        text = lm.generate_ids([ids], Sampling(0.0, 1, 32))[0][0].text
        by_hand.append(parse_action("Action:\n" + text))
    assert said[:3] == by_hand
    records = ActionConsistency(reference)([item()], [states])[0]
    assert records[0].reward == 1.0
    assert [r.reward for r in records[1:]] == [float(a == said[0]) for a in said[1:]]
    reference.max_context = 20
    cut = ActionConsistency(reference)([item()], [["y"]])[0][0]
    assert cut.reward is None and "too long" in str(cut.error)


def test_no_next_action_is_a_failure_for_both() -> None:
    end = RewardInput("textworld", tiny.history(3), GOLD[3], None)
    for reward in (MultiActionConsistency, ActionConsistency):
        records = reward(ReferenceAgent(tiny.tiny_lm(3)))([end], [["x", GOLD[3]]])[0]
        assert [r.status for r in records] == ["failed", "failed"]
    with pytest.raises(InputError, match="whole number"):
        MultiActionConsistency(ReferenceAgent(tiny.tiny_lm(3)), actions=0.5)


# Study --------------------------------------------------------------------------------------------


def desks(n: int) -> list[dict[str, Any]]:
    rows = []
    for number in range(n):
        text = f"You arrive at desk {number}. On the desk {number}, you see a mug {number}, a pen 2, a book 3, and a bowl 1."
        rows.append(transition("alfworld", number, text, f"take mug {number} from desk {number}"))
    return rows


def test_samples_are_drawn_counted_and_repeatable() -> None:
    rows = [
        *desks(8),
        {**desks(1)[0], "trajectory_id": "again", "transition_id": "again/step_000"},
        transition("alfworld", 100, "You see a mug 1.", "take mug 1"),
        transition("alfworld", 101, DESK, "inventory"),
        transition("alfworld", 102, DESK),
    ]
    samples, skipped = draw_samples(rows, 100, 1)
    assert len(samples) == 8
    assert skipped == {"no_next_action": 1, "no_target": 1, "reorder": 1, "repeated": 1}
    again, _ = draw_samples(rows, 100, 1)
    assert [sample.texts for sample in again] == [sample.texts for sample in samples]
    assert len(draw_samples(rows, 3, 1)[0]) == 3
    with pytest.raises(InputError, match="none of 1 transitions"):
        draw_samples(rows[-1:], 3, 1)


def test_alternatives_are_what_is_admissible_before_the_next_action() -> None:
    first, second = desks(2)
    later = {
        **second,
        "trajectory_id": first["trajectory_id"],
        "step": 1,
        "admissible": ["look", "go to bed 1"],
    }
    samples, _ = draw_samples([first, later], 9, 0)
    by_id = {sample.transition_id: sample for sample in samples}
    assert by_id[first["transition_id"]].item.alternatives == ("look", "go to bed 1")


def test_the_oracle_has_every_maximum_and_failures_leave_the_table() -> None:
    reference = ReferenceAgent(tiny.tiny_lm(3))
    samples, _ = draw_samples(desks(6), 6, 0)
    rows = score_samples(samples, reference)
    assert len(rows) == 6 * len(PERTURBATIONS)
    result = summarise(rows)
    assert set(result["means"]["oracle"].values()) == {1.0}
    assert result["n"] == 6 and result["n_failed"] == 0
    assert result["means"]["reorder"]["f1"] >= result["means"]["unrelated"]["f1"]
    # Text metrics invert the order (Table 1): dropping one name keeps more words than dropping half the list.
    assert result["contrast"]["f1"]["di_above_dt"] is False
    low, high = result["contrast"]["behr"]["ci95"]
    assert low <= result["contrast"]["behr"]["difference"] <= high
    broken = [{**rows[1], "behr": None, "error": "boom"} if i == 1 else row for i, row in enumerate(rows)]
    less = summarise(broken)
    assert less["n"] == 5 and less["n_failed"] == 1 and less["errors"] == {"boom": 1}


def test_the_contrast_by_hand() -> None:
    def row(sample: int, name: str, value: float) -> dict[str, Any]:
        scores = dict.fromkeys(("multi_action_behr", "acs", "f1", "rouge_l", "em"), value)
        return {"transition_id": str(sample), "domain": "x", "perturbation": name, "behr": value, "ssf": None, "error": None, **scores}  # fmt: skip

    values = {"drop_irrelevant": (0.7, 0.9), "drop_target": (0.1, 0.3)}
    rows = [row(s, name, values.get(name, (1.0, 1.0))[s]) for s in (0, 1) for name in PERTURBATIONS]
    result = summarise(rows)
    found = result["contrast"]["behr"]
    assert found["drop_irrelevant"] == pytest.approx(0.8) and found["drop_target"] == pytest.approx(0.2)
    assert found["difference"] == pytest.approx(0.6) and found["ci95"] == pytest.approx([0.6, 0.6])
    assert found["di_above_dt"] and found["dense"] and not result["contrast"]["acs"]["dense"]
    assert "ssf" not in result["contrast"] and result["means"]["oracle"]["ssf"] is None


def test_perturb_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from wmlab.cli.main import main
    from wmlab.io.tables import read_table, write_table

    lm = tiny.tiny_lm(3)
    save_model(tmp_path / "agent", lm.model, lm.tokenizer)
    write_table(tmp_path / "t.parquet", "transitions", desks(4))
    out, summary = tmp_path / "p.parquet", tmp_path / "p.json"
    arguments = ["--transitions", str(tmp_path / "t.parquet"), "--reference", str(tmp_path / "agent")]
    with pytest.raises(SystemExit) as done:
        main(["eval", "perturb", *arguments, "--samples", "3", "--out", str(out), "--summary", str(summary)])
    assert done.value.code in (0, None)
    assert len(read_table(out, "perturbations")) == 3 * len(PERTURBATIONS)
    result = json.loads(summary.read_text())
    assert result["n"] == 3 and result["means"]["oracle"]["behr"] == 1.0
    assert capsys.readouterr().out.startswith(f"{summary}: BehR DI ")
    assert (tmp_path / "p.json.meta.json").exists()


def test_metrics_that_need_a_model_of_their_own(chat: ChatStub, tmp_path: Path) -> None:
    from wmlab.cli.main import main
    from wmlab.io.tables import read_table, write_table

    lm = tiny.tiny_lm(3)
    save_model(tmp_path / "agent", lm.model, lm.tokenizer)
    (tmp_path / "bert").mkdir()
    write_table(tmp_path / "t.parquet", "transitions", desks(4))
    out, summary = tmp_path / "p.parquet", tmp_path / "p.json"
    # The judge thinks in words of one sample: that sample leaves the comparison.
    chat.answers = [lambda body: "Hm." if "mug 2" in body["messages"][1]["content"] else '{"score": 80}']
    with pytest.raises(SystemExit) as done:
        main(
            ["eval", "perturb", "--transitions", str(tmp_path / "t.parquet"), "--reference", str(tmp_path / "agent"),
             "--samples", "4", "--out", str(out), "--summary", str(summary), "--judge-url", chat.url,
             "--judge-model", "m", "--cache", str(tmp_path / "cache.sqlite"),
             "--encoder", str(tiny.save_encoder(tmp_path / "bert"))]
        )  # fmt: skip
    assert done.value.code in (0, None)
    result = json.loads(summary.read_text())
    assert result["n"] + result["n_failed"] == 4 and result["n_failed"] >= 1
    assert list(result["errors"]) == ["judge: the answer is no JSON"]
    means = result["means"]
    assert (
        means["oracle"]["judge"] == means["oracle"]["bertscore"] == 1.0 and means["reorder"]["judge"] == 0.8
    )
    assert 0 < means["unrelated"]["bertscore"] < 1 and result["contrast"]["judge"]["dense"]
    columns = pq.read_schema(out).names
    assert columns[-2:] == ["bertscore", "judge"] and len(read_table(out, "perturbations")) == 28
    meta = json.loads((tmp_path / "p.json.meta.json").read_text())
    assert meta["config"]["judge"] == "m" and meta["config"]["encoder"] == "bert"
