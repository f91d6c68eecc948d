"""The LanguageModel protocol on transformers, in process (CPU or CUDA)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from wmlab.lm.base import Chat, Completion, Sampling
from wmlab.lm.build import load_model
from wmlab.lm.decode import RowCache, branched, decode
from wmlab.lm.tokenizer import encode_chat, load_tokenizer
from wmlab.lm.tree import Tree, branch_logprobs, cached_logprobs, chunks

MAX_BATCH_TOKENS = 8192
LONG_TREE = 800
"""Tokens from which a tree is scored by its prefix's cache: several in one masked batch are faster below."""


class HFModel:
    """A causal LM and its tokenizer. ``model_id`` names it in records; it is never used as a path."""

    def __init__(self, model: Any, tokenizer: Any, model_id: str) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self._model_id = model_id
        self._cache = RowCache()

    @classmethod
    def load(cls, path: str | Path, model_id: str | None = None) -> HFModel:
        """Load a model folder in fp32: scores are differences of small numbers."""
        return cls(load_model(path), load_tokenizer(path), model_id or Path(path).name)

    @property
    def model_id(self) -> str:
        """Name of the model in records."""
        return self._model_id

    @property
    def max_context(self) -> int:
        """Most tokens the model has positions for."""
        return int(self.model.config.max_position_embeddings)

    def prefill(self, trees: Sequence[Tree]) -> int:
        """Tokens that scoring ``trees`` computes: a prefix once for all its branches."""
        return sum(tree.n_tokens for tree in trees)

    @property
    def end_id(self) -> int:
        """The token that closes a turn."""
        return int(self.tokenizer.eos_token_id)

    def encode(self, chat: Chat) -> list[int]:
        """Ids of a dialogue, ready for the assistant's next turn."""
        return encode_chat(self.tokenizer, chat, generation_prompt=True)

    def decode_ids(self, ids: Sequence[int]) -> str:
        """Text of generated ids."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True))

    def generate(self, chats: Sequence[Chat], sampling: Sampling) -> list[list[Completion]]:
        """(chats,) → (chats, n) completions, in batches of similar length, without a lasting cache."""
        return self.generate_ids([self.encode(chat) for chat in chats], sampling)

    def generate_ids(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[list[Completion]]:
        """:meth:`generate` after prompts of token ids, which may end within the assistant's turn."""
        generator = torch.Generator(self.model.device).manual_seed(sampling.seed)
        results: list[list[Completion]] = [[] for _ in prompts]
        trees = [Tree(prompt, [], []) for prompt in prompts]
        for group in chunks(trees, MAX_BATCH_TOKENS):
            answers = self._decode(
                RowCache(), group, [prompts[i] for i in group], sampling, generator, spend=True
            )
            for index, answer in zip(group, answers, strict=True):
                results[index] = answer
        return results

    def continue_dialogues(
        self,
        keys: Sequence[str],
        chats: Sequence[Chat],
        sampling: Sampling,
        choices: Sequence[Sequence[str]] | None = None,
    ) -> list[Completion]:
        """Greedy next turns of running dialogues; ``keys`` tie them to the cache of earlier calls.

        ``choices`` (dialogues, candidates) restricts each turn to one of its candidate texts.
        """
        prompts = [self.encode(chat) for chat in chats]
        ids = None
        if choices is not None:
            ids = [
                [self.tokenizer.encode(text, add_special_tokens=False) for text in group] for group in choices
            ]
        answers = self._decode(self._cache, keys, prompts, sampling, None, ids)
        return [answer[0] for answer in answers]

    def branch_dialogues(
        self, keys: Sequence[str], chats: Sequence[Chat], sampling: Sampling
    ) -> list[Completion]:
        """Greedy next turns of several branches of running dialogues: those with one key share a beginning.

        What they share is computed once, and kept for the key's next branches.
        """
        prompts = [self.encode(chat) for chat in chats]
        members: dict[str, list[int]] = {}
        for at, key in enumerate(keys):
            members.setdefault(key, []).append(at)
        stems = [_shared([prompts[at] for at in group]) for group in members.values()]
        place = {key: row for row, key in enumerate(members)}
        cache = branched(self.model, self._cache, list(members), stems, [place[key] for key in keys])
        answers = self._decode(cache, cache.names, prompts, sampling, None, spend=True)
        return [answer[0] for answer in answers]

    def _decode(
        self,
        cache: RowCache,
        keys: Sequence[object],
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        generator: torch.Generator | None,
        choices: Sequence[Sequence[Sequence[int]]] | None = None,
        spend: bool = False,
    ) -> list[list[Completion]]:
        decoded = decode(
            self.model,
            cache,
            [str(key) for key in keys],
            prompts,
            n=sampling.n,
            temperature=sampling.temperature,
            max_new_tokens=sampling.max_new_tokens,
            end_id=self.end_id,
            generator=generator,
            choices=choices,
            spend=spend,
        )
        return [
            [
                Completion(self.decode_ids(ids), tuple(ids), "stop" if ended else "length")
                for ids, ended in row
            ]
            for row in decoded
        ]

    def score(self, requests: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[float]]:
        """Log-probabilities (nats) of each continuation's tokens; equal contexts share one prefix."""
        by_context: dict[tuple[int, ...], list[int]] = {}
        for index, (context, _) in enumerate(requests):
            by_context.setdefault(tuple(context), []).append(index)
        trees = [
            Tree(context, [requests[i][1] for i in members], [len(requests[i][1]) for i in members])
            for context, members in by_context.items()
        ]
        scores: list[list[float]] = [[] for _ in requests]
        for members, branches in zip(by_context.values(), self.score_trees(trees), strict=True):
            for index, values in zip(members, branches, strict=True):
                scores[index] = values
        return scores

    @torch.inference_mode()
    def score_trees(self, trees: Sequence[Tree]) -> list[list[list[float]]]:
        """Per tree and branch, the log-probabilities (nats) of its scored tokens."""
        results: list[list[list[float]]] = [[] for _ in trees]
        short = [index for index, tree in enumerate(trees) if tree.n_tokens < LONG_TREE]
        for group in chunks([trees[index] for index in short], MAX_BATCH_TOKENS):
            values, _ = branch_logprobs(self.model, [trees[short[place]] for place in group])
            for place, branches in zip(group, values, strict=True):
                results[short[place]] = [branch.tolist() for branch in branches]
        for index, tree in enumerate(trees):
            if tree.n_tokens >= LONG_TREE:
                results[index] = [branch.tolist() for branch in cached_logprobs(self.model, tree)]
        return results


def _shared(prompts: Sequence[Sequence[int]]) -> list[int]:
    """The longest common beginning that leaves each prompt a token."""
    first, longest = prompts[0], min(len(prompt) for prompt in prompts) - 1
    same = 0
    while same < longest and all(prompt[same] == first[same] for prompt in prompts):
        same += 1
    return list(first[: max(same, 1)])
