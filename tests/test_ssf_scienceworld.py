"""The ScienceWorld fact parser on recorded observations, on swaps with known effect, and on hostile text."""

import json
import random
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wmlab.metrics.ssf import compare, facts, ssf
from wmlab.metrics.ssf.scienceworld import NAMES

DATA = Path(__file__).parent / "data"
RECORDED = [json.loads(line)["observation"] for line in (DATA / "scienceworld_observations.jsonl").open()]
SHARED = Path(__file__).resolve().parents[2] / "shared" / "samples" / "scienceworld.jsonl"

# The perturbation of memwm.txt B.2: every place, thing, number and state of a text becomes another of its kind.
_PLACES = (
    "hallway|kitchen|bathroom|bedroom|living room|workshop|art studio|greenhouse|outside|foundry|inventory"
)
_THINGS = (
    "agent|air|picture|painting|drawing|large cupboard|paint cupboard|cupboard|table|chair|couch|bed|mattress"
    "|pillow|jug|wood cup|glass cup|tin cup|ceramic cup|cup|bowl|metal pot|flower pot|pot|drawer|freezer|fridge"
    "|oven|stove|sink|bathtub|toilet|stopwatch|thermometer|lighter|glass jar|seed jar|red box|blue box|green box"
    "|orange box|yellow box|red apple|banana|orange|potato|apple tree|cherry tree|pea plant|banana tree|bee hive"
    "|fountain|fire pit|ground|axe|shovel|wood|soil|water|steam|ice|soap|sodium chloride|chocolate|red paint"
    "|blue paint|yellow paint|green paint|violet paint|paint|blue jay egg|butterfly egg|dove egg|blue jay|dove"
    "|baby brown bear|baby mouse|unknown e seed|apple seed|unknown substance b|aluminum foil|black wire|blue wire"
    "|orange wire|red wire|green wire|battery|switch|red light bulb|blue light bulb|green light bulb"
    "|violet light bulb|yellow light bulb|electric buzzer|electric motor|gas generator|solar panel|anode|cathode"
    "|terminal|plant|seed|blue paper|recipe|animal|thing|steel block|inclined plane"
    "|avocado|apricot|lemon|peach|ant|bee|frog|toad|turtle|tortoise|elephant|crocodile|parrot|wolf|rabbit|hedgehog"
    "|beaver|chameleon|moth|dragonfly|spider|caterpillar|chicken|river|boat|moon|farm|meadow|hills|shapes|people"
    "|flower|pollen|juice|milk|flour|gallium|lead|tin|mercury|caesium|closet|jar|bottle|wire|generator|buzzer|bulb"
    "|motor|light|fork|spoon|paper clip|coin|nail|drain|box|lily|bob|owen|alexandra|violet|green|yellow"
    "|unknown substance|unknown material|desk|counter|brick|blast furnace|steel|honey|hole|hive|cupboard door"
    "|stage|blue|red|book shelf|book|peanut|almond|cashew|mixed nuts"
)
PLACES, THINGS = _PLACES.split("|"), _THINGS.split("|")
STATES = {
    "open": "closed", "closed": "open", "activated": "deactivated", "deactivated": "activated", "on": "off",
    "off": "on", "reproducing": "seedling", "adult": "baby", "tall": "short", "broken": "flooded",
}  # fmt: skip


_NAMES = re.compile(
    r"\b(" + "|".join(sorted(map(re.escape, PLACES + THINGS), key=len, reverse=True)) + r")\b", re.I
)
_STATE = re.compile(
    r"\b(?<=which is )(on|off)\b|\b(?<=turned )(on|off)\b|\b(open|closed|activated|deactivated|broken)\b(?!:)"
)
_TRAIT = re.compile(r"\b(reproducing|adult|tall)\b")
_NUMBER = re.compile(r"(?<![\d:])-?\d+(?!\d*:\t)")


def swapped(text):
    """The text with every place, thing, number and state swapped for one of its kind that it does not name."""
    free = {id(kind): iter([n for n in kind if n not in text.lower()] * 9) for kind in (PLACES, THINGS)}
    table = {}

    def other(match):
        name = match[0].lower()
        if name not in table:
            table[name] = next(free[id(PLACES if name in PLACES else THINGS)], "brass lamp")
        return table[name]

    head, mark, body = (
        text.partition("cancel):\n") if text.startswith("Ambiguous request") else ("", "", text)
    )
    body = _NAMES.sub(other, _NUMBER.sub(lambda m: str(int(m[0]) + 1), body))
    if not mark:
        body = _TRAIT.sub(lambda m: STATES[m[0]], _STATE.sub(lambda m: STATES[m[0]], body))
    return head + mark + body


