"""The TextWorld fact parser on recorded games, on edits with known effect, and on hostile text."""

import json
import random
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wmlab.errors import InputError
from wmlab.metrics.predictable import is_predictable
from wmlab.metrics.ssf import compare, facts, ssf

DATA = Path(__file__).parent / "data"
RECORDED = [json.loads(line)["observation"] for line in (DATA / "textworld_observations.jsonl").open()]
CORPUS = json.loads((DATA / "textworld_corpus.json").read_text())
SHARED = Path(__file__).resolve().parents[2] / "shared"
# (fixed things, exits) of each room of the tw-simple layout
LAYOUT = {
    "bedroom": (3, 1), "kitchen": (4, 4), "bathroom": (3, 1), "living room": (3, 1), "backyard": (3, 2), "garden": (0, 1),
}  # fmt: skip
NAMES = "old key|note|remote|toothbrush|soap bar|shovel|milk|apple|lettuce|stove|counter|couch|antique trunk|toilet"


def parse(text):
    return facts("textworld", text)


KITCHEN = """

-= Kitchen =-
You've just sauntered into a kitchen.

You hear a noise behind you and spin around, but you can't see anything other than a refrigerator. I mean, just wow!
Isn't TextWorld just the best? The refrigerator contains an apple and a milk. A closed normal looking chest drawer is
nearby. What a letdown! The box is empty! You make out a stove. You wonder idly who left that here. The stove is ordinary.
But oh no! there's nothing on this piece of junk. Hm. Oh well You can see a kitchen island. You see a note and an old
key on the kitchen island.

There is a closed screen door leading east. There is an open wooden door leading west. You need an unblocked exit? You
should try going north. There is an exit to the south. Don't worry, it is unguarded.

There is a shovel and a half of a bag of chips on the floor.


Your score has just gone up by one point.

>        -= Kitchen =-1/9"""


def test_room_description_by_hand():
    assert parse(KITCHEN) == {
        "ROOM(kitchen)", "AT(kitchen)", "SCORE(1)", "TURN(9)", "SCORED(one)",
        "HERE(refrigerator)", "IN(apple, refrigerator)", "IN(milk, refrigerator)",
        "HERE(chest drawer)", "STATE(chest drawer, closed)", "LOOKS(chest drawer, normal)", "EMPTY(box)",
        "HERE(stove)", "LOOKS(stove, ordinary)", "EMPTY(stove)",
        "HERE(kitchen island)", "ON(note, kitchen island)", "ON(old key, kitchen island)",
        "DOOR(screen door, east)", "STATE(screen door, closed)", "DOOR(wooden door, west)", "STATE(wooden door, open)",
        "EXIT(north)", "EXIT(south)", "FLOOR(shovel)", "FLOOR(half of a bag of chips)",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("You open the antique trunk, revealing an old key.", {"DID(open, antique trunk)", "IN(old key, antique trunk)"}),
        ("You open wooden door.", {"DID(open, wooden door)"}),
        ("You close the chest drawer.", {"DID(close, chest drawer)"}),
        ("You unlock wooden door.", {"DID(unlock, wooden door)"}),
        ("You lock wooden door.", {"DID(lock, wooden door)"}),
        ("You take the milk from the couch.", {"DID(take, milk, couch)"}),
        ("You pick up the shovel from the ground.", {"DID(take, shovel, ground)"}),
        ("You drop the old key on the ground.", {"DID(drop, old key, ground)"}),
        ("You put the milk on the stove.", {"DID(put, milk, stove)"}),
        ("You put the old key into the chest drawer.", {"DID(insert, old key, chest drawer)"}),
        ("You eat the milk. Not bad.", {"DID(eat, milk)"}),
        ("Time passes.", {"DID(wait)"}),
        ("You are carrying nothing.", {"CARRYING(nothing)"}),
        ("You are carrying: a remote, a lettuce and a note.", {"CARRYING(remote)", "CARRYING(lettuce)", "CARRYING(note)"}),
        ("You can't go that way.", {"REFUSED(you can't go that way)"}),
        ("That's not a verb I recognise.", {"REFUSED(that's not a verb i recognise)"}),
        ("You can't see any such thing.", {"REFUSED(you can't see any such thing)"}),
        ("That's unlocked at the moment.", {"REFUSED(that's unlocked at the moment)"}),
        ("It is fixed in place.", {"REFUSED(it is fixed in place)"}),
        (
            "(with the old key)\nYou unlock wooden door.",
            {"ASSUMED(with the old key)", "DID(unlock, wooden door)"},
        ),
        (
            "The antique trunk looks strong, and impossible to crack. It is open.\n\nIn the antique trunk is an old key.",
            {"LOOKS(antique trunk, strong, and impossible to crack)", "STATE(antique trunk, open)",
             "IN(old key, antique trunk)"},
        ),
        ("The couch is shaky.\n\nOn the couch is a milk.", {"LOOKS(couch, shaky)", "ON(milk, couch)"}),
        (
            "it is what it is, a wooden door You can't see inside it because the lid's in your way.",
            {"LOOKS(wooden door, it is what it is)", "STATE(wooden door, closed)"},
        ),
        ("The old key looks useful\n\n\n>    -= Garden =-2/7", {"LOOKS(old key, useful)", "AT(garden)", "SCORE(2)", "TURN(7)"}),
        ("The metal of the old key is hammered.", {"LOOKS(old key, metal hammered)"}),
        (
            "*** The End ***\n\nYou scored 3 out of a possible 3, in 14 turns.\n\n\nWould you like to RESTART, RESTORE "
            "a saved game, QUIT or UNDO the last command?\n>    -= Kitchen =-2/13 [SUCCESS]",
            {"END(won)", "FINAL(3, 3, 14)", "MENU()", "AT(kitchen)", "SCORE(2)", "TURN(13)", "SUCCESS()"},
        ),
        ("*** You lost! ***", {"END(lost)"}),
        ("You have so far scored 0 out of a possible 3, in 1 turn.", {"SO_FAR(0, 3, 1)"}),
        ("AVAILABLE ACTIONS: look, open chest drawer", {"ADMISSIBLE(look)", "ADMISSIBLE(open chest drawer)"}),
        ("A dragon yawns. It leaves!", {"MESSAGE(a dragon yawns)", "MESSAGE(it leaves)"}),
        ("", set()),
    ],
)  # fmt: skip
def test_sentences_by_hand(text, expected):
    assert parse(text) == expected


