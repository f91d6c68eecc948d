"""Structured State Fidelity: F1 of the canonical fact sets of two observations (metrics.md section 4).

A domain's parser turns an observation into a set of facts written ``NAME(argument, argument)``. Parsers
are deterministic and total: every text, hostile or empty, has a fact set, and text that no rule of the
domain explains is kept as a ``MESSAGE(...)`` fact, so a prediction can never gain by saying more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wmlab.errors import InputError
from wmlab.metrics.ssf import textworld

Facts = frozenset[str]

PARSERS: dict[str, Callable[[str], Facts]] = {"textworld": textworld.parse}


@dataclass(frozen=True)
class Comparison:
    """SSF of one pair, in [0, 1], with the facts behind it.

    ``both_empty`` flags the convention that two empty fact sets score 1.0.
    """

    score: float
    both_empty: bool
    facts_prediction: Facts
    facts_gold: Facts


def facts(domain: str, text: str) -> Facts:
    """The fact set of an observation. Raises InputError when the domain has no parser."""
    parser = PARSERS.get(domain)
    if parser is None:
        known = ", ".join(sorted(PARSERS))
        raise InputError(f"domain {domain!r}: no SSF parser; use one of {known}")
    return parser(text)


def compare(domain: str, prediction: str, gold: str) -> Comparison:
    """F1 of the two fact sets with the sets themselves; both empty is 1.0 and flagged."""
    left, right = facts(domain, prediction), facts(domain, gold)
    both_empty = not left and not right
    score = 1.0 if both_empty else 2.0 * len(left & right) / (len(left) + len(right))
    return Comparison(score, both_empty, left, right)


def ssf(domain: str, prediction: str, gold: str) -> float:
    """The score of :func:`compare`."""
    return compare(domain, prediction, gold).score
