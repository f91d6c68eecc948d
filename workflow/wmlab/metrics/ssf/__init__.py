"""Structured State Fidelity: how much of the real state a predicted observation keeps (metrics.md section 4).

A domain's parser turns an observation into a set of facts written ``NAME(argument, argument)``. Parsers
are deterministic and total: every text, hostile or empty, has a fact set, and text that no rule of the
domain explains is kept as a ``MESSAGE(...)`` fact, so a prediction can never gain by saying more. The
score is the F1 of the two fact sets, unless the domain's module has a ``compare`` of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import NamedTuple

from wmlab.errors import InputError

Facts = frozenset[str]
Scorer = Callable[[str, str], float]

# One module a domain, imported when it is first asked for; rules that score name it (rules/common.smk).
PARSERS = ("textworld", "webshop", "alfworld", "scienceworld", "cookingworld")


class Comparison(NamedTuple):
    """SSF of one pair, in [0, 1], with the facts behind it.

    ``both_empty`` flags the convention that two empty fact sets score 1.0.
    """

    score: float
    both_empty: bool
    facts_prediction: Facts
    facts_gold: Facts


@lru_cache(maxsize=16)
def _functions(domain: str) -> tuple[Callable[[str], Facts], Scorer | None]:
    """The parser of a domain and its own comparison, if it has one."""
    if domain not in PARSERS:
        known = ", ".join(sorted(PARSERS))
        raise InputError(f"domain {domain!r}: no SSF parser; use one of {known}")
    module = import_module(f"{__name__}.{domain}")
    return module.parse, getattr(module, "compare", None)


def facts(domain: str, text: str) -> Facts:
    """The fact set of an observation. Raises InputError when the domain has no parser."""
    return _functions(domain)[0](text)


def compare(domain: str, prediction: str, gold: str) -> Comparison:
    """The score with the fact sets behind it; two empty sets score 1.0 and are flagged."""
    parse, scorer = _functions(domain)
    left = parse(prediction)
    if prediction == gold:
        return Comparison(1.0, not left, left, left)
    right = parse(gold)
    if scorer is None or not (left or right):
        return compare_facts(left, right)
    return Comparison(scorer(prediction, gold), False, left, right)


def compare_facts(prediction: Facts, gold: Facts) -> Comparison:
    """The F1 of two fact sets, whoever extracted them; two empty sets score 1.0 and are flagged."""
    total = len(prediction) + len(gold)
    score = 2.0 * len(prediction & gold) / total if total else 1.0
    return Comparison(score, not total, prediction, gold)


def ssf(domain: str, prediction: str, gold: str) -> float:
    """The score of :func:`compare`."""
    scorer = _functions(domain)[1]
    if scorer is not None:
        return 1.0 if prediction == gold else scorer(prediction, gold)
    return compare(domain, prediction, gold).score
