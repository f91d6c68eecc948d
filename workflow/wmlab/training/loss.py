"""The loss of GRPO over groups of samples that share a prompt (behr.txt 4.3; metrics.md 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from wmlab.config.recipes import GrpoRecipe
from wmlab.lm.base import Completion
from wmlab.lm.tree import Tree, branch_logprobs

OldLogprobs = Sequence[Sequence[torch.Tensor]]
"""Log-probabilities (nats) under the weights that sampled: per group, per branch, a tensor (tokens,)."""


@dataclass
class Group:
    """One prompt and its distinct completions, each with its share of the group's samples."""

    prompt: list[int]
    branches: list[list[int]]
    weights: list[float]  # advantage summed over equal samples
    counts: list[int]

    @property
    def tree(self) -> Tree:
        """Prompt and completions, every token of a completion scored."""
        return Tree(self.prompt, self.branches, [len(branch) for branch in self.branches])

    @property
    def n_tokens(self) -> int:
        """Completion tokens of all samples, equal ones counted each."""
        return sum(count * len(branch) for count, branch in zip(self.counts, self.branches, strict=True))


def make_group(
    prompt: list[int], completions: Sequence[Completion], advantage: Sequence[float], end_id: int
) -> Group:
    """Merge equal completions: their gradients are equal, so one branch carries their summed weight."""
    branches: dict[tuple[int, ...], int] = {}
    group = Group(prompt, [], [], [])
    for completion, value in zip(completions, advantage, strict=True):
        ids = (*completion.token_ids, end_id) if completion.finish_reason == "stop" else completion.token_ids
        if not ids:
            continue
        if ids not in branches:
            branches[ids] = len(group.branches)
            group.branches.append(list(ids))
            group.weights.append(0.0)
            group.counts.append(0)
        group.weights[branches[ids]] += value
        group.counts[branches[ids]] += 1
    return group


def shares(groups: Sequence[Group], n_samples: int, n_tokens: int, recipe: GrpoRecipe) -> list[list[float]]:
    """What a token of each branch weighs: 1 / (tokens of its sample · samples), or 1 / tokens of all samples."""
    if recipe.loss == "token-mean":
        return [[1 / n_tokens for _ in group.branches] for group in groups]
    return [[1 / (n_samples * len(branch)) for branch in group.branches] for group in groups]


def policy_loss(
    model: Any,
    frozen: Any,
    groups: Sequence[Group],
    n_samples: int,
    n_tokens: int,
    recipe: GrpoRecipe,
    old: OldLogprobs | None = None,
) -> tuple[torch.Tensor, dict[str, float]]:
    """Clipped policy loss plus low-variance KL to the frozen model, and sums for the curve.

    ``n_samples`` and ``n_tokens`` are those of the whole update, of which ``groups`` may be a part: parts add up.
    ``recipe.loss`` says how token terms are averaged. Without ``old`` the ratio is 1 in value and carries the
    gradient: the first update after sampling.
    """
    trees, bf16 = [group.tree for group in groups], recipe.precision == "bf16"
    new, entropy = branch_logprobs(model, trees, temperature=recipe.temperature, with_entropy=True, bf16=bf16)
    with torch.no_grad():
        base, _ = branch_logprobs(frozen, trees, temperature=recipe.temperature, bf16=bf16)
    high = recipe.clip if recipe.clip_high is None else recipe.clip_high
    loss = new[0][0].new_zeros(())
    sums = {"kl": 0.0, "entropy": 0.0, "clipped": 0.0, "tokens": 0.0}
    weighed = shares(groups, n_samples, n_tokens, recipe)
    for g, group in enumerate(groups):
        for b, (weight, count) in enumerate(zip(group.weights, group.counts, strict=True)):
            logprob = new[g][b]
            ratio = (logprob - (logprob.detach() if old is None else old[g][b])).exp()
            free, held = ratio * weight, ratio.clamp(1 - recipe.clip, 1 + high) * weight
            gap = base[g][b] - logprob
            kl = gap.exp() - gap - 1
            terms = torch.minimum(free, held) - recipe.kl_coefficient * count * kl
            loss = loss - terms.sum() * weighed[g][b]
            sums["kl"] += count * float(kl.detach().mean()) / n_samples
            sums["entropy"] += count * float(entropy[g][b].detach().sum())
            sums["clipped"] += count * float((held < free).sum())
            sums["tokens"] += count * len(logprob)
    return loss, sums
