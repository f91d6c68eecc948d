"""Transitions, hand-made, for the tests of world memory."""

from __future__ import annotations

from typing import Any

from wmlab.memory.bank import Entry, entry_id

KITCHEN = (
    "You are in the middle of a room. Looking quickly around you, you see a cabinet 1, a fridge 1, and a "
    "microwave 1.\n\nYour task is to: heat some apple and put it in cabinet."
)
SHOP_TAIL = "\n\nYour admissible actions of the current situation are: \n[\n"


def chat(first: str, *turns: str) -> list[dict[str, str]]:
    """A history: the first observation, then actions and observations in turn."""
    roles = ("user", "assistant")
    return [
        {"role": "system", "content": first},
        *({"role": roles[at % 2], "content": text} for at, text in enumerate(turns)),
    ]


def transition(name: str, history: list[dict[str, str]], observation: str, **changes: Any) -> dict[str, Any]:
    """A row of the transitions contract."""
    action = history[-1]["content"]
    base = {
        "transition_id": name, "trajectory_id": f"t_{name}", "domain": "alfworld", "task_id": f"alfworld_{len(name)}",
        "split": "train", "step": len(history) // 2 - 1, "history": history, "action": action,
        "action_type": action.split("[")[0].split()[0], "observation": observation, "next_action": "look",
        "is_terminal": False, "admissible": None,
    }  # fmt: skip
    return {**base, **changes}


def opened(
    name: str, thing: str = "fridge 1", inside: str = "an apple 1", first: str = KITCHEN
) -> dict[str, Any]:
    """ALFWorld: something was gone to and is opened."""
    history = chat(first, f"go to {thing}", f"You arrive at {thing}. The {thing} is closed.", f"open {thing}")
    return transition(name, history, f"You open the {thing}. The {thing} is open. In it, you see {inside}.")


def said_empty(thing: str = "fridge 1") -> str:
    """A wrong prediction of :func:`opened`."""
    return f"You open the {thing}. The {thing} is open. In it, you see nothing."


def page(*texts: str, actions: tuple[str, ...] = ()) -> str:
    """A shop page with its block."""
    block = "\n".join(f"'{action}'," for action in actions)
    return " [SEP] ".join(texts) + f"{SHOP_TAIL}{block}\n]."


def shop_pages(instruction: str = "find a mug") -> dict[str, str]:
    """Start, results and item page of a small shop."""
    head = ("Instruction:", instruction, "Back to Search")
    options = ("click[small]", "click[large]", "click[red]")
    return {
        "start": page("WebShop", "Instruction:", instruction, "Search", actions=("search[<your query>]", "click[search]")),
        "results": page(
            *head, "Page 1 (Total results: 12)", "Next >", "B000000001", "Blue Mug", "$9.99", "B000000002", "Red Cup",
            "$5.00", actions=("click[back to search]", "click[next >]", "click[b000000001]", "click[b000000002]"),
        ),
        "item": page(
            *head, "< Prev", "size", "small", "large", "color", "red", "Blue Mug", "Price: $9.99", "Rating: N.A.",
            "Description", "Features", "Reviews", "Buy Now",
            actions=("click[back to search]", "click[< prev]", "click[description]", "click[features]", "click[reviews]",
                     "click[buy now]", *options),
        ),
        "tab": page(*head, "< Prev", "Holds a pint.", actions=("click[back to search]", "click[< prev]")),
    }  # fmt: skip


def shop_rows(name: str, instruction: str = "find a mug") -> list[dict[str, Any]]:
    """One WebShop trajectory: search, product, an option, a tab."""
    pages = shop_pages(instruction)
    acted = [
        ("search[Blue  Mug]", "results"),
        ("click[B000000001]", "item"),
        ("click[large]", "item"),
        ("click[description]", "tab"),
    ]
    rows, turns = [], []
    for step, (action, shown) in enumerate(acted):
        turns.append(action)
        history = chat(pages["start"], *turns)
        rows.append(
            transition(
                f"{name}/{step}", history, pages[shown], domain="webshop", task_id=f"webshop_{len(name)}"
            )
        )
        turns.append(pages[shown])
    return rows


def transition_rule(schema: str) -> Entry:
    """TextWorld: a rule for one kind of action, learnt in another game."""
    key = (("schema", schema),)
    name = entry_id("textworld", "transition", key)
    return Entry(name, "transition", key, "a key", "", {"task_hashes": ["aa"]}, 2, ())
