"""Batched decoding with a key-value cache that lives across the turns of an episode.

Rollouts extend the same dialogues turn by turn, so each call computes only the tokens that are new
since the last one. A token's cache slot is its position in its own row (plus one), so rows of different
lengths need no padding slots, a row whose earlier ids changed (text retokenised) is simply cut back,
and the result always equals decoding from scratch (tested). Keys and values are written in place:
transformers' DynamicCache copies the whole cache for every token.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache

SCRATCH = 0  # slot that takes what padding positions write; never visible to a real token
GROWTH = 256
SHRINK = 0.7  # share of running rows at which the finished ones stop computing


class RowCache(Cache):  # type: ignore[misc]
    """Keys and values of a batch of rows, per layer (rows, heads, slots, head size)."""

    is_compileable = False

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.names: list[str] = []
        self.ids: list[list[int]] = []  # per row, the tokens whose slots are valid
        self.buffers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.capacity = 0
        self.width = 0  # slots visible to the forward pass under way
        self.slots = torch.zeros((0, 0), dtype=torch.long)  # (rows, new tokens)

    def select(self, names: Sequence[str]) -> None:
        """Keep the rows of ``names`` in this order; start afresh when one is unknown."""
        known = {name: row for row, name in enumerate(self.names)}
        if any(name not in known for name in names):
            self.buffers, self.capacity = {}, 0
            self.names, self.ids = list(names), [[] for _ in names]
            return
        rows = [known[name] for name in names]
        if rows != list(range(len(self.names))):
            index = torch.tensor(rows)
            self.buffers = {layer: (k[index], v[index]) for layer, (k, v) in self.buffers.items()}
            self.names, self.ids = list(names), [self.ids[row] for row in rows]

    def repeat(self, n: int) -> None:
        """Repeat each row n times, neighbours together."""
        self.buffers = {
            layer: (k.repeat_interleave(n, 0), v.repeat_interleave(n, 0))
            for layer, (k, v) in self.buffers.items()
        }
        self.names = [f"{name}#{i}" for name in self.names for i in range(n)]
        self.ids = [list(row) for row in self.ids for _ in range(n)]

    def part(self, rows: Sequence[int]) -> RowCache:
        """A copy of some rows, to go on with alone; :meth:`absorb` takes their new tokens back."""
        index = torch.tensor(list(rows))
        copy = RowCache()
        copy.names, copy.ids = [self.names[row] for row in rows], [list(self.ids[row]) for row in rows]
        copy.buffers = {layer: (k[index], v[index]) for layer, (k, v) in self.buffers.items()}
        copy.capacity = self.capacity
        return copy

    def absorb(self, part: RowCache) -> None:
        """Take over the tokens that a :meth:`part` has gained."""
        known = {name: row for row, name in enumerate(self.names)}
        rows = [known[name] for name in part.names]
        first = 1 + min(len(self.ids[row]) for row in rows)
        end = 1 + max(len(ids) for ids in part.ids)
        if end > self.capacity:
            self.capacity = end + GROWTH
            self.buffers = {layer: (self._grown(k), self._grown(v)) for layer, (k, v) in self.buffers.items()}
        index = torch.tensor(rows)
        for layer, pair in part.buffers.items():
            for own, new in zip(self.buffers[layer], pair, strict=True):
                own[index, :, first:end] = new[:, :, first:end]
        for row, ids in zip(rows, part.ids, strict=True):
            self.ids[row] = list(ids)

    def prepare(self, slots: torch.Tensor, width: int) -> None:
        """Say where the next forward pass writes and how many slots it reads."""
        self.slots, self.width = slots, width
        if width > self.capacity:
            self.capacity = width + GROWTH
            self.buffers = {layer: (self._grown(k), self._grown(v)) for layer, (k, v) in self.buffers.items()}

    def _grown(self, old: torch.Tensor) -> torch.Tensor:
        new = old.new_zeros((old.shape[0], old.shape[1], self.capacity, old.shape[3]))
        new[:, :, : old.shape[2]] = old
        return new

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new keys and values (rows, heads, new, head size); return all visible ones."""
        if layer_idx not in self.buffers:
            shape = (*key_states.shape[:2], self.capacity, key_states.shape[3])
            self.buffers[layer_idx] = (key_states.new_zeros(shape), value_states.new_zeros(shape))
        keys, values = self.buffers[layer_idx]
        rows = torch.arange(key_states.shape[0], device=keys.device)[:, None]
        keys[rows, :, self.slots] = key_states.transpose(1, 2)
        values[rows, :, self.slots] = value_states.transpose(1, 2)
        return keys[:, :, : self.width], values[:, :, : self.width]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Slots in use."""
        return self.width


def _forward(model: Any, cache: RowCache, new: Sequence[Sequence[int]]) -> torch.Tensor:
    """Feed each row its new ids (possibly none); return logits (rows, vocab) after each row's last new id."""
    block, batch = max(len(row) for row in new), len(new)
    ids = torch.zeros((batch, block), dtype=torch.long)
    positions = torch.full((batch, block), -1, dtype=torch.long)
    for r, row in enumerate(new):
        if row:
            ids[r, : len(row)] = torch.tensor(row)
            positions[r, : len(row)] = torch.arange(len(cache.ids[r]), len(cache.ids[r]) + len(row))
            cache.ids[r].extend(row)
    width = 1 + max(len(row) for row in cache.ids)
    ids, positions = ids.to(model.device), positions.to(model.device)
    cache.prepare(positions + 1, width)
    slot = torch.arange(width, device=model.device)
    seen = (slot[None, None] <= positions[:, :, None] + 1) & (slot != SCRATCH)
    # A padding position sees the scratch slot only, since a row that sees nothing is undefined.
    seen[:, :, SCRATCH] = positions < 0
    hidden = model.model(
        input_ids=ids,
        attention_mask=seen[:, None],
        position_ids=positions.clamp(min=0),
        cache=cache,
        use_cache=True,
    ).last_hidden_state
    last = torch.tensor([max(len(row), 1) - 1 for row in new], device=model.device)
    logits: torch.Tensor = model.lm_head(hidden[torch.arange(batch, device=model.device), last]).float()
    return logits


