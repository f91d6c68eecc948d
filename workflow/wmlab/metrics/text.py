"""Exact match, token F1 and ROUGE-L of a predicted observation (metrics.md section 3).

Tokens are the whitespace-separated pieces of the case-folded text, in any script. One tokeniser serves
token F1 (which is also the difficulty filter's F1 and the F1 reward) and ROUGE-L, so a text is identical
to itself under every metric here. Scores are in [0, 1]. The batch functions take two lists of equal
length and return one score per pair, in order; they raise ValueError when the lengths differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from operator import ne

from rapidfuzz.distance import LCSseq


def tokens(text: str) -> list[str]:
    """Case-folded whitespace tokens."""
    return text.casefold().split()


def exact_match(prediction: str, gold: str) -> float:
    """1.0 when the texts are equal after ``strip()``, the `` [SUCCESS]`` marker included; else 0.0."""
    return 1.0 if prediction.strip() == gold.strip() else 0.0


def _f_measure(common: int, n_prediction: int, n_gold: int) -> float:
    """Harmonic mean of common/n_prediction and common/n_gold; 1.0 when both sides are empty."""
    if n_prediction == 0 and n_gold == 0:
        return 1.0
    return 2.0 * common / (n_prediction + n_gold)


def _unshared(left: list[str], right: list[str]) -> tuple[int, list[str], list[str]]:
    """The length of the common prefix and suffix together, and what lies between them on either side.

    Taking equal tokens off both sides one for one lowers the multiset intersection and, at the ends, the
    longest common subsequence by exactly their number; predictions mostly differ from gold in a few words.
    """
    if left == right:
        return len(left), [], []
    start = _equal_run(left, right)
    left, right = left[start:], right[start:]
    end = _equal_run(reversed(left), reversed(right))
    return (start + end, left[: len(left) - end], right[: len(right) - end]) if end else (start, left, right)


def _equal_run(left: Iterable[str], right: Iterable[str]) -> int:
    """How many leading tokens are equal."""
    differs = list(map(ne, left, right))
    try:
        return differs.index(True)
    except ValueError:
        return len(differs)


def token_f1(prediction: str, gold: str) -> float:
    """F1 of the two token multisets; F1(empty, empty) = 1."""
    return token_f1_of(tokens(prediction), tokens(gold))


def token_f1_of(left: list[str], right: list[str]) -> float:
    """:func:`token_f1` of texts already split into tokens."""
    common, a, b = _unshared(left, right)
    if a and b:
        counts, others = Counter(a), Counter(b)
        common += sum(min(n, others[token]) for token, n in counts.items() if token in others)
    return _f_measure(common, len(left), len(right))


def rouge_l(prediction: str, gold: str) -> float:
    """F-measure of the longest common token subsequence (Lin 2004), with :func:`tokens` as tokeniser.

    On ASCII alphanumeric text it equals ``rouge_score`` without stemming; unlike that package it does not
    drop other characters, so identical non-empty texts score 1.0 in any script.
    """
    return rouge_l_of(tokens(prediction), tokens(gold))


def rouge_l_of(left: list[str], right: list[str]) -> float:
    """:func:`rouge_l` of texts already split into tokens."""
    common, a, b = _unshared(left, right)
    if a and b:
        ids: dict[str, int] = {}
        # Token ids, not strings: the LCS kernel compares machine integers.
        a_ids = [ids.setdefault(token, len(ids)) for token in a]
        b_ids = [ids.setdefault(token, len(ids)) for token in b]
        common += int(LCSseq.similarity(a_ids, b_ids))
    return _f_measure(common, len(left), len(right))


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
