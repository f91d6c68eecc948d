"""What became of an action, told by text: refused, repeated, lost; and actions as kinds that many tasks share."""

from __future__ import annotations

import re

from wmlab.data.decompose import action_type
from wmlab.data.filter import webshop_action_is_valid
from wmlab.domains.alfworld.reading import REFUSED as NOTHING_HAPPENS
from wmlab.domains.scienceworld.text import is_refusal
from wmlab.memory.keys import arguments, type_of
from wmlab.metrics.ssf.textworld_phrases import REFUSALS
from wmlab.skills.state import State

WINDOW = 6
"""Turns that are looked back for a repetition."""
_TEXTWORLD = re.compile("|".join(f"(?:{phrase})" for phrase in REFUSALS))
_SCIENCEWORLD = re.compile(
    r"(?:\([^)]{1,200}\))?(?:that can't be|i'm not sure|it's not clear|you can't|you cannot|mixing the contents of .* does not"
    r"|(?:the )?[\w ()-]{1,80} (?:is not|isn't|can't|cannot|does not|appears broken|is already|has no)\b)"
)
_COOKINGWORLD = re.compile(
    r"unknown action|you (?:can't|cannot|are unable|can only|don't|need)|that is |the [\w ]{1,60} is already"
    r"|can only prepare|your inventory currently has \d+ items?, and is full"
)
_WAITING = frozenset({"wait"})
_BUTTONS = ("back to search", "< prev", "next >", "description", "features", "reviews", "buy now", "search")
_PRODUCT = re.compile(r"b[0-9a-z]{9}")
_CLICK = re.compile(r"\Aclick\[(?P<what>.*)\]\Z", re.DOTALL)


def head(observation: str) -> str:
    """The first line that says something, case-folded and single-spaced."""
    return next((line for raw in observation.split("\n") if (line := " ".join(raw.casefold().split()))), "")


def is_refused(state: State, action: str, answer: str) -> bool:
    """Whether an action in a state had no effect: not understood, not possible, not offered by the page."""
    if state.domain == "webshop":
        searches = action.strip().startswith("search[")  # the shop answers a search from any page
        return not webshop_action_is_valid(action, None if searches else state.admissible)
    if state.domain == "alfworld":
        return answer.strip().startswith(NOTHING_HAPPENS)
    line = head(answer)
    if state.domain == "scienceworld":
        return is_refusal(answer.strip()) or _SCIENCEWORLD.match(line) is not None
    pattern = _TEXTWORLD if state.domain == "textworld" else _COOKINGWORLD
    return pattern.match(line) is not None


def is_repeated(state: State, action: str, answer: str) -> bool:
    """Whether the same action got the same answer within the last WINDOW turns. Waiting may be repeated."""
    if action_type(state.domain, action) in _WAITING:
        return False
    return (action, answer) in state.turns[-WINDOW:]


def misstep(state: State, action: str, answer: str, lost: bool) -> str:
    """``lost``, ``refused`` or ``repeated``; "" for a step that was none. ``lost``: it ended the episode unsolved."""
    if lost:
        return "lost"
    if is_refused(state, action, answer):
        return "refused"
    return "repeated" if is_repeated(state, action, answer) else ""


def kind_of_click(what: str) -> str:
    """``click buy now``, ``click a product`` or ``click an option``."""
    what = what.casefold().strip()
    if what in _BUTTONS:
        return f"click {what}"
    return "click a product" if _PRODUCT.fullmatch(what) else "click an option"


def kind_of_action(domain: str, action: str, before: str) -> str:
    """An action as other tasks know it: its verb, and whether it names what the action ``before`` named.

    ``open (its second thing)`` after a refused ``take apple from fridge`` is opening the fridge.
    """
    click = _CLICK.match(action.strip()) if domain == "webshop" else None
    if click is not None:
        return kind_of_click(click["what"])
    verb = action_type(domain, action)
    first = arguments(action)[0]
    if domain == "webshop" or not first or verb == "other":
        return verb
    same, second = arguments(before)
    if first == same:
        return f"{verb} (the same thing)"
    return f"{verb} (its second thing)" if first == second else f"{verb} (another thing)"


def shapes(domain: str, goal: str, action: str) -> tuple[str, ...]:
    """An action for summaries, most specific first: both things, the first one, the verb.

    What the goal names becomes ``[named]``; ALFWorld's numbers go.
    """
    if domain == "webshop":
        return (kind_of_action(domain, action, ""),)
    verb = action_type(domain, action)
    said = f" {' '.join(goal.casefold().split())} "
    things = [type_of(thing) for thing in arguments(action) if thing]
    named = ["[named]" if re.search(rf"\b{re.escape(thing)}\b", said) else thing for thing in things]
    return tuple(" ".join([verb, *named[:n]]) for n in range(len(named), -1, -1))
