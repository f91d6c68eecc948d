"""What the history shows can be predicted; what was drawn and shown nowhere cannot: a rule for every domain."""

import pytest
from wmlab.data.decompose import compose_system
from wmlab.errors import InputError
from wmlab.metrics.predictable import RULES, is_predictable


def verdicts(domain, system, steps):
    """Whether each (action, observation) can be known from what came before it."""
    history, out = [{"role": "system", "content": system}], []
    for action, observation in steps:
        history.append({"role": "user", "content": action})
        out.append(is_predictable(history, observation, domain=domain))
        history.append({"role": "assistant", "content": observation})
    return out


ALFWORLD = (
    "You are in the middle of a room. Looking quickly around you, you see a desk 1, a drawer 2, a drawer 1, and a safe 1.\n"
    "Your task is to: put a mug in safe.\nAVAILABLE ACTIONS: go to desk 1,go to drawer 1,go to safe 1,help,inventory,look"
)
CONTENTS = (
    "=== Objects on Receptacles ===\n - drawer 1 is closed, if opened, in it, you see nothing.\n"
    " - On the desk 1, you see a mug 1\n - safe 1 is closed, if opened, on the safe 1, you see a watch 1"
)
ALFWORLD_STEPS = [
    ("go to desk 1", "You arrive at desk 1. On the desk 1, you see a mug 1.", False),  # first look
    ("take mug 1 from desk 1", "You pick up the mug 1 from the desk 1.", True),
    ("inventory", "You are carrying: a mug 1.", True),
    ("go to safe 1", "You arrive at safe 1. The safe 1 is closed.", True),
    ("open safe 1", "You open the safe 1. The safe 1 is open. In it, you see a watch 1.", False),
    ("move mug 1 to safe 1", "You move the mug 1 to the safe 1.", True),
    ("open drawer 1", "Nothing happens.", True),
    (
        "go to desk 1",
        "You arrive at desk 1. On the desk 1, you see nothing.",
        True,
    ),  # seen before, and emptied
    ("go to drawer 1", "You arrive at drawer 1. The drawer 1 is closed.", True),
    (
        "open drawer 1",
        "You open the drawer 1. The drawer 1 is open. In it, you see nothing.",
        False,
    ),  # empty: told by no one
    ("examine drawer 1", "The drawer 1 is open. In it, you see nothing.", True),
    (
        "go to safe 1",
        "You arrive at safe 1. The safe 1 is open. In it, you see a mug 1, and a watch 1.",
        True,
    ),
]


def test_alfworld_first_look():
    steps = [step[:2] for step in ALFWORLD_STEPS]
    assert verdicts("alfworld", ALFWORLD, steps) == [step[2] for step in ALFWORLD_STEPS]


def test_alfworld_description_tells_all_contents():
    system = compose_system(ALFWORLD, CONTENTS)
    assert all(verdicts("alfworld", system, [step[:2] for step in ALFWORLD_STEPS]))
    # not in the description at all
    assert verdicts(
        "alfworld", system, [("go to desk 1", "You arrive at desk 1. On the desk 1, you see a vase 1.")]
    ) == [False]


def test_alfworld_shared_spots_show_when_looked_at():
    look = ("look", "You are facing the drawer 2, and drawer 1. Next to it, you see nothing.")
    assert verdicts("alfworld", compose_system(ALFWORLD, CONTENTS), [look, look]) == [False, True]
    alone = ("look", "You are facing the desk 1. Next to it, you see nothing.")
    assert verdicts("alfworld", ALFWORLD, [alone]) == [True]


def test_cookingworld():
    kitchen = (
        "You are in the kitchen. In one part of the room you see a stove. You also see a fridge that is closed. In another part of "
        "the room you see a counter that has a knife, and a cookbook on it. \nTo the North you see a closed screen door. "
    )
    recipe = "Gather all following ingredients and follow the directions to prepare this tasty meal.\n\nIngredients:\n  salt\n\nDirections:\n  prepare meal\n\n"
    steps = [
        ("look around", kitchen, True),
        ("read cookbook", recipe, False),
        ("read cookbook", recipe, True),
        ("take knife", "You take the knife.", True),
        ("put knife in counter", "You put the knife in the counter.", True),
        ("open fridge", "You open the fridge. It's empty inside.", False),
        ("close fridge", "You close the fridge.", True),
        ("open fridge", "You open the fridge. It's empty inside.", True),
        ("move north", "You can't move there, the door is closed. ", True),
        ("open door to north", "You open the screen door, revealing the pantry. ", False),
        ("move north", "You are in the pantry. There is also a shelf that has some salt on it. \nThrough an open screen door, to the "
                       "South you see the kitchen. ", False),
        ("take salt", "You take the salt.", True),
        ("inventory", "Inventory: \n  some salt\n", True),
        ("move south", kitchen.replace("To the North you see a closed screen door",
                                       "Through an open screen door, to the North you see the pantry"), True),
        ("prepare meal", "Adding the meal to your inventory.", True),
        ("eat meal", "You eat the meal.  It is delicious. [SUCCESS]", True),
    ]  # fmt: skip
    first = f"You are hungry!\n{kitchen}\nAVAILABLE ACTIONS: look around, inventory"
    assert verdicts("cookingworld", first, [step[:2] for step in steps]) == [step[2] for step in steps]


