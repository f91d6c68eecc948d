"""WebShop pages and their weighted score: values of the paper, edits with known effect, hostile text."""

import json
import random
import re
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wmlab.metrics.ssf import compare, facts, ssf
from wmlab.metrics.ssf.webshop import PAPER, SCHEMES, Scheme, similarities
from wmlab.metrics.ssf.webshop import compare as score
from wmlab.metrics.ssf.webshop_page import read_page
from wmlab.metrics.text import token_f1

DATA = Path(__file__).parent / "data"
RECORDED = [json.loads(line)["observation"] for line in (DATA / "webshop_observations.jsonl").open()]
SHARED = Path(__file__).resolve().parents[2] / "shared" / "samples" / "webshop.jsonl"
RESULTS = [text for text in RECORDED if read_page(text).kind == "search"]
ITEMS = [text for text in RECORDED if read_page(text).kind == "product"]

GOAL = "Instruction: [SEP] i need a mug, and price lower than 30.00 dollars [SEP] "
SEARCH = GOAL + (
    "Back to Search [SEP] Page 1 (Total results: 50) [SEP] Next > [SEP] B09AAAAAA1 [SEP] Blue mug, small [SEP] $10.0 "
    "[SEP] B09AAAAAA2 [SEP] Red mug [SEP] $20.0 to $40.0 [SEP] B09AAAAAA3 [SEP] Green mug [SEP] $5.5 [SEP] B09AAAAAA4 "
    "[SEP] Old mug [SEP] $1.0"
)
ITEM = GOAL + (
    "Back to Search [SEP] < Prev [SEP] color [SEP] blue [SEP] red [SEP] size [SEP] 11 oz [SEP] Blue mug, small "
    "[SEP] Price: $10.0 [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
)
DONE = (
    "Thank you for shopping with us! [SEP] Your code: [SEP] None [SEP] (Paste it in your MTurk interface.) [SEP] "
    'Purchased [SEP] asin [SEP] B09AAAAAA1 [SEP] options [SEP] {"color": "blue"} [SEP] attrs [SEP] None [SEP] Target '
    "[SEP] asin [SEP] options [SEP] Goal [SEP] None [SEP] Reward [SEP] Your score (min 0.0, max 1.0) [SEP] 1.0 [SEP] "
    "Reward Details [SEP] None"
)
START = "WebShop [SEP] Instruction: [SEP] i need a mug, and price lower than 30.00 dollars [SEP] Search"
DETAIL = GOAL + "Back to Search [SEP] < Prev [SEP] Holds eleven ounces [SEP] Dishwasher safe"
BLOCK = "\n\nYour admissible actions of the current situation are: \n[\n'click[back to search]',\n'click[next >]',\n]."


def test_fields_by_hand():
    page = read_page(SEARCH + BLOCK)
    assert (page.kind, page.number, page.total) == ("search", 1, 50)
    assert page.affordances == {"back", "next"}
    assert [tuple(product) for product in page.products] == [
        ("B09AAAAAA1", "Blue mug, small", (10.0, 10.0)), ("B09AAAAAA2", "Red mug", (20.0, 40.0)),
        ("B09AAAAAA3", "Green mug", (5.5, 5.5)),
    ]  # fmt: skip
    page = read_page(ITEM)
    assert (page.kind, page.title, page.price) == ("product", "Blue mug, small", (10.0, 10.0))
    assert page.options == (("color", ("blue", "red")), ("size", ("11 oz",)))
    assert page.affordances == {"back", "previous", "description", "features", "reviews", "buy_now"}
    page = read_page(DONE + " [SUCCESS]")
    assert (page.kind, page.purchased, page.score, page.success) == ("terminal", "B09AAAAAA1", 1.0, True)
    assert page.chosen == (("color", "blue"),)
    assert read_page(START).kind == "start" and read_page(START).texts[0].startswith("i need a mug")
    assert read_page(DETAIL).texts == ("Holds eleven ounces", "Dishwasher safe")
    assert read_page("nothing of the shop").kind == "unknown"
    # The goal is the user's text: it gives no field.
    assert read_page(START.replace("mug", "Reward [SEP] mug")).kind != "product"


def test_facts_by_hand():
    assert facts("webshop", SEARCH) == {
        "PAGE(search)", "BUTTON(back)", "BUTTON(next)", "PAGE_NUMBER(1)", "TOTAL_RESULTS(50)",
        "PRODUCT(B09AAAAAA1)", "TITLE(B09AAAAAA1, Blue mug, small)", "PRICE(B09AAAAAA1, 10, 10)",
        "PRODUCT(B09AAAAAA2)", "TITLE(B09AAAAAA2, Red mug)", "PRICE(B09AAAAAA2, 20, 40)",
        "PRODUCT(B09AAAAAA3)", "TITLE(B09AAAAAA3, Green mug)", "PRICE(B09AAAAAA3, 5.5, 5.5)",
    }  # fmt: skip
    assert {"TITLE(Blue mug, small)", "PRICE(10, 10)", "OPTION(color)", "OPTION(color, red)"} < facts(
        "webshop", ITEM
    )
    assert {"PURCHASED(B09AAAAAA1)", "CHOSEN(color, blue)", "REWARD(1)"} < facts("webshop", DONE)
    assert facts("webshop", "ROOM(kitchen) [SEP] x") == {"MESSAGE(ROOM(kitchen))", "MESSAGE(x)"}


