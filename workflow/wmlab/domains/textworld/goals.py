"""Read a tw-simple goal text into the commands it asks for. Text in, text out: no game state.

The detailed goal of a tw-simple game is one paragraph with a sentence per command, worded by
TextWorld's instruction grammar. Each sentence becomes a ``Clause``: the sentence and its command.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PLACE = r"(?:\s+(?:in|within|inside)\s+the\s+(?P<room>[\w -]+?))?"
_SURE = r"(?:make sure|assure|make it so|doublecheck|look and see|make absolutely sure|ensure|check)"
_RULES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "unlock {x} with {key}",
        re.compile(rf"{_SURE} that the (?P<x>[\w -]+?){_PLACE} is unlocked(?: with the (?P<key>[\w -]+))?$"),
    ),
    (
        "unlock {x} with {key}",
        re.compile(
            r"insert the (?P<key>[\w -]+) into the (?P<x>[\w -]+?)(?:\s+(?:in|within|inside) the [\w -]+?)?'s lock to unlock it$"
        ),
    ),
    (
        "unlock {x} with {key}",
        re.compile(rf"unlock the (?P<x>[\w -]+?){_PLACE}(?: with the (?P<key>[\w -]+))?$"),
    ),
    ("open {x}", re.compile(rf"{_SURE} that the (?P<x>[\w -]+?){_PLACE} is (?:opened|open|wide open|ajar)$")),
    ("open {x}", re.compile(rf"open the (?P<x>[\w -]+?){_PLACE}$")),
    (
        "go {x}",
        re.compile(r"(?:go|head|venture|travel|move|go to the|take a trip) (?P<x>north|south|east|west)$"),
    ),
    (
        "take {x} from {holder}",
        re.compile(
            rf"(?:take|retrieve|recover|pick up|pick-up|lift) the (?P<x>[\w -]+?) from the (?P<holder>[\w -]+?){_PLACE}$"
        ),
    ),
    (
        "put {x} on {holder}",
        re.compile(rf"(?:put|place|sit|rest) the (?P<x>[\w -]+?) on the (?P<holder>[\w -]+?){_PLACE}$"),
    ),
)
_TAIL_OF = re.compile(
    r"\b(?:unlock|insert|make|assure|doublecheck|look|ensure|check|open|go|head|venture|travel|move|take|retrieve|recover|pick|pick-up|lift|put|place|sit|rest)\b",
    re.IGNORECASE,
)
_FLOOR = "floor of"


@dataclass(frozen=True)
class Clause:
    """One step of a goal: the sentence that asks for it and the command that does it."""

    sentence: str
    command: str


def read_goal(goal: str) -> list[Clause]:
    """The clauses of a goal in order; sentences that ask for nothing (prologue, epilogue) are left out."""
    clauses: list[Clause] = []
    key = ""
    for sentence in re.split(r"(?<=[.!?])\s+", " ".join(goal.split())):
        found = _read_sentence(sentence.rstrip(".!?"), key)
        if found is None:
            continue
        clauses.append(Clause(sentence, found))
        if found.startswith("take ") and "key" in found:
            key = found.removeprefix("take ").split(" from ")[0]
    return clauses


def _read_sentence(sentence: str, key: str) -> str | None:
    # The request is the end of its sentence: try each verb as its start, longest candidate first.
    for start in (match.start() for match in _TAIL_OF.finditer(sentence)):
        tail = sentence[start:].lower()
        for template, pattern in _RULES:
            match = pattern.match(tail)
            if match is not None:
                return _command(template, match.groupdict(), key)
    return None


def _command(template: str, parts: dict[str, str | None], key: str) -> str:
    if template.startswith("unlock"):
        return f"unlock {parts['x']} with {parts.get('key') or key}"
    holder = parts.get("holder") or ""
    if template.startswith("take") and (holder.startswith(_FLOOR) or holder == "floor"):
        return f"take {parts['x']}"
    return template.format(x=parts["x"], holder=holder)


def goal_part(observation: str) -> str:
    """The paragraph of the first observation that holds the goal: between banner and first room title."""
    head = observation.split("\n-=", 1)[0]
    return head[head.rfind("$") + 1 :]
