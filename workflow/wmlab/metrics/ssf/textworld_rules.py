"""The rules of the TextWorld fact parser: which facts each printed sentence states.

A rule is a pattern of ``textworld_phrases`` and a function that adds facts. Patterns stop before the
closing punctuation, which the scanner skips. Rules are tried in the order of ``table``.
"""

from __future__ import annotations

import re

from wmlab.metrics.ssf.scan import Apply, Reading, admissible, constant, each, nothing
from wmlab.metrics.ssf.textworld_phrases import (
    DECORATION,
    DECORATION_WITHOUT_STOP,
    DIRECTION,
    DISCOVERIES,
    EMPTY_IT,
    END,
    HERE,
    LIST,
    LIST_END,
    MAKE_OUT,
    NAME,
    OPEN,
    REFUSALS,
    ROOM_OPENINGS,
)

_ARTICLE = re.compile(r"^(?:an?|the|some) ")
_SEPARATOR = re.compile(r", and |, | and ")
_LOOKING = re.compile(r"^([a-z-]{1,30}) looking (.+)$")


def bare(name: str) -> str:
    """A thing's name without its article."""
    return _ARTICLE.sub("", name.strip())


def listed(text: str) -> list[str]:
    """The names of a printed list such as ``a milk, an apple and a note``."""
    return [bare(item) for item in _SEPARATOR.split(text) if item.strip()]


def _state(word: str) -> str:
    return "open" if word == "opened" else word


def _thing(reading: Reading, match: re.Match[str]) -> None:
    """A container or supporter that the room description points out."""
    groups = match.groupdict()
    name = groups["name"]
    looks = groups.get("looks")
    looking = _LOOKING.match(name)
    if looking:
        looks, name = looking.groups()
    reading.add("HERE", name)
    if groups.get("also"):
        reading.add("HERE", groups["also"])
    if groups.get("state"):
        reading.add("STATE", name, _state(groups["state"]))
    if looks:
        reading.add("LOOKS", name, looks)
    reading.focus = name


def _held(fact: str) -> Apply:
    """Each listed object is in, or on, the named thing."""

    def apply(reading: Reading, match: re.Match[str]) -> None:
        holder = bare(match["name"]) if match.groupdict().get("name") else reading.focus
        for item in listed(match["list"]):
            if item == "nothing":
                reading.add("EMPTY", holder)
            else:
                reading.add(fact, item, holder)
        reading.focus = holder

    return apply


def _empty(reading: Reading, match: re.Match[str]) -> None:
    name = match.groupdict().get("name")
    if name:
        reading.focus = bare(name)
    reading.add("EMPTY", reading.focus)


def _looks(reading: Reading, match: re.Match[str]) -> None:
    reading.focus = bare(match["name"])
    reading.add("LOOKS", reading.focus, match["words"])


def _focus_state(state: str | None) -> Apply:
    def apply(reading: Reading, match: re.Match[str]) -> None:
        reading.add("STATE", reading.focus, state or match["state"])

    return apply


def _door(reading: Reading, match: re.Match[str]) -> None:
    reading.add("DOOR", match["name"], match["dir"])
    reading.add("STATE", match["name"], _state(match["state"]))
    reading.focus = match["name"]


def _did(verb: str) -> Apply:
    """A confirmed action with the object and, where printed, the other thing."""

    def apply(reading: Reading, match: re.Match[str]) -> None:
        groups = match.groupdict()
        name = bare(groups["name"])
        arguments = [verb, name] + ([bare(groups["other"])] if groups.get("other") else [])
        reading.add("DID", *arguments)
        reading.focus = name
        for item in listed(groups.get("list") or ""):
            reading.add("IN", item, name)

    return apply


def _status(reading: Reading, match: re.Match[str]) -> None:
    reading.add("AT", match["room"])
    reading.add("SCORE", match["score"])
    reading.add("TURN", match["turn"])


def _numbers(fact: str) -> Apply:
    def apply(reading: Reading, match: re.Match[str]) -> None:
        reading.add(fact, *match.groups())

    return apply