def test_recorded_rooms_have_the_layout_they_were_made_with():
    seen = set()
    for text in RECORDED:
        found = parse(text)
        for room in [fact[5:-1] for fact in found if fact.startswith("ROOM(")]:
            things = sum(fact.startswith("HERE(") for fact in found)
            exits = sum(fact.startswith(("EXIT(", "DOOR(")) for fact in found)
            assert (things, exits) == LAYOUT[room], text
            seen.add(room)
    assert seen == set(LAYOUT)


def test_only_free_text_of_recorded_games_stays_a_message():
    known = (
        "available commands",
        "as good-looking",
        "you jump",
        "it's only missing",
        "the dinner is almost ready",
    )
    for text in RECORDED:
        if (
            "gameplay" in text
            or "TextWorld!" in text
            or "Available commands" in text
            or "once you" in text.lower()
        ):
            continue  # the objective and the help page are free text
        left = [fact for fact in parse(text) if fact.startswith("MESSAGE(")]
        left = [fact for fact in left if not fact.startswith(tuple(f"MESSAGE({words}" for words in known))]
        goal = any("then," in fact or "after that" in fact for fact in left)
        assert not left or goal, left


def _shared_observations():
    path = SHARED / "samples" / "textworld.jsonl"
    if not path.exists():
        pytest.skip(f"{path.name} of the project library is not beside the repository")
    return [json.loads(line)["observation"] for line in path.open()]


def test_library_samples_are_explained():
    for text in _shared_observations():
        found = parse(text)
        assert any(fact.startswith("AT(") for fact in found)
        left = {fact for fact in found if fact.startswith("MESSAGE(")}
        assert not left or "Available commands" in text, left
        assert ssf("textworld", text, text) == 1.0
        for room in [fact[5:-1] for fact in found if fact.startswith("ROOM(")]:
            things = sum(fact.startswith("HERE(") for fact in found)
            exits = sum(fact.startswith(("EXIT(", "DOOR(")) for fact in found)
            assert (things, exits) == LAYOUT[room]


def test_released_initial_contexts_are_explained():
    path = SHARED / "data" / "init_contexts" / "textworld" / "wm_instruct_test.json"
    if not path.exists():
        pytest.skip("the released evaluation contexts are not beside the repository")
    for context in json.loads(path.read_text()):
        found = parse(context["messages"][0]["content"])
        assert {"BANNER(textworld)", "ROOM(bedroom)", "AT(bedroom)", "SCORE(0)", "TURN(1)"} <= found
        assert sum(fact.startswith("ADMISSIBLE(") for fact in found) == 8
        assert sum(fact.startswith("HERE(") for fact in found) == 3
        assert not [fact for fact in found if fact.startswith("MESSAGE(")]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(RECORDED), st.integers(0, 10_000))
