"""The rules of the ALFWorld fact parser, over case-folded, single-spaced text (scan.py).

Sentences are those of alfworld's text grammar, old and new, with the paraphrases that memwm.txt B.5.1
normalises and close ones. Rules are tried in the order of ``table``; quantifiers are bounded.
"""

from __future__ import annotations

import re
from functools import lru_cache

from wmlab.metrics.ssf.scan import (
    END,
    LIST,
    NAME,
    Apply,
    Reading,
    admissible,
    bare,
    constant,
    each,
    nothing,
    phrase,
)

SHORT = r"[^.!?<>=()\[\]]{1,300}?"  # a list that something follows
SEE = r"(?:you (?:can )?(?:see|find|notice)|there (?:is|are|lies?))"
_THE = r"(?:the )?"
_O = rf"{_THE}(?P<o>{NAME})"
_R = rf"{_THE}(?P<r>{NAME})"

_SEPARATOR = re.compile(r" and |; ?| [-*] |^[-*] | (?=an? )")
_ENTRY = re.compile(
    r"(?:(?P<r>[^,]{1,60}) is (?P<state>open|opened|closed), (?:if opened, )?)?"
    r"(?:(?P<how>on|in) (?:the )?(?P<where>[^,]{1,60}), you see )(?P<list>.{1,4000})"
)
_SWITCH = re.compile(r"(?P<o>.{1,60}) is (?P<state>on|off)")
_STATES = {
    "opened": "open",
    "hot": "heated",
    "cold": "cooled",
    "cool": "cooled",
    "clean": "cleaned",
    "turned on": "on",
    "turned off": "off",
    "shut": "closed",
}
_STATE = r"(?:open|opened|closed|shut|heated|hot|cooled|cool|cold|cleaned|clean|dirty|sliced|turned on|on|turned off|off)"
_PAST = {"heat": "HEATED", "cool": "COOLED", "clean": "CLEANED", "slice": "SLICED"}


@lru_cache(maxsize=4096)
def _names(part: str) -> tuple[str, ...]:
    """The names in a piece of a list between commas."""
    return tuple(name for name in map(bare, _SEPARATOR.split(part.strip().removeprefix("and "))) if name)


def listed(text: str) -> list[str]:
    """The names of ``a mug 1, a pen 2, and a bowl 1``."""
    return [name for part in text.split(",") for name in _names(part)]


def _state(reading: Reading, thing: str, word: str) -> None:
    reading.add("STATE", thing, _STATES.get(word, word))


def _held(fact: str) -> Apply:
    """Each listed thing is in, on or by the named place, or the one named last."""

    def apply(reading: Reading, match: re.Match[str]) -> None:
        place = match.groupdict().get("r")
        if place:
            reading.focus = bare(place)
        for thing in listed(match["list"]):
            if thing == "nothing" and fact != "NEAR":
                reading.add("EMPTY", reading.focus)
            else:
                reading.add(fact, reading.focus, thing)

    return apply


def _pair(fact: str) -> Apply:
    """A change of a thing at a place, e.g. ``TAKEN(mug 1, desk 1)``."""

    def apply(reading: Reading, match: re.Match[str]) -> None:
        reading.add(fact, *(bare(match[name]) for name in ("o", "r") if match.groupdict().get(name)))

    return apply


def _treated(reading: Reading, match: re.Match[str]) -> None:
    reading.add(_PAST[match["verb"]], bare(match["o"]), bare(match["r"]))


def _is(reading: Reading, match: re.Match[str]) -> None:
    reading.focus = bare(match["r"])
    if match["state"] == "empty":
        reading.add("EMPTY", reading.focus)
    else:
        _state(reading, reading.focus, match["state"])


def _becomes(state: str) -> Apply:
    def apply(reading: Reading, match: re.Match[str]) -> None:
        reading.focus = bare(match["r"])
        reading.add("STATE", reading.focus, state)

    return apply


def _examined(reading: Reading, match: re.Match[str]) -> None:
    """``This is a hot and clean sliced apple 1.``"""
    reading.focus = bare(match["r"])
    for word in match["states"].replace(" and ", " ").split():
        _state(reading, reading.focus, word)


def _arrive(reading: Reading, match: re.Match[str]) -> None:
    reading.place = reading.focus = bare(match["r"])


def _facing(reading: Reading, match: re.Match[str]) -> None:
    # The furniture that shares a spot names one place, so it is one fact.
    reading.focus = ", ".join(sorted(set(listed(match["list"]))))
    reading.add("FACING", reading.focus)


def _focus_is(reading: Reading, match: re.Match[str]) -> None:
    if match["state"] == "empty":
        reading.add("EMPTY", reading.focus)
    else:
        _state(reading, reading.focus, match["state"])


def _contents(reading: Reading, match: re.Match[str]) -> None:
    """Lines of the privileged block; a list ends where the next line begins, without a full stop."""
    reading.add("ALL_CONTENTS")
    for line in match["block"].split(" - "):
        entry = _ENTRY.fullmatch(line.strip(" .-"))
        if entry is None:
            if line.strip(" -."):
                reading.add("MESSAGE", line.strip(" -."))
            continue
        place = entry["r"] or entry["where"]
        if entry["r"]:
            _state(reading, place, entry["state"])
        for thing in listed(entry["list"]):
            if thing == "nothing":
                reading.add("EMPTY", place)
            else:
                reading.add("IN" if entry["r"] else "ON", place, thing)