def test_webshop_first_view_of_a_page():
    goal = "Instruction: [SEP] Find me a mug with size: small, and price lower than 20.00 dollars"
    start = f"WebShop [SEP] {goal} [SEP] Search"
    block = "\n\nYour admissible actions of the current situation are: \n[\n'click[back to search]',\n]."
    results = f"{goal} [SEP] Back to Search [SEP] Page 1 (Total results: 1) [SEP] Next > [SEP] B000000001 [SEP] Mug [SEP] $9.99{block}"
    past_end = f"{goal} [SEP] Back to Search [SEP] Page 2 (Total results: 1) [SEP] < Prev [SEP] Next >{block}"
    item = (
        f"{goal} [SEP] Back to Search [SEP] < Prev [SEP] size [SEP] small [SEP] large [SEP] Mug [SEP] Price: $9.99 [SEP] "
        f"Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now{block}"
    )
    text = f"{goal} [SEP] Back to Search [SEP] < Prev [SEP] holds tea{block}"
    empty = f"{goal} [SEP] Back to Search [SEP] < Prev{block}"
    done = (
        "Thank you for shopping with us! [SEP] Your code: [SEP] None [SEP] Purchased [SEP] asin [SEP] B000000001 [SEP] Reward [SEP] "
        "Your score (min 0.0, max 1.0) [SEP] 1.0 [SEP] Reward Details [SEP] None [SUCCESS]"
    )
    steps = [
        ("click[search]", start, True),
        ("search[mug]", results, False),
        ("search[]", results, True),  # refused: the same page again
        ("click[next >]", past_end, False),
        ("click[< prev]", results.replace(block, ""), True),
        ("click[b000000001]", item, False),
        ("click[small]", item.replace(" [SEP] ", "\n[SEP]\n"), True),
        ("click[description]", empty, False),
        ("click[features]", text, False),
        ("click[< prev]", item, True),
        ("click[reviews]", empty, True),
        ("click[back to search]", start, True),
        ("search[mug]", results, True),
        ("click[buy now]", done, True),
    ]
    assert verdicts("webshop", start, [step[:2] for step in steps]) == [step[2] for step in steps]
    assert verdicts("webshop", start, [("click[reviews]", empty)]) == [True]


def facts_of(*facts):
    pairs = (fact.partition("(") for fact in facts)
    return frozenset((name, rest[:-1]) for name, _, rest in pairs)


@pytest.mark.parametrize(
    ("gold", "known", "words", "reveals"),
    [
        (["ROOM(kitchen)"], [], "go to kitchen", True),
        (["ROOM(kitchen)"], ["ROOM(kitchen)"], "kitchen", False),
        (["TEMPERATURE(13, celsius)"], [], "use thermometer on water", True),
        (["TEMPERATURE(13, celsius)"], ["TEMPERATURE(13, celsius)"], "13", False),
        (["IN(cupboard, jug)"], ["ON(table, jug)"], "cupboard jug", True),
        (["IN(cupboard, jug)"], ["EMPTY(cupboard)"], "cupboard jug", False),
        (["RECIPE(salt water, water)"], [], "salt water", True),
        (["DOOR(hallway, open)"], ["DOOR(hallway, closed)"], "hallway", False),
        (["FOCUS(water)"], [], "focus on substance in metal pot", True),
        (["WAIT(10)"], [], "wait", False),
        (["MESSAGE(no known action matches that input)"], [], "", False),
    ],
)
def test_scienceworld_rule_over_the_papers_facts(gold, known, words, reveals):
    rule = RULES["scienceworld"]
    assert rule.reveals(facts_of(*gold), facts_of(*known), set(words.split()) | rule.constants) is reveals


def test_unknown_domain():
    with pytest.raises(InputError, match="nowhere"):
        is_predictable([{"role": "system", "content": ""}], "x", domain="nowhere")
