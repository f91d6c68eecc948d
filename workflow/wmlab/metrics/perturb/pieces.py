"""Observations as pieces that can be dropped, moved and replaced without touching the rest.

A piece is the text between two separators: sentence ends, line breaks and, where wanted, the commas of a
list; on a WebShop page the ``[SEP]`` marks alone. Separators are kept, so unchanged pieces join to the
original text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

_PAGE = re.compile(r"(\s*\[SEP\]\s*)")
_SENTENCES = re.compile(r"(\n+\s*|(?<=[.!?])\s+)")
_ITEMS = re.compile(r"(\n+\s*|(?<=[.!?])\s+|,\s+(?:and\s+)?)")
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
        """The text without some pieces; a piece goes with the separator before it, the first with the one after."""
        text, started = "", False
        for index, piece in enumerate(self.pieces):
            if index in dropped:
                continue
            text += (self.separators[index - 1] if started else "") + piece
            started = True
        return text

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