def _swap_ids(text, n=3):
    for product in read_page(text).products[:n]:
        text = text.replace(product.id, product.id[:-3] + "ZZZ", 1)
    return text


def test_swapping_the_top_ids_scores_exactly_045():
    assert ssf("webshop", _swap_ids(SEARCH), SEARCH) == 0.45
    long = [text for text in RESULTS if len(read_page(text).products) == 3 and len(text.split()) > 150]
    assert len(long) >= 5
    for text in long:
        assert ssf("webshop", _swap_ids(text), text) == 0.45
        assert token_f1(_swap_ids(text), text) >= 0.98
    # One of three: its title and price are lost with it.
    assert ssf("webshop", _swap_ids(SEARCH, 1), SEARCH) == pytest.approx(0.45 + 0.55 * 2 / 3)


@pytest.mark.parametrize(
    ("text", "old", "new", "lost"),
    [
        (SEARCH, "Page 1 ", "Page 2 ", 0.10),
        (SEARCH, "results: 50", "results: 49", 0.10),
        (SEARCH, "Next >", "< Prev", 0.10),
        (SEARCH, "Back to Search [SEP] ", "", 0.05),
        (SEARCH, "$10.0", "$12.0", 0.10 * 0.2 / 3),
        (SEARCH, "$10.0", "$35.0", 0.10 / 3),
        (SEARCH, "$20.0 to $40.0", "$20.0 to $30.0", 0.10 * 0.125 / 3),
        (SEARCH, "Red mug", "Red cup", 0.15 * 0.5 / 3),
        (SEARCH, "Old mug", "Old cup", 0.0),  # not among the first three
        (ITEM, "Blue mug, small", "Red bowl, large", 0.20),
        (ITEM, "Price: $10.0", "Price: $9.0", 0.15 * 0.1),
        (ITEM, "color [SEP]", "style [SEP]", 0.10 * 0.5 + 0.10 * 2 / 3),
        (ITEM, "[SEP] red ", "", 0.10 * 0.2),
        (ITEM, "Description [SEP] ", "", 0.05),
        (ITEM, " [SEP] Buy Now", "", 0.05),
        (DONE, "1.0 [SEP] Reward", "0.5 [SEP] Reward", 0.20),
        (DONE, "B09AAAAAA1", "B09AAAAAA2", 0.20),
        (DONE, "blue", "red", 0.20),
        (DETAIL, "eleven", "twelve", 0.60 * 0.2),
        (START, "mug", "cup", 0.60 * 0.1),
    ],
)  # fmt: skip
def test_each_field_costs_its_weight(text, old, new, lost):
    assert text.count(old) == 1 or text in (DONE, ITEM, START)
    assert ssf("webshop", text.replace(old, new), text) == pytest.approx(1.0 - lost)


def test_other_page_types_score_what_they_share():
    # Of a results page an item page has only the way back; of an item page the results have nothing else.
    assert ssf("webshop", ITEM, SEARCH) == pytest.approx(0.05)
    assert ssf("webshop", SEARCH, ITEM) == pytest.approx(0.05)
    for gold in (SEARCH, ITEM, DONE, START, DETAIL):
        for other in ("", "no page at all", DONE if gold != DONE else START):
            assert ssf("webshop", other, gold) == 0.0
    # A page cut off before its products is no results page, but its header counts.
    cut = SEARCH[: SEARCH.index(" [SEP] B09AAAAAA1")]
    assert ssf("webshop", cut, SEARCH) == pytest.approx(0.30)


def _layouts(text, rng):
    yield "Next state: " + text
    yield "The next state is:\n" + text.replace(" [SEP] ", "  [SEP]\n")
    yield text.replace(" [SEP] ", "[SEP]")
    yield text.partition("\n\nYour admissible")[0]
    yield "".join(rng.choice([" ", "\n", "\t", "  ", "\u2003"]) if c == " " else c for c in text)
    yield re.sub(r"Back to Search|Buy Now|Description|Features|Reviews", lambda m: m[0].upper(), text)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(RECORDED), st.integers(0, 10_000))
def test_layout_changes_score_one(text, seed):
    for changed in _layouts(text, random.Random(seed)):
        assert ssf("webshop", changed, text) == 1.0, changed


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(ITEMS), st.integers(0, 10_000))
def test_order_of_options_and_of_the_top_products_changes_nothing(text, seed):
    rng = random.Random(seed)
    page = read_page(text)
    # Shuffle the groups and the values in each; the page is written again around them.
    groups = [(key, rng.sample(values, len(values))) for key, values in page.options]
    rng.shuffle(groups)
    before, after = text.lower().split(" [sep] < prev [sep] ")[0], text[text.rindex("Price: ") :]
    words = [part for key, values in groups for part in (key, *values)]
    again = " [SEP] ".join([f"{text[: len(before)]} [SEP] < Prev", *words, page.title, after])
    assert ssf("webshop", again, text) == 1.0
    first, second = "B09AAAAAA1 [SEP] Blue mug, small [SEP] $10.0", "B09AAAAAA3 [SEP] Green mug [SEP] $5.5"
    turned = SEARCH.replace(first, "@").replace(second, first).replace("@", second)
    assert turned != SEARCH and ssf("webshop", turned, SEARCH) == 1.0


