"""Group Relative Policy Optimization of a world model (behr.txt 4.3, B.1; metrics.md 5).

Own loop, not TRL's, because the definitions ask for what TRL cannot express: failed rewards are
masked (no reward, advantage 0, out of the group's statistics), equal candidates of a group are scored
and back-propagated once, the group's standard deviation has a floor, and a resumed run equals an
uninterrupted one bit for bit. A group shares one forward pass over its history (lm/tree.py).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wmlab.config.recipes import GrpoRecipe
from wmlab.errors import ModelFailure
from wmlab.io.progress import Progress
from wmlab.lm.base import Completion, Sampling
from wmlab.lm.hf import HFModel
from wmlab.lm.tree import branch_logprobs, chunks
from wmlab.memory.context import WorldMemory, prompts
from wmlab.metrics.text import exact_match
from wmlab.rewards.base import Reward, RewardInput, RewardRecord
from wmlab.rewards.reference import ReferenceAgent
from wmlab.training.advantage import advantages
from wmlab.training.checkpoint import load_checkpoint, save_checkpoint
from wmlab.training.collapse import collapse, repetition
from wmlab.training.loss import Group, OldLogprobs, make_group, policy_loss


@dataclass(frozen=True)
class Prompt:
    """A training or held-out transition ready for the policy: ``chat``, ``ids`` are what the policy reads.

    Rewards read the plain history of ``item``, of ``history_tokens``; a memory block is in the policy's chat only.
    """

    item: RewardInput
    chat: list[dict[str, Any]]
    ids: list[int]
    history_tokens: int


def prompts_of(
    lm: HFModel, transitions: Sequence[dict[str, Any]], memory: WorldMemory | None = None
) -> list[Prompt]:
    """Rewardable transitions: those with a next action."""
    rows = [row for row in transitions if row["next_action"]]
    chats = prompts(memory, ((row["history"], row["task_id"]) for row in rows))
    found = []
    for row, chat in zip(rows, chats, strict=True):
        item = RewardInput(row["domain"], row["history"], row["observation"], row["next_action"])
        ids = lm.encode(chat)
        plain = len(ids) if chat == row["history"] else len(lm.encode(row["history"]))
        found.append(Prompt(item, chat, ids, plain))
    return found


class Grpo:
    """One run: policy, frozen SFT model, reward; ``train`` is the whole algorithm."""

    def __init__(
        self,
        policy: HFModel,
        frozen: Any,
        reward: Reward,
        reference: ReferenceAgent | None,
        recipe: GrpoRecipe,
        seed: int,
        run: str = "",
    ) -> None:
        self.policy, self.frozen = policy, frozen
        self.reward, self.reference = reward, reference
        self.recipe, self.seed, self.run = recipe, seed, run
        weights = [p for p in policy.model.parameters() if p.ndim > 1]
        gains = [p for p in policy.model.parameters() if p.ndim <= 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": weights, "multiple": 1.0}, {"params": gains, "multiple": recipe.gain_rate}],
            lr=recipe.learning_rate,
            weight_decay=0.0,
            foreach=True,
        )
        self.curve: list[dict[str, Any]] = []
        self.samples = self.failures = 0
        self.stopped: str | None = None

    def train(
        self, prompts: Sequence[Prompt], validation: Sequence[Prompt], checkpoints: Path
    ) -> list[dict[str, Any]]:
        """Run (or resume) to ``recipe.steps``, or to a collapse (``stopped`` says which), and return the curve rows."""
        recipe, step = self.recipe, self._resume(checkpoints)
        progress = Progress("grpo", recipe.steps, "steps", done=step)
        while step < recipe.steps and self.stopped is None:
            started = time.monotonic()
            batch = self._draw(prompts, step)
            row = self._step(batch, step)
            step += 1
            row["step"] = step
            self.curve.append(row)
            self.stopped = collapse(self.curve, recipe)
            ends = step == recipe.steps or self.stopped is not None
            validates = ends or step % recipe.validation_every == 0
            row["em_validation"] = self.greedy_em(validation) if validates else None
            row["seconds"] = time.monotonic() - started
            progress.update(
                1, note=f"reward {row['reward']:.3f} kl {row['kl']:.4f}" if row["reward"] is not None else ""
            )
            if step % recipe.checkpoint_every == 0 and not ends:
                self._save(checkpoints, step)
        return self.curve

    def _draw(self, prompts: Sequence[Prompt], step: int) -> list[Prompt]:
        """The prompts of a step: a seeded permutation an epoch, read in order."""
        size, n = min(self.recipe.prompts_per_step, len(prompts)), len(prompts)
        batch = []
        for place in range(step * size, (step + 1) * size):
            order = np.random.default_rng((self.seed, 1, place // n)).permutation(n)
            batch.append(prompts[int(order[place % n])])
        return batch

    def sample(self, prompts: Sequence[Prompt], n: int, seed: int) -> list[list[Completion]]:
        """(prompts,) → (prompts, n) completions at the training temperature."""
        sampling = Sampling(self.recipe.temperature, n, self.recipe.max_new_tokens, seed)
        return self.policy.generate([prompt.chat for prompt in prompts], sampling)

    def score(
        self, prompts: Sequence[Prompt], completions: Sequence[Sequence[Completion]]
    ) -> list[list[RewardRecord]]:
        """Reward records (prompts, n)."""
        return self.reward([p.item for p in prompts], [[c.text for c in group] for group in completions])

    def _step(self, batch: Sequence[Prompt], step: int) -> dict[str, Any]:
        recipe = self.recipe
        self.policy.model.eval()
        seed = int(np.random.default_rng((self.seed, 2, step)).integers(2**31))
        completions = self.sample(batch, recipe.group, seed)
        records = self.score(batch, completions)
        flat = [record for group in records for record in group]
        self._check_failures(flat)
        groups = [
            make_group(p.ids, c, advantages([r.reward for r in rs], recipe.std_floor), self.policy.end_id)
            for p, c, rs in zip(batch, completions, records, strict=True)
        ]
        groups = [group for group in groups if group.branches]
        risen = min(1.0, (step + 1) / max(1, recipe.warmup_steps))
        for settings in self.optimizer.param_groups:
            settings["lr"] = recipe.learning_rate * settings["multiple"] * risen
        total, norm = self._update(groups, step)
        known = [r.reward for r in flat if r.reward is not None]
        spread = [
            float(np.std([r.reward for r in rs if r.reward is not None]))
            for rs in records
            if any(r.reward is not None for r in rs)
        ]
        return {
            "reward": float(np.mean(known)) if known else None,
            "reward_std": float(np.mean(spread)) if spread else None,
            "kl": total["kl"],
            "entropy": total["entropy"] / max(1.0, total["tokens"]),
            "clipped": total["clipped"] / max(1.0, total["tokens"]),
            "repetition": float(np.mean([repetition(c.token_ids) for cs in completions for c in cs])),
            "length": total["tokens"] / len(flat),
            "prefill_tokens": self.reference.prefill_tokens if self.reference else 0,
            "reference_calls": self.reference.calls if self.reference else 0,
            "masked": len(flat) - len(known),
            "loss": total["loss"],
            "grad_norm": norm,
        }

    def _update(self, groups: Sequence[Group], step: int) -> tuple[Counter[str], float]:
        """The step's optimiser updates, each over its share of the groups; sums for the curve, largest gradient norm.

        The backward passes of an update add up their gradients: ``backward_tokens`` bounds each.
        """
        recipe = self.recipe
        n = min(recipe.updates, len(groups))
        parts = [[groups[i] for i in range(part, len(groups), n)] for part in range(n)]
        # Without a second update nothing has moved since sampling.
        old = [self._logprobs(part) if n > 1 else None for part in parts]
        total: Counter[str] = Counter()
        norms = []
        for part, sampled in zip(parts, old, strict=True):
            self.optimizer.zero_grad(set_to_none=True)
            n_samples, n_tokens = sum(sum(g.counts) for g in part), sum(g.n_tokens for g in part)
            for members in chunks([g.tree for g in part], recipe.backward_tokens):
                loss, sums = policy_loss(
                    self.policy.model,
                    self.frozen,
                    [part[i] for i in members],
                    n_samples,
                    n_tokens,
                    recipe,
                    None if sampled is None else [sampled[i] for i in members],
                )
                loss.backward()  # type: ignore[no-untyped-call]
                sums["kl"] /= n
                total.update({**sums, "loss": float(loss.detach()) / n})
            norm = torch.nn.utils.clip_grad_norm_(self.policy.model.parameters(), recipe.max_grad_norm)
            if not torch.isfinite(norm):
                raise ModelFailure(
                    f"GRPO step {step + 1}: the gradient is not finite; lower the learning rate"
                )
            norms.append(float(norm))
            self.optimizer.step()
        return total, max(norms, default=0.0)

    @torch.no_grad()
    def _logprobs(self, groups: Sequence[Group]) -> OldLogprobs:
        found: list[list[torch.Tensor]] = [[] for _ in groups]
        for members in chunks([g.tree for g in groups], self.recipe.backward_tokens):
            values, _ = branch_logprobs(
                self.policy.model,
                [groups[i].tree for i in members],
                temperature=self.recipe.temperature,
                bf16=self.recipe.precision == "bf16",
            )
            for place, branches in zip(members, values, strict=True):
                found[place] = branches
        return found

    def _check_failures(self, records: Sequence[RewardRecord]) -> None:
        self.samples += len(records)
        failed = [record for record in records if record.reward is None]
        self.failures += len(failed)
        if failed and self.failures > self.recipe.max_failed * max(self.samples, 200):
            raise ModelFailure(
                f"{self.failures} of {self.samples} rewards failed, more than max_failed={self.recipe.max_failed}; "
                f"the last reason: {failed[-1].error}"
            )

    def greedy_em(self, prompts: Sequence[Prompt]) -> float | None:
        """Exact match of greedy predictions; None without prompts."""
        if not prompts:
            return None
        self.policy.model.eval()
        sampling = Sampling(0.0, 1, self.recipe.max_new_tokens)
        answers = self.policy.generate([p.chat for p in prompts], sampling)
        return float(
            np.mean([exact_match(a[0].text, p.item.gold) for a, p in zip(answers, prompts, strict=True)])
        )

    def _save(self, checkpoints: Path, step: int) -> None:
        save_checkpoint(
            checkpoints,
            {
                "step": step,
                "model": self.policy.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "curve": self.curve,
                "samples": self.samples,
                "failures": self.failures,
                "reference": self.reference.state() if self.reference else None,
            },
            self.run,
        )

    def _resume(self, checkpoints: Path) -> int:
        state = load_checkpoint(checkpoints, self.run)
        if state is None:
            return 0
        self.policy.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.curve = list(state["curve"])
        self.samples, self.failures = int(state["samples"]), int(state["failures"])
        if self.reference is not None:
            self.reference.restore(state["reference"])
        return int(state["step"])
