"""Token log-probabilities of many continuations that share a prefix, in one forward pass.

GRPO groups, the reference policy and BehR all score n short branches after one long history. A row of
the batch is ``prefix + branch 1 + … + branch n``; a 4-D attention mask lets each branch see the prefix
and itself only, and position ids restart at the prefix's end. The history is computed once instead of
n times, and logits are computed at the branches' rows only (design.md 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch


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
    model: Any, trees: Sequence[Tree], *, temperature: float = 1.0, with_entropy: bool = False
) -> tuple[list[list[torch.Tensor]], list[list[torch.Tensor]]]:
    """Log-probabilities (nats) of the scored tokens: per tree, per branch, a tensor (scored[i],).

    ``temperature`` divides the logits first, so that values match the sampling distribution. The second
    result holds the entropies (nats) at the same positions when asked for, else empty lists.
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
    hidden = model.model(
        input_ids=ids.to(device),
        attention_mask=mask.to(device),
        position_ids=positions.to(device),
        use_cache=False,
    ).last_hidden_state
    chosen = hidden.reshape(batch * length, -1)[torch.tensor(rows, device=device)]
    logits = model.lm_head(chosen).float() / temperature
    logprobs = torch.log_softmax(logits, dim=-1)
    taken = logprobs.gather(1, torch.tensor(targets, device=device)[:, None])[:, 0]
    entropy = -(logprobs.exp() * logprobs).sum(-1) if with_entropy else None
    return _split(taken, spans), _split(entropy, spans) if entropy is not None else []


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
