"""Which next observations a world model could know at all.

A TextWorld observation may reveal what was drawn when the game was made and never shown before: no model
can know it, so exact match on such rows measures luck. ``em_predictable`` leaves them out.

The rule, over the facts of the gold observation (``metrics.ssf.textworld``) and of every observation of
the history. The observation is unpredictable when any of these holds:

1. first visit: it describes a ``ROOM`` that no earlier observation describes;
2. first opening: it confirms ``DID(open, x)``, x is no door of the history, and x was neither opened nor
   shown open before (an empty inside is a revelation too);
3. first examination: it has a ``LOOKS(x, …)`` fact that no earlier observation has;
4. new words: an object, exit, place or state fact (``CONTENT``) holds a word that no message of the
   history holds.

Messages of the game engine (refusals, help, score and closing texts) are the same in every game and so
can be learned: they never make an observation unpredictable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from wmlab.errors import InputError
from wmlab.metrics.ssf import facts

CONTENT = ("HERE", "STATE", "DOOR", "EXIT", "IN", "ON", "FLOOR", "EMPTY", "CARRYING")
_KEYWORDS = frozenset({"open", "closed", "locked", "nothing"})
_WORD = re.compile(r"[^\W_]+")


def _arguments(fact: str) -> tuple[str, str]:
    """Name and arguments text of ``NAME(arguments)``."""
    name, _, rest = fact.partition("(")
    return name, rest[:-1]


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _with_fact(known: Iterable[str], name: str) -> set[str]:
    return {arguments for fact in known for found, arguments in [_arguments(fact)] if found == name}


def is_predictable(
    history: Sequence[Mapping[str, str]], observation: str, *, domain: str = "textworld"
) -> bool:
    """False when ``observation`` reveals what nothing in ``history`` shows (rule above).

    ``history`` has world-model roles: system is the initial observation, user an action, assistant an
    observation; it ends with the action that ``observation`` answers. Raises InputError for a domain
    without such a rule.
    """
    if domain != "textworld":
        raise InputError(f"domain {domain!r}: no rule for predictable observations; only textworld has one")
    known: set[str] = set()
    words: set[str] = set(_KEYWORDS)
    for message in history:
        words |= _words(message["content"])
        if message["role"] != "user":
            known |= facts(domain, message["content"])
    doors = {arguments.rpartition(", ")[0] for arguments in _with_fact(known, "DOOR")}
    opened = {a.removeprefix("open, ") for a in _with_fact(known, "DID") if a.startswith("open, ")}
    opened |= {a.removesuffix(", open") for a in _with_fact(known, "STATE") if a.endswith(", open")}
    for fact in facts(domain, observation):
        name, arguments = _arguments(fact)
        if name in ("ROOM", "LOOKS") and fact not in known:
            return False
        if name == "DID" and arguments.startswith("open, "):
            thing = arguments.removeprefix("open, ")
            if thing not in doors and thing not in opened:
                return False
        if name in CONTENT and not _words(arguments) <= words:
            return False
    return True
