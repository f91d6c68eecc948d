"""The frozen reference agent: how likely is the logged action after a state? (behr.txt 4.2, App. C)

Prompt: the agent's system prompt, its history with bare ``Action:`` turns, the candidate state as the
last user turn, then ``Action:\\n``; only the action's tokens are scored (metrics.md 5). Per transition
the history is computed once for all states, equal states once, and each real state once ever.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wmlab.agents.react import ACTION_PREFIX, format_output, parse_action
from wmlab.agents.scripts import script_of
from wmlab.lm.answers import AnswerCache
from wmlab.lm.base import Chat, Sampling
from wmlab.lm.scorer import Scorer, Scores
from wmlab.lm.transport import AnswerFailure
from wmlab.lm.tree import Tree
from wmlab.rewards.base import RewardInput

CACHE_SIZE = 200_000
"""States whose scores a run remembers."""
KEPT = 5_000_000
"""States whose scores a file keeps; one takes about 150 bytes."""
ACTION_TOKENS = 32
"""A greedy action may be this long."""


@dataclass(frozen=True)
class StateScore:
    """Mean log-probability of the action after one state (nats per token), or why there is none."""

    mean_logprob: float | None
    n_tokens: int
    error: str | None = None


class ReferenceAgent:
    """Scores actions under a frozen LM and counts what it costs.

    ``kept`` is a file of scores that runs share, under ``identity``, which says whose they are by content. With it
    a resumed run may read what an uninterrupted one computes, equal to about 1e-6 nats.
    """

    def __init__(
        self,
        lm: Scorer,
        max_context: int | None = None,
        kept: AnswerCache | None = None,
        identity: str | None = None,
    ) -> None:
        self.lm = lm
        self._kept = kept
        self._identity = identity or lm.model_id
        self.max_context = max_context or lm.max_context
        self.calls = 0
        self.prefill_tokens = 0
        self._cache: OrderedDict[str, StateScore] = OrderedDict()

    def score(self, items: Sequence[RewardInput], states: Sequence[Sequence[str]]) -> list[list[StateScore]]:
        """(transitions,) × (states each) → scores, in the same shape."""
        results: list[list[StateScore | None]] = [[None] * len(group) for group in states]
        trees: list[Tree] = []
        owners: list[list[tuple[str, list[tuple[int, int]]]]] = []
        for t, (item, group) in enumerate(zip(items, states, strict=True)):
            wanted: OrderedDict[str, list[tuple[int, int]]] = OrderedDict()
            for c, state in enumerate(group):
                wanted.setdefault(state, []).append((t, c))
            prefix, branches, members = None, [], []
            for state, places in wanted.items():
                if not item.action:
                    self._fill(results, places, StateScore(None, 0, "the transition has no next action"))
                    continue
                key = _digest(self._identity, item, state)
                known = self._known(key)
                if known is not None:
                    self._fill(results, places, known)
                    continue
                if prefix is None:
                    prefix = self._prefix(item)
                branch = self._branch(item, state, prefix)
                if len(prefix) + len(branch[0]) > self.max_context:
                    error = f"context of {len(prefix) + len(branch[0])} tokens exceeds {self.max_context}"
                    self._fill(results, places, StateScore(None, branch[1], error))
                    continue
                branches.append(branch)
                members.append((key, places))
            if branches and prefix is not None:
                trees.append(Tree(prefix, [b for b, _ in branches], [n for _, n in branches]))
                owners.append(members)
        for members, values in zip(owners, self._run(trees), strict=True):
            for (key, places), logprobs in zip(members, values, strict=True):
                score = (
                    StateScore(None, 0, str(logprobs))
                    if isinstance(logprobs, AnswerFailure)
                    else _mean(logprobs)
                )
                if score.error is None:
                    self._remember(key, score)
                self._fill(results, places, score)
        return [[score for score in group if score is not None] for group in results]

    def act(self, items: Sequence[RewardInput], states: Sequence[Sequence[str]]) -> list[list[str | None]]:
        """Greedy actions after each state, in the shape of ``states``; None where the context is too long.

        The prompt is that of scoring, cut where the action begins; equal states are decoded once a transition.
        """
        lead = self.lm.tokenizer.encode(ACTION_PREFIX, add_special_tokens=False)
        prompts: list[list[int]] = []
        places: list[dict[str, int]] = []
        for item, group in zip(items, states, strict=True):
            places.append({})
            for state in dict.fromkeys(group):
                chat = [*self._chat(item), {"role": "user", "content": state}]
                prompt = [*self._encode(chat, generation_prompt=True), *lead]
                if len(prompt) + ACTION_TOKENS <= self.max_context:
                    places[-1][state] = len(prompts)
                    prompts.append(prompt)
        self.calls += len(prompts)
        self.prefill_tokens += sum(map(len, prompts))
        said = self.lm.generate_ids(prompts, Sampling(0.0, 1, ACTION_TOKENS)) if prompts else []
        actions = [parse_action(ACTION_PREFIX + answer[0].text) for answer in said]
        return [
            [actions[place[state]] if state in place else None for state in group]
            for place, group in zip(places, states, strict=True)
        ]

    def state(self) -> dict[str, Any]:
        """Scores and counts so far, for a checkpoint: a resumed run then asks the same questions."""
        known = {key: (score.mean_logprob, score.n_tokens) for key, score in self._cache.items()}
        return {"calls": self.calls, "prefill_tokens": self.prefill_tokens, "cache": known}

    def restore(self, state: dict[str, Any]) -> None:
        """Take back what ``state`` gave."""
        self.calls, self.prefill_tokens = int(state["calls"]), int(state["prefill_tokens"])
        self._cache = OrderedDict(
            (key, StateScore(mean, int(n))) for key, (mean, n) in state["cache"].items()
        )

    def _run(self, trees: list[Tree]) -> Scores:
        if not trees:
            return []
        self.calls += sum(len(tree.branches) for tree in trees)
        self.prefill_tokens += self.lm.prefill(trees)
        return self.lm.score_trees(trees)

    def _prefix(self, item: RewardInput) -> list[int]:
        return self._encode(self._chat(item), generation_prompt=False)

    def _chat(self, item: RewardInput) -> list[dict[str, str]]:
        chat = [{"role": "system", "content": script_of(item.domain).SYSTEM_PROMPT}]
        for message in item.history:
            if message["role"] == "user":
                chat.append({"role": "assistant", "content": format_output(message["content"])})
            else:
                chat.append({"role": "user", "content": message["content"]})
        return chat

    def _branch(self, item: RewardInput, state: str, prefix: list[int]) -> tuple[list[int], int]:
        """Ids of state, assistant prefix and action after the history; how many of them are the action's."""
        chat = [*self._chat(item), {"role": "user", "content": state}]
        opened = self._encode(chat, generation_prompt=True)
        if opened[: len(prefix)] != prefix:
            raise ValueError("the reference agent's chat template is not prefix-stable")
        tokenizer = self.lm.tokenizer
        lead = tokenizer.encode(ACTION_PREFIX, add_special_tokens=False)
        full = tokenizer.encode(ACTION_PREFIX + str(item.action), add_special_tokens=False)
        # Token ids, not characters, decide where the action starts; a merge over the border is scored whole.
        same = 0
        while same < min(len(lead), len(full) - 1) and lead[same] == full[same]:
            same += 1
        return opened[len(prefix) :] + full, len(full) - same

    def _encode(self, chat: Chat, *, generation_prompt: bool) -> list[int]:
        from wmlab.lm.tokenizer import encode_chat

        return encode_chat(self.lm.tokenizer, chat, generation_prompt=generation_prompt)

    @staticmethod
    def _fill(results: list[list[Any]], places: Sequence[tuple[int, int]], score: StateScore) -> None:
        for t, c in places:
            results[t][c] = score

    def _known(self, key: str) -> StateScore | None:
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        said = self._kept.get(key) if self._kept is not None else None
        if said is None:
            return None
        mean, n = json.loads(said)
        known = StateScore(float(mean), int(n))
        self._hold(key, known)
        return known

    def _remember(self, key: str, score: StateScore) -> None:
        self._hold(key, score)
        if self._kept is not None:
            self._kept.put(key, json.dumps([score.mean_logprob, score.n_tokens]))

    def _hold(self, key: str, score: StateScore) -> None:
        self._cache[key] = score
        if len(self._cache) > CACHE_SIZE:
            self._cache.popitem(last=False)


def _mean(logprobs: Sequence[float]) -> StateScore:
    mean = sum(logprobs) / len(logprobs) if logprobs else math.nan
    if not math.isfinite(mean):
        return StateScore(None, len(logprobs), "the reference agent gave no finite log-probability")
    return StateScore(mean, len(logprobs))


def _digest(model_id: str, item: RewardInput, state: str) -> str:
    parts = [
        model_id,
        item.domain,
        *(f"{m['role']}\1{m['content']}" for m in item.history),
        state,
        str(item.action),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
