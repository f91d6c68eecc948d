"""The rules of the ScienceWorld fact parser: what a sentence of the simulator states.

A rule is a pattern over lower-case, single-spaced text and the facts that it gives. Rules are tried in
the paper's order of priority (memwm.txt B.5.2); every quantifier is bounded, so a failed match costs a
constant.
"""

from __future__ import annotations

import re

from wmlab.metrics.ssf.scan import Apply, Reading
from wmlab.metrics.ssf.scienceworld_scene import bare

NAME = r"[^.,:;!?]{1,80}?"
_STATE = r"open|closed|activated|deactivated|flushing|on|off"
_LIST = re.compile(r", and |, | and ")


def _fact(name: str) -> Apply:
    """The groups of the match as arguments, without articles."""

    def apply(reading: Reading, match: re.Match[str]) -> None:
        reading.add(name, *(bare(group) for group in match.groups()))

    return apply


def _state(state: str) -> Apply:
    def apply(reading: Reading, match: re.Match[str]) -> None:
        reading.add("STATE", bare(match[1]), state)

    return apply


def _moved(reading: Reading, match: re.Match[str]) -> None:
    reading.add("MOVED", "agent", bare(match[1]))


def _temperature(reading: Reading, match: re.Match[str]) -> None:
    reading.add("TEMPERATURE", match[1], "celsius")


def _recipe(reading: Reading, match: re.Match[str]) -> None:
    for ingredient in _LIST.split(match[2]):
        if ingredient.strip():
            reading.add("RECIPE", bare(match[1]), bare(ingredient))


def _mixed(reading: Reading, match: re.Match[str]) -> None:
    for ingredient in _LIST.split(match[1]):
        if ingredient.strip():
            reading.add("RECIPE", bare(match[2]), bare(ingredient))


# (words that the sentence must hold, checked first because it is cheap; pattern; facts)
_TABLE: tuple[tuple[str, str, Apply], ...] = (
    (
        " degrees ",
        r"(?:the )?thermometer measures a temperature of (-?\d{1,9}) degrees celsius",
        _temperature,
    ),
    (" connected to ", rf"({NAME}) is now connected to ({NAME})", _fact("CONNECTED")),
    (" disconnected", rf"({NAME}) has been disconnected", _state("disconnected")),
    (
        " already connected",
        rf"({NAME}) is already connected(?:, and must be disconnected before [a-z ]{{1,60}})?",
        _state("connected"),
    ),
    ("you ", rf"you (?:move|teleport) to (?:the )?({NAME})", _moved),
    ("you ", rf"you move (?:through )?(?:the )?({NAME}) to (?:the )?({NAME})", _fact("MOVED")),
    ("you focus ", rf"you focus on (?:the )?({NAME})", _fact("FOCUS")),
    (" wait ", r"you decide to wait for (\d{1,9}) iterations?", _fact("WAIT")),
    (
        "you pour ",
        rf"you pour (?:the contents of )?(?:the )?({NAME}) into (?:the )?({NAME})",
        _fact("POURED"),
    ),
    (
        "you dunk ",
        rf"you dunk (?:the )?{NAME} in (?:the )?({NAME}), moving the liquids \({NAME}\) to (?:the )?({NAME})",
        _fact("POURED"),
    ),
    (" is ", rf"(?:the )?({NAME}) is (?:now|already) ({_STATE})", _fact("STATE")),
    (" not open", rf"(?:the )?({NAME}) is not open", _state("not open")),
    (" isn't open", rf"(?:the )?({NAME}) isn't open(?:, so you can't see inside)?", _state("not open")),
    (
        " isn't open",
        rf"that can't be moved there, because (?:the )?({NAME}) isn't open",
        _state("not open"),
    ),
    (
        " poured out",
        rf"(?:the )?({NAME}) can't be poured out, because it's not open",
        _state("not open"),
    ),
    (
        " broken",
        rf"(?:the )?({NAME}) appears broken, and can't be activated or deactivated",
        _state("broken"),
    ),
    (" break", rf"you hit the ({NAME}) with the axe, causing it to break", _state("broken")),
    (" catches ", rf"(?:the )?({NAME}) catches fire", _state("on fire")),
    (
        " is not ",
        rf"(?:the )?({NAME}) is (not (?:moveable|movable|edible|flammable|openable|closeable|a container)"
        r"|not something that can be activated)",
        _fact("STATE"),
    ),
    (" delicious", rf"(?:the )?({NAME}) was delicious", _state("eaten")),
    (" chop ", rf"you chop down the ({NAME}), creating wood", _state("chopped down")),
    (" heats up ", rf"the lighter heats up the ({NAME}) a small amount", _state("heated")),
    (
        " anything new",
        rf"mixing the contents of (?:the )?({NAME}) does not appear to produce anything new",
        _state("unchanged"),
    ),
    (
        "not sure how",
        rf"i'm not sure how to use the ({NAME}(?: \({NAME}\))?)",
        _state("no known use"),
    ),
    (" nothing in ", rf"there is nothing in (?:the )?({NAME})", _fact("EMPTY")),
    (
        " is empty",
        rf"(?:the )?({NAME}) is empty, so there(?:'s nothing to pour| are no items to mix)",
        _fact("EMPTY"),
    ),
    (" only one ", rf"there is only one thing \(({NAME})\)", _fact("VISIBLE")),
    (
        " need to mix ",
        r"(?:the recipe reads: ?)?to make ([^.,:;!?]{1,80}?), you need to mix ([^.:;!?]{1,300}?)",
        _recipe,
    ),
    (" mix to ", r"([^.:;!?]{1,200}?) mix to produce (?:an? )?([^.,:;!?]{1,80}?)", _mixed),
)
_REFUSAL = (
    r"((?:no known action|unknown action|you can't|you must|that can't|that is|that thing|that object|its not clear"
    r"|it's not clear|i'm not sure|something can't|connections must|you don't)\b[^:]{0,200})"
)
_RULES = tuple((words, re.compile(rf"{pattern}(?:\.|$)"), apply) for words, pattern, apply in _TABLE)
_DISCONNECTING = re.compile(rf"\(disconnecting ({NAME})\) ?")
_REFUSED = re.compile(_REFUSAL)
_OPTION = re.compile(r"(?:^| )(\d{1,4}): ")
_MENU = "ambiguous request:"


def read_menu(reading: Reading, text: str) -> bool:
    """``AMBIG_OPTION(index, action)`` of each choice; False when the text is no menu."""
    if not text.startswith(_MENU):
        return False
    _, *found = _OPTION.split(text)
    for index, action in zip(found[::2], found[1::2], strict=True):
        reading.add("AMBIG_OPTION", index, action.strip())
    return bool(found)


def read_message(reading: Reading, text: str) -> bool:
    """Facts of a text made up of known sentences; False, and no fact, when any part of it fits no rule."""
    found = Reading()
    disconnecting = _DISCONNECTING.match(text)
    position, length = 0, len(text)
    if disconnecting is not None:
        found.add("STATE", bare(disconnecting[1]), "disconnected")
        position = disconnecting.end()
    rules = [(pattern, apply) for words, pattern, apply in _RULES if words in text]
    while position < length:
        for pattern, apply in rules:
            match = pattern.match(text, position)
            if match is not None:
                apply(found, match)
                position = match.end()
                break
        else:
            refused = _REFUSED.fullmatch(text, position)
            if refused is None:
                return False
            found.add("STATE", "action", refused[1].rstrip(" ."))
            break
        while position < length and text[position] == " ":
            position += 1
    reading.facts |= found.facts
    return True