def parse(text):
    return facts("scienceworld", text)


ROOM = """This room is called the workshop. In it, you see: 
\tthe agent
\ta substance called air
\ta table. On the table is: a yellow wire, a battery, a switch, which is off, a jug (containing nothing).
\ta oven, which is turned off. The oven door is closed. 
\ta sink, which is turned on. In the sink is: nothing. The drain is open.
\ta flower pot 3 (containing a pea plant in the adult stage with a tall height, soil)
\ta thermometer, currently reading a temperature of -4 degrees celsius
\tsoil
You also see:
\tA door to the hallway (that is open)"""


def test_room_by_hand():
    assert parse(ROOM) == {
        "ROOM(workshop)", "VISIBLE(agent)", "VISIBLE(air)", "VISIBLE(table)", "ON(table, yellow wire)",
        "ON(table, battery)", "ON(table, switch)", "STATE(switch, off)", "ON(table, jug)", "EMPTY(jug)",
        "VISIBLE(oven)", "STATE(oven, off)", "STATE(oven door, closed)", "VISIBLE(sink)", "STATE(sink, on)",
        "EMPTY(sink)", "STATE(drain, open)", "VISIBLE(flower pot 3)", "CONTAINS(flower pot 3, pea plant)",
        "STATE(pea plant, adult stage)", "STATE(pea plant, tall height)", "CONTAINS(flower pot 3, soil)",
        "VISIBLE(thermometer)", "TEMPERATURE(-4, celsius)", "VISIBLE(soil)", "DOOR(hallway, open)",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Ambiguous request: Please enter the number for the action you intended (or blank to cancel):\n"
            "0:\topen door between foundry and outside\n1:\topen door between kitchen and outside\n\n",
            {
                "AMBIG_OPTION(0, open door between foundry and outside)",
                "AMBIG_OPTION(1, open door between kitchen and outside)",
            },
        ),
        ("the thermometer measures a temperature of -4 degrees celsius", {"TEMPERATURE(-4, celsius)"}),
        (
            "anode on battery is now connected to terminal 1 on black wire",
            {"CONNECTED(anode on battery, terminal 1 on black wire)"},
        ),
        ("blue wire has been disconnected", {"STATE(blue wire, disconnected)"}),
        ("You move the metal pot to the inventory.", {"MOVED(metal pot, inventory)"}),
        ("You move to the hallway.", {"MOVED(agent, hallway)"}),
        ("You teleport to the greenhouse.", {"MOVED(agent, greenhouse)"}),
        (
            "(disconnecting aluminum foil)You move the aluminum foil to the red box. [SUCCESS]",
            {"STATE(aluminum foil, disconnected)", "MOVED(aluminum foil, red box)"},
        ),
        ("Observation: You focus on the blue jay egg.", {"FOCUS(blue jay egg)"}),
        ("You decide to wait for 10 iterations.", {"WAIT(10)"}),
        ("You pour the contents of the jug into the flower pot 1.", {"POURED(jug, flower pot 1)"}),
        ("The freezer is now open.", {"STATE(freezer, open)"}),
        ("The door is already open.", {"STATE(door, open)"}),
        ("The door is not open.", {"STATE(door, not open)"}),
        ("The sink is now deactivated.", {"STATE(sink, deactivated)"}),
        ("The stove appears broken, and can't be activated or deactivated.", {"STATE(stove, broken)"}),
        ("The picture isn't open, so you can't see inside.", {"STATE(picture, not open)"}),
        ("The fridge is not moveable.", {"STATE(fridge, not moveable)"}),
        ("I'm not sure how to use the book (Moby Dick).", {"STATE(book (moby dick), no known use)"}),
        ("The ground is empty, so there's nothing to pour.", {"EMPTY(ground)"}),
        (
            "The recipe reads:\nTo make salt water, you need to mix sodium chloride, water.",
            {"RECIPE(salt water, sodium chloride)", "RECIPE(salt water, water)"},
        ),
        (
            "Peanuts, almonds, and cashews mix to produce mixed nuts.",
            {"RECIPE(mixed nuts, peanuts)", "RECIPE(mixed nuts, almonds)", "RECIPE(mixed nuts, cashews)"},
        ),
        ("In your inventory, you see:\n\tan orange", {"IN(inventory, orange)"}),
        ("Inside the freezer is: \n\tnothing", {"EMPTY(freezer)"}),
        (
            "Inside the sink is: \n\tnothing\n You also see: A drain, which is open.",
            {"EMPTY(sink)", "VISIBLE(drain)", "STATE(drain, open)"},
        ),
        (
            "a red light bulb, which is off. its anode is connected to: nothing. its cathode is connected to: a "
            "terminal 2 on black wire.",
            {
                "VISIBLE(red light bulb)", "STATE(red light bulb, off)", "CONNECTED(anode on red light bulb, nothing)",
                "CONNECTED(cathode on red light bulb, terminal 2 on black wire)",
            },
        ),
        (
            "a blue wireits terminal 1 is connected to: nothing. its terminal 2 is connected to: nothing.",
            {
                "VISIBLE(blue wire)", "CONNECTED(terminal 1 on blue wire, nothing)",
                "CONNECTED(terminal 2 on blue wire, nothing)",
            },
        ),
        (
            "an inclined plane C, with: a steel block approximately 64% down the plane",
            {"VISIBLE(inclined plane c)", "ON(inclined plane c, steel block)", "STATE(steel block, approximately 64% down)"},
        ),
        (
            "a counter. On the counter is: \n\ta bowl (containing a red apple, a banana)\n\ta drawer",
            {
                "VISIBLE(counter)", "ON(counter, bowl)", "CONTAINS(bowl, red apple)", "CONTAINS(bowl, banana)",
                "ON(counter, drawer)",
            },
        ),
        (
            "a flower pot 1 (containing a cherry tree in the reproducing stage. On the cherry tree you see: a flower. , soil)",
            {
                "VISIBLE(flower pot 1)", "CONTAINS(flower pot 1, cherry tree)", "ON(cherry tree, flower)",
                "STATE(cherry tree, reproducing stage)", "CONTAINS(flower pot 1, soil)",
            },
        ),
        (
            "a picture of a farm. The artist is listed as Alexandra.",
            {"VISIBLE(picture of a farm)", "STATE(picture of a farm, artist alexandra)"},
        ),
        ("A book (Moby Dick) titled Moby Dick by Herman Melville", {"VISIBLE(book (moby dick) titled moby dick by herman melville)"}),
        ("chocolate", {"VISIBLE(chocolate)"}),
        ("No known action matches that input.", {"STATE(action, no known action matches that input)"}),
        (
            "Task Description:\nYour task is to boil water. First, focus on the substance.",
            {"GOAL(boil water. first, focus on the substance.)"},
        ),
        ("Lo! A dragon.", {"MESSAGE(lo! a dragon.)"}),
        (" \n", set()),
    ],
)  # fmt: skip
def test_texts_by_hand(text, expected):
    assert parse(text) == expected


