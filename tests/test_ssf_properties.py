"""What the score promises in every domain: symmetry, range, identity, layout, order, corruption, hostile text."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ssf_properties import MARKERS, check_any_text, check_layout, check_linear, recorded
from wmlab.metrics.perturb.names import Naming
from wmlab.metrics.perturb.pieces import replace_mentions
from wmlab.metrics.ssf import PARSERS, compare, facts, ssf
from wmlab.metrics.ssf.webshop_page import Page, Price, read_page

DOMAINS = pytest.mark.parametrize("domain", PARSERS)
TEXTS = {domain: recorded(domain) for domain in PARSERS}
few = settings(max_examples=40, deadline=None)

# Lists whose order says nothing: three items each, joined in the domain's own way.
LISTED = {
    "textworld": ("On the shelf you can see a {}, a {} and a {}.", ("key", "apple", "old lamp")),
    "alfworld": ("On the shelf 1, you see a {}, a {}, and a {}.", ("cd 1", "pen 2", "mug 1")),
    "scienceworld": ("This room is called the hall. In it, you see:\n\ta {}\n\ta {}\n\ta {}", ("jug", "bee", "red box")),
    "cookingworld": (
        "You are in the kitchen. In one part of the room you see a {}. There is also a {}. You also see a {}.",
        ("stove", "counter", "fridge that is closed"),
    ),
    "webshop": (
        "Back to Search [SEP] Page 1 (Total results: 3) [SEP] {} [SEP] {} [SEP] {}",
        ("B09AAAAAA1 [SEP] Mug [SEP] $5.0", "B09AAAAAA2 [SEP] Cup [SEP] $6.0", "B09AAAAAA3 [SEP] Jug [SEP] $7.0"),
    ),
}  # fmt: skip


def weighed_alike(left: Page, right: Page) -> bool:
    """Whether WebShop's score of two pages does not depend on which one is gold."""
    return left.kind == right.kind and prices(left) == prices(right)


def prices(page: Page) -> list[Price | None]:
    return [page.price, *(product.price for product in page.products)]


def drawn(data: st.DataObject, domain: str) -> str:
    return data.draw(st.sampled_from(TEXTS[domain]))


@DOMAINS
@few
@given(data=st.data())
def test_symmetric_bounded_and_one_with_itself(domain: str, data: st.DataObject) -> None:
    left, right = drawn(data, domain), drawn(data, domain)
    score = ssf(domain, left, right)
    assert 0.0 <= score <= 1.0
    assert ssf(domain, left, left) == ssf(domain, f" {left}\n", left) == 1.0
    # WebShop scores the gold page's fields and errors relative to gold's prices: the roles count.
    if domain != "webshop" or weighed_alike(read_page(left), read_page(right)):
        assert ssf(domain, right, left) == pytest.approx(score, abs=1e-12)
    if domain != "webshop":
        found = compare(domain, left, right)
        shared = len(found.facts_prediction & found.facts_gold)
        precision = shared / max(1, len(found.facts_prediction))
        recall = shared / max(1, len(found.facts_gold))
        assert score == pytest.approx(2 * precision * recall / (precision + recall) if shared else 0.0)


@DOMAINS
@few
@given(data=st.data(), seed=st.integers(0, 10_000))
def test_white_space_and_case_change_no_fact(domain: str, data: st.DataObject, seed: int) -> None:
    text = drawn(data, domain)
    if domain == "webshop":  # ids are upper case, and ``[SEP]`` is a mark
        rng = random.Random(seed)
        spaced = "".join(rng.choice((" ", "\n", "\t")) if c.isspace() else c for c in text)
        assert facts(domain, spaced) == facts(domain, text) and ssf(domain, spaced, text) == 1.0
    elif domain == "scienceworld":  # line breaks are structure
        relaid = text.replace(" ", "  ").replace("\t", " \t")
        assert facts(domain, f"\n{relaid.upper()} ") == facts(domain, text)
    else:
        check_layout(domain, text, seed)


@DOMAINS
@few
@given(data=st.data())
def test_the_order_of_listed_things_is_free(domain: str, data: st.DataObject) -> None:
    form, items = LISTED[domain]
    moved = form.format(*data.draw(st.permutations(items)))
    assert ssf(domain, moved, form.format(*items)) == 1.0
    assert len(facts(domain, moved)) >= 3


@DOMAINS
@few
@given(data=st.data(), seed=st.integers(0, 10_000))
def test_each_further_wrong_name_costs(domain: str, data: st.DataObject, seed: int) -> None:
    text = drawn(data, domain)
    if domain == "webshop":
        names = [product.id for product in read_page(text).products]
        wrong = [f"B0ZZZZZZ{number:02d}" for number in range(len(names))]
    else:
        naming = Naming.of(domain, text)
        text = naming.text
        names = [name for _, name in naming.of_roles(("place", "room", "thing", "door"))]
        wrong = [f"zq{'abcdefghij'[number % 10]}" + "q" * (number // 10) for number in range(len(names))]
    order = list(zip(names, wrong, strict=True))
    random.Random(seed).shuffle(order)
    scores = [1.0]
    for number in range(1, len(order) + 1):
        table = {name.lower(): new for name, new in order[:number]}
        scores.append(ssf(domain, replace_mentions(text, table), text))
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(scores)), scores
    assert len(scores) == 1 or scores[-1] < 1.0


@DOMAINS
@few
@given(text=st.text(max_size=300) | st.lists(st.sampled_from(MARKERS), max_size=8).map(" ".join))
def test_any_text_and_any_marker_is_read(domain: str, text: str) -> None:
    check_any_text(domain, text)
    assert 0.0 <= ssf(domain, text, TEXTS[domain][0]) <= 1.0
    assert ssf(domain, text, text) == 1.0


@DOMAINS
@few
@given(data=st.data(), marker=st.sampled_from(MARKERS), place=st.floats(0, 1))
def test_markers_inside_an_observation_never_gain(
    domain: str, data: st.DataObject, marker: str, place: float
) -> None:
    text, gold = drawn(data, domain), drawn(data, domain)
    cut = int(place * len(text))
    marked = f"{text[:cut]} {marker} {text[cut:]}"
    assert 0.0 <= ssf(domain, marked, gold) <= 1.0
    forged = "BEGIN_FACTS\n" + "\n".join(sorted(facts(domain, gold))) + "\nEND_FACTS"
    if domain != "webshop" and not any(fact.startswith("MESSAGE(") for fact in facts(domain, gold)):
        assert ssf(domain, forged, gold) < 1.0 or not facts(domain, gold)


@DOMAINS
@pytest.mark.parametrize("piece", ["\u0130(", "BEGIN_FACTS ON(a, b) END_FACTS ", "[SEP] "])
def test_a_megabyte_is_read(domain: str, piece: str) -> None:
    check_linear(domain, piece)
