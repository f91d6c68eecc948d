"""Text metrics and pair scoring against their definitions (metrics.md section 3)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score import rouge_scorer
from wmlab.errors import InputError
from wmlab.metrics.score import score_pairs
from wmlab.metrics.text import (
    exact_match,
    exact_match_batch,
    rouge_l,
    rouge_l_batch,
    token_f1,
    token_f1_batch,
)

WORDS = st.lists(st.sampled_from(["open", "the", "chest", "7", "Drawer", "key"]), max_size=12).map(" ".join)
METRICS = [exact_match, token_f1, rouge_l]


def test_exact_match_strips_and_covers_the_success_marker():
    assert exact_match("\n\nDone. > \n", "Done. >") == 1.0
    assert exact_match("Done. [SUCCESS]", "Done.") == 0.0
    assert exact_match("done.", "Done.") == 0.0


@pytest.mark.parametrize(
    ("prediction", "gold", "expected"),
    [
        ("", "", 1.0),
        (" \n", "", 1.0),
        ("", "a", 0.0),
        ("a a b", "a b b", 2 / 3),
        ("A b", "a B", 1.0),
        ("a", "a a a", 0.5),
        ("Straße offen", "STRASSE offen", 1.0),
    ],
)
def test_token_f1_by_hand(prediction, gold, expected):
    assert token_f1(prediction, gold) == pytest.approx(expected)


def test_rouge_l_by_hand():
    # LCS of "the cat sat on mat" and "the cat on the mat" is "the cat on mat": 2 * 4 / (5 + 5).
    assert rouge_l("the cat sat on mat", "the cat on the mat") == pytest.approx(0.8)
    assert rouge_l("b a", "a b") == pytest.approx(0.5)
    assert rouge_l("", "") == 1.0
    assert rouge_l("", "a") == 0.0


@pytest.mark.parametrize("text", ["打开 柜子", "Дверь закрыта", "🗝️", "الباب مفتوح", "-= Kitchen =-"])
def test_identical_text_scores_one_in_any_script(text):
    assert [metric(text, text) for metric in METRICS] == [1.0, 1.0, 1.0]


@settings(max_examples=60, deadline=None)
@given(WORDS, WORDS)
def test_rouge_l_agrees_with_rouge_score_on_ascii_alphanumerics(prediction, gold):
    oracle = (
        rouge_scorer.RougeScorer(["rougeL"], use_stemmer=False).score(gold, prediction)["rougeL"].fmeasure
    )
    expected = oracle if prediction or gold else 1.0
    assert rouge_l(prediction, gold) == pytest.approx(expected)


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_bounds_symmetry_and_order(left, right):
    for metric in METRICS:
        assert 0.0 <= metric(left, right) <= 1.0
        assert metric(left, left) == 1.0
        assert metric(left, right) == metric(right, left)
    assert rouge_l(left, right) <= token_f1(left, right) + 1e-12  # an LCS is a common multiset


def test_batches_keep_order_and_refuse_unequal_lengths():
    left, right = ["a", "a b"], ["a", "b a"]
    assert exact_match_batch(left, right) == [1.0, 0.0]
    assert token_f1_batch(left, right) == [1.0, 1.0]
    assert rouge_l_batch(left, right) == [1.0, 0.5]
    with pytest.raises(ValueError, match="shorter"):
        token_f1_batch(["a"], [])


def test_score_pairs_gives_numbers_and_facts_or_an_error():
    pairs = [
        {"id": "a", "prediction": "You open wooden door.", "gold": "You open wooden door."},
        {"id": "b", "prediction": "", "gold": ""},
        {"id": "c", "prediction": None, "gold": "x"},
        {"id": "d", "prediction": 3, "gold": "x"},
        "not an object",
    ]
    rows = score_pairs("textworld", pairs, ["em", "f1", "rouge_l", "ssf"])
    facts = ["DID(open, wooden door)"]
    assert rows[0] == {
        "id": "a", "em": 1.0, "f1": 1.0, "rouge_l": 1.0, "ssf": 1.0, "facts_prediction": facts, "facts_gold": facts
    }  # fmt: skip
    assert rows[1]["ssf"] == 1.0 and rows[1]["flags"] == ["ssf_both_empty"]
    assert [set(row) for row in rows[2:]] == [{"id", "error"}] * 3
    assert rows[2]["error"].startswith("pair 3: prediction is missing")
    assert "int, not text" in rows[3]["error"]


@pytest.mark.parametrize(
    ("domain", "metrics", "named"),
    [("textworld", ["em", "bleu"], "bleu"), ("textworld", [], "none given"), ("nowhere", ["ssf"], "nowhere")],
)
def test_score_pairs_refuses_what_it_cannot_compute(domain, metrics, named):
    with pytest.raises(InputError, match=named):
        score_pairs(domain, [], metrics)


def test_score_pairs_needs_no_parser_for_text_metrics():
    rows = score_pairs("nowhere", [{"id": 1, "prediction": "a", "gold": "a b"}], ["f1"])
    assert rows == [{"id": 1, "f1": pytest.approx(2 / 3)}]