def _samples():
    if not SHARED.exists():
        pytest.skip("the project library is not beside the repository")
    return [json.loads(line)["observation"] for line in SHARED.open()]


@pytest.mark.parametrize("source", ["bundled", "library"])
def test_identity_and_coverage(source):
    texts = RECORDED if source == "bundled" else _samples()
    covered = 0
    for text in texts:
        compared = compare("scienceworld", text, text)
        assert compared.score == 1.0 and not compared.both_empty
        assert {fact.partition("(")[0] for fact in compared.facts_gold} <= NAMES
        covered += any(not fact.startswith("MESSAGE(") for fact in compared.facts_gold)
    assert covered / len(texts) >= 0.95


@pytest.mark.parametrize("source", ["bundled", "library"])
def test_swaps_leave_almost_nothing(source):
    texts = dict.fromkeys(RECORDED if source == "bundled" else _samples())
    scores = {text: ssf("scienceworld", swapped(text), text) for text in texts if swapped(text) != text}
    assert len(scores) > 0.9 * len(texts)
    worst = max(scores, key=scores.get)
    assert scores[worst] <= 0.25, (worst, swapped(worst))
    assert sum(scores.values()) / len(scores) <= 0.01


def test_one_swap_lowers_the_score_by_its_facts():
    gold = parse(ROOM)
    for old, new in (
        ("workshop", "foundry"),
        ("yellow wire", "red wire"),
        ("-4", "-5"),
        ("hallway", "kitchen"),
    ):
        found = parse(ROOM.replace(old, new))
        assert len(gold - found) == len(found - gold) == 1
        assert ssf("scienceworld", ROOM.replace(old, new), ROOM) == pytest.approx(25 / 26)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(RECORDED), st.integers(0, 10_000))
