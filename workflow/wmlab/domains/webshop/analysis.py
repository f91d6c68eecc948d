"""Text analysis close to Lucene's English analyzer: word breaks, possessives, stop words, Porter stems.

Word breaks follow Unicode text segmentation for the scripts that shops use: ``6.76`` and ``l'eau`` are one
word, ``t-shirt`` is two. Near, not equal: Lucene's Porter stemmer departs from the published one in two
endings, which are read alike on both sides of a search.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

_STOP_LIST = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there "
    "these they this to was will with "
)
STOP_WORDS = frozenset(_STOP_LIST.split())
_LETTER = r"[^\W\d_]"
_WORD = re.compile(
    rf"\w+(?:(?:(?<={_LETTER})[.:·'’](?={_LETTER})|(?<=\d)[.,;'’](?=\d))\w+)*"  # UAX 29, rules WB6 to WB12
)
_POSSESSIVE = re.compile(r"['’][sS]\Z")
MAX_WORD = 255


@cache
def _stemmer() -> Any:
    import Stemmer

    return Stemmer.Stemmer("porter", 0)  # no cache of its own: analyse_word has one


@lru_cache(maxsize=200_000)
def analyse_word(word: str) -> str | None:
    """The index term of one word; None for a stop word."""
    term = _POSSESSIVE.sub("", word).lower()
    if not term or term in STOP_WORDS:
        return None
    return str(_stemmer().stemWord(term)) if len(term) > 2 else term


def analyse(text: str) -> list[str]:
    """Index terms of a text, in order, repeated as they are."""
    words = _WORD.findall(text)
    return [term for word in words if (term := analyse_word(word[:MAX_WORD])) is not None]
