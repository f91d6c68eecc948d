"""Replay recorded actions in the real environment: W2R, and the Real→Real floor.

The actions of an episode are sent as they were; nothing is asked of an agent. An episode that ended
before the real game does is a failure of the task (metrics.md 1).
"""

from __future__ import annotations

from collections.abc import Sequence

from wmlab.agents.base import Decision, Turn
from wmlab.metrics.episodes import Episode


class RecordedAgent:
    """Answers with the recorded outputs of earlier episodes, by task id."""

    def __init__(self, episodes: Sequence[Episode]) -> None:
        self._episodes = {episode.item_id: episode for episode in episodes}
        self._outputs = {
            episode.item_id: [m["content"] for m in episode.messages if m["role"] == "assistant"]
            for episode in episodes
        }

    @property
    def system_prompt(self) -> str:
        """The recorded system prompt."""
        first = next(iter(self._episodes.values()), None)
        return first.messages[0]["content"] if first is not None and first.messages else ""

    def left(self, key: str, turn: int) -> bool:
        """Whether an action is recorded for this turn (0-based)."""
        return turn < len(self._episodes[key].actions)

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        """The recorded decision of each turn."""
        decisions = []
        for turn in turns:
            place = sum(message["role"] == "assistant" for message in turn.messages)
            action = self._episodes[turn.key].actions[place]
            decisions.append(Decision(self._outputs[turn.key][place], action))
        return decisions

    def finish(self, keys: Sequence[str]) -> None:
        """Nothing is cached."""
