"""Language models as agents, batched over episodes; they see text alone, so they act alike in every world.

A :class:`ChatAgent` writes ``Thought:``/``Action:`` text, from a model here or behind servers. A
:class:`ChoosingAgent` picks, token by token, among the domain's candidate actions (agents/scripts.py): small models
that cannot yet compose commands can still choose.
"""

from __future__ import annotations

from collections.abc import Sequence

from wmlab.agents.base import Decision, Message, Turn
from wmlab.agents.prompts import Prompting
from wmlab.agents.react import format_output, parse_action, without_thinking
from wmlab.agents.scripts import script_of
from wmlab.lm.base import Sampling
from wmlab.lm.chat import ChatModel
from wmlab.lm.hf import HFModel
from wmlab.lm.transport import AnswerFailure
from wmlab.skills.prompt import without_skill


class ChatAgent:
    """One turn of free text a decision; a dialogue that gets no answer ends as an error of its episode."""

    def __init__(self, chat: ChatModel, prompting: Prompting) -> None:
        self.chat = chat
        self.prompting = prompting

    @property
    def system_prompt(self) -> str:
        """The prompt every episode starts with."""
        return self.prompting.system

    def left(self, key: str, turn: int) -> bool:
        """It acts as long as the episode runs."""
        return True

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        """One decision a turn, from one batch of calls."""
        views = [self.prompting.view(turn.messages) for turn in turns]
        answers = self.chat.answer([turn.key for turn in turns], views)
        return [
            Decision("", "", error=str(answer))
            if isinstance(answer, AnswerFailure)
            else Decision(without_thinking(answer.text), parse_action(answer.text), answer.n_tokens)
            for answer in answers
        ]

    def finish(self, keys: Sequence[str]) -> None:
        """Finished rows leave the cache at the next call."""


class ChoosingAgent:
    """Greedy choices of a local model among the domain's candidates."""

    def __init__(self, lm: HFModel, domain: str = "textworld", max_new_tokens: int = 96) -> None:
        self.lm = lm
        self.sampling = Sampling(0.0, 1, max_new_tokens)
        self._script = script_of(domain)

    @property
    def system_prompt(self) -> str:
        """The prompt every episode starts with."""
        return self._script.SYSTEM_PROMPT

    def left(self, key: str, turn: int) -> bool:
        """It acts as long as the episode runs."""
        return True

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        """One decision a turn, from one batched call."""
        choices = [[format_output(action) for action in self.candidates(turn.messages)] for turn in turns]
        answers = self.lm.continue_dialogues(
            [t.key for t in turns], [t.messages for t in turns], self.sampling, choices
        )
        return [Decision(a.text, parse_action(a.text), a.n_tokens) for a in answers]

    def finish(self, keys: Sequence[str]) -> None:
        """Finished rows leave the cache at the next call."""

    def candidates(self, messages: Sequence[Message]) -> list[str]:
        """The actions that it chooses among after a dialogue."""
        observations = [without_skill(m["content"]) for m in messages if m["role"] == "user"]
        actions = [parse_action(m["content"]) for m in messages if m["role"] == "assistant"]
        return self._script.candidates(observations, actions)
