"""A language model as a ReAct agent: greedy or sampled, batched over episodes."""

from __future__ import annotations

from collections.abc import Sequence

from wmlab.agents.base import Decision, Turn
from wmlab.agents.react import SYSTEM_PROMPTS, parse_action
from wmlab.lm.base import Sampling
from wmlab.lm.hf import HFModel


class LanguageModelAgent:
    """Free-running text in, ``Thought:``/``Action:`` text out; sees observations only."""

    def __init__(self, lm: HFModel, domain: str = "textworld", max_new_tokens: int = 96) -> None:
        self.lm = lm
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
        answers = self.lm.continue_dialogues(
            [t.key for t in turns], [t.messages for t in turns], self.sampling
        )
        return [Decision(a.text, parse_action(a.text), len(a.token_ids)) for a in answers]

    def finish(self, keys: Sequence[str]) -> None:
        """Finished rows leave the cache at the next call."""
