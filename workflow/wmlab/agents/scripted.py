"""A text-only agent that follows its domain's script, exactly or with noise.

It never sees game state. Noise makes it wander: with probability ``epsilon`` a turn is spent on some
other action, which may move it off its route, and half of those times it also takes the present step
for done. ``harmless`` noise (for demonstrations) only looks around. All draws are seeded by (seed,
first observation, turn), so that Real and WM runs of one task meet the same noise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from wmlab.agents.base import Decision, Turn
from wmlab.agents.react import format_output
from wmlab.agents.scripts import Script, ScriptModule, script_of


class ScriptedAgent:
    """Follows the script; ``epsilon`` is the share of turns spent on another action."""

    def __init__(
        self, domain: str = "textworld", *, epsilon: float = 0.0, harmless: bool = False, seed: int = 0
    ) -> None:
        self.epsilon = epsilon
        self.harmless = harmless
        self.seed = seed
        self._module = script_of(domain)
        self._episodes: dict[str, _Episode] = {}

    @property
    def system_prompt(self) -> str:
        """The prompt that the episode record starts with."""
        return self._module.SYSTEM_PROMPT

    def left(self, key: str, turn: int) -> bool:
        """It acts as long as the episode runs."""
        return True

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        """One decision a turn."""
        return [self._decide(turn) for turn in turns]

    def finish(self, keys: Sequence[str]) -> None:
        """Forget finished episodes."""
        for key in keys:
            self._episodes.pop(key, None)

    def _decide(self, turn: Turn) -> Decision:
        observations = [message["content"] for message in turn.messages if message["role"] == "user"]
        episode = self._episodes.get(turn.key)
        if episode is None or episode.seen > len(observations):
            episode = self._episodes[turn.key] = _Episode(self._module, observations[0], self.seed)
        for observation in observations[episode.seen :]:
            episode.read(observation)
        thought, action = episode.choose(self.epsilon, self.harmless)
        return Decision(format_output(action, thought), action, deliberate=episode.following)


class _Episode:
    """A script and the noise around it."""

    def __init__(self, module: ScriptModule, first_observation: str, seed: int) -> None:
        self.script: Script = module.Script(first_observation)
        self.seen = 1
        self.following = False  # whether the last action was the script's
        digest = hashlib.sha256(f"{seed}\0{first_observation}".encode()).digest()
        self._entropy = int.from_bytes(digest[:8], "little")

    def read(self, observation: str) -> None:
        """Show the script the answer to its own action; answers to strays are not its business."""
        self.seen += 1
        if self.following:
            self.script.read(observation)

    def choose(self, epsilon: float, harmless: bool) -> tuple[str, str]:
        """(thought, action): the script's, a wandering one, or idling when nothing is left to do."""
        rng = np.random.default_rng((self._entropy, self.seen - 1))
        self.following = False
        if rng.random() < epsilon:
            if not harmless and rng.random() < 0.5:
                self.script.skip()
            return "Something else first.", self.script.wander(rng, harmless)
        planned = self.script.next()
        if planned is None:
            return "Nothing is left to do.", self.script.idle()
        self.following = True
        return planned
