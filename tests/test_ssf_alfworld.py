"""The ALFWorld fact parser: the paper's examples, both dialects, known edits, hostile text."""

import random
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

DOMAIN = "alfworld"
RECORDED = recorded(DOMAIN)
_PLACE = re.compile(
    r"(?:at (?!loc)|On the |In the |The |from the |to the |in/on the |using the |open the |close the |facing the )"
    r"([a-z]+ \d+)"
)


def parse(text):
    return facts(DOMAIN, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # memwm.txt B.5.1
        ("On the desk 1, you see a pen 2, a mug 1, and a book 3.", {"ON(desk 1, pen 2)", "ON(desk 1, mug 1)", "ON(desk 1, book 3)"}),
        ("In the safe 1, you see a watch 1.", {"IN(safe 1, watch 1)"}),
        ("The drawer 1 is empty.", {"EMPTY(drawer 1)"}),
        ("On the shelf 2, you see nothing.", {"EMPTY(shelf 2)"}),
        ("In the drawer 1, you see nothing.", {"EMPTY(drawer 1)"}),
        *((f"The apple 1 is {state}.", {f"STATE(apple 1, {state})"})
          for state in ("open", "closed", "heated", "cooled", "cleaned", "dirty", "sliced")),
        ("You clean the dishsponge 2 using the sinkbasin 1.", {"CLEANED(dishsponge 2, sinkbasin 1)"}),
        ("You open the fridge 1. The fridge 1 is open.", {"STATE(fridge 1, open)"}),
        ("You open the drawer 1. The drawer 1 is open. In it, you see a fork 2.", {"STATE(drawer 1, open)", "IN(drawer 1, fork 2)"}),
        ("You open the fridge 1. The fridge 1 is open. Inside, you see nothing.", {"STATE(fridge 1, open)", "EMPTY(fridge 1)"}),
        # both dialects
        ("You arrive at loc 15. On the desk 1, you see a pen 2.", {"ON(desk 1, pen 2)"}),
        ("You arrive at desk 1. On the desk 1, you see a pen 2.", {"ON(desk 1, pen 2)"}),
        ("You put the mug 1 in/on the desk 1.", {"PLACED(mug 1, desk 1)"}),
        ("You move the mug 1 to the desk 1.", {"PLACED(mug 1, desk 1)"}),
        # the rest of the grammar
        ("You arrive at fridge 1. The fridge 1 is closed.", {"STATE(fridge 1, closed)"}),
        ("You arrive at fridge 1.", {"AT(fridge 1)"}),
        ("You pick up the mug 1 from the desk 1.", {"TAKEN(mug 1, desk 1)"}),
        ("You heat the egg 1 using the microwave 1.", {"HEATED(egg 1, microwave 1)"}),
        ("You cool the egg 1 using the fridge 1.", {"COOLED(egg 1, fridge 1)"}),
        ("You sliced the apple 1 with the knife 2.", {"SLICED(apple 1, knife 2)"}),
        ("You close the safe 1.", {"STATE(safe 1, closed)"}),
        ("You turn on the desklamp 1.", {"STATE(desklamp 1, on)"}),
        ("This desklamp 1 is off.", {"STATE(desklamp 1, off)"}),
        ("This is a hot and clean sliced apple 1.", {"STATE(apple 1, heated)", "STATE(apple 1, cleaned)", "STATE(apple 1, sliced)"}),
        ("This is a cold egg 1.", {"STATE(egg 1, cooled)"}),
        ("There's nothing special about vase 1.", {"STATE(vase 1, normal)"}),
        ("This is a normal box 1. In it, you see a key 2.", {"STATE(box 1, normal)", "IN(box 1, key 2)"}),
        ("You don't see any switch on the mug 1.", {"NO_SWITCH(mug 1)"}),
        ("You are carrying: a egg 1.", {"CARRYING(egg 1)"}),
        ("You are not carrying anything.", {"CARRYING(nothing)"}),
        ("You are facing the drawer 3, and bed 2. Next to it, you see nothing.",
         {"FACING(bed 2, drawer 3)", "NEAR(bed 2, drawer 3, nothing)"}),
        ("You are in the middle of a room. Looking quickly around you, you see a bed 1, and a desk 2.",
         {"AT(middle of a room)", "SEES(bed 1)", "SEES(desk 2)"}),
        ("Nothing happens.", {"NO_EFFECT()"}),
        ("You move the mug 1 to the desk 1. [SUCCESS]", {"PLACED(mug 1, desk 1)", "SUCCESS(PLACED(mug 1, desk 1))"}),
        ("Next state: The safe 1 is open.", {"STATE(safe 1, open)"}),
        ("Your task is to: put a mug in desk.\nAVAILABLE ACTIONS: go to desk 1,look",
         {"TASK(put a mug in desk)", "ADMISSIBLE(go to desk 1)", "ADMISSIBLE(look)"}),
        ("A dragon yawns. It leaves!", {"MESSAGE(a dragon yawns)", "MESSAGE(it leaves)"}),
        ("", set()),
    ],
)  # fmt: skip
def test_sentences_by_hand(text, expected):
    assert parse(text) == expected


def test_privileged_block_states_the_same_facts():
    block = (
        "# Environment Information (Only visible to Assistant)\n\n=== Objects on Receptacles ===\n"
        " - drawer 1 is closed, if opened, in it, you see nothing.\n"
        " - safe 1 is closed, if opened, on the safe 1, you see a watch 1, a key 2\n - On the shelf 1, you see a mug 1\n\n"
        "=== Toggle States ===\n - desklamp 1 is off\n\n# User Environment Information (Displayed to User)\n\n"
        "You are in the middle of a room. Looking quickly around you, you see a shelf 1."
    )
    assert parse(block) == {
        "ALL_CONTENTS()", "STATE(drawer 1, closed)", "EMPTY(drawer 1)", "STATE(safe 1, closed)", "IN(safe 1, watch 1)",
        "IN(safe 1, key 2)", "ON(shelf 1, mug 1)", "STATE(desklamp 1, off)", "AT(middle of a room)", "SEES(shelf 1)",
    }  # fmt: skip


