"""Memory in the prompt: a bounded block before the world model's first message (memwm.txt, Appendix C.2).

The block opens and closes with its domain's markers, lists entries, and says that the trajectory decides.
It stands at the head of the system turn, so the dialogue keeps its alternation and the rest of the prompt
its bytes: ``without_block(with_block(text, block)) == text`` for every text that opens with no block itself.
What entries say is data. Text that spells a marker of a block, or the ending marker of a task, is broken
before it gets in, and every field is one line.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from wmlab.errors import InputError
from wmlab.memory.bank import Entry, show_key

BLOCKS = {
    "alfworld": "ALFWORLD_MEMORY",
    "scienceworld": "SCIWORLD_MEMORY",
    "webshop": "WEBSHOP_SITE_CACHE",
    "textworld": "TEXTWORLD_MEMORY",
    "cookingworld": "COOKINGWORLD_MEMORY",
}
AUTHORITY = "Hints from earlier episodes; where the trajectory says otherwise, the trajectory is right."
_MARKER = re.compile(r"\[(?=\s*(?:BEGIN|END)\s+[A-Z_]|\s*SUCCESS\s*\])", re.IGNORECASE)
_ANY_BLOCK = re.compile(
    r"\[BEGIN (?P<name>" + "|".join(BLOCKS.values()) + r")\]\n.*?\n\[END (?P=name)\]\n\n", re.DOTALL
)


def block_name(domain: str) -> str:
    """The name in a domain's markers. Raises InputError for a domain without memory."""
    if domain not in BLOCKS:
        raise InputError(f"domain {domain!r}: no memory; choose from {', '.join(BLOCKS)}")
    return BLOCKS[domain]


def inert(text: str) -> str:
    """Text as one line that cannot open or close a block, nor end a task."""
    return _MARKER.sub("(", " ".join(text.split()))


def shorten(text: str, limit: int) -> str:
    """Text as one line, cut at a space with an ellipsis where it is longer than ``limit`` characters."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    return line[: limit - 1].rsplit(" ", 1)[0] + "…"


def render_entry(domain: str, entry: Entry) -> str:
    """An entry's lines. WebShop's cache shows its records alone, as in the paper."""
    if domain == "webshop":
        return inert(entry.positive)
    lines = [f"Key: {inert(show_key(entry.key))}"]
    if entry.positive:
        lines.append(f"Positive: {inert(entry.positive)}")
    if entry.negative:
        lines.append(f"Negative: {inert(entry.negative)}")
    return "\n".join(lines)


def render_block(domain: str, rendered: Sequence[str]) -> str:
    """The block of entries rendered by :func:`render_entry`; "" when there are none."""
    if not rendered:
        return ""
    name = block_name(domain)
    body = "\n".join(rendered)
    return f"[BEGIN {name}]\n{AUTHORITY}\n{body}\n[END {name}]\n\n"


def with_block(content: str, block: str) -> str:
    """A system turn behind a block."""
    return block + content


def without_block(content: str) -> str:
    """A system turn without the block at its head, if it has one."""
    found = _ANY_BLOCK.match(content) if content.startswith("[BEGIN ") else None
    return content[found.end() :] if found else content


def augment(history: Sequence[dict[str, Any]], block: str) -> list[dict[str, Any]]:
    """A history whose first message opens with ``block`` in place of any block it had."""
    first = history[0]
    told = {"role": first["role"], "content": with_block(without_block(first["content"]), block)}
    return [told, *history[1:]]


def dropped(task_id: str, share: float, seed: int) -> bool:
    """Whether task-level dropout takes memory from a task: the same answer in every process and order.

    Tasks dropped at a share stay dropped at any larger one (memwm.txt, Figure 6). Raises InputError for a
    share outside [0, 1].
    """
    if not 0.0 <= share <= 1.0:
        raise InputError(f"memory dropout {share}: not a share; give a number from 0 to 1")
    digest = hashlib.sha256(f"{seed}\0{task_id}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2.0**64
