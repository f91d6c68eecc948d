"""The CookingWorld fact parser: sentences by hand, corruptions of each component of the schema, hostile text."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ssf_properties import (
    MARKERS,
    check_any_text,
    check_corruption,
    check_layout,
    check_linear,
    check_pair,
    coverage,
    recorded,
)
from wmlab.metrics.ssf import facts, ssf
from wmlab.metrics.text import exact_match, token_f1

DOMAIN = "cookingworld"
RECORDED = recorded(DOMAIN)
NAMES = (
    "red onion", "white onion", "black pepper", "orange bell pepper", "red potato", "carrot", "olive oil", "knife", "cookbook",
    "fridge", "counter", "oven", "stove", "kitchen cupboard", "cutlery drawer", "dining chair", "pantry", "backyard", "screen door",
)  # fmt: skip
KITCHEN = """You are in the kitchen. In one part of the room you see a stove. There is also an oven. You also see a fridge that is
closed. In another part of the room you see a counter that has a knife, a raw red potato, and a cookbook on it. In one part of the
room you see an open kitchen cupboard, that contains some salt. There is also an open cutlery drawer, that is empty. In one part of
the room you see a dining chair, that has nothing on it.
To the North you see a closed screen door. Through an open plain door, to the West you see the pantry. """
RECIPE = (
    "Gather all following ingredients and follow the directions to prepare this tasty meal.\n\nIngredients:\n  cilantro\n"
    "  pork chop\n  block of cheese\n\nDirections:\n  dice the cilantro\n  chop the pork chop\n  fry the pork chop\n  prepare meal\n\n"
)


def parse(text):
    return facts(DOMAIN, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (KITCHEN, {
            "ROOM(kitchen)", "HERE(stove)", "HERE(oven)", "STATE(fridge, closed)", "ON(counter, knife)", "ON(counter, red potato)",
            "ON(counter, cookbook)", "STATE(red potato, raw)", "STATE(kitchen cupboard, open)", "IN(kitchen cupboard, salt)",
            "STATE(cutlery drawer, open)", "EMPTY(cutlery drawer)", "EMPTY(dining chair)", "DOOR(north, screen door, closed)",
            "DOOR(west, plain door, open)", "LEADS(west, pantry)"}),
        (RECIPE, {
            "INGREDIENT(cilantro)", "INGREDIENT(pork chop)", "INGREDIENT(block of cheese)", "STEP(dice, cilantro)",
            "STEP(chop, pork chop)", "STEP(fry, pork chop)", "STEP(prepare, meal)"}),
        ("Inventory: \n  a knife\n  an sliced orange bell pepper\n  some raw diced red tuna\n",
         {"CARRYING(knife)", "CARRYING(orange bell pepper)", "CARRYING(red tuna)", "STATE(orange bell pepper, sliced)",
          "STATE(red tuna, raw)", "STATE(red tuna, diced)"}),
        ("Inventory: \n  Your inventory is currently empty.\n", {"CARRYING(nothing)"}),
        ("Inventory (maximum capacity is 3 items): \n  a knife\n", {"CAPACITY(3)", "CARRYING(knife)"}),
        ("You take the white onion.", {"CARRYING(white onion)"}),
        ("You put the knife in the counter.", {"PLACED(knife, counter)"}),
        ("You open the fridge. The fridge contains a red onion, some water.",
         {"STATE(fridge, open)", "IN(fridge, red onion)", "IN(fridge, water)"}),
        ("You open the fridge. It's empty inside.", {"STATE(fridge, open)", "EMPTY(fridge)"}),
        ("You close the fridge.", {"STATE(fridge, closed)"}),
        ("You open the screen door, revealing the backyard. ", {"STATE(screen door, open)", "BEHIND(screen door, backyard)"}),
        ("You close the plain door to the pantry. ", {"STATE(plain door, closed)", "BEHIND(plain door, pantry)"}),
        ("You dice the white onion.", {"STATE(white onion, diced)"}),
        ("You fry the white onion with the stove.", {"STATE(white onion, fried)", "COOKED(white onion, stove)"}),
        ("You roast the white onion with the oven.", {"STATE(white onion, roasted)", "COOKED(white onion, oven)"}),
        ("Adding the meal to your inventory.", {"CARRYING(meal)", "PROGRESS(meal prepared)"}),
        ("You eat the meal.  It is delicious. [SUCCESS]", {"EATEN(meal)", "SUCCESS()"}),
        ("a fridge that is closed", {"STATE(fridge, closed)"}),
        ("a raw purple potato", {"HERE(purple potato)", "STATE(purple potato, raw)"}),
        ("a counter that has a tomato, and a cookbook on it", {"ON(counter, tomato)", "ON(counter, cookbook)"}),
        ("An open fridge, that contains a raw egg", {"STATE(fridge, open)", "IN(fridge, egg)", "STATE(egg, raw)"}),
        ("Unknown action: I'm not sure what you mean.", {"REFUSED(unknown action: i'm not sure what you mean)"}),
        ("You can't move there, the door is closed. ", {"REFUSED(you can't move there, the door is closed)"}),
        ("That is already open. ", {"REFUSED(that is already open)"}),
        ("Can only prepare meal in the -= kitchen =-.", {"REFUSED(can only prepare meal in the -= kitchen =-)"}),
        ("Your inventory currently has 2 items, and is full.  You can't pick up another item. ",
         {"FULL(2)", "REFUSED(you can't pick up another item)"}),
        ("Score: 0.5", {"PROGRESS(score: 0.5)"}),
        ("A dragon yawns.", {"MESSAGE(a dragon yawns)"}),
        ("", set()),
    ],
)  # fmt: skip
def test_sentences_by_hand(text, expected):
    assert parse(text) == expected


def test_first_observation():
    text = (
        "You are hungry! Let's cook a delicious meal. Check the cookbook in the kitchen for the recipe. Once done, enjoy your "
        "meal!\nYou are in the kitchen. In one part of the room you see a stove. \nAVAILABLE ACTIONS: inventory, look around"
    )
    found = parse(text)
    assert {"ROOM(kitchen)", "HERE(stove)", "ADMISSIBLE(inventory)", "ADMISSIBLE(look around)"} < found
    assert len(found) == 5 and any(fact.startswith("TASK(") for fact in found)


def test_recorded_observations_are_explained():
    assert coverage(DOMAIN, RECORDED) == 1.0
    for text in RECORDED:
        assert not [fact for fact in parse(text) if fact.startswith("MESSAGE(")], text
        assert ssf(DOMAIN, text, text) == 1.0


@pytest.mark.parametrize(
    ("text", "paraphrase"),
    [
        (KITCHEN, " ".join(KITCHEN.split()).replace("a knife, a raw red potato, and a cookbook", "a cookbook, a raw red potato, a knife")),
        (RECIPE, " ".join(RECIPE.split())),
        (RECIPE, RECIPE.replace("  cilantro\n  pork chop\n", "  - pork chop\n  - cilantro\n")),
        (RECIPE, "Ingredients: block of cheese, pork chop, cilantro\nDirections: 1. dice cilantro 2. fry the pork chop "
                 "3. chop the pork chop 4. prepare meal".replace("dice cilantro", "dice the cilantro")),
        ("Inventory: \n  a knife\n  some salt\n", "Inventory: some salt, a knife"),
        ("You open the fridge. The fridge contains a red onion, some water.",
         "You open the fridge. In the fridge you see some water and a red onion."),
        ("You open the fridge. It's empty inside.", "The fridge is open. The fridge is empty."),
        ("You take the white onion.", "You pick up the white onion!"),
        ("You eat the meal.  It is delicious.", "You eat the meal."),
    ],
)  # fmt: skip
def test_paraphrases_score_one(text, paraphrase):
    assert exact_match(paraphrase, text) == 0.0
    assert ssf(DOMAIN, paraphrase, text) == 1.0


@pytest.mark.parametrize(
    ("component", "text", "old", "new"),
    [
        ("ingredient", RECIPE, "cilantro", "parsley"),
        ("location", KITCHEN, "a counter that", "a shelf that"),
        ("preparation", KITCHEN, "raw red", "fried red"),
        ("container", KITCHEN, "fridge that is\nclosed", "fridge that is\nopen"),
        ("door", KITCHEN, "a closed screen", "an open screen"),
        ("step", RECIPE, "fry the", "grill the"),
        ("inventory", "Inventory: \n  a knife\n  some salt\n", "salt", "flour"),
        ("device", "You roast the white onion with the oven.", "oven", "barbeque"),
        ("progress", "You eat the meal.  It is delicious. [SUCCESS]", " [SUCCESS]", ""),
    ],
)
def test_each_component_counts(component, text, old, new):
    damaged = text.replace(old, new)
    assert damaged != text and ssf(DOMAIN, damaged, text) < 1.0, component
    assert token_f1(damaged, text) >= 0.8


def test_a_prediction_cannot_write_facts():
    forged = parse("BEGIN_FACTS STATE(fridge, open) CARRYING(meal) SUCCESS() END_FACTS")
    assert all(fact.startswith("MESSAGE(") for fact in forged)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(RECORDED), st.sampled_from(RECORDED), st.integers(0, 10_000))
def test_score_properties(text, other, seed):
    check_pair(DOMAIN, text, other)
    check_layout(DOMAIN, text, seed)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([text for text in RECORDED if not re.search("Ingredients", text)]), st.integers(0, 10_000)
)
def test_more_corruption_never_gains(text, seed):
    check_corruption(DOMAIN, text, sorted(NAMES, key=len, reverse=True), seed)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.one_of(st.text(max_size=40), st.sampled_from(MARKERS), st.sampled_from(RECORDED)), max_size=5)
)
def test_any_text_is_read(pieces):
    check_any_text(DOMAIN, " ".join(pieces))


@pytest.mark.parametrize(
    "piece",
    ["you see a ", "a", "a b that has c ", "there is also a b that has ", "in the a you see ", "ingredients: a ", "directions: chop the ",
     "chop the a ", "directions: chop the a ", "inventory: a ", "to the north you see a ", "through an open a, ", "you put a in ",
     "available actions: a, ", "you eat a. ", ". . ", "an open a, that contains b, ", "(", "- ", " \n", "\u0130"],
)  # fmt: skip
def test_hostile_megabyte_is_read_in_linear_time(piece):
    check_linear(DOMAIN, piece)
