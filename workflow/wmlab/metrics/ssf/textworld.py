"""Facts of a TextWorld ``tw-simple`` observation, as the game prints it.

Reading is a scan over the case-folded text with every run of whitespace made one space, so line wrapping
and spacing change nothing. At each position the rules of ``textworld_rules`` that start with the word
found there are tried in order; what none explains is kept up to the end of its sentence as ``MESSAGE``.
Stock decoration of the game's grammar ("You wonder idly who left that here.") is a rule without facts.

Schema (names are lower case, articles removed):

==================================  ===========================================================
``ROOM(room)``                      a room is described: its title line or its opening sentence
``AT(room)`` ``SCORE(s)``           the status line ``> -= Room =-s/t``: where the player is, the
``TURN(t)``                         score, the turn counter
``EXIT(direction)``                 an exit without a door
``DOOR(door, direction)``           an exit through a door
``HERE(thing)``                     a fixed thing of the room (container or supporter)
``STATE(thing, s)``                 open, closed, locked, unlocked (container or door)
``EMPTY(thing)``                    nothing in or on it
``IN(o, c)`` ``ON(o, s)``           o is in container c, on supporter s
``FLOOR(o)``                        o lies on the floor of the room
``CARRYING(o)``                     inventory; ``CARRYING(nothing)`` when it is empty
``LOOKS(thing, words)``             its description
``DID(verb, …)``                    a confirmed action: open, close, lock, unlock, take (o, from),
                                    drop, put (o, on), insert (o, into), eat, wait
``REFUSED(words)``                  a parser or rule refusal
``ASSUMED(words)``                  what the game assumed: ``(with the old key)``
``SCORED(points)``                  the score-change message, the number in words as printed
``GOAL(sentence)``                  the objective, where the banner opens the text
``BANNER(id)``                      the title art: ``textworld``, or a digest when it differs
``ADMISSIBLE(action)``              an action of the ``AVAILABLE ACTIONS:`` block
``END(won|lost)``                   the closing banner
``FINAL(s, max, turns)``            the closing score; ``SO_FAR(…)`` for the ``score`` command
``MENU()``                          the closing RESTART/RESTORE/QUIT/UNDO question
``SUCCESS()``                       the `` [SUCCESS]`` marker
``MESSAGE(text)``                   anything else, never silently dropped
==================================  ===========================================================

The text is untrusted: all quantifiers are bounded, each position is visited once, so time is linear in
its length, and a fact's name is always written by this module, never copied from the text.
"""

from __future__ import annotations

import hashlib
import re

from wmlab.metrics.ssf.scan import Reading, flatten, found, gap, remembered, rules_by_opening, scan
from wmlab.metrics.ssf.textworld_rules import table

_BANNER_LONGEST = 4_000  # characters of case-folded, collapsed text
_BANNER_DIGEST = "c2dd99c6affa6c9e"

_BETWEEN = gap(r"[ .,!?>]*")
_MESSAGE_END = re.compile(r"[.!?]+(?= |$)| (?=(?:> ?)?-= |\*\*\* |\[success\])")
_SENTENCE = re.compile(r"[.!?]+(?= |$)")
_RULES = rules_by_opening(table())


def _digest(banner: str) -> str:
    return hashlib.sha256(banner.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _read_opening(text: str, reading: Reading) -> int:
    """Read the banner and the objective that follows it; return where the first room starts."""
    last = text.rfind("$$", 0, _BANNER_LONGEST)
    if last < 0:
        return 0
    end = text.find(" ", last)
    end = len(text) if end < 0 else end
    digest = _digest(text[:end])
    reading.add("BANNER", "textworld" if digest == _BANNER_DIGEST else digest)
    room = text.find("-= ", end)
    room = len(text) if room < 0 else room
    for sentence in _SENTENCE.split(text[end:room]):
        words = sentence.strip(" >")
        if words:
            reading.add("GOAL", words)
    return room


def _parse(text: str) -> frozenset[str]:
    flat = flatten(text)
    reading = Reading()
    scan(flat, _read_opening(flat, reading), reading, _RULES, _BETWEEN, _MESSAGE_END)
    return found(reading, flat)


_remembered = remembered(_parse)


def parse(text: str) -> frozenset[str]:
    """The facts of one observation (schema above). Total: never raises on a string."""
    return _remembered(text)
