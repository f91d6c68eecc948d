"""The scan that fact parsers share: rules tried at each position of case-folded, single-spaced text.

A rule is a pattern and a function that adds facts. At each position the rules that can start with the word
found there are tried in order of precedence; what none explains is kept up to the end of its sentence as
``MESSAGE``. Patterns stop before the closing punctuation, which the scan skips. Each position is visited
once, so time is linear in the text as long as a rule's quantifiers are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

_CACHE_TEXTS = 20_000
_CACHE_LONGEST = 8_000  # characters; longer texts are parsed each time, so the cache stays small
_LEADING_GROUP = re.compile(r"\(\?(?::|P<\w+>)([^()]*)\)")
_LEADING_WORD = re.compile(r"(?:\\[*\[\]]|[a-z':=-])+(?![a-z?(\[])")


@dataclass
class Reading:
    """Facts found so far, the thing last described ("it") and the place arrived at, said in passing."""

    facts: set[str] = field(default_factory=set)
    focus: str = "it"
    place: str = ""

    def add(self, name: str, *arguments: str) -> None:
        """Record one fact."""
        self.facts.add(f"{name}({', '.join(arguments)})")


Apply = Callable[[Reading, "re.Match[str]"], None]
Rule = tuple["re.Pattern[str]", Apply]
Rules = dict[str, list[Rule]]


def flatten(text: str) -> str:
    """Case-folded text with every run of whitespace made one space."""
    return " ".join(text.split()).casefold()


def constant(fact: str, *arguments: str) -> Apply:
    """A rule's function for a sentence that states one fixed fact."""

    def apply(reading: Reading, match: re.Match[str]) -> None:
        reading.add(fact, *arguments)

    return apply


def nothing(reading: Reading, match: re.Match[str]) -> None:
    """A rule's function for a sentence that states no fact."""


def admissible(reading: Reading, match: re.Match[str]) -> None:
    """``ADMISSIBLE(action)`` for each action of the group ``list``."""
    for action in match["list"].split(","):
        if action.strip():
            reading.add("ADMISSIBLE", action.strip())


def _first_words(pattern: str) -> list[str] | None:
    """The words a pattern can start with, or None when they cannot be told from its text."""
    if pattern.startswith("an? "):
        return ["a", "an"]
    group = _LEADING_GROUP.match(pattern)
    words = []
    for choice in group.group(1).split("|") if group else [pattern]:
        word = _LEADING_WORD.match(choice)
        if word is None:
            return None
        words.append(word.group().replace("\\", ""))
    return words


def rules_by_first_word(table: Sequence[tuple[str, Apply]]) -> Rules:
    """Rules in order of precedence, by the first word of the text; the key ``""`` is for other words."""
    rules = [(_first_words(pattern), (re.compile(pattern), apply)) for pattern, apply in table]
    words = {word for first, _ in rules for word in first or ()}
    index = {word: [rule for first, rule in rules if first is None or word in first] for word in words}
    index[""] = [rule for first, rule in rules if first is None]
    return index


def gap(skipped: str) -> re.Pattern[str]:
    """What lies between sentences (a pattern that may be empty), and the first word after it."""
    return re.compile(skipped + r"([^ .,!?]{0,24})")


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
        for pattern, apply in rules.get(opening[1], others):
            match = pattern.match(text, position)
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