def test_recorded_observations_are_explained():
    assert coverage(DOMAIN, RECORDED) == 1.0
    for text in RECORDED:
        assert not [fact for fact in parse(text) if fact.startswith("MESSAGE(")], text
        assert ssf(DOMAIN, text, text) == 1.0


def test_dialects_have_equal_facts():
    for text in RECORDED:
        other = re.sub(r"You arrive at [a-z]+ \d+\.", "You arrive at loc 7.", text)
        other = re.sub(r"You move the (.*?) to the ", r"You put the \1 in/on the ", other)
        assert parse(other) == parse(text)


def test_location_swap_scores_nothing():
    """Figure 3: another receptacle's number or kind, with most words kept."""
    scores, overlap, rng = [], [], random.Random(0)
    for text in RECORDED:
        found = _PLACE.search(text)
        if found is None:
            continue
        kind, number = found[1].split()
        for other in (f"{kind} {int(number) + 7}", f"{rng.choice(['altar', 'bench'])} {number}"):
            moved = re.sub(rf"\b{found[1]}\b", other, text)
            scores.append(ssf(DOMAIN, moved, text))
            if ", you see a" in text:
                overlap.append(token_f1(moved, text))
    assert len(scores) > 150 and set(scores) == {0.0}
    assert sum(overlap) / len(overlap) > 0.9


@pytest.mark.parametrize(
    ("text", "paraphrase"),
    [
        ("On the desk 1, you see a pen 2, and a mug 1.", "You see a mug 1 and a pen 2 on the desk 1."),
        ("On the desk 1, you see a pen 2, and a mug 1.", "on the desk 1, there are:\n - a mug 1\n - a pen 2"),
        ("On the desk 1, you see nothing.", "The desk 1 is empty."),
        ("You open the safe 1. The safe 1 is open. In it, you see nothing.", "The safe 1 is now open. It is empty."),
        ("The safe 1 is open. In it, you see a key 1.", "You opened the safe 1. The safe 1 contains a key 1."),
        ("You pick up the pen 2 from the desk 1.", "You took pen 2 from desk 1!"),
        ("You move the pen 2 to the desk 1.", "You placed the pen 2 on the desk 1."),
        ("You heat the egg 1 using the microwave 1.", "You heated egg 1 with the microwave 1."),
        ("You turn on the desklamp 1.", "The desklamp 1 is turned on."),
        ("You are not carrying anything.", "You are carrying nothing."),
        ("Nothing happens.", "Nothing happened."),
    ],
)  # fmt: skip
def test_paraphrases_score_one(text, paraphrase):
    assert exact_match(paraphrase, text) == 0.0
    assert ssf(DOMAIN, paraphrase, text) == 1.0


def test_edits_cost_what_they_should():
    text = "You open the safe 1. The safe 1 is open. In it, you see a key 1, a key 2, and a watch 1."
    assert ssf(DOMAIN, text.replace("key 2", "key 3"), text) == pytest.approx(0.75)
    assert ssf(
        DOMAIN, text.replace("is open", "is closed").replace("You open", "You close"), text
    ) == pytest.approx(0.75)
    done = "You move the mug 1 to the desk 1. [SUCCESS]"
    assert ssf(DOMAIN, done.replace(" [SUCCESS]", ""), done) == pytest.approx(2 / 3)
    assert ssf(DOMAIN, done.replace("mug 1", "mug 2"), done) == 0.0


def test_a_prediction_cannot_write_facts():
    forged = parse("BEGIN_FACTS STATE(fridge 1, open) IN(fridge 1, egg 1) SUCCESS() END_FACTS")
    assert all(fact.startswith("MESSAGE(") for fact in forged)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(RECORDED), st.sampled_from(RECORDED), st.integers(0, 10_000))
def test_score_properties(text, other, seed):
    check_pair(DOMAIN, text, other)
    check_layout(DOMAIN, text, seed)
    words = re.findall(r"[a-z]{3,} \d+", text.lower())
    check_corruption(DOMAIN, text, sorted(set(words), key=len, reverse=True), seed)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(["mug 1", "pen 2", "pen 12", "egg 3", "cd 1"]), min_size=1, unique=True),
    st.randoms(),
)
def test_order_of_listed_things_is_free(things, rng):
    def listing(names):
        return f"On the desk 1, you see {', '.join(f'a {name}' for name in names[:-1])}" + (
            f", and a {names[-1]}." if len(names) > 1 else f"a {names[0]}."
        )

    text = listing(things)
    assert len(parse(text)) == len(things)
    rng.shuffle(things)
    assert parse(listing(things)) == parse(text)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.one_of(st.text(max_size=40), st.sampled_from(MARKERS), st.sampled_from(RECORDED)), max_size=5)
)
def test_any_text_is_read(pieces):
    check_any_text(DOMAIN, " ".join(pieces))


@pytest.mark.parametrize(
    "piece",
    ["you see a ", "a", "on the a, you see ", "on the a 1, you see a b 1. ", "the a is ", ". . ", "you put the a in ", "- ",
     "=== objects on receptacles === - a is closed, ", "=== toggle states ===", "available actions: a,", "you are facing the ",
     "this is a hot hot hot ", "next to it, you see ", "(", "[success]", "there are a, a on the ", "-=", "-", " \n", "\u0130"],
)  # fmt: skip
def test_hostile_megabyte_is_read_in_linear_time(piece):
    check_linear(DOMAIN, piece)
