"""Which next observations a world model could know at all.

An observation may reveal what was drawn when the world was made and shown nowhere before: neither in the
history nor in the description that only the world model is given. No model can know it, so exact match on
such rows measures luck. ``em_predictable`` leaves them out.

Where a domain's observations are fact sets, the gold observation is unpredictable when it has a fact
(``metrics.ssf``) of any of these kinds; "known" is said of the facts of the history's observations:

1. *first*: of a name in ``first``, and not known. A room described, a thing examined, a recipe read.
2. *inside*: about what a place holds (``inside``), and no known fact tells what that place holds. A look
   into a container or at a surface for the first time; an empty one is a revelation too.
3. *words*: of a name in ``words``, with a word that no message of the history holds.
4. the domain's own rule (``also``).

=============  ====================================================================================
textworld      first ROOM, LOOKS; words CONTENT; also the first opening of a thing that is no door
alfworld       inside ON, IN, EMPTY, unless the description told all contents; words of things and
               states; also furniture that is found, for the first time, to share a spot
scienceworld   first ROOM, LOCATION, RECIPE; inside IN, CONTAINS, EMPTY; words of things, doors,
               measurements and what an action names in its result
cookingworld   first ROOM, INGREDIENT, STEP; inside IN, EMPTY; words of things, doors and rooms behind
webshop        pages, not facts: a results, product or text page is unpredictable until the history
               shows that very page. The start page, a page whose text is fixed (Reviews) and the
               closing page are not: the closing score follows from the instruction and the choices
=============  ====================================================================================

Messages of the engine (refusals, help, score and closing texts) are the same in every world and so can be
learned: they never make an observation unpredictable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from wmlab.data.decompose import split_system
from wmlab.errors import InputError
from wmlab.metrics.ssf import facts

Message = Mapping[str, str]
Parsed = frozenset[tuple[str, str]]
"""Facts as (name, arguments text)."""

CONTENT = ("HERE", "STATE", "DOOR", "EXIT", "IN", "ON", "FLOOR", "EMPTY", "CARRYING")
_WORD = re.compile(r"[^\W_]+")


def _parsed(domain: str, text: str) -> Parsed:
    pairs = (fact.partition("(") for fact in facts(domain, text))
    return frozenset((name, rest[:-1]) for name, _, rest in pairs)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _arguments(known: Parsed, name: str) -> set[str]:
    return {arguments for found, arguments in known if found == name}


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


@dataclass(frozen=True)
class Rule:
    """When a fact reveals something (module docstring). ``told`` is the fact of a full description."""

    first: frozenset[str] = frozenset()
    inside: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    constants: frozenset[str] = frozenset()  # words of values that need not have been seen
    looked: frozenset[str] = frozenset()  # places whose contents are no secret, e.g. the inventory
    told: str = ""
    also: Callable[[Parsed, Parsed], bool] | None = None

    def reveals(self, gold: Parsed, known: Parsed, words: set[str]) -> bool:
        """Whether ``gold`` tells what ``known`` facts and ``words`` of the history do not."""
        told = self.told and (self.told, "") in known
        places = {
            arguments.partition(", ")[0] for name, arguments in known if name in self.inside
        } | self.looked
        for name, arguments in gold:
            if name in self.first and (name, arguments) not in known:
                return True
            if name in self.inside and not told and arguments.partition(", ")[0] not in places:
                return True
            if name in self.words and not _words(arguments) <= words:
                return True
        return self.also is not None and self.also(gold, known)


def _opens(gold: Parsed, known: Parsed) -> bool:
    """TextWorld: a thing that is no known door is opened, and was neither opened nor shown open before."""
    doors = {arguments.rpartition(", ")[0] for arguments in _arguments(known, "DOOR")}
    opened = {a.removeprefix("open, ") for a in _arguments(known, "DID") if a.startswith("open, ")}
    opened |= {a.removesuffix(", open") for a in _arguments(known, "STATE") if a.endswith(", open")}
    now = {a.removeprefix("open, ") for a in _arguments(gold, "DID") if a.startswith("open, ")}
    return not now <= doors | opened


def _shares(gold: Parsed, known: Parsed) -> bool:
    """ALFWorld: furniture stands at one spot, which nothing showed before."""
    spots = {spot for spot in _arguments(gold, "FACING") if ", " in spot}
    return not spots <= _arguments(known, "FACING")


RULES: dict[str, Rule] = {
    "textworld": Rule(
        first=_set("ROOM LOOKS"),
        words=frozenset(CONTENT),
        constants=_set("open closed locked nothing"),
        also=_opens,
    ),
    "alfworld": Rule(
        inside=_set("ON IN EMPTY"),
        words=_set("ON IN EMPTY STATE SEES NEAR CARRYING TAKEN PLACED"),
        constants=_set(
            "open closed heated cooled cleaned dirty sliced on off normal nothing middle of a room"
        ),
        told="ALL_CONTENTS",
        also=_shares,
    ),
    "scienceworld": Rule(
        first=_set("ROOM LOCATION RECIPE"),
        inside=_set("IN CONTAINS EMPTY"),
        words=_set("VISIBLE ON IN CONTAINS EMPTY DOOR TEMPERATURE FOCUS MOVED POURED"),
        constants=_set("open closed celsius nothing inventory air agent that container"),
        looked=frozenset({"inventory", "that container"}),
    ),
    "cookingworld": Rule(
        first=_set("ROOM INGREDIENT STEP"),
        inside=_set("IN EMPTY"),
        words=_set("HERE ON IN EMPTY STATE DOOR LEADS BEHIND CARRYING PLACED"),
        constants=_set("open closed nothing meal raw fried roasted grilled cooked chopped sliced diced"),
    ),
}


_ROOM_HEAD = re.compile(r"^== Room: [^\n]{0,80} ==$", re.MULTILINE)
_ACTIONS = re.compile(r"\s*your admissible actions of the current situation are:", re.IGNORECASE)
_RESULTS = re.compile(r"page \d{1,6} \(total results: \d{1,9}\)")
_FURNITURE = frozenset({"back to search", "< prev", "next >"})


def _page(text: str) -> tuple[str, ...]:
    """The strings of a shop page, without the instruction, the success marker and the block of actions."""
    text = _ACTIONS.split(text, maxsplit=1)[0].removesuffix(" [SUCCESS]")
    strings = [" ".join(string.split()).casefold() for string in text.split("[SEP]")]
    if "instruction:" in strings[:2]:
        del strings[: strings.index("instruction:") + 2]
    return tuple(strings)


def _shows_new_page(history: Sequence[Message], observation: str) -> bool:
    """WebShop: a results, product or text page that the history does not show."""
    page = _page(observation)
    if page[0].startswith("thank you for shopping") or page == ("search",) or "back to search" not in page:
        return False  # closing page, start page, a message
    if set(page) <= _FURNITURE and not any(map(_RESULTS.fullmatch, page)):
        action = next((m["content"] for m in reversed(history) if m["role"] == "user"), "")
        if "[reviews]" in action.casefold():
            return False  # never has text
    return all(page != _page(message["content"]) for message in history if message["role"] != "user")


def _parts(content: str) -> list[str]:
    """An observation; a system turn with a description as the observation and the description's rooms."""
    shown, told = split_system(content)
    return [shown] if told is None else [shown, *_ROOM_HEAD.split(told)]


def is_predictable(history: Sequence[Message], observation: str, *, domain: str = "textworld") -> bool:
    """False when ``observation`` reveals what nothing in ``history`` shows (rules above).

    ``history`` has world-model roles: system is the initial observation, with the description that only the
    world model is given where the domain has one; user an action, assistant an observation. It ends with the
    action that ``observation`` answers. Raises InputError for a domain without such a rule.
    """
    if domain == "webshop":
        return not _shows_new_page(history, observation)
    rule = RULES.get(domain)
    if rule is None:
        known_domains = ", ".join(sorted([*RULES, "webshop"]))
        raise InputError(
            f"domain {domain!r}: no rule for predictable observations; there is one for {known_domains}"
        )
    known: set[tuple[str, str]] = set()
    words = set(rule.constants)
    for message in history:
        words |= _words(message["content"])
        if message["role"] != "user":
            for part in _parts(message["content"]):
                known |= _parsed(domain, part)
    return not rule.reveals(_parsed(domain, observation), frozenset(known), words)
