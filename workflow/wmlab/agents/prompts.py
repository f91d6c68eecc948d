"""What an agent's model reads of a dialogue: ReAct or chain of thought, and how the dialogue opens.

The recorded dialogue is one for all: system, observation, output, observation … A view of it is made for each call.
ReAct (behr.txt, Appendix G.2) keeps the thoughts of earlier turns before its eyes; chain of thought (memwm.txt,
Appendix on baselines) reasons anew at each step and sees only the commands that it gave. The released initial
contexts open with the prompt as a user turn and an acknowledgement (formats.md 1.3): ``acknowledged``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from wmlab.agents.base import Message
from wmlab.agents.react import format_output, parse_action
from wmlab.agents.scripts import script_of
from wmlab.domains.conventions import acknowledgement_of

Style = Literal["react", "cot"]
COT_RULE = (
    "Under Thought reason step by step before you decide: what the goal asks for, what you know by now, what is still "
    "to do, and what each action you consider would lead to. Earlier thoughts are not shown to you again."
)


@dataclass(frozen=True)
class Prompting:
    """The system prompt of an episode's record, and the view of it that the model reads.

    ``acknowledgement`` is what the agent answers to its prompt where the prompt is a user turn; None: a system turn.
    """

    system: str
    style: Style = "react"
    acknowledgement: str | None = None

    @classmethod
    def of(
        cls, domain: str, style: Style = "react", *, prompt: str | None = None, acknowledged: bool = False
    ) -> Prompting:
        """The domain's own prompt, or ``prompt`` as initial contexts carry it."""
        system = script_of(domain).SYSTEM_PROMPT if prompt is None else prompt
        if style == "cot":
            system = f"{system}\n\n{COT_RULE}"
        return cls(system, style, acknowledgement_of(domain) if acknowledged else None)

    def view(self, messages: Sequence[Message]) -> list[Message]:
        """The messages of one call."""
        turns = list(messages)
        if self.style == "cot":
            turns = [_command_only(turn) if turn["role"] == "assistant" else turn for turn in turns]
        if self.acknowledgement is not None and turns and turns[0]["role"] == "system":
            opening = [{"role": "user", "content": turns[0]["content"]}]
            return [*opening, {"role": "assistant", "content": self.acknowledgement}, *turns[1:]]
        return turns


def _command_only(turn: Message) -> Message:
    return {**turn, "content": format_output(parse_action(turn["content"]))}
