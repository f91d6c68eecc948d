"""The rules of the CookingWorld fact parser, over case-folded, single-spaced text (scan.py).

Sentences are those that the engine prints, with close paraphrases. Rules are tried in the order of
``table``; quantifiers are bounded.
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
    nothing,
    phrase,
)

WORDS = r"[^.!?<>=()\[\]]{1,100}"
DIRECTION = r"(?:the )?(?P<dir>north|south|east|west)"
SEE = r"(?:you(?: can)?(?: also)? see|there (?:is|are)(?: also)?)"
_VERB = r"(?:chop|slice|dice|fry|roast|grill|cook)"

_SEPARATOR = re.compile(r" and |; ?| [-*] |^[-*] | (?=(?:an?|some) )")
_STATES = frozenset({"raw", "fried", "roasted", "grilled", "cooked", "chopped", "sliced", "diced"})
_PAST = {"fry": "fried", "chop": "chopped", "slice": "sliced", "dice": "diced"}
# An ingredient's name ends with one of these words; the rest before it is colour and kind.
_ENDS = frozenset(
    word
    for words in (
        "egg milk water oil wing leg breast chop tuna carrot onion lettuce potato apple banana tomato pepper",
        "flour salt sugar cheese cilantro parsley",
    )
    for word in words.split()
)
_BULLETS = re.compile(r"[,;] ?| [-*] |^[-*] ")
_STEP = re.compile(
    rf"(?P<verb>{_VERB}) (?:the )?(?P<item>{NAME})"
    rf"(?=[.,;]? (?:[-*] |\d{{1,2}}[.)] )?(?:{_VERB} the |prepare )|[ .,;*-]*$)"
)
_PREPARE = re.compile(r"prepare (?:the |a )?meal")
_STEP_GAP = re.compile(r"\d{1,2}[.)] |[ .,;:*-]+")


@lru_cache(maxsize=4096)
def _named(part: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The items of a piece of a list between commas, each with the states printed before its name."""
    found = []
    for piece in _SEPARATOR.split(part.strip().removeprefix("and ")):
        words = bare(piece).split()
        first = 0
        while first < len(words) - 1 and words[first] in _STATES:
            first += 1
        if words:
            found.append((" ".join(words[first:]), tuple(words[:first])))
    return tuple(found)


def items(reading: Reading, text: str) -> list[str]:
    """The items of ``a knife, a raw red potato, and some salt``; their states become facts."""
    names = []
    for part in text.split(","):
        for name, states in _named(part):
            names.append(name)
            for state in states:
                reading.facts.add(f"STATE({name}, {state})")
    return names


def item(reading: Reading, text: str) -> str:
    """The one item named; its states become facts."""
    names = items(reading, text)
    return names[0] if len(names) == 1 else bare(text)


def _hold(reading: Reading, fact: str, place: str, text: str) -> None:
    reading.focus = place
    for name in items(reading, text):
        reading.facts.add(f"EMPTY({place})" if name == "nothing" else f"{fact}({place}, {name})")


def _thing(reading: Reading, match: re.Match[str]) -> None:
    """A thing of the room, or examined: closed, open, with contents, or plain."""
    opened, name, state, inside, upon, how = match.group("open", "name", "state", "in", "on", "prep")
    if not (opened or state or inside or upon):
        reading.focus = item(reading, name)
        reading.add("HERE", reading.focus)
        return
    reading.focus = name
    if opened or state in ("open", "closed"):
        reading.facts.add(f"STATE({name}, {'open' if opened else state})")
    if state == "empty":
        reading.add("EMPTY", name)
    if inside:
        _hold(reading, "IN", name, inside)
    if upon:
        _hold(reading, "ON" if how == "on" else "IN", name, upon)


def _contains(reading: Reading, match: re.Match[str]) -> None:
    _hold(reading, "IN", bare(match["name"]), match["list"])


def _listed(fact: str) -> Apply:
    def apply(reading: Reading, match: re.Match[str]) -> None:
        _hold(reading, fact, bare(match["name"]), match["list"])

    return apply


def _empty(reading: Reading, match: re.Match[str]) -> None:
    reading.add("EMPTY", reading.focus)


