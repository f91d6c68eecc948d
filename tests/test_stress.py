"""The metric stress test: the values of metrics.md, by domain; determinism; changes as their names say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from perturbed import transition, transitions
from ssf_properties import recorded
from wmlab.errors import InputError
from wmlab.metrics.perturb import phrases, shop
from wmlab.metrics.perturb.names import Naming, names_by_role, pool_of, renumber, swap, swap_all
from wmlab.metrics.perturb.stress import (
    CHANGES,
    Gold,
    Kind,
    _shares,
    examples,
    golds_of,
    kinds_of,
    numbers_changed,
    stress,
    summarise,
)
from wmlab.metrics.ssf import PARSERS, ssf
from wmlab.metrics.ssf.webshop_page import read_page
from wmlab.metrics.text import exact_match, token_f1

COUNTER = "You arrive at countertop 1. On the countertop 1, you see a apple 1, a bread 1, and a cup 2."


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    rows = [row for domain in PARSERS for row in transitions(domain)]
    made = stress(rows, per_class=50, seed=0)
    assert made == stress(rows, per_class=50, seed=0)
    return {"rows": made, **summarise(made)}


@pytest.mark.parametrize("domain", PARSERS)
def test_paraphrases_keep_every_fact_and_no_exact_match(result: dict[str, Any], domain: str) -> None:
    worst = min(
        (row for row in result["rows"] if (row["domain"], row["change"]) == (domain, "paraphrase")),
        key=lambda row: row["ssf"],
    )
    assert worst["ssf"] == 1.0, (worst["gold"], worst["prediction"])
    found = result["domains"][domain]["paraphrase"]
    assert (found["em"], found["ssf"]) == (0.0, 1.0) and found["n"] >= 20


@pytest.mark.parametrize("domain", PARSERS)
def test_corruptions_score_below_paraphrases(result: dict[str, Any], domain: str) -> None:
    for change in CHANGES[1:]:
        found = result["domains"][domain][change]
        assert found["em"] == 0.0 and found["ssf"] < 0.9, (change, found)
        assert 0.0 <= found["ssf_min"] <= found["ssf"] <= found["ssf_max"] <= 1.0


def test_the_values_of_the_paper(result: dict[str, Any]) -> None:
    kinds = result["kinds"]
    location = kinds["alfworld"]["location_swap"]
    assert location["ssf_max"] == 0.0 and location["f1"] > 0.85
    ids = [row for row in result["rows"] if row["kind"] == "id_swap"]
    assert ids and {row["ssf"] for row in ids} == {0.45}
    assert min(row["f1"] for row in ids) >= 0.98
    entity = kinds["scienceworld"]["entity_swap"]
    assert entity["ssf"] <= 0.05 and entity["ssf_max"] <= 0.25


def test_swaps_by_hand() -> None:
    naming = Naming.of("alfworld", COUNTER)
    assert naming.of_roles({"place"}) == [("place", "countertop 1")]
    assert naming.of_roles({"thing"}) == [("thing", "apple 1"), ("thing", "bread 1"), ("thing", "cup 2")]
    pool = {"place": ["countertop 1", "shelf 2"], "thing": ["apple 1", "pan 1"]}
    moved = swap(naming, naming.of_roles({"place"}), pool, rng())
    assert moved == COUNTER.replace("countertop 1", "shelf 2")
    assert ssf("alfworld", moved, COUNTER) == 0.0
    assert swap(naming, naming.of_roles({"thing"}), pool, rng()) is None  # three things, one other name
    assert swap(naming, [], pool, rng()) is None
    everything = swap_all(naming, pool, rng())
    assert everything is None  # four names, and four other names are not in the pool
    everything = swap_all(naming, {**pool, "thing": [*pool["thing"], "knife 1", "fork 1"]}, rng())
    assert everything is not None and ssf("alfworld", everything, COUNTER) == 0.0
    other = renumber(naming, [("thing", "cup 2")], rng())
    assert other is not None and re.fullmatch(re.escape(COUNTER).replace(r"cup\ 2", r"cup\ (\d+)"), other)
    assert other != COUNTER


def test_roles_of_facts() -> None:
    assert names_by_role("alfworld", "You are facing the bed 1, and shelf 2. Next to it, you see a cd 1.") == {
        "place": {"bed 1", "shelf 2"}, "thing": {"cd 1"},
    }  # fmt: skip
    assert names_by_role("alfworld", "The fridge 1 is closed.") == {"place": {"fridge 1"}}
    assert names_by_role("alfworld", "You turn on the desklamp 1.") == {"thing": {"desklamp 1"}}
    connected = "anode on battery is now connected to terminal 1 on black wire"
    assert names_by_role("scienceworld", connected) == {"thing": {"battery", "black wire"}}
    assert names_by_role("webshop", "anything") == {}
    wire = Naming.of("scienceworld", "a blue wireits terminal 1 is connected to: nothing.")
    assert wire.of_roles({"thing"}) == [("thing", "blue wire")]
    assert pool_of("alfworld", ["The fridge 1 is closed.", COUNTER])["place"] == ["countertop 1", "fridge 1"]


def test_flips_by_hand() -> None:
    flip = phrases.FLIPS["alfworld"]
    assert (
        phrases.flipped("You open the safe 1. The safe 1 is open.", flip)
        == "You close the safe 1. The safe 1 is closed."
    )
    assert phrases.flipped("You turn on the desklamp 1.", flip) == "You turn off the desklamp 1."
    assert phrases.flipped("Nothing happens.", flip) is None
    assert phrases.flipped("a raw red potato", phrases.FLIPS["cookingworld"]) == "a fried red potato"
    assert (
        phrases.flipped("  dice the onion\n  fry the egg", phrases.STEPS)
        == "  chop the onion\n  roast the egg"
    )
    assert numbers_changed("measures -4 degrees", rng()) != "measures -4 degrees"
    assert numbers_changed("no number", rng()) is None


GOAL = "Instruction: [SEP] i need a mug, and price lower than 30.00 dollars [SEP] "
ITEM = GOAL + (
    "Back to Search [SEP] < Prev [SEP] color [SEP] blue [SEP] red [SEP] size [SEP] 11 oz [SEP] Blue mug, small "
    "[SEP] Price: $10.0 [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
)


def test_page_changes_cost_what_the_weights_say() -> None:
    def score(text: str | None) -> float:
        assert text is not None
        return ssf("webshop", text, ITEM)

    assert score(shop.layout(ITEM, rng())) == 1.0
    dear = shop.price_change(ITEM, rng())
    assert dear is not None and "lower than 30.00" in dear
    factor = float(re.findall(r"Price: \$([\d.]+)", dear)[0]) / 10
    assert 1.5 <= factor <= 3.0
    assert score(dear) == pytest.approx(1.0 - 0.15 * min(1.0, factor - 1), abs=1e-3)
    assert score(shop.flip(ITEM, rng())) == pytest.approx(0.8)  # four tabs of .05
    fewer = shop.option_deletion(ITEM, rng())
    assert fewer is not None
    # Two of three (option, value) pairs go: F1 of 1 and 3 is .5.
    assert score(fewer) == pytest.approx(1.0 - 0.10 * 0.5)
    other = read_page(ITEM.replace("Blue mug, small", "Red bowl, large"))
    assert score(shop.product_swap(ITEM, [other], rng())) == pytest.approx(0.8)
    assert shop.product_swap(ITEM, [read_page(ITEM)], rng()) is None
    assert shop.count_change("Page 1 (Total results: 50)", rng()) != "Page 1 (Total results: 50)"
    assert shop.id_swap(ITEM, rng()) is None


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(PARSERS), st.text(max_size=400), st.integers(0, 99))
def test_any_text_is_changed_or_refused(domain: str, text: str, seed: int) -> None:
    golds = [Gold("a", text), *(Gold(str(i), t) for i, t in enumerate(recorded(domain)[:5]))]
    for kind in kinds_of(domain, golds):
        for gold, changed in examples(kind, golds[:1], 1, seed):
            assert changed.strip() != gold.text.strip()
            assert exact_match(changed, gold.text) == 0.0
            assert 0.0 <= ssf(domain, changed, gold.text) <= 1.0


def test_shares_are_dealt_in_turn() -> None:
    assert _shares({"a": 50, "b": 50}, 50) == {"a": 25, "b": 25}
    assert _shares({"a": 3, "b": 50, "c": 50}, 50) == {"a": 3, "b": 24, "c": 23}
    assert _shares({"a": 1, "b": 2}, 50) == {"a": 1, "b": 2}
    assert _shares({}, 5) == {}


def test_golds_are_distinct_and_drawn() -> None:
    rows = [transition("alfworld", i, COUNTER if i % 2 else f"You arrive at bed {i}.") for i in range(10)]
    golds = golds_of(rows, "alfworld", 1)
    assert len(golds) == 6 and len({gold.text for gold in golds}) == 6
    kind = Kind("state", "x", lambda text, generator: f"{text} {generator.integers(10**9)}")
    assert examples(kind, golds, 4, 1) == examples(kind, golds, 4, 1) != examples(kind, golds, 4, 2)
    with pytest.raises(InputError, match="SSF parser"):
        stress([{**rows[0], "domain": "stabletoolbench"}])


def test_stress_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from wmlab.cli.main import main
    from wmlab.io.tables import read_table, write_table

    write_table(tmp_path / "a.parquet", "transitions", transitions("alfworld"))
    write_table(tmp_path / "w.parquet", "transitions", transitions("webshop"))
    given_ = ["--transitions", str(tmp_path / "a.parquet"), "--transitions", str(tmp_path / "w.parquet")]
    out, summary = tmp_path / "s.parquet", tmp_path / "s.json"
    with pytest.raises(SystemExit) as done:
        main(["eval", "stress", *given_, "--per-class", "6", "--out", str(out), "--summary", str(summary)])
    assert done.value.code in (0, None)
    rows, found = read_table(out, "stress"), json.loads(summary.read_text())
    assert found["n"] == len(rows) and set(found["domains"]) == {"alfworld", "webshop"}
    assert found["classes"]["paraphrase"]["ssf"] == 1.0
    assert rows[0]["f1"] == token_f1(rows[0]["prediction"], rows[0]["gold"])
    assert capsys.readouterr().out.startswith(f"{summary}: ")
