"""ReAct dialogue: the prompt of the default agents and the one parser of their output.

The contract is the papers' (behr.txt Appendix G.2, formats.md 2.2): ``Thought:`` then ``Action:``,
one command a turn. The wording is ours; the papers' own prompts come with their init-context data.
"""

from __future__ import annotations

import re

from wmlab.domains.actions import normalise_action

ACTION_PREFIX = "Action:\n"
_THINK = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)


def format_output(action: str, thought: str | None = None) -> str:
    """The assistant turn for an action, with its thought when there is one."""
    head = "" if thought is None else f"Thought:\n{thought}\n\n"
    return f"{head}{ACTION_PREFIX}{action}"


def without_thinking(output: str) -> str:
    """An output without its think blocks, an unclosed one to its end; they are not part of a dialogue."""
    return _THINK.sub("", output)


def parse_action(output: str) -> str:
    """The command of an agent's turn; empty when there is none (a recorded no-op in every mode).

    Rule: think blocks are removed; the text after the last ``Action:``, its first non-empty line,
    normalised. Output without ``Action:`` has no command.
    """
    text = without_thinking(output)
    _, found, tail = text.rpartition("Action:")
    if not found:
        return ""
    lines = (line.strip() for line in tail.splitlines())
    return normalise_action(next((line for line in lines if line), "").strip("`* "))