def _door(state: str) -> Apply:
    def apply(reading: Reading, match: re.Match[str]) -> None:
        reading.add("DOOR", match["dir"], bare(match["name"]), match.groupdict().get("state") or state)
        if match.groupdict().get("room"):
            reading.add("LEADS", match["dir"], bare(match["room"]))

    return apply


def _leads(reading: Reading, match: re.Match[str]) -> None:
    reading.add("LEADS", match["dir"], bare(match["room"]))


def _room(reading: Reading, match: re.Match[str]) -> None:
    reading.add("ROOM", bare(match["room"]))


def _opened(state: str) -> Apply:
    def apply(reading: Reading, match: re.Match[str]) -> None:
        reading.focus = bare(match["name"])
        reading.add("STATE", reading.focus, state)
        if match.groupdict().get("room"):
            reading.add("BEHIND", reading.focus, bare(match["room"]))

    return apply


def _take(reading: Reading, match: re.Match[str]) -> None:
    reading.add("CARRYING", item(reading, match["name"]))


def _put(reading: Reading, match: re.Match[str]) -> None:
    # Not IN or ON: the engine says "in the counter" of what it later shows on it.
    reading.add("PLACED", item(reading, match["name"]), bare(match["place"]))


def _prepared(reading: Reading, match: re.Match[str]) -> None:
    name = item(reading, match["name"])
    verb = match["verb"]
    reading.add("STATE", name, _PAST.get(verb, f"{verb}ed"))
    if match.groupdict().get("device"):
        reading.add("COOKED", name, bare(match["device"]))


def _eaten(reading: Reading, match: re.Match[str]) -> None:
    reading.add("EATEN", item(reading, match["name"]))


def _meal(reading: Reading, match: re.Match[str]) -> None:
    reading.add("CARRYING", "meal")
    reading.add("PROGRESS", "meal prepared")


def _inventory(reading: Reading, match: re.Match[str]) -> None:
    if match["most"]:
        reading.add("CAPACITY", match["most"])
    text = match["list"].strip()
    if not text or text.startswith("your inventory is currently empty"):
        reading.add("CARRYING", "nothing")
        return
    for name in items(reading, text):
        reading.add("CARRYING", name)


def ingredients(text: str) -> list[str]:
    """Names of a list without articles, cut at commas, bullets and after the words that end a name."""
    names: list[str] = []
    for part in _BULLETS.split(text):
        words: list[str] = []
        for word in bare(part).split():
            words.append(word)
            if word in _ENDS:
                names.append(" ".join(words))
                words = []
        if words:
            names.append(" ".join(words))
    return names


def _ingredients(reading: Reading, match: re.Match[str]) -> None:
    for name in ingredients(match["list"]):
        reading.add("INGREDIENT", item(reading, name))


def _steps(reading: Reading, match: re.Match[str]) -> None:
    text, position = match["list"].strip(), 0
    while position < len(text):
        gap = _STEP_GAP.match(text, position)
        if gap:
            position = gap.end()
            continue
        step = _PREPARE.match(text, position)
        if step:
            reading.add("STEP", "prepare", "meal")
        else:
            step = _STEP.match(text, position)
            if step is None:
                reading.add("MESSAGE", text[position:])
                return
            reading.add("STEP", step["verb"], step["item"].strip())
        position = step.end()


def _refused(reading: Reading, match: re.Match[str]) -> None:
    reading.add("REFUSED", match.group().strip())


def _full(reading: Reading, match: re.Match[str]) -> None:
    reading.add("FULL", match["n"])


_CONTENTS = (
    r",? (?:that|which) (?:is (?P<state>closed|open|empty)|contains (?P<in>[^.!?<>=()\[\]]{1,2000})|"
    r"has (?P<on>[^.!?<>=()\[\]]{1,2000}) (?P<prep>on|in) it)"
)