def _room(reading: Reading, match: re.Match[str]) -> None:
    reading.add("ROOM", match["room"])


def _refused(reading: Reading, match: re.Match[str]) -> None:
    reading.add("REFUSED", match.group().strip())


_IT_IS = r"(?= it is (?:open|closed|locked)| you can(?:'t)? see inside it| there is a lock on it| ?[.!?]| ?$| > ?-= )"
_ITEM = rf"(?P<name>{NAME})"


def table() -> list[tuple[str, Apply]]:
    """Rules in order of precedence: exact sentences first, general shapes last."""
    see_list = rf"{MAKE_OUT} (?P<list>{LIST})"
    rules: list[tuple[str, Apply]] = [
        (r"-= (?P<room>[^=]{1,60}?) =- ?(?P<score>-?\d{1,9})/(?P<turn>-?\d{1,9})(?!\d)", _status),
        (r"-= (?P<room>[^=]{1,60}?) =-", _room),
        (r"\[success\]", constant("SUCCESS")),
        (r"available actions: (?P<list>[^\[]{0,20000})", admissible),
        (r"\*\*\* the end \*\*\*", constant("END", "won")),
        (r"\*\*\* you lost! \*\*\*", constant("END", "lost")),
        (
            r"you scored (-?\d{1,9}) out of a possible (\d{1,9}), in (\d{1,9}) turns?(?= ?[.])",
            _numbers("FINAL"),
        ),
        (
            r"you have so far scored (-?\d{1,9}) out of a possible (\d{1,9}), in (\d{1,9}) turns?(?= ?[.])",
            _numbers("SO_FAR"),
        ),
        (
            r"would you like to restart, restore a saved game, quit or undo the last command\?",
            constant("MENU"),
        ),
        (r"your score (?:has just gone up|changed) by ([a-z -]{1,30}) points?", _numbers("SCORED")),
        (r"time passes", constant("DID", "wait")),
    ]
    rules += [(pattern + END, nothing) for pattern in DECORATION]
    rules += [(pattern, nothing) for pattern in DECORATION_WITHOUT_STOP]
    rules += [(pattern, _room) for pattern in ROOM_OPENINGS]
    rules += [(pattern + END, _empty) for pattern in EMPTY_IT]
    rules += [
        (r"you are carrying nothing" + END, constant("CARRYING", "nothing")),
        (rf"you are carrying: (?P<list>{LIST}){LIST_END}", each("CARRYING", listed)),
        (rf"you open (?:the )?{_ITEM}, revealing (?P<list>{LIST}){LIST_END}", _did("open")),
        (rf"you take (?:the )?{_ITEM} from (?:the )?(?P<other>{NAME}){END}", _did("take")),
        (rf"you pick up (?:the )?{_ITEM} from the (?P<other>ground){END}", _did("take")),
        (rf"you drop (?:the )?{_ITEM} on the (?P<other>ground){END}", _did("drop")),
        (rf"you put (?:the )?{_ITEM} on (?:the )?(?P<other>{NAME}){END}", _did("put")),
        (rf"you put (?:the )?{_ITEM} into (?:the )?(?P<other>{NAME}){END}", _did("insert")),
        (rf"you eat (?:the )?{_ITEM}\. not bad{END}", _did("eat")),
    ]
    rules += [
        (rf"you {verb} (?:the )?{_ITEM}{END}", _did(verb))
        for verb in ("open", "close", "lock", "unlock", "eat")
    ]
    rules += [
        (rf"{see_list} on the {_ITEM}(?= ?[.,!?]| ?$)", _held("ON")),
        (rf"{see_list} in the (?!room|corner){_ITEM}(?= ?[.,!?]| ?$)", _held("IN")),
        (
            rf"on the {_ITEM},? you (?:can )?(?:see|make out) (?P<list>{LIST}){LIST_END}",
            _held("ON"),
        ),
        (rf"on the {_ITEM} (?:is|are) (?P<list>{LIST}){LIST_END}", _held("ON")),
        (rf"in the {_ITEM} (?:is|are) (?P<list>{LIST}){LIST_END}", _held("IN")),
        (rf"the {_ITEM} contains (?P<list>{LIST}){LIST_END}", _held("IN")),
        (rf"there (?:is|are) (?P<list>{LIST}) on the floor{END}", each("FLOOR", listed)),
        (
            rf"there is an? (?P<state>open|closed|locked) {_ITEM} leading {DIRECTION}{END}",
            _door,
        ),
        (
            rf"there is an exit to the {DIRECTION}\. don't worry, it is (?:unblocked|unguarded){END}",
            lambda reading, match: reading.add("EXIT", match["dir"]),
        ),
        (
            rf"there is an (?:unblocked |unguarded )?exit to the {DIRECTION}{END}",
            lambda reading, match: reading.add("EXIT", match["dir"]),
        ),
        (
            rf"you need an (?:unblocked|unguarded) exit\? you should try going {DIRECTION}{END}",
            lambda reading, match: reading.add("EXIT", match["dir"]),
        ),
        (
            rf"you don't like doors\? why not try going {DIRECTION}, that entranceway is (?:unblocked|unguarded){END}",
            lambda reading, match: reading.add("EXIT", match["dir"]),
        ),
        (
            rf"the {_ITEM} is empty(?:, what a horrible day|! what a waste of a day|! this is the worst thing "
            rf"that could possibly happen, ever)?{END}",
            _empty,
        ),
        (rf"what a letdown! the {_ITEM} is empty{END}", _empty),
        (rf"the {_ITEM} appears to be empty{END}", _empty),
        (rf"however, the {NAME}, like an empty {_ITEM}, has nothing on it{END}", _empty),
    ]
    pointed = rf"(?: an?| the)? (?:(?P<state>{OPEN}) )?{_ITEM}(?:, which looks (?P<looks>[a-z-]{{1,30}}),)?{HERE}{END}"
    rules += [(rf"{discovery}{pointed}", _thing) for discovery in DISCOVERIES]
    rules += [
        (
            rf"an? (?P<state>{OPEN}) {_ITEM}(?:, which looks (?P<looks>[a-z-]{{1,30}}),)? is "
            rf"(?:here|in the room|nearby|close by|in the corner|right there by you){END}",
            _thing,
        ),
        (r"it is (?P<state>open|closed|locked)" + END, _focus_state(None)),
        (r"you can see inside it" + END, _focus_state("open")),
        (r"you can't see inside it because the lid's in your way" + END, _focus_state("closed")),
        (r"there is a lock on it" + END, _focus_state("locked")),
        (rf"(?P<words>it is what it is), an? {_ITEM}{_IT_IS}", _looks),
        (rf"it's an? (?P<words>[a-z-]{{1,30}}) {_ITEM}{_IT_IS}", _looks),
        (rf"that's an? (?P<words>[a-z-]{{1,30}}) {_ITEM}(?= ?!)", _looks),
        (rf"the (?P<words>metal) of the {_ITEM} is [a-z-]{{1,30}}{END}", _metal),
        (rf"you can't really describe the {_ITEM} besides that it's (?P<words>{NAME}){END}", _looks),
    ]
    rules += [(pattern, _refused) for pattern in REFUSALS]
    rules += [
        (
            rf"the {_ITEM} (?:is|looks|seems|appears|would seem) (?P<words>[^.!?()<>=\[\]]{{1,100}}?){_IT_IS}",
            _looks,
        )
    ]
    # "(with the old key)": what the game assumed the player meant.
    rules += [
        (r"[(](?P<words>[^()]{1,80})[)]", lambda reading, match: reading.add("ASSUMED", match["words"]))
    ]
    return rules


def _metal(reading: Reading, match: re.Match[str]) -> None:
    reading.focus = bare(match["name"])
    reading.add("LOOKS", reading.focus, f"metal {match.group().rsplit(' ', 1)[1]}")
