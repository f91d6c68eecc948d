"""Rewordings that change no fact, and flips that change one, for the stress test's parser-game domains.

A paraphrase says the same state in other words or another layout. A flip turns each state into its opposite,
or a step of a recipe into another one, and keeps everything else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from wmlab.metrics.perturb.pieces import replace_mentions

_REWORDED: dict[str, tuple[tuple[str, str], ...]] = {
    "alfworld": (
        (r"\bYou arrive at (?:the )?", "You stop at the "),
        (r", you see\b", ", you can see"),
        (r"\bYou pick up the\b", "You take the"),
        (r"\bYou move the ([^.]+?) to the\b", r"You place the \1 in/on the"),
        (r"\bYou (open|close) the (\w+ \d+)\.", r"You \1 \2."),
        (r" is (open|closed)\.", r" is now \1."),
        (r"\bYou are carrying: ", "You are holding: "),
        (r"\bYou are not carrying anything\b", "You are empty-handed"),
        (r"\bNothing happens\b", "Nothing happened"),
        (r"\bYou (heat|cool|clean) the\b", r"You \1ed the"),
        (r"\bYou turn (on|off) the\b", r"You switched \1 the"),
    ),
    "scienceworld": (
        (r"\bIn it, you see:", "In this location, you see:"),
        (r"\bYou also see:", "Here you see:"),
        (r"\bYou focus on the\b", "You focus on"),
        (r"\bYou pour the contents of the\b", "You pour the"),
    ),
    "cookingworld": (
        (r"\bYou take the\b", "You pick up the"),
        (r"\bYou put the\b", "You place the"),
        (r"\bYou are in the\b", "You are now in the"),
        (r"\bIn (?:one|another) part of the room you see\b", "You can see"),
        (r"\bThere is also\b", "You also see"),
        (r"\bIt's empty\b", "It is empty"),
    ),
    "textworld": (),
}
_LISTED = re.compile(r"(?:^[ \t]+(?![^\n]*:[ \t]*$)[^\n]*(?:\n|\Z)){2,}", re.MULTILINE)
_NOTHING = re.compile(r"^\s*nothing\s*$", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[a-z0-9][.!?]) +(?=\S)")
_SPACE = re.compile(r"(?<=\S) (?=\S)")

_OPPOSITES = (
    ("is open", "is closed"),
    ("an open", "a closed"),
    ("now open", "now closed"),
    ("already open", "already closed"),
    ("you open", "you close"),
    ("you opened", "you closed"),
)
_SWITCHED = (
    ("turned on", "turned off"),
    ("turn on", "turn off"),
    ("is on", "is off"),
    ("activated", "deactivated"),
)
_COOKING = ("fry", "roast", "grill"), ("chop", "slice", "dice")
_COOKED = ("raw", "fried", "roasted", "grilled"), ("chopped", "sliced", "diced")


def _both_ways(*pairs: tuple[str, str]) -> dict[str, str]:
    return {left: right for pair in pairs for left, right in (pair, pair[::-1])}


def _round(cycle: tuple[str, ...], form: str) -> dict[str, str]:
    """Each word to the next of its cycle, in a phrase such as ``{} the``."""
    return {form.format(a): form.format(b) for a, b in zip(cycle, (*cycle[1:], cycle[0]), strict=True)}


FLIPS: dict[str, Mapping[str, str]] = {
    "alfworld": _both_ways(*_OPPOSITES, *_SWITCHED, ("you heat", "you cool")),
    "scienceworld": _both_ways(*_OPPOSITES, *_SWITCHED),
    "cookingworld": {
        **_both_ways(*_OPPOSITES, ("that is open", "that is closed")),
        **{key: value for cycle in _COOKED for key, value in _round(cycle, "{}").items()},
        **{key: value for cycle in _COOKING for key, value in _round(cycle, "you {}").items()},
    },
    "textworld": _both_ways(*_OPPOSITES, ("you lock", "you unlock"), ("is locked", "is unlocked")),
}
STEPS: Mapping[str, str] = {
    key: value for cycle in _COOKING for key, value in _round(cycle, "{} the").items()
}


def reworded(domain: str, text: str) -> str | None:
    """The same state in other words and another layout; None when the text offers no place for a change.

    Sentences move to lines of their own, except in ScienceWorld, where line breaks are structure: there the
    lines of a list change their order and the text gets the usual ``Observation:`` prefix.
    """
    changed = text
    for pattern, replacement in _REWORDED[domain]:
        changed = re.sub(pattern, replacement, changed)
    if domain == "scienceworld":
        changed = "Observation: " + _LISTED.sub(_reversed_lines, changed).lstrip()
    else:
        broken = _SENTENCE_END.sub("\n", changed)
        changed = broken if broken != changed else _SPACE.sub("\n", changed, count=1)
    return changed if changed.strip() != text.strip() else None


def _reversed_lines(match: re.Match[str]) -> str:
    block = match[0]
    if _NOTHING.search(block):  # what holds nothing is told by the place of the line
        return block
    lines = block.removesuffix("\n").split("\n")
    return "\n".join(reversed(lines)) + ("\n" if block.endswith("\n") else "")


def flipped(text: str, table: Mapping[str, str]) -> str | None:
    """The text with every phrase of the table replaced, all at once; None when it has none."""
    changed = replace_mentions(text, dict(table))
    return changed if changed != text else None
