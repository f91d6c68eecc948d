"""A language model as a ReAct agent, batched over episodes; it sees observations only.

Free: it writes ``Thought:``/``Action:`` text. Restricted (``choose``): it picks, token by token, among
the domain's candidate actions (agents/scripts.py). Both read text alone, so they act
alike in Real and in a world model; small models that cannot yet compose commands can still choose.
"""

from __future__ import annotations

from collections.abc import Sequence

from wmlab.agents.base import Decision, Message, Turn
from wmlab.agents.react import format_output, parse_action
from wmlab.agents.scripts import script_of
from wmlab.lm.base import Sampling
from wmlab.lm.hf import HFModel
from wmlab.skills.prompt import without_skill


class LanguageModelAgent:
    """Greedy turns of a local model. ``choose`` restricts actions to the domain's candidates."""

    def __init__(
        self, lm: HFModel, domain: str = "textworld", *, choose: bool = False, max_new_tokens: int = 96
    ) -> None:
        self.lm = lm
        self.choose = choose
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
        choices = [self._candidates(turn.messages) for turn in turns] if self.choose else None
        answers = self.lm.continue_dialogues(
            [t.key for t in turns], [t.messages for t in turns], self.sampling, choices
        )
        return [Decision(a.text, parse_action(a.text), len(a.token_ids)) for a in answers]

    def finish(self, keys: Sequence[str]) -> None:
        """Finished rows leave the cache at the next call."""

    def _candidates(self, messages: Sequence[Message]) -> list[str]:
        observations = [
            without_skill(message["content"]) for message in messages if message["role"] == "user"
        ]
        actions = [parse_action(message["content"]) for message in messages if message["role"] == "assistant"]
        return [format_output(action) for action in self._script.candidates(observations, actions)]