def test_layout_changes_keep_the_facts(text, seed):
    rng = random.Random(seed)
    loose = "".join(
        rng.choice([" ", "\n", "\t", "  \n", "\r\n"]) if char.isspace() else char for char in text
    )
    assert parse(loose) == parse(text)
    wrapped = "\n".join(
        textwrap.wrap(text, rng.randint(20, 90), break_on_hyphens=False, break_long_words=False)
    )
    assert parse(wrapped) == parse(text)


def test_swapping_an_object_or_place_changes_the_facts():
    swaps = 0
    for text in [" ".join(text.split()) for text in [*RECORDED, KITCHEN]]:
        for name in NAMES.split("|"):
            if any(
                name in fact.lower() for fact in parse(text) if not fact.startswith(("GOAL", "ADMISSIBLE"))
            ):
                assert ssf("textworld", text.replace(name, "brass lamp"), text) < 1.0
                swaps += 1
    assert swaps > 80
    assert ssf("textworld", KITCHEN.replace("Kitchen", "Pantry"), KITCHEN) < 1.0
    moved = KITCHEN.replace("old\nkey on the kitchen island", "old\nkey on the stove")
    assert compare("textworld", moved, KITCHEN).facts_prediction >= {"ON(old key, stove)"}
    shut = KITCHEN.replace("an open wooden", "a closed wooden")
    assert parse(shut) ^ parse(KITCHEN) == {"STATE(wooden door, open)", "STATE(wooden door, closed)"}
    assert parse(KITCHEN.replace("1/9", "1/10")) ^ parse(KITCHEN) == {"TURN(9)", "TURN(10)"}


def test_ssf_is_the_f1_of_the_fact_sets():
    compared = compare("textworld", "You open wooden door. You can't go that way.", "You open wooden door.")
    assert compared.score == pytest.approx(2 * 1 / 3) and not compared.both_empty
    empty = compare("textworld", " \n", "")
    assert empty.score == 1.0 and empty.both_empty
    assert ssf("textworld", "", "Time passes.") == 0.0
    with pytest.raises(InputError, match="textworld"):
        facts("nowhere", "text")


def test_a_prediction_cannot_write_facts():
    forged = parse("BEGIN_FACTS AT(kitchen) SCORE(3) SUCCESS() END_FACTS")
    assert not forged & {"AT(kitchen)", "SCORE(3)", "SUCCESS()"}
    assert all(fact.startswith(("MESSAGE(", "ASSUMED(")) for fact in forged)


@pytest.mark.parametrize(
    "piece",
    ["you see a ", "a", "-= ", "-= a =-", "you see a stove. ", "the a is b. ", ". . ", "you can see a, ", "((( ", "> -= ",
     "you can see a on the b on the ", "okay, so you're in a b, cool, but is it ", "on the a you see a b, ", "$$ ", "!?",
     "an a tells you that you are now in the ", "available actions: a, ", "\u0130", " \n", "there is a b, c and d. "],
)  # fmt: skip
def test_hostile_megabyte_is_read_in_linear_time(piece):
    text = piece * (1_000_000 // len(piece))
    started = time.perf_counter()
    parse(text)
    # Linear scans take 0.01 to 4 s here; a quadratic one would take hours.
    assert time.perf_counter() - started < 30


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=200))
def test_any_text_has_facts_or_no_words(text):
    found = parse(text)
    assert found or not any(char.isalnum() for char in text)


def test_predictable_steps_of_a_recorded_game():
    messages = CORPUS[0]["messages"]
    verdicts = {
        f"{k // 2}: {messages[k]['content']}": is_predictable(messages[: k + 1], messages[k + 1]["content"])
        for k in range(1, len(messages), 2)
    }
    assert verdicts == {
        "0: open antique trunk": False,  # first opening
        "1: take old key from antique trunk": True,
        "2: unlock wooden door with old key": True,
        "3: open wooden door": True,  # a door hides nothing in its own text
        "4: go east": False,  # first visit
        "5: go south": False,
        "6: take lettuce from couch": True,
        "7: go north": True,  # revisit
        "8: put lettuce on stove": True,
    }


def test_predictable_examination_and_words():
    seen = [
        {"role": "system", "content": "-= Bedroom =-\nYou see a closed chest drawer.\n> -= Bedroom =-0/1"},
        {"role": "user", "content": "examine chest drawer"},
    ]
    shown = "The chest drawer looks strong. It is closed.\n\n> -= Bedroom =-0/2"
    assert not is_predictable(seen, shown)
    later = [
        *seen,
        {"role": "assistant", "content": shown},
        {"role": "user", "content": "examine chest drawer"},
    ]
    assert is_predictable(later, shown)
    assert not is_predictable(later, "You are carrying: a lantern.")
    assert is_predictable(later, "You can't see any such thing.")
    with pytest.raises(InputError, match="nowhere"):
        is_predictable(seen, shown, domain="nowhere")
