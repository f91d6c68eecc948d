"""A language model as a ReAct agent, batched over episodes; it sees observations only.

Free: it writes ``Thought:``/``Action:`` text. Restricted (``choose``): it picks, token by token, among
the commands that the goal text names and a few that every game has. Both read text alone, so they act
alike in Real and in a world model; small models that cannot yet compose commands can still choose.
"""

from __future__ import annotations

from collections.abc import Sequence

from wmlab.agents.base import Decision, Message, Turn
from wmlab.agents.react import SYSTEM_PROMPTS, format_output, parse_action
from wmlab.domains.textworld.goals import goal_part, read_goal
from wmlab.lm.base import Sampling
from wmlab.lm.hf import HFModel

COMMON = ("look", "inventory", "go north", "go south", "go east", "go west")


class LanguageModelAgent:
    """Greedy turns of a local model. ``choose`` restricts actions to the goal's commands."""

    def __init__(
        self, lm: HFModel, domain: str = "textworld", *, choose: bool = False, max_new_tokens: int = 96
    ) -> None:
        self.lm = lm
        self.choose = choose
        self.sampling = Sampling(0.0, 1, max_new_tokens)
        self._system = SYSTEM_PROMPTS[domain]

    @property
    def system_prompt(self) -> str:
        """The prompt every episode starts with."""
        return self._system

    def left(self, key: str, turn: int) -> bool:
        """It acts as long as the episode runs."""
        return True

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        """One decision a turn, from one batched call."""
        choices = [_candidates(turn.messages) for turn in turns] if self.choose else None
        answers = self.lm.continue_dialogues(
            [t.key for t in turns], [t.messages for t in turns], self.sampling, choices
        )
        return [Decision(a.text, parse_action(a.text), len(a.token_ids)) for a in answers]

    def finish(self, keys: Sequence[str]) -> None:
        """Finished rows leave the cache at the next call."""


def _candidates(messages: Sequence[Message]) -> list[str]:
    """Turns that name one command: those the goal asks for, then the common ones."""
    first = next(m["content"] for m in messages if m["role"] == "user")
    commands = [clause.command for clause in read_goal(goal_part(first))]
    return [format_output(command) for command in dict.fromkeys([*commands, *COMMON])]