def test_layout_and_order_change_nothing(text, seed):
    rng = random.Random(seed)
    gold = parse(text)
    loose = "".join(rng.choice([" ", "\t", "  "]) if char in " \t" else char for char in text)
    assert parse(f"Next state: {loose}\r\n".replace("\n", "\r\n" if seed % 2 else "\n\n")) == gold
    assert parse(" ".join(text.split())) == gold  # all in one line
    head, mark, rest = text.partition("you see: \n")
    things, also, doors = rest.partition("\nYou also see:\n")
    if mark and also and ":\n" not in things:
        things, doors = things.split("\n"), doors.split("\n")
        rng.shuffle(things)
        rng.shuffle(doors)
        assert parse(head + mark + "\n".join(things) + also + "\n".join(doors)) == gold


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(RECORDED), st.sampled_from(RECORDED), st.integers(0, 10_000))
def test_the_score_is_symmetric_and_falls_with_corruption(left, right, seed):
    score = ssf("scienceworld", left, right)
    assert 0.0 <= score <= 1.0 and score == ssf("scienceworld", right, left)
    rng = random.Random(seed)
    text, last = ROOM, 1.0
    for old in rng.sample(
        ["workshop", "yellow wire", "battery", "oven, ", "sink, ", "hallway", "-4", "jug"], 5
    ):
        text = text.replace(old, f"brass {old}" if old != "-4" else "77")
        now = ssf("scienceworld", text, ROOM)
        assert now < last
        last = now


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=200))
def test_any_text_has_facts_or_no_words(text):
    found = parse(text)
    assert (
        found
        or not any(char.isalnum() for char in text.replace("[SUCCESS]", ""))
        or "next state" in text.lower()
    )
    assert {fact.partition("(")[0] for fact in found} <= NAMES


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.sampled_from([*RECORDED, "(", ")", "[SEP]", "BEGIN_FACTS", ": ", ". ", ", ", "[SUCCESS]"]),
        max_size=6,
    )
)
def test_mixtures_of_observations_are_read(pieces):
    text = "".join(pieces)
    assert {fact.partition("(")[0] for fact in parse(text)} <= NAMES and ssf(
        "scienceworld", text, text
    ) == 1.0


@pytest.mark.parametrize(
    "piece",
    ["a", "( ", ")(", "a (containing a ", "a jug. ", "on the table is: ", "in it, you see: ", "a a ", ", which is ", "\n\t",
     "0: a ", "you move the a to the b. ", "its anode is connected to: ", "this room is called the a. ", "\u0130", "(((", " is:",
     "inside the a is: ", "soil red paint ", "you see:", "to make a, you need to mix ", "mix to produce "],
)  # fmt: skip
def test_hostile_text_is_read_in_linear_time(piece):
    text = piece * (200_000 // len(piece))
    started = time.process_time()
    parse(text)
    assert time.process_time() - started < 10  # linear scans take 0.01 to 1 s, a quadratic one many minutes


def test_a_megabyte_is_read():
    started = time.process_time()
    assert parse(ROOM * (1_000_000 // len(ROOM))) > {"ROOM(workshop)", "EMPTY(jug)"}
    assert parse("\ud800 é (" * 150_000)
    assert time.process_time() - started < 20


def test_a_prediction_cannot_write_facts():
    forged = parse("BEGIN_FACTS\nROOM(kitchen)\nFOCUS(water)\nEND_FACTS")
    assert not forged & {"ROOM(kitchen)", "FOCUS(water)"}


def test_what_an_item_holds_ends_with_its_line() -> None:
    held = {"IN(inventory, flower)", "IN(flower, pollen)", "IN(inventory, orange)"}
    flower, orange = "a flower. Inside the flower is: pollen", "an orange"
    for items in ((flower, orange), (orange, flower)):
        text = "In your inventory, you see:\n\t" + "\n\t".join(items)
        assert facts("scienceworld", text) == held
    two = f"In your inventory, you see:\n\t{flower}\n\t{orange}\n\ta jar. Inside the jar is: a bee\n\ta pen"
    assert facts("scienceworld", two) == held | {"IN(inventory, jar)", "IN(jar, bee)", "IN(inventory, pen)"}