def table() -> list[tuple[str, Apply]]:
    """Rules in order of precedence."""
    named = rf"(?:an?|some|the|one) (?P<open>open )?(?P<name>{NAME})"
    thing = rf"{named}(?:{_CONTENTS})?{END}"
    name, room = rf"(?:the )?(?P<name>{NAME})", rf"(?:the |an? )?(?P<room>{NAME})"
    return [
        (r"\[success\]", constant("SUCCESS")),
        (rf"(?:in (?:one|another) (?:part|corner) of the room,? )?{SEE} {thing}", _thing),
        (rf"there (?:is|are)(?: also)? {thing}", _thing),
        (rf"you(?: can)?(?: also)?(?: can)? see {thing}", _thing),
        (rf"to {DIRECTION},? {SEE} (?:an? )(?P<state>open|closed) (?P<name>{NAME}){END}", _door("closed")),
        (rf"to {DIRECTION},? {SEE} {room}{END}", _leads),
        (rf"through an open (?P<name>{NAME}), to {DIRECTION},? {SEE} {room}{END}", _door("open")),
        (rf"you are (?:now )?in (?:the|a) (?P<room>{NAME}){END}", _room),
        (rf"(?:you find yourself|you stand) in (?:the|a) (?P<room>{NAME}){END}", _room),
        (rf"you open {name}, revealing {room}{END}", _opened("open")),
        (rf"you open {name}{END}", _opened("open")),
        (rf"you close {name} to {room}{END}", _opened("closed")),
        (rf"you close {name}{END}", _opened("closed")),
        (rf"it(?:'s| is) empty(?: inside)?{END}", _empty),
        (rf"inside,? (?:it|there) is nothing{END}", _empty),
        (rf"the (?P<name>{NAME}) contains (?P<list>{LIST})", _contains),
        (rf"the (?P<name>{NAME}) is (?P<state>open|closed){END}", lambda r, m: r.add("STATE", m["name"], m["state"])),
        (rf"the (?P<name>{NAME}) is empty{END}", lambda r, m: r.add("EMPTY", m["name"])),
        (rf"on the (?P<name>{NAME}),? {SEE} (?P<list>{LIST})", _listed("ON")),
        (rf"in the (?P<name>{NAME}),? {SEE} (?P<list>{LIST})", _listed("IN")),
        (rf"you (?:take|pick up) {name}{END}", _take),
        (rf"you (?:put|place) {name} (?:into|in|onto|on) (?:the )?(?P<place>{NAME}){END}", _put),
        (rf"you (?P<verb>{_VERB}) {name} (?:with|in|on|using) (?:the )?(?P<device>{NAME}){END}", _prepared),
        (rf"you (?P<verb>{_VERB}) {name}{END}", _prepared),
        (rf"you eat {name}(?:\. it is delicious)?{END}", _eaten),
        (rf"adding the meal to your inventory{END}", _meal),
        (r"inventory(?: \(maximum capacity is (?P<most>\d{1,4}) items?\))?: ?(?P<list>[^<>=()\[\]!?]{0,4000})", _inventory),
        (r"your inventory currently has (?P<n>\d{1,4}) items?, and is full", _full),
        (r"gather all following ingredients and follow the directions to prepare this tasty meal\.(?= ingredients:)", nothing),
        (r"ingredients: ?(?P<list>[^.<>=()\[\]]{1,2000}?)(?= directions:| ?$| \[success\])", _ingredients),
        (r"directions: ?(?P<list>[^<>=()\[\]]{1,4000})", _steps),
        (rf"unknown action: {WORDS}", _refused),
        (rf"you can't {WORDS}", _refused),
        (rf"you (?:are unable|can only|don't|cannot) {WORDS}", _refused),
        (rf"that is {WORDS}", _refused),
        (r"can only prepare meal in the -= [a-z ]{1,40} =-", _refused),
        (r"(?P<words>(?:score|task progress|progress): -?\d{1,4}(?:\.\d{1,6})?(?: ?/ ?\d{1,4})?%?)", phrase("PROGRESS")),
        (
            r"(?P<words>you are hungry! let's cook a delicious meal\. check the cookbook in the [a-z ]{1,30} for the "
            r"recipe\. once done, enjoy your meal)",
            phrase("TASK"),
        ),
        (r"available actions: (?P<list>[^\[]{0,20000})", admissible),
        # Examined: without "you see", so a bare name only where nothing follows it.
        (rf"{named}(?:{_CONTENTS}{END}|(?= ?$| \[success\]))", _thing),
    ]  # fmt: skip
