"""What one training transition says: its facts, and those its prediction missed or invented.

Facts come from SSF's parsers (metrics.ssf). They are made *patterns*, which hold for a whole bucket: what
the action names becomes ``object`` and ``target``, ALFWorld's other things lose their number, so no pattern
carries an object id of its episode. Facts of the interface rather than of the world (turn counter, score,
list of actions, task) are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from wmlab.memory.keys import arguments, type_of
from wmlab.metrics import ssf

OBJECT, TARGET = "object", "target"
LONGEST = 80
"""Characters of a pattern; text facts (MESSAGE, LOOKS) are cut there."""
_INTERFACE = frozenset(
    ("ADMISSIBLE", "TURN", "SCORE", "TASK", "GOAL", "HELP", "BANNER", "WELCOME", "MENU", "FINAL", "SO_FAR")
)
_NUMBERED = re.compile(r"\b([a-z]+) \d+\b")
_DIGITLESS = frozenset({"alfworld"})
Facts = Callable[[str, str], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Patterns of the gold observation, and of those a prediction missed or invented; all sorted."""

    gold: tuple[str, ...]
    missed: tuple[str, ...]
    invented: tuple[str, ...]

    @property
    def is_hard(self) -> bool:
        """Whether the prediction got a pattern wrong."""
        return bool(self.missed or self.invented)


def pattern(domain: str, fact: str, action: str) -> str | None:
    """The pattern of a fact after an action; None for facts of the interface."""
    name, _, rest = fact.partition("(")
    if name in _INTERFACE:
        return None
    first, second = arguments(action)
    roles = {second: TARGET, first: OBJECT}
    roles.pop("", None)
    said = [_named(domain, argument, roles) for argument in rest.removesuffix(")").split(", ")]
    text = f"{name}({', '.join(said)})"
    return text if len(text) <= LONGEST else text[: LONGEST - 2].rstrip() + "…)"


def _named(domain: str, argument: str, roles: Mapping[str, str]) -> str:
    if argument in roles:
        return roles[argument]
    if domain not in _DIGITLESS:
        return argument
    for name, role in roles.items():
        argument = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", role, argument)
    return _NUMBERED.sub(r"\1", type_of(argument))


def patterns(domain: str, text: str, action: str, facts: Facts = ssf.facts) -> frozenset[str]:
    """Patterns of an observation."""
    found = (pattern(domain, fact, action) for fact in facts(domain, text))
    return frozenset(one for one in found if one is not None)


def evidence_of(
    domain: str, transition: Mapping[str, Any], prediction: str, facts: Facts = ssf.facts
) -> Evidence:
    """Evidence of a transition row against a prediction of its observation.

    Raises InputError where the domain has no SSF parser.
    """
    action = transition["action"]
    gold = patterns(domain, transition["observation"], action, facts)
    said = patterns(domain, prediction, action, facts)
    return Evidence(tuple(sorted(gold)), tuple(sorted(gold - said)), tuple(sorted(said - gold)))


def object_ids(texts: Iterable[str]) -> frozenset[str]:
    """Numbered names in texts, e.g. ``fridge 1``: what a curated hint must not copy."""
    return frozenset(found.group() for text in texts for found in _NUMBERED.finditer(text.casefold()))
