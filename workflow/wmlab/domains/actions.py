"""One rule for what an agent's command becomes, the same in Real, WM and W2R."""

from __future__ import annotations

import unicodedata

MAX_ACTION_CHARACTERS = 200


def normalise_action(text: str, limit: int = MAX_ACTION_CHARACTERS) -> str:
    """One printable line: white space collapsed, control characters dropped, at most ``limit`` characters.

    Model output is data: line breaks would otherwise become several commands of a parser game.
    """
    head = text[: 4 * limit]
    printable = "".join(c if unicodedata.category(c)[0] != "C" else " " for c in head)
    return " ".join(printable.split())[:limit].rstrip()
