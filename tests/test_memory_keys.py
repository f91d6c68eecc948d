"""World memory's keys: hand-made histories, and WebShop sessions against the shop's own."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_rows import KITCHEN, chat, shop_pages, shop_rows
from wmlab.domains.webshop import pages
from wmlab.memory import keys, shop
from wmlab.memory.bank import entry_id
from wmlab.memory.evidence import evidence_of, object_ids, pattern

TEXT = st.text(max_size=60)


@pytest.mark.parametrize(
    ("action", "named"),
    [
        ("take the apple 1 from fridge 1", ("apple 1", "fridge 1")),
        ("go to fridge 1", ("fridge 1", "")),
        ("put apple 1 in/on countertop 2", ("apple 1", "countertop 2")),
        ("move apple 1 to countertop 2", ("apple 1", "countertop 2")),
        ("pick up metal pot", ("metal pot", "")),
        ("look around", ("", "")),
        ("look", ("", "")),
        ("", ("", "")),
        ("use thermometer in inventory on water", ("thermometer", "water")),
        ("connect terminal 1 on red wire to anode", ("terminal 1 on red wire", "anode")),
        ("Open  Door to the Hallway", ("door", "hallway")),
    ],
)
def test_what_an_action_names(action: str, named: tuple[str, str]) -> None:
    assert keys.arguments(action) == named


def test_alfworld_fields_by_hand() -> None:
    history = chat(
        KITCHEN,
        *("go to cabinet 1", "You arrive at cabinet 1.", "go to shelf 9", "Nothing happens."),
        *("go to fridge 1", "You arrive at fridge 1.", "take apple 2 from fridge 1"),
    )
    assert keys.fields_of("alfworld", history, "take apple 2 from fridge 1") == {
        "goal": "pick_heat_then_place_in_recep",
        "schema": "take",
        "object": "apple",
        "target": "fridge",
        "room": "kitchen",
        "seen": "cabinet,fridge",
    }
    (chain,) = keys.query("alfworld", history, "take apple 2 from fridge 1").chains
    assert len(chain) == 6
    assert chain[-1] == ("transition", (("schema", "take"),))
    assert chain[3] == ("transition", (("schema", "take"), ("object", "apple"), ("target", "fridge")))


def test_the_start_does_not_change_with_a_memory_block_before_it() -> None:
    block = "[BEGIN ALFWORLD_MEMORY]\na sofa 1 is a sofa 2\n[END ALFWORLD_MEMORY]\n\n"
    plain, told = chat(KITCHEN, "look"), chat(block + KITCHEN, "look")
    assert keys.query("alfworld", plain, "look") == keys.query("alfworld", told, "look")


def test_fields_without_a_value_fall_out_and_equal_keys_are_asked_once() -> None:
    fields = dict.fromkeys(keys.FIELDS, "") | {"schema": "look"}
    for domain in keys.BACK_OFF:
        assert keys.chain(domain, fields) == ((keys.MEMORY_KIND[domain], (("schema", "look"),)),)


def test_scienceworld_asks_its_caches() -> None:
    first = "Task Description:\nYour task is to boil water.\nThis room is called the kitchen. In it, you see: a sink."
    history = chat(first, "go to hallway", "You move to the hallway.", "look around")
    asked = keys.query("scienceworld", history, "look around").chains
    assert dict(asked[0][0][1]) == {"goal": "boil", "schema": "look", "room": "hallway"}
    assert asked[1:] == (
        (("state_cache", (("cache", "menu"), ("schema", "look"))),),
        (("state_cache", (("cache", "room"), ("subject", "hallway"))),),
    )
    read = keys.query("scienceworld", history, "use thermometer in inventory on water").chains[-1]
    assert read == (("state_cache", (("cache", "reading"), ("subject", "water"))),)


def test_rooms_of_the_text_games() -> None:
    textworld = chat("-= Bedroom =-\nA bed.", "go east", "-= Kitchen =-\n> -= Kitchen =-0/2", "open fridge")
    assert keys.fields_of("textworld", textworld, "open fridge")["room"] == "kitchen"
    cooking = chat("You are in the corridor. ", "look around", "Nothing new.", "open fridge")
    assert keys.fields_of("cookingworld", cooking, "open fridge")["room"] == "corridor"


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(keys.BACK_OFF)), TEXT, TEXT, TEXT)
def test_any_text_has_a_chain_that_ends_with_the_verb(
    domain: str, first: str, shown: str, action: str
) -> None:
    chain = keys.query(domain, chat(first, "look", shown, action), action).chains[0]
    assert [name for name, _ in chain[-1][1]] == ["schema"]
    sizes = [len(key) for _, key in chain]
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == len(sizes)
    for (_, general), (_, specific) in zip(chain[1:], chain, strict=False):
        assert set(general) < set(specific)


def test_a_session_of_the_shop_by_hand() -> None:
    rows = shop_rows("a")
    places = [shop.locate(row["history"]) for row in rows]
    assert places[0] == shop.Place("results", "blue mug")
    assert places[1] == shop.Place("item", "blue mug", asin="B000000001")
    assert places[2].options == (("size", "large"),)
    assert (places[3].page, places[3].tab) == ("tab", "description")
    assert shop.probes(places[2])[0][1] == (
        ("page", "item"),
        ("asin", "B000000001"),
        ("options", "size: large"),
    )
    shown = shop_pages()
    back = shop.follow(places[3], "click[< Prev]", shown["tab"])
    assert back == places[2]
    assert shop.follow(back, "click[green]", shown["item"]) == back  # not offered
    assert shop.follow(back, "click[small]", shown["item"]).options == (("size", "small"),)
    up = shop.follow(back, "click[< Prev]", shown["item"])
    assert up == places[0]
    assert shop.follow(up, "click[next >]", shown["results"]).number == 2
    assert shop.follow(up, "click[back to search]", shown["results"]) == shop.Place()


def test_pages_as_records() -> None:
    shown = shop_pages()
    results, item = shop.Place("results", "blue mug"), shop.Place("item", asin="B000000001")
    assert shop.record(results, shown["results"]) == (
        "search[blue mug] page 1 (Total results: 12) [SEP] B000000001 [SEP] Blue Mug [SEP] $9.99"
        " [SEP] B000000002 [SEP] Red Cup [SEP] $5.00"
    )
    assert shop.record(item, shown["item"]) == (
        "product B000000001 [SEP] size [SEP] small [SEP] large [SEP] color [SEP] red [SEP] Blue Mug [SEP] Price: $9.99"
    )
    assert shop.record(results, shown["item"]) is None
    assert shop.record(shop.Place(), shown["start"]) is None
    assert shop.record(results, "no page") is None


def test_a_page_that_the_history_shows_is_not_asked_for() -> None:
    rows, shown = shop_rows("a"), shop_pages()
    assert shop.query(rows[1]["history"]).words == "Blue Mug"  # the title that the results page gave
    assert shop.query(rows[1]["history"]).pages == "item"
    chosen = shop.query(rows[2]["history"])  # the product is shown, the chosen option is not
    assert [key[-1] for ((_, key),) in chosen.chains] == [("options", "size: large")] and not chosen.words
    back = [*rows[1]["history"], {"role": "assistant", "content": shown["item"]}]
    again = shop.query([*back, {"role": "user", "content": "click[< prev]"}])
    assert again.chains == () and not again.words
    anew = shop.query([*back, {"role": "user", "content": "search[red cup]"}])
    assert (anew.words, anew.pages) == ("red cup", "results")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT), max_size=6), TEXT)
def test_any_session_has_a_place(turns: list[tuple[str, str]], last: str) -> None:
    said = [text for pair in turns for text in pair]
    assert len(shop.query(chat("start", *said, last)).chains) <= 1


def test_markers_of_the_shop_are_those_of_its_pages() -> None:
    assert pages.read(shop_pages()["item"]) is not None


def test_patterns_by_hand() -> None:
    action = "take apple 1 from fridge 1"
    assert pattern("alfworld", "TAKEN(apple 1, fridge 1)", action) == "TAKEN(object, target)"
    assert pattern("alfworld", "ON(countertop 2, apple 12)", action) == "ON(countertop, apple)"
    assert pattern("alfworld", "ADMISSIBLE(go to fridge 1)", action) is None
    assert pattern("scienceworld", "TEMPERATURE(23, celsius)", "look") == "TEMPERATURE(23, celsius)"


def test_evidence_by_hand() -> None:
    row = {"action": "open fridge 1", "observation": "x"}
    told = {
        "x": ["STATE(fridge 1, open)", "IN(fridge 1, apple 1)"],
        "y": ["STATE(fridge 1, open)", "EMPTY(fridge 1)"],
    }
    found = evidence_of("alfworld", row, "y", lambda domain, text: told[text])
    assert found.gold == ("IN(object, apple)", "STATE(object, open)")
    assert (found.missed, found.invented) == (("IN(object, apple)",), ("EMPTY(object)",))
    assert not evidence_of("alfworld", row, "x", lambda domain, text: told[text]).is_hard


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(["fridge 1", "apple 12", "red apple 3", "loc 15", "cabinet"]), min_size=1, max_size=3
    ),
    st.sampled_from(["open fridge 1", "take apple 12 from fridge 1", "look"]),
)
def test_alfworld_patterns_carry_no_object_id(names: list[str], action: str) -> None:
    said = pattern("alfworld", f"FACING({', '.join(names)})", action)
    assert said is not None and not object_ids([said])


def test_ids_depend_on_domain_kind_and_key() -> None:
    key = (("schema", "open"),)
    ids = {entry_id(d, k, key) for d in ("alfworld", "textworld") for k in ("transition", "fact")}
    assert len(ids) == 4 and entry_id("alfworld", "fact", key) in ids
