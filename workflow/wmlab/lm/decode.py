"""Batched decoding with a key-value cache that lives across the turns of an episode.

Rollouts extend the same dialogues turn by turn, so each call computes only the tokens that are new
since the last one. Rows have different lengths: new tokens are right-aligned in a common block, unused
slots are masked out, and position ids count a row's own tokens. If a row's earlier ids changed (text
retokenised), its slots after the common prefix are masked and the rest is fed again, so the result
always equals decoding from scratch (tested).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache


class DecodeCache:
    """Cached rows of one model: key → the ids seen so far and the cache slots that hold them."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.ids: list[list[int]] = []
        self.slots: list[list[int]] = []
        self.past: Any = None
        self.width = 0

    def select(self, keys: Sequence[str]) -> None:
        """Keep the rows of ``keys`` in this order; start afresh when one is unknown or slots are mostly holes."""
        known = {key: row for row, key in enumerate(self.keys)}
        used = sum(len(self.slots[known[key]]) for key in keys if key in known)
        if self.past is None or any(key not in known for key in keys) or used * 3 < self.width * len(keys):
            self.keys, self.past, self.width = list(keys), DynamicCache(), 0
            self.ids, self.slots = [[] for _ in keys], [[] for _ in keys]
            return
        rows = [known[key] for key in keys]
        if rows != list(range(len(self.keys))):
            self.past.batch_select_indices(torch.tensor(rows))
            self.keys = list(keys)
            self.ids, self.slots = [self.ids[r] for r in rows], [self.slots[r] for r in rows]

    def repeat(self, n: int) -> None:
        """Repeat each row n times, neighbours together."""
        self.past.batch_repeat_interleave(n)
        self.keys = [f"{key}#{i}" for key in self.keys for i in range(n)]
        self.ids = [list(row) for row in self.ids for _ in range(n)]
        self.slots = [list(row) for row in self.slots for _ in range(n)]


def _forward(model: Any, cache: DecodeCache, new: Sequence[Sequence[int]]) -> torch.Tensor:
    """Feed each row its new ids (possibly none); return logits (rows, vocab) at each row's last slot."""
    block = max(len(row) for row in new)
    batch = len(new)
    ids = torch.zeros((batch, block), dtype=torch.long)
    positions = torch.zeros((batch, block), dtype=torch.long)
    mask = torch.zeros((batch, cache.width + block), dtype=torch.long)
    for r, row in enumerate(new):
        start = block - len(row)
        if row:
            ids[r, start:] = torch.tensor(row)
            positions[r, start:] = torch.arange(len(cache.ids[r]), len(cache.ids[r]) + len(row))
        cache.ids[r].extend(row)
        cache.slots[r].extend(range(cache.width + start, cache.width + block))
        mask[r, torch.tensor(cache.slots[r])] = 1
    out = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        past_key_values=cache.past,
        use_cache=True,
        logits_to_keep=1,
    )
    cache.past = out.past_key_values
    cache.width += block
    logits: torch.Tensor = out.logits[:, -1].float()
    return logits


def _prefill(model: Any, cache: DecodeCache, prompts: Sequence[Sequence[int]]) -> torch.Tensor:
    """Bring the cached rows to ``prompts``; return the next-token logits (rows, vocab)."""
    new: list[list[int]] = []
    for row, prompt in enumerate(prompts):
        ids, same = cache.ids[row], 0
        # At least the last token is fed, since its logits are needed.
        limit = min(len(ids), len(prompt) - 1)
        while same < limit and ids[same] == prompt[same]:
            same += 1
        del ids[same:], cache.slots[row][same:]
        new.append(list(prompt[same:]))
    return _forward(model, cache, new)


@torch.inference_mode()
def decode(
    model: Any,
    cache: DecodeCache,
    keys: Sequence[str],
    prompts: Sequence[Sequence[int]],
    *,
    n: int,
    temperature: float,
    max_new_tokens: int,
    end_id: int,
    generator: torch.Generator | None = None,
) -> list[list[tuple[list[int], bool]]]:
    """(rows,) prompts → (rows, n) pairs (new ids without the end token, whether it ended by itself).

    Greedy at temperature 0. With n > 1 the cache is spent and has to be made anew.
    """
    cache.select(keys)
    logits = _prefill(model, cache, prompts)
    if n > 1:
        cache.repeat(n)
        logits = logits.repeat_interleave(n, dim=0)
    total = logits.shape[0]
    produced: list[list[int]] = [[] for _ in range(total)]
    ended = [False] * total
    running = list(range(total))
    for count in range(max_new_tokens):
        tokens = _pick(logits, temperature, generator).tolist()
        new: list[list[int]] = [[] for _ in range(total)]
        still = []
        for row in running:
            token = tokens[row]
            if token == end_id:
                ended[row] = True
            else:
                produced[row].append(token)
                new[row] = [token]
                still.append(row)
        running = still
        if not running or count + 1 == max_new_tokens:
            break
        logits = _forward(model, cache, new)
    flat = list(zip(produced, ended, strict=True))
    return [flat[i : i + n] for i in range(0, total, n)]


def _pick(logits: torch.Tensor, temperature: float, generator: torch.Generator | None) -> torch.Tensor:
    if temperature <= 0:
        return logits.argmax(-1)
    probabilities = torch.softmax(logits / temperature, dim=-1)
    return torch.multinomial(probabilities, 1, generator=generator)[:, 0]
