"""Supervised fine-tuning of world models and agents, from scratch or from a checkpoint folder.

Own loop, not TRL's: it computes the vocabulary projection only where tokens are learnt, batches by
length and resumes to the same bits (docs/decisions.md has the measured difference).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wmlab.config.recipes import SftRecipe
from wmlab.io.progress import Progress
from wmlab.lm.build import computed_in
from wmlab.training.checkpoint import load_checkpoint, save_checkpoint
from wmlab.training.sequences import TrainingSequence, batches, layout, pad


def train(
    model: Any,
    sequences: Sequence[TrainingSequence],
    validation: Sequence[TrainingSequence],
    recipe: SftRecipe,
    seed: int,
    pad_id: int,
    checkpoints: Path,
    label: str,
    run: str = "",
) -> list[dict[str, Any]]:
    """Train in place; return the curve rows (contract curves.jsonl).

    ``run`` identifies recipe, seed and data (``provenance.run_key``).
    Loss is the mean negative log-likelihood (nats) of the taught tokens of a batch. A checkpoint in
    ``checkpoints`` is resumed; the same inputs then give the same weights as an uninterrupted run.
    """
    lengths = [len(sequence.ids) for sequence in sequences]
    per_epoch = math.ceil(len(sequences) / recipe.batch_size)
    total = max(1, round(per_epoch * recipe.epochs))
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        betas=(0.9, 0.98),
        foreach=True,
    )
    report_at = {round(total * (i + 1) / recipe.validation_points) for i in range(recipe.validation_points)}
    log_every = max(1, total // 200)
    curve: list[dict[str, Any]] = []
    step = 0
    state = load_checkpoint(checkpoints, run)
    if state is not None:
        step = int(state["step"])
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        curve = list(state["curve"])
    tokens = int(curve[-1]["tokens"]) if curve else 0
    progress = Progress(label, total, "steps", done=step)
    started, saved = time.monotonic(), time.monotonic()
    tokens_here, recent = 0, []
    plan: list[list[int]] = []
    model.train()
    while step < total:
        epoch, place = divmod(step, per_epoch)
        if place == 0 or not plan:
            plan = batches(lengths, recipe.batch_size, np.random.default_rng((seed, epoch)))
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate * schedule(step, total, recipe.warmup_fraction)
        batch = [sequences[i] for i in plan[place]]
        loss = batch_loss(model, batch, pad_id, recipe.precision == "bf16")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        recent.append(float(loss.detach()))
        tokens_here += sum(len(sequence.ids) for sequence in batch)
        if step % log_every == 0 or step in report_at:
            row: dict[str, Any] = {
                "step": step,
                "epoch": step / per_epoch,
                "loss": sum(recent) / len(recent),
                "lr": optimizer.param_groups[0]["lr"],
                "tokens": tokens + tokens_here,
                "tokens_per_s": tokens_here / (time.monotonic() - started),
                "val_loss": None,
                "val_em": None,
            }
            recent = []
            if step in report_at and validation:
                row["val_loss"], row["val_em"] = evaluate(model, validation, recipe.batch_size, pad_id)
                model.train()
            curve.append(row)
        progress.update(1, note=f"loss {curve[-1]['loss']:.3f}" if curve else "")
        if time.monotonic() - saved > 60 * recipe.checkpoint_minutes and not recent:
            save_checkpoint(
                checkpoints,
                {
                    "step": step,
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "curve": curve,
                },
                run,
            )
            saved = time.monotonic()
    model.eval()
    return curve


def schedule(step: int, total: int, warmup_fraction: float) -> float:
    """Linear warm-up, then cosine down to 5 % of the peak."""
    warmup = max(1, round(total * warmup_fraction))
    if step < warmup:
        return (step + 1) / warmup
    share = (step - warmup) / max(1, total - warmup)
    return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * share))


def batch_loss(
    model: Any, batch: Sequence[TrainingSequence], pad_id: int, bf16: bool = False
) -> torch.Tensor:
    """Mean negative log-likelihood (nats) of the taught tokens of the batch."""
    ids, taught = pad(batch, pad_id)
    logits, targets = taught_logits(model, ids, taught, layout(batch, ids.shape[1]), bf16)
    return torch.nn.functional.cross_entropy(logits, targets)


def taught_logits(
    model: Any,
    ids: torch.Tensor,
    taught: torch.Tensor,
    places: tuple[torch.Tensor, torch.Tensor] | None = None,
    bf16: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits (N, V) and targets (N,) of the taught tokens of ids (B, T), on the model's device.

    Rows are right-padded, so causal attention needs no padding mask; ``places`` is the ``layout`` of branches.
    """
    told: dict[str, torch.Tensor] = {}
    ids, taught = ids.to(model.device), taught.to(model.device)
    if places is not None:
        positions, visible = places
        mask = torch.zeros(visible.shape, dtype=model.dtype).masked_fill_(
            ~visible, torch.finfo(model.dtype).min
        )
        told = {
            "position_ids": positions[:, :-1].to(model.device),
            "attention_mask": mask[:, None, :-1, :-1].to(model.device),
        }
    with computed_in(model, bf16):
        hidden = model.model(input_ids=ids[:, :-1], use_cache=False, **told).last_hidden_state.to(model.dtype)
    wanted = taught[:, 1:]
    return model.lm_head(hidden[wanted]), ids[:, 1:][wanted]


@torch.inference_mode()
def evaluate(
    model: Any, sequences: Sequence[TrainingSequence], batch_size: int, pad_id: int
) -> tuple[float, float]:
    """Validation loss (nats per taught token) and EM: the share of taught turns whose every token is the argmax.

    Under teacher forcing a turn is right exactly when greedy decoding from its true history is.
    """
    model.eval()
    loss_sum, n_tokens, right, n_turns = 0.0, 0, 0, 0
    for start in range(0, len(sequences), batch_size):
        batch = sequences[start : start + batch_size]
        ids, taught = pad(batch, pad_id)
        logits, targets = taught_logits(model, ids, taught, layout(batch, ids.shape[1]))
        loss_sum += float(torch.nn.functional.cross_entropy(logits.float(), targets, reduction="sum"))
        n_tokens += len(targets)
        hit = torch.zeros_like(taught)
        hit[:, 1:][taught[:, 1:]] = (logits.argmax(-1) == targets).to(hit.device)
        for row, sequence in enumerate(batch):
            right += sum(bool(hit[row, a:b].all()) for a, b in sequence.turns)
            n_turns += len(sequence.turns)
    return loss_sum / max(1, n_tokens), right / max(1, n_turns)
