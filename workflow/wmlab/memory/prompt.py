"""Memory in the prompt: a bounded block of hints for one prediction (memwm.txt, Appendix C.2).

The block opens and closes with its domain's markers, lists entries, and says that the trajectory decides.
It stands at the head of a turn: the one with the action that is being predicted (``action``), or the first
one, before the whole prompt as in the paper (``system``). Behind the action's turn nothing has to be computed
again when the next step shows another block. Either way the dialogue keeps its alternation and the rest of the
prompt its bytes: ``without_block(with_block(text, block)) == text`` for every text that opens with no block.
What entries say is data. Text that spells a marker of a block, or the ending marker of a task, is broken
before it gets in, and every field is one line.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
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
FIELD = " [SEP] "
"""Between the fields of a page's record: the shop's own separator, so that a model copies what it will write."""
POSITIONS = ("action", "system")
AUTHORITY = "Hints from earlier episodes; where the trajectory says otherwise, the trajectory is right."
EXPECT, AVOID = "in such a case expect ", "in such a case do not "
OMIT, INVENT, OR, UNLESS = "leave out ", "invent ", " nor ", " unless shown"
"""The words of hints by rule (``curate``)."""
_RULE_PHRASES = (
    *("Key: schema=", "Key: goal=", "; schema=", "; object=", "; target=", "; room=", "; seen="),
    *(f"\nPositive: {EXPECT}", f"\nNegative: {AVOID}{OMIT}", f"\nNegative: {AVOID}{INVENT}"),
    *(OR + INVENT, UNLESS, "(object", ", object", ", target"),
)
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


def cut(text: str, fits: Callable[[str], bool]) -> str:
    """As many whole fields of a page's record as fit, from the first; "" where only its head or nothing does."""
    fields = text.split(FIELD)
    low, high = 0, len(fields)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(FIELD.join(fields[:middle])) else (low, middle - 1)
    return FIELD.join(fields[:low]) if low > 1 else ""


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


def phrases(domain: str) -> tuple[str, ...]:
    """What blocks of a domain repeat: a tokenizer that knows these gives each one token."""
    name = block_name(domain)
    frame = (f"[BEGIN {name}]\n{AUTHORITY}\n", f"\n[END {name}]\n\n")
    return frame if domain == "webshop" else (*frame, *_RULE_PHRASES)


def with_block(content: str, block: str) -> str:
    """A turn behind a block."""
    return block + content


def without_block(content: str) -> str:
    """A turn without the block at its head, if it has one."""
    found = _ANY_BLOCK.match(content) if content.startswith("[BEGIN ") else None
    return content[found.end() :] if found else content


def plain(history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A history without blocks: what the trajectory says, and all that a reference agent may read."""
    return [{"role": turn["role"], "content": without_block(turn["content"])} for turn in history]


def augment(
    history: Sequence[Mapping[str, Any]], block: str, position: str = "action"
) -> list[dict[str, Any]]:
    """A history that ends with an action, with ``block`` at its ``position`` in place of any block it had.

    Raises InputError for an unknown position.
    """
    if position not in POSITIONS:
        raise InputError(f"memory position {position!r}: not known; choose from {', '.join(POSITIONS)}")
    told = plain(history)
    at = -1 if position == "action" else 0
    told[at] = {"role": told[at]["role"], "content": with_block(told[at]["content"], block)}
    return told


def dropped(task_id: str, share: float, seed: int) -> bool:
    """Whether task-level dropout takes memory from a task: the same answer in every process and order.

    Tasks dropped at a share stay dropped at any larger one (memwm.txt, Figure 6). Raises InputError for a
    share outside [0, 1].
    """
    if not 0.0 <= share <= 1.0:
        raise InputError(f"memory dropout {share}: not a share; give a number from 0 to 1")
    digest = hashlib.sha256(f"{seed}\0{task_id}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2.0**64
