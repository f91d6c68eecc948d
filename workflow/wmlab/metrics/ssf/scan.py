"""The scan that fact parsers share: rules tried at each position of case-folded, single-spaced text.

A rule is a pattern and a function that adds facts. At each position the rules that can start with the word
found there are tried in order of precedence; what none explains is kept up to the end of its sentence as
``MESSAGE``. Patterns stop before the closing punctuation, which the scan skips. Each position is visited
once, so time is linear in the text as long as a rule's quantifiers are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

_CACHE_TEXTS = 20_000
_CACHE_LONGEST = 8_000  # characters; longer texts are parsed each time, so the cache stays small
_LEADING_GROUP = re.compile(r"\(\?(?::|P<\w+>)([^()]*)\)")
_LEADING_WORD = re.compile(r"(?:\\[*\[\]]|[a-z':=-])+(?![a-z?(\[]|:\?)")

NAME = r"[^\W_][^.,!?;:()<>=\[\]]{0,59}?"
"""A name, as short as what follows it allows."""
LIST = r"[^.!?<>=()\[\]]{1,4000}"
"""A list, as far as its sentence goes."""
END = r"(?= ?[.,!?;:]| ?$| \[success\])"
"""What may follow a sentence."""
_ARTICLES = frozenset({"a", "an", "the", "some"})


@dataclass
class Reading:
    """Facts found so far, the thing last described ("it") and the place arrived at, said in passing."""

    facts: set[str] = field(default_factory=set)
    focus: str = "it"
    place: str = ""

    def add(self, name: str, *arguments: str) -> None:
        """Record one fact."""
        inside = arguments[0] if len(arguments) == 1 else ", ".join(arguments)
        self.facts.add(f"{name}({inside})")


Apply = Callable[[Reading, "re.Match[str]"], None]
Match = Callable[[str, int], "re.Match[str] | None"]
"""A compiled pattern's ``match``, looked up once and not at every position."""
Rule = tuple[Match, Apply]
Rules = dict[str, list[Rule]]


def flatten(text: str) -> str:
    """Case-folded text with every run of whitespace made one space."""
    return " ".join(text.split()).casefold()


def bare(name: str) -> str:
    """A name without article and bullet."""
    name = name.strip(" :-*")
    first, _, rest = name.partition(" ")
    return rest if rest and first in _ARTICLES else name


def constant(fact: str, *arguments: str) -> Apply:
    """A rule's function for a sentence that states one fixed fact."""

    def apply(reading: Reading, match: re.Match[str]) -> None:
        reading.add(fact, *arguments)

    return apply


def phrase(fact: str) -> Apply:
    """A rule's function for the text of the group ``words`` as one fact."""

    def apply(reading: Reading, match: re.Match[str]) -> None:
        reading.add(fact, match["words"].strip())

    return apply


def each(fact: str, listed: Callable[[str], Iterable[str]]) -> Apply:
    """A rule's function for one fact for each name that ``listed`` finds in the group ``list``."""

    def apply(reading: Reading, match: re.Match[str]) -> None:
        for name in listed(match["list"]):
            reading.add(fact, name)

    return apply


def nothing(reading: Reading, match: re.Match[str]) -> None:
    """A rule's function for a sentence that states no fact."""


def admissible(reading: Reading, match: re.Match[str]) -> None:
    """``ADMISSIBLE(action)`` for each action of the group ``list``."""
    for action in match["list"].split(","):
        if action.strip():
            reading.add("ADMISSIBLE", action.strip())


def _leading_words(pattern: str) -> tuple[list[str], str] | None:
    """The words a pattern can start with and what follows them; None when its text does not tell."""
    if pattern.startswith("an? "):
        return ["a", "an"], pattern[3:]
    group = _LEADING_GROUP.match(pattern)
    if group and pattern[group.end() : group.end() + 1] not in ("", " ", ","):
        return None  # optional, or the word goes on
    words, rest = [], ""
    for choice in group.group(1).split("|") if group else [pattern]:
        word = _LEADING_WORD.match(choice)
        if word is None:
            return None
        words.append(word.group().replace("\\", ""))
        rest += choice[word.end() :]
    if group:  # a second word is told only where each choice is one word
        rest = "" if rest else pattern[group.end() :]
    return words, rest


def _openings(pattern: str) -> list[str] | None:
    """The first word or, where the pattern's text tells it, the first two words that it can start with."""
    leading = _leading_words(pattern)
    if leading is None:
        return None
    words, rest = leading
    following = _leading_words(rest[1:]) if rest.startswith(" ") else None
    if following is None:
        return words
    return [f"{first} {second}" for first in words for second in following[0]]


def rules_by_opening(table: Sequence[tuple[str, Apply]]) -> Rules:
    """Rules in order of precedence, by the text's first two words, its first word, or ``""`` for others.

    A key's list has every rule that can match a text that opens so; a first word's, all that start with it.
    """
    rules = [(_openings(pattern), (re.compile(pattern).match, apply)) for pattern, apply in table]
    pairs = {opening for openings, _ in rules for opening in openings or () if " " in opening}
    words = {opening.partition(" ")[0] for openings, _ in rules for opening in openings or ()}
    index: Rules = {}
    for word in words:
        index[word] = [r for o, r in rules if o is None or any(x.partition(" ")[0] == word for x in o)]
    for pair in pairs:
        index[pair] = [r for o, r in rules if o is None or pair in o or pair.partition(" ")[0] in o]
    index[""] = [rule for openings, rule in rules if openings is None]
    return index


def gap(skipped: str) -> re.Pattern[str]:
    """What lies between sentences (a pattern that may be empty), and the first two words after it."""
    return re.compile(skipped + r"((\[success\]|[^ .,!?]{0,24})(?: [^ .,!?]{1,24})?)")


def scan(
    text: str,
    start: int,
    reading: Reading,
    rules: Rules,
    between: re.Pattern[str],
    message_end: re.Pattern[str],
) -> None:
    """Apply the rules from ``start`` to the end. ``between`` is made by :func:`gap`."""
    position, length, others = start, len(text), rules[""]
    while True:
        opening = between.match(text, position)
        assert opening is not None  # it matches the empty text
        position = opening.start(1)
        if position >= length:
            return
        for match_at, apply in rules.get(opening[1]) or rules.get(opening[2], others):
            match = match_at(text, position)
            if match is not None:
                apply(reading, match)
                position = match.end()
                break
        else:
            stop = message_end.search(text, position)
            end = stop.start() if stop else length
            reading.add("MESSAGE", text[position:end].strip())
            position = stop.end() if stop else length


def found(reading: Reading, flat: str) -> frozenset[str]:
    """The facts; a text of words whose sentences state none (stock decoration) is one message."""
    if not reading.facts and any(map(str.isalnum, flat)):
        reading.add("MESSAGE", flat)
    return frozenset(reading.facts)


def remembered(parse: Callable[[str], frozenset[str]]) -> Callable[[str], frozenset[str]]:
    """The parser with its latest answers kept, long texts excepted."""
    kept = lru_cache(maxsize=_CACHE_TEXTS)(parse)

    def facts(text: str) -> frozenset[str]:
        return kept(text) if len(text) <= _CACHE_LONGEST else parse(text)

    return facts
