"""Token log-probabilities of many continuations that share a prefix, in one forward pass.

GRPO groups, the reference policy and BehR all score n short branches after one long history. A row of
the batch is ``prefix + branch 1 + … + branch n``; a 4-D attention mask lets each branch see the prefix
and itself only, and position ids restart at the prefix's end. The history is computed once instead of
n times, and logits are computed at the branches' rows only (design.md 6).
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from wmlab.lm.build import computed_in


@dataclass(frozen=True)
class Tree:
    """A prefix and its branches, as token ids. ``scored[i]`` counts the last tokens of branch i to score."""

    prefix: Sequence[int]
    branches: Sequence[Sequence[int]]
    scored: Sequence[int]

    @property
    def n_tokens(self) -> int:
        """Tokens that a forward pass computes."""
        return len(self.prefix) + sum(len(branch) for branch in self.branches)


def branch_logprobs(
    model: Any,
    trees: Sequence[Tree],
    *,
    temperature: float = 1.0,
    with_entropy: bool = False,
    bf16: bool = False,
) -> tuple[list[list[torch.Tensor]], list[list[torch.Tensor]]]:
    """Log-probabilities (nats) of the scored tokens: per tree, per branch, a tensor (scored[i],).

    ``temperature`` divides the logits first, so that values match the sampling distribution. The second
    result holds the entropies (nats) at the same positions when asked for, else empty lists. ``bf16`` computes
    the blocks in bfloat16, the vocabulary's projection in the weights' own type.
    Differentiable; wrap in ``torch.no_grad()`` for scoring. Prefixes must not be empty.
    """
    length = max(tree.n_tokens for tree in trees)
    batch = len(trees)
    ids = torch.zeros((batch, length), dtype=torch.long)
    positions = torch.zeros((batch, length), dtype=torch.long)
    visible = torch.zeros((batch, length, length), dtype=torch.bool)
    rows: list[int] = []  # flattened (batch, position) indices whose logits are needed
    targets: list[int] = []
    spans: list[list[int]] = []
    for b, tree in enumerate(trees):
        prefix = len(tree.prefix)
        ids[b, :prefix] = torch.tensor(tree.prefix)
        positions[b, :prefix] = torch.arange(prefix)
        visible[b, :prefix, :prefix] = torch.ones((prefix, prefix), dtype=torch.bool).tril()
        start = prefix
        spans.append([])
        for branch, scored in zip(tree.branches, tree.scored, strict=True):
            n = len(branch)
            stop = start + n
            ids[b, start:stop] = torch.tensor(branch)
            positions[b, start:stop] = torch.arange(prefix, prefix + n)
            visible[b, start:stop, :prefix] = True
            visible[b, start:stop, start:stop] = torch.ones((n, n), dtype=torch.bool).tril()
            for offset in range(n - scored, n):
                # The logits that predict a token stand one place before it: in the branch or at the prefix's end.
                before = start + offset - 1 if offset > 0 else prefix - 1
                rows.append(b * length + before)
                targets.append(branch[offset])
            spans[-1].append(scored)
            start = stop
        # Padding rows see themselves, since a row that sees nothing is undefined.
        pad = torch.arange(start, length)
        visible[b, pad, pad] = True
    mask = torch.zeros((batch, 1, length, length), dtype=model.dtype)
    mask.masked_fill_(~visible[:, None], torch.finfo(model.dtype).min)
    device = model.device
    with computed_in(model, bf16):
        hidden = model.model(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            position_ids=positions.to(device),
            use_cache=False,
        ).last_hidden_state.to(model.dtype)
    chosen = hidden.reshape(batch * length, -1)[torch.tensor(rows, device=device)]
    logits = model.lm_head(chosen).float() / temperature
    logprobs = torch.log_softmax(logits, dim=-1)
    taken = logprobs.gather(1, torch.tensor(targets, device=device)[:, None])[:, 0]
    entropy = -(logprobs.exp() * logprobs).sum(-1) if with_entropy else None
    return _split(taken, spans), _split(entropy, spans) if entropy is not None else []


def cached_logprobs(model: Any, tree: Tree) -> list[torch.Tensor]:
    """:func:`branch_logprobs` of one tree by way of its prefix's keys and values: the prefix alone, then the branches
    as a batch after it. No mask of the whole tree's square is made, so long trees are faster. For scoring only.
    """
    from transformers import DynamicCache

    device, shared, n = model.device, len(tree.prefix), len(tree.branches)
    width = max(map(len, tree.branches))
    cache = DynamicCache()
    # Its name in this transformers, or in the older ones that verl and vLLM pin.
    name = "cache" if "cache" in inspect.signature(model.model.forward).parameters else "past_key_values"
    last = model.model(
        input_ids=torch.tensor([list(tree.prefix)], device=device), use_cache=True, **{name: cache}
    ).last_hidden_state[:, -1]
    cache.batch_repeat_interleave(n)
    ids = torch.zeros((n, width), dtype=torch.long)
    for row, branch in enumerate(tree.branches):
        ids[row, : len(branch)] = torch.tensor(branch)
    visible = torch.ones((width, shared + width), dtype=torch.bool)
    visible[:, shared:] = torch.ones((width, width), dtype=torch.bool).tril()
    mask = torch.zeros(visible.shape, dtype=model.dtype).masked_fill_(~visible, torch.finfo(model.dtype).min)
    hidden = model.model(
        input_ids=ids.to(device),
        position_ids=torch.arange(shared, shared + width, device=device)[None].expand(n, width),
        attention_mask=mask[None, None].expand(n, 1, -1, -1).to(device),
        use_cache=True,
        **{name: cache},
    ).last_hidden_state
    found = []
    for row, (branch, scored) in enumerate(zip(tree.branches, tree.scored, strict=True)):
        start = len(branch) - scored
        # The row that predicts a branch's first token is the prefix's last.
        before = torch.cat([last, hidden[row]])[start : start + scored]
        logprobs = torch.log_softmax(model.lm_head(before).float(), dim=-1)
        found.append(logprobs.gather(1, torch.tensor(branch[start:], device=device)[:, None])[:, 0])
    return found


def _split(flat: torch.Tensor, spans: Sequence[Sequence[int]]) -> list[list[torch.Tensor]]:
    pieces = iter(torch.split(flat, [n for tree in spans for n in tree]))
    return [[next(pieces) for _ in tree] for tree in spans]


def chunks(trees: Sequence[Tree], max_tokens: int) -> list[list[int]]:
    """Group tree indices by similar length so that a padded batch stays under ``max_tokens``."""
    order = sorted(range(len(trees)), key=lambda i: trees[i].n_tokens)
    groups: list[list[int]] = []
    for index in order:
        longest = trees[index].n_tokens
        if groups and (len(groups[-1]) + 1) * longest <= max_tokens:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups
