"""Skill in an agent's prompt: bounded blocks of advice, at the head of the turn they belong to.

The task block stands before the first observation and stays; the step block stands before the present observation
and is gone with the next one. Advice says what to consider: what the environment shows comes first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from wmlab.memory.bank import Entry
from wmlab.memory.prompt import inert

TASK_BLOCK, STEP_BLOCK = "TASK_SKILL", "STEP_GUIDANCE"
AUTHORITY = "Advice from earlier episodes; what you read in this one comes first."
CountTokens = Callable[[str], int]
_ANY_BLOCK = re.compile(
    rf"\[BEGIN (?P<name>{TASK_BLOCK}|{STEP_BLOCK})\]\n.*?\n\[END (?P=name)\]\n\n", re.DOTALL
)


def render_skill(entry: Entry) -> str:
    """A skill or a rule on one line that spells no marker."""
    title = inert(str(entry.payload.get("title", "")))
    mistake = f"Mistake: {inert(entry.negative)}" if entry.negative else ""
    text = " ".join(part for part in (mistake, inert(entry.positive)) if part)
    return f"- {title}: {text}" if title and not text.startswith(title) else f"- {text}"


def render_block(name: str, lines: Sequence[str]) -> str:
    """The block of these lines; "" when there are none."""
    if not lines:
        return ""
    body = "\n".join(lines)
    return f"[BEGIN {name}]\n{AUTHORITY}\n{body}\n[END {name}]\n\n"


def fitting(
    name: str, entries: Sequence[Entry], budget: int, most: int, count: CountTokens
) -> tuple[str, tuple[Entry, ...]]:
    """The block of the first entries that fit into ``budget`` tokens, at most ``most``, and those entries.

    An entry that does not fit is passed over; a line that was taken is not taken again.
    """
    lines: list[str] = []
    used: list[Entry] = []
    for one in entries:
        line = render_skill(one)
        if len(used) == most:
            break
        if line not in lines and count(render_block(name, [*lines, line])) <= budget:
            lines.append(line)
            used.append(one)
    return render_block(name, lines), tuple(used)


def with_skill(observation: str, block: str) -> str:
    """An observation behind a block."""
    return block + observation


def without_skill(observation: str) -> str:
    """An observation without the skill blocks at its head."""
    while observation.startswith("[BEGIN ") and (found := _ANY_BLOCK.match(observation)):
        observation = observation[found.end() :]
    return observation