def _prefill(model: Any, cache: RowCache, prompts: Sequence[Sequence[int]]) -> torch.Tensor:
    """Bring the cached rows to ``prompts``; return the next-token logits (rows, vocab)."""
    new: list[list[int]] = []
    for row, prompt in enumerate(prompts):
        ids, same = cache.ids[row], 0
        # At least the last token is fed, since its logits are needed.
        limit = min(len(ids), len(prompt) - 1)
        while same < limit and ids[same] == prompt[same]:
            same += 1
        del ids[same:]
        new.append(list(prompt[same:]))
    return _forward(model, cache, new)


@torch.inference_mode()
def branched(
    model: Any, cache: RowCache, names: Sequence[str], stems: Sequence[Sequence[int]], rows: Sequence[int]
) -> RowCache:
    """A cache of branches: row i of it goes on from stem ``rows[i]``; they are called "0", "1", …

    Stem j, of length 1 at least, is kept as row ``names[j]`` of ``cache``, which computes only what is new in it.
    """
    cache.select(names)
    _prefill(model, cache, stems)
    part = cache.part(rows)
    part.names = [str(row) for row in range(len(rows))]
    return part


@torch.inference_mode()
def decode(
    model: Any,
    cache: RowCache,
    names: Sequence[str],
    prompts: Sequence[Sequence[int]],
    *,
    n: int,
    temperature: float,
    max_new_tokens: int,
    end_id: int,
    generator: torch.Generator | None = None,
    choices: Sequence[Sequence[Sequence[int]]] | None = None,
    spend: bool = False,
) -> list[list[tuple[list[int], bool]]]:
    """(rows,) prompts → (rows, n) pairs (new ids without the end token, whether it ended by itself).

    Greedy at temperature 0. ``choices`` (rows, candidates, ids) restricts each row to one of its
    candidates, picked token by token; n must be 1. Rows that have ended stop computing. ``spend`` lets them leave
    the cache, which cannot be used again then; n > 1 implies it.
    """
    cache.select(names)
    logits = _prefill(model, cache, prompts)
    if n > 1:
        cache.repeat(n)
        logits = logits.repeat_interleave(n, dim=0)
    total = logits.shape[0]
    produced: list[list[int]] = [[] for _ in range(total)]
    ended = [False] * total
    held = list(range(total))  # the rows that the working cache holds, in its order
    running = set(held)
    working = cache
    for count in range(max_new_tokens):
        if choices is not None:
            logits = _restricted(logits, choices, produced, held, running, end_id)
        tokens = _pick(logits, temperature, generator).tolist()
        for row, token in zip(held, tokens, strict=True):
            if row in running and token == end_id:
                ended[row] = True
                running.remove(row)
            elif row in running:
                produced[row].append(token)
        if not running or count + 1 == max_new_tokens:
            break
        if len(running) <= SHRINK * len(held):
            # A few long samples would otherwise keep the whole batch computing.
            if spend or n > 1:
                cache.select([name for name, row in zip(cache.names, held, strict=True) if row in running])
                held = [row for row in held if row in running]
            else:
                if working is not cache:
                    cache.absorb(working)
                held = [row for row in range(total) if row in running]
                working = cache.part(held)
        logits = _forward(model, working, [[produced[row][-1]] if row in running else [] for row in held])
    if working is not cache:
        cache.absorb(working)
    flat = list(zip(produced, ended, strict=True))
    return [flat[i : i + n] for i in range(0, total, n)]


def _restricted(
    logits: torch.Tensor,
    choices: Sequence[Sequence[Sequence[int]]],
    produced: Sequence[Sequence[int]],
    held: Sequence[int],
    running: Collection[int],
    end_id: int,
) -> torch.Tensor:
    """Logits (held rows) in which only tokens that continue one of a row's candidates are possible."""
    masked = torch.full_like(logits, -torch.inf)
    for place, row in enumerate(held):
        if row not in running:
            continue
        done = list(produced[row])
        matching = [list(c) for c in choices[row] if list(c[: len(done)]) == done]
        allowed = sorted({c[len(done)] if len(c) > len(done) else end_id for c in matching})
        masked[place, allowed] = logits[place, allowed]
    return masked


def _pick(logits: torch.Tensor, temperature: float, generator: torch.Generator | None) -> torch.Tensor:
    if temperature <= 0:
        return logits.argmax(-1)
    probabilities = torch.softmax(logits / temperature, dim=-1)
    return torch.multinomial(probabilities, 1, generator=generator)[:, 0]
