"""Exact match, token F1 and ROUGE-L of a predicted observation (metrics.md section 3).

Tokens are the whitespace-separated pieces of the case-folded text, in any script. One tokeniser serves
token F1 (which is also the difficulty filter's F1 and the F1 reward) and ROUGE-L, so a text is identical
to itself under every metric here. Scores are in [0, 1]. The batch functions take two lists of equal
length and return one score per pair, in order; they raise ValueError when the lengths differ.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import compress
from operator import ne
from typing import NamedTuple

from rapidfuzz.distance import LCSseq


def tokens(text: str) -> list[str]:
    """Case-folded whitespace tokens."""
    return text.casefold().split()


def exact_match(prediction: str, gold: str) -> float:
    """1.0 when the texts are equal after ``strip()``, the `` [SUCCESS]`` marker included; else 0.0."""
    return 1.0 if prediction.strip() == gold.strip() else 0.0


def _equal_start(left: str, right: str) -> int:
    """Length of the common prefix, by bisection: comparing slices is far quicker than characters."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _equal_end(left: str, right: str) -> int:
    """Length of the common suffix."""
    low, high, a, b = 0, min(len(left), len(right)), len(left), len(right)
    while low < high:
        middle = (low + high + 1) // 2
        if left[a - middle : a - low] == right[b - middle : b - low]:
            low = middle
        else:
            high = middle - 1
    return low


_FEW = 64
"""Comparisons up to which plain lists beat counting."""


class Tokens(NamedTuple):
    """Two texts as tokens: the number that both start or end with, and what lies between on either side.

    Equal ends belong to a longest common subsequence (LCS), and lower the multiset intersection by exactly
    their number. Predictions mostly differ from gold in a few words, so little is left.
    """

    shared: int
    left: list[str]
    right: list[str]

    @classmethod
    def of(cls, prediction: str, gold: str) -> Tokens:
        """The tokens of two texts, cut at spaces that both have."""
        start = prediction.rfind(" ", 0, _equal_start(prediction, gold)) + 1
        shared = len(prediction[:start].split())
        prediction, gold = prediction[start:], gold[start:]
        end = _equal_end(prediction, gold)
        space = prediction.find(" ", len(prediction) - end) if end else -1
        if space >= 0:
            shared += len(prediction[space:].split())
            prediction, gold = prediction[:space], gold[: len(gold) - (len(prediction) - space)]
        return cls(shared, tokens(prediction), tokens(gold))

    def f_measure(self, common: int) -> float:
        """F-measure of a number of common tokens; 1.0 when both sides are empty."""
        total = 2 * self.shared + len(self.left) + len(self.right)
        return 2.0 * common / total if total else 1.0

    def overlap(self) -> tuple[int, int]:
        """Size of the multiset intersection, which no LCS exceeds, and the length of a common subsequence.

        Tokens equal at the same place are counted first, from the start and then from the end; those of one
        pass are a common subsequence.
        """
        common, aligned = self.shared, self.shared
        a, b = self.left, self.right
        for _ in range(2):
            if len(a) * len(b) <= _FEW:
                for token in a:
                    if token in b:
                        b = b.copy()
                        b.remove(token)
                        common += 1
                return common, aligned
            differs = list(map(ne, a, b))
            found = differs.count(False)
            common += found
            aligned = max(aligned, self.shared + found)
            a = [*compress(a, differs), *a[len(differs) :]]
            b = [*compress(b, differs), *b[len(differs) :]]
            a.reverse()
            b.reverse()
        if a and b:
            counts, others = Counter(a), Counter(b)
            both = counts.keys() & others.keys()
            common += sum(map(min, map(counts.__getitem__, both), map(others.__getitem__, both)))
        return common, aligned

    def subsequence(self, most: int, least: int) -> int:
        """Length of the LCS, given the bounds of :meth:`overlap`."""
        if most == least:
            return most
        # Each distinct token as a character or, past the last one, as a number: the LCS kernel compares
        # machine integers, and takes them from a string fastest.
        distinct = dict.fromkeys([*self.left, *self.right])
        if len(distinct) <= sys.maxunicode:
            letters = dict(zip(distinct, map(chr, range(len(distinct))), strict=True))
            a, b = ("".join(map(letters.__getitem__, side)) for side in (self.left, self.right))
            return self.shared + int(LCSseq.similarity(a, b))
        ids = {token: number for number, token in enumerate(distinct)}
        return self.shared + int(LCSseq.similarity([ids[t] for t in self.left], [ids[t] for t in self.right]))


def token_f1(prediction: str, gold: str) -> float:
    """F1 of the two token multisets; F1(empty, empty) = 1."""
    pair = Tokens.of(prediction, gold)
    return pair.f_measure(pair.overlap()[0])


def rouge_l(prediction: str, gold: str) -> float:
    """F-measure of the longest common token subsequence (Lin 2004), with :func:`tokens` as tokeniser.

    On ASCII alphanumeric text it equals ``rouge_score`` without stemming; unlike that package it does not
    drop other characters, so identical non-empty texts score 1.0 in any script.
    """
    pair = Tokens.of(prediction, gold)
    return pair.f_measure(pair.subsequence(*pair.overlap()))


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
