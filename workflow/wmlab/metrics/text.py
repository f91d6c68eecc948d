"""Exact match, token F1 and ROUGE-L of a predicted observation (metrics.md section 3).

Tokens are the whitespace-separated pieces of the case-folded text, in any script. One tokeniser serves
token F1 (which is also the difficulty filter's F1 and the F1 reward) and ROUGE-L, so a text is identical
to itself under every metric here. Scores are in [0, 1]. The batch functions take two lists of equal
length and return one score per pair, in order; they raise ValueError when the lengths differ.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from operator import ne

from rapidfuzz.distance import LCSseq


def tokens(text: str) -> list[str]:
    """Case-folded whitespace tokens."""
    return text.casefold().split()


def exact_match(prediction: str, gold: str) -> float:
    """1.0 when the texts are equal after ``strip()``, the `` [SUCCESS]`` marker included; else 0.0."""
    return 1.0 if prediction.strip() == gold.strip() else 0.0


def f_measure(common: int, n_prediction: int, n_gold: int) -> float:
    """Harmonic mean of common/n_prediction and common/n_gold; 1.0 when both sides are empty."""
    if n_prediction == 0 and n_gold == 0:
        return 1.0
    return 2.0 * common / (n_prediction + n_gold)


def _equal_run(left: Iterable[str], right: Iterable[str]) -> int:
    """How many leading tokens are equal."""
    differs = list(map(ne, left, right))
    try:
        return differs.index(True)
    except ValueError:
        return len(differs)


def overlap(left: list[str], right: list[str]) -> tuple[int, int]:
    """Size of the multiset intersection, and a lower bound of the longest common subsequence (LCS).

    Predictions mostly differ from gold in a few words, so tokens that are equal at the same place, counted
    from the start and then from the end, are taken off first: each pair lowers the intersection by exactly
    one. Those of either pass are a common subsequence, and the intersection is an upper bound of the LCS.
    """
    common, aligned = 0, 0
    a, b = left, right
    for _ in range(2):
        differs = list(map(ne, a, b))
        found = differs.count(False)
        common += found
        aligned = max(aligned, found)
        a = [*compress(a, differs), *a[len(differs) :]]
        b = [*compress(b, differs), *b[len(differs) :]]
        a.reverse()
        b.reverse()
    if a and b:
        counts, others = Counter(a), Counter(b)
        common += sum(min(n, others[token]) for token, n in counts.items() if token in others)
    return common, aligned


def token_f1(prediction: str, gold: str) -> float:
    """F1 of the two token multisets; F1(empty, empty) = 1."""
    left, right = tokens(prediction), tokens(gold)
    return f_measure(overlap(left, right)[0], len(left), len(right))


def rouge_l(prediction: str, gold: str) -> float:
    """F-measure of the longest common token subsequence (Lin 2004), with :func:`tokens` as tokeniser.

    On ASCII alphanumeric text it equals ``rouge_score`` without stemming; unlike that package it does not
    drop other characters, so identical non-empty texts score 1.0 in any script.
    """
    left, right = tokens(prediction), tokens(gold)
    return f_measure(common_subsequence(left, right, *overlap(left, right)), len(left), len(right))


def common_subsequence(left: list[str], right: list[str], most: int, least: int) -> int:
    """Length of the LCS, given the bounds of :func:`overlap`."""
    if most == least:
        return most
    start = _equal_run(left, right)
    left, right = left[start:], right[start:]
    end = _equal_run(reversed(left), reversed(right))
    if start + end == most:
        return most
    if end:
        left, right = left[:-end], right[:-end]
    # Each distinct token as a character or, past the last one, as a number: the LCS kernel compares
    # machine integers, and takes them from a string fastest.
    distinct = dict.fromkeys([*left, *right])
    if len(distinct) <= sys.maxunicode:
        letters = dict(zip(distinct, map(chr, range(len(distinct))), strict=True))
        a, b = ("".join(map(letters.__getitem__, side)) for side in (left, right))
        return start + end + int(LCSseq.similarity(a, b))
    ids = {token: number for number, token in enumerate(distinct)}
    return start + end + int(LCSseq.similarity([ids[t] for t in left], [ids[t] for t in right]))


def _batch(
    metric: Callable[[str, str], float], predictions: Sequence[str], golds: Sequence[str]
) -> list[float]:
    return [metric(prediction, gold) for prediction, gold in zip(predictions, golds, strict=True)]


def exact_match_batch(predictions: Sequence[str], golds: Sequence[str]) -> list[float]:
    """:func:`exact_match` of each pair."""
    return _batch(exact_match, predictions, golds)


def token_f1_batch(predictions: Sequence[str], golds: Sequence[str]) -> list[float]:
    """:func:`token_f1` of each pair."""
    return _batch(token_f1, predictions, golds)


def rouge_l_batch(predictions: Sequence[str], golds: Sequence[str]) -> list[float]:
    """:func:`rouge_l` of each pair."""
    return _batch(rouge_l, predictions, golds)
