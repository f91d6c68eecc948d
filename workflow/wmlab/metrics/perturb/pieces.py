"""Observations as pieces that can be dropped, moved and replaced without touching the rest.

A piece is the text between two separators: sentence ends, line breaks and, where wanted, the commas of a
list, each of whose items starts with an article (other commas part clauses, which say nothing alone); on a
WebShop page the ``[SEP]`` marks alone. Separators are kept, so unchanged pieces join to the original text.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache

_PAGE = re.compile(r"(\s*\[SEP\]\s*)")
_SENTENCES = re.compile(r"(\n+\s*|(?<=[.!?])\s+)")
_ITEMS = re.compile(r"(\n+\s*|(?<=[.!?])\s+|,\s+(?:and\s+)?(?=(?:an?|some)\s))")
_SENTENCE_END = re.compile(r"[.!?]+\Z")
_LABELS = ("Instruction:", "WebShop")


@dataclass(frozen=True)
class Pieces:
    """Pieces and the separators between them: ``len(separators) == len(pieces) - 1``."""

    pieces: tuple[str, ...]
    separators: tuple[str, ...]

    @classmethod
    def of(cls, domain: str, text: str, *, items: bool) -> Pieces:
        """Split a text; ``items`` also splits lists at their commas, except on WebShop pages."""
        pattern = _PAGE if domain == "webshop" else _ITEMS if items else _SENTENCES
        parts = pattern.split(text)
        return cls(tuple(parts[::2]), tuple(parts[1::2]))

    def join(self) -> str:
        """The text again."""
        return "".join(p + s for p, s in zip(self.pieces, (*self.separators, ""), strict=True))

    def without(self, dropped: Collection[int]) -> str:
        """The text without some pieces, its layout kept: of the separators that meet, the widest stays.

        A sentence that loses the last items of its list keeps its full stop.
        """
        text, last = "", -1
        for index, piece in enumerate(self.pieces):
            if index in dropped:
                continue
            if last >= 0:
                text += self._stop(last, index) + max(self.separators[last:index], key=_width)
            text, last = text + piece, index
        return text + self._stop(last, len(self.pieces)) if last >= 0 else text

    def items(self) -> set[int]:
        """Pieces that follow another one in a list; what opens the list is not among them."""
        return {index + 1 for index, separator in enumerate(self.separators) if separator.startswith(",")}

    def first(self, n: int) -> str:
        """The text up to the end of the n-th piece."""
        return Pieces(self.pieces[:n], self.separators[: n - 1]).join()

    def units(self, free: Collection[int]) -> list[set[int]]:
        """What can be dropped of the free pieces: whole sentences, and items of a list whose sentence stays."""
        items = self.items()
        starts = [index for index in range(len(self.pieces)) if index not in items]
        found: list[set[int]] = []
        for start, end in itertools.pairwise([*starts, len(self.pieces)]):
            sentence = set(range(start, end))
            whole = sentence.issubset(free)
            found += [sentence] if whole else [{index} for index in range(start + 1, end) if index in free]
        return found

    def _stop(self, kept: int, following: int) -> str:
        """The punctuation that a kept piece takes over when the end of its sentence is dropped."""
        end, items = kept, self.items()
        while end + 1 < following and end + 1 in items:
            end += 1
        ended = _SENTENCE_END.search(self.pieces[end]) if end != kept and following not in items else None
        return ended[0] if ended else ""

    def reordered(self, order: Collection[int]) -> str:
        """The pieces in another order between the same separators."""
        return Pieces(tuple(self.pieces[i] for i in order), self.separators).join()

    def fixed(self) -> set[int]:
        """Pieces that are no content: status line, end marker, labels with what they label, punctuation."""
        found = set()
        for index, piece in enumerate(self.pieces):
            empty = not any(map(str.isalnum, piece))
            if empty or "-=" in piece or "[SUCCESS]" in piece or piece.lstrip().startswith(">"):
                found.add(index)
            if piece.strip() in _LABELS:
                found |= {index, min(index + 1, len(self.pieces) - 1)}
        return found


@lru_cache(maxsize=4_096)
def mention(phrase: str) -> re.Pattern[str]:
    """A pattern for a phrase as whole words, in any case and across any spacing."""
    words = r"\s+".join(re.escape(word) for word in phrase.split())
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)


def replace_mentions(text: str, names: dict[str, str]) -> str:
    """The text with every name (lower case) replaced, all at once and longest first, in the case it is written in."""
    if not names:
        return text
    longest = sorted(names, key=len, reverse=True)
    pattern = re.compile("|".join(mention(name).pattern for name in longest), re.IGNORECASE)
    return pattern.sub(_in_case(names), text)


def _in_case(names: dict[str, str]) -> Callable[[re.Match[str]], str]:
    folded = {name.casefold(): new for name, new in names.items()}

    def replacement(match: re.Match[str]) -> str:
        said = match[0]
        new = folded.get(" ".join(said.casefold().split()), said)
        if said == said.lower():
            return new.lower()
        if said == said.upper():
            return new.upper()
        return new.title() if said == said.title() else new[:1].upper() + new[1:]

    return replacement


def _width(separator: str) -> tuple[int, bool]:
    return separator.count("\n"), not separator.startswith(",")