def _switches(reading: Reading, match: re.Match[str]) -> None:
    for line in match["block"].split(" - "):
        entry = _SWITCH.fullmatch(line.strip(" .-"))
        if entry is not None:
            reading.add("STATE", entry["o"], entry["state"])
        elif line.strip(" -."):
            reading.add("MESSAGE", line.strip(" -."))


def table() -> list[tuple[str, Apply]]:
    """Rules in order of precedence."""
    adjective = r"(?:hot|cold|cool|clean|dirty|sliced|normal)"
    return [
        (r"\[success\]", constant("SUCCESS")),
        (rf"nothing (?:happens|happened){END}", constant("NO_EFFECT")),
        (r"you (?:have )?(?:arrived?|come|stop) at " + _R + END, _arrive),
        (rf"you (?:move|moved|put|place|placed) {_O} (?:in/on|into|onto|in|on|to) {_R}{END}", _pair("PLACED")),
        (rf"you (?:pick up|picked up|take|took) {_O} from {_R}{END}", _pair("TAKEN")),
        (rf"you (?:pick up|picked up|take|took) {_O}{END}", _pair("TAKEN")),
        (rf"you (?:open|opened) {_R}{END}", _becomes("open")),
        (rf"you (?:close|closed|shut) {_R}{END}", _becomes("closed")),
        (rf"you (?:turn|turned|switch|switched) on {_R}{END}", _becomes("on")),
        (rf"you (?:turn|turned|switch|switched) off {_R}{END}", _becomes("off")),
        (rf"you (?P<verb>heat|cool|clean|slice)(?:ed|d)? {_O} (?:using|with) {_R}{END}", _treated),
        (r"you are in the middle of (?:a|the) room" + END, constant("AT", "middle of a room")),
        (rf"(?:looking quickly around(?: you)?|looking around(?: you)?), you (?:can )?see:? ?(?P<list>{LIST})", each("SEES", listed)),
        (rf"you are facing (?P<list>{LIST})", _facing),
        (rf"next to (?:it|them), {SEE}:? ?(?P<list>{LIST})", _held("NEAR")),
        (rf"you are (?:not carrying anything|carrying nothing|empty-handed){END}", constant("CARRYING", "nothing")),
        (rf"you are (?:carrying|holding):? ?(?P<list>{LIST})", each("CARRYING", listed)),
        (rf"you don't see any switch on {_R}{END}", _pair("NO_SWITCH")),
        (rf"on (?:it|top), {SEE}:? ?(?P<list>{LIST})", _held("ON")),
        (rf"(?:in|inside)(?: it)?, {SEE}:? ?(?P<list>{LIST})", _held("IN")),
        (rf"on {_R}, {SEE}:? ?(?P<list>{LIST})", _held("ON")),
        (rf"(?:in|inside)(?: of)? {_R}, {SEE}:? ?(?P<list>{LIST})", _held("IN")),
        (rf"it is (?P<state>{_STATE}|empty){END}", _focus_is),
        (rf"it contains:? ?(?P<list>{LIST})", _held("IN")),
        (rf"the (?P<r>{NAME}) is (?:now )?(?P<state>{_STATE}|empty){END}", _is),
        (rf"the (?P<r>{NAME}) contains:? ?(?P<list>{LIST})", _held("IN")),
        (rf"the (?P<r>{NAME}) has (?P<list>{SHORT}) on it{END}", _held("ON")),
        (rf"the (?P<r>{NAME}) has (?P<list>{SHORT}) in(?:side)? it{END}", _held("IN")),
        (rf"there(?:'s| is) nothing special about {_R}{END}", _becomes("normal")),
        (rf"this is an? (?P<states>{adjective}(?:(?: and)? {adjective}){{0,3}}) (?P<r>{NAME}){END}", _examined),
        (rf"this (?P<r>{NAME}) is (?P<state>{_STATE}){END}", _is),
        (rf"(?:you (?:can )?see|there (?:is|are)) (?P<list>{SHORT}) on (?:the )(?P<r>{NAME}){END}", _held("ON")),
        (rf"(?:you (?:can )?see|there (?:is|are)) (?P<list>{SHORT}) in(?:side)? (?:the )(?P<r>{NAME}){END}", _held("IN")),
        (r"your task is to: (?P<words>[^.!?\[\]]{1,300})", phrase("TASK")),
        (r"available actions: (?P<list>[^\[]{0,20000})", admissible),
        (r"available commands: (?P<words>[^\[]{1,4000})", phrase("HELP")),
        (r"-= welcome to textworld, alfred! =-", constant("WELCOME")),
        (r"=== objects on receptacles ===(?P<block>[^=#\[]{0,20000})", _contents),
        (r"=== toggle states ===(?P<block>[^=#\[]{0,20000})", _switches),
        (r"environment information \(only visible to assistant\)", nothing),
        (r"user environment information \(displayed to user\)", nothing),
        (r"[p](?:ickup|ut)[a-z]{6,40}: ", nothing),  # the grammar's own names of rare actions
    ]  # fmt: skip
