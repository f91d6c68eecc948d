"""An agent with world skill: advice stands at the head of what it reads, and nowhere else.

The blocks go into a copy of the dialogue that the agent alone is given. The recorded dialogue, which a world
model continues and a replay follows, has none of them, so advice reaches a world only through actions. Advice
follows from the text read so far: it is the same in Real, in a world model and in any batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wmlab.agents.base import Agent, Decision, Message, Turn
from wmlab.skills.guidance import Guidance, Guide
from wmlab.skills.prompt import with_skill
from wmlab.skills.state import State, state_of_dialogue


class AdvisedAgent:
    """``agent``, shown its task's skills before the first observation and a step's rules before the present one."""

    def __init__(self, agent: Agent, guide: Guide) -> None:
        self.agent = agent
        self.guide = guide
        self._tasks: dict[str, tuple[str, Guidance]] = {}  # by episode: first observation, its skills

    @property
    def system_prompt(self) -> str:
        """The agent's own."""
        return self.agent.system_prompt

    def left(self, key: str, turn: int) -> bool:
        """Whether the agent still acts."""
        return self.agent.left(key, turn)

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        """The agent's decisions, each with the ids of what it was shown anew."""
        advised = [self._advise(turn) for turn in turns]
        decisions = self.agent.act([turn for turn, _ in advised])
        return [
            replace(decision, advice=shown) for decision, (_, shown) in zip(decisions, advised, strict=True)
        ]

    def finish(self, keys: Sequence[str]) -> None:
        """Forget finished episodes."""
        for key in keys:
            self._tasks.pop(key, None)
        self.agent.finish(keys)

    def _advise(self, turn: Turn) -> tuple[Turn, tuple[str, ...]]:
        """The turn with its blocks, and the entries shown anew."""
        state = state_of_dialogue(self.guide.domain, turn.messages)
        task = self._task(turn.key, state)
        step = self.guide.step(state)
        observed = [at for at, message in enumerate(turn.messages) if message["role"] == "user"]
        messages: list[Message] = list(turn.messages)
        for at, block in ((observed[-1], step.block), (observed[0], task.block)):
            if block:
                messages[at] = {**messages[at], "content": with_skill(messages[at]["content"], block)}
        new = step.entries if state.turns else (*task.entries, *step.entries)
        return Turn(turn.key, messages), tuple(one.id for one in new)

    def _task(self, key: str, state: State) -> Guidance:
        known = self._tasks.get(key)
        if known is None or known[0] != state.first:
            known = self._tasks[key] = (state.first, self.guide.start(state.goal))
        return known[1]