def test_identity_and_range():
    for left in RECORDED:
        compared = compare("webshop", left, left)
        assert compared.score == 1.0 and score(left, left) == 1.0 and not compared.both_empty
        assert any(not fact.startswith("MESSAGE(") for fact in compared.facts_gold)
        for right in RECORDED:
            assert 0.0 <= score(left, right) <= 1.0


def test_library_samples():
    if not SHARED.exists():
        pytest.skip("the project library is not beside the repository")
    for line in SHARED.open():
        text = json.loads(line)["observation"]
        assert score(text, text) == 1.0
        assert any(not fact.startswith("MESSAGE(") for fact in facts("webshop", text))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([SEARCH, ITEM]), st.permutations(range(5)))
def test_the_score_falls_with_corruption_and_is_symmetric(text, order):
    edits = {
        SEARCH: [("B09AAAAAA1", "B09ZZZZZZ1"), ("Page 1 ", "Page 3 "), ("Red mug", "Tin lid"), ("B09AAAAAA3", "B0YYYYYYY3"), ("50)", "51)")],
        ITEM: [("11 oz", "12 oz"), ("Blue mug", "Tin lid"), ("Reviews", "Rumours"), ("color", "style"), ("Buy Now", "Buy Later")],
    }[text]  # fmt: skip
    last, now = 1.0, text
    for number in order:
        now = now.replace(*edits[number])
        value = score(now, text)
        assert value < last and value == pytest.approx(score(text, now))
        last = value


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_is_scored(left, right):
    assert 0.0 <= score(left, right) <= 1.0
    assert score(left, left) == 1.0
    assert score(left, SEARCH) <= 0.5


_PIECES = ["[SEP]", " [SEP] ", "Price: $1", "Price: $", "Page 1 (Total results: 0)", "B09AAAAAA1", "$3", "Reward", "Instruction:", "WebShop",
           "Search", "< Prev", "Buy Now", "size", "Your score (min 0.0, max 1.0)", "options", "{", "asin", "[SUCCESS]", "Next state:",
           "\u0660", "Rating: 1", "Your admissible actions of the current situation are:"]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(_PIECES), max_size=12), st.sampled_from([SEARCH, ITEM, DONE, START, DETAIL]))
def test_pieces_of_pages_are_scored(pieces, gold):
    text = " [SEP] ".join(pieces)
    assert 0.0 <= score(text, gold) <= 1.0 and 0.0 <= score(gold, text) <= 1.0 and score(text, text) == 1.0
    assert isinstance(facts("webshop", text), frozenset)


@pytest.mark.parametrize(
    "piece",
    [
        *_PIECES,
        "x[SEP]",
        " ",
        "Page 1 (Total results: 5) [SEP] B09AAAAAA1 [SEP] a [SEP] ",
        "$" * 50,
        "{" * 50,
    ],
)
def test_hostile_megabyte_is_read_in_linear_time(piece):
    text = piece * (1_000_000 // len(piece))
    started = time.process_time()
    score(text, SEARCH)
    facts("webshop", text)
    assert time.process_time() - started < 10


def test_schemes_reweigh_the_same_similarities():
    gold, found = read_page(SEARCH), read_page(_swap_ids(SEARCH))
    fields = similarities(found, gold)
    assert set(fields) == set(PAPER.weights["search"]) and PAPER.score("search", fields) == 0.45
    assert SCHEMES[0].name == "paper" and len(SCHEMES) == 5
    scores = {scheme.name: scheme.score("search", fields) for scheme in SCHEMES}
    assert scores["uniform"] == pytest.approx(6 / 9)
    assert scores["product identity"] == pytest.approx(45 / 145) and scores["affordances"] == pytest.approx(
        60 / 115
    )
    assert score(_swap_ids(SEARCH), SEARCH, SCHEMES[1]) == scores["uniform"]
    for seed in range(20):
        drawn = PAPER.perturbed("random", np.random.default_rng(seed))
        assert drawn.score("search", similarities(gold, gold)) == 1.0
        assert 0.35 < drawn.score("search", fields) < 0.55
        for kind, weights in PAPER.weights.items():
            for name, weight in weights.items():
                assert 0.8 * weight <= drawn.weights[kind][name] <= 1.2 * weight
    assert Scheme("one", {"search": {"ids": 3.0}}).score("search", fields) == 0.0


def test_the_papers_weights_sum_to_one():
    assert {kind: sum(weights.values()) for kind, weights in PAPER.weights.items()} == dict.fromkeys(
        PAPER.weights, 100
    )
