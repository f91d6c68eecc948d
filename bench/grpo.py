"""GRPO step time: our loop against TRL's GRPOTrainer, same model, prompts, group, lengths, F1 reward, one thread.

    python bench/grpo.py --model results/study/models/textworld/tiny/sft/seed0 \\
        --transitions results/study/filter/textworld/tiny/transitions.parquet

Both generate (steps × prompts × group) samples of at most ``--new`` tokens at the same temperature and make
one update a batch with a KL term to the frozen start. The first step of each is not counted.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer
from wmlab.config.recipes import GrpoRecipe
from wmlab.io.tables import read_table
from wmlab.lm.hf import HFModel
from wmlab.metrics.text import token_f1
from wmlab.rewards.registry import make_reward
from wmlab.training.grpo import Grpo, prompts_of


class Clock(TrainerCallback):  # type: ignore[misc]
    """Seconds of each optimiser step."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.ends.append(time.perf_counter())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--transitions", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--prompts", type=int, default=6)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--new", type=int, default=64)
    given = parser.parse_args()
    torch.set_num_threads(1)
    lm = HFModel.load(given.model)
    prompts = [p for p in prompts_of(lm, read_table(given.transitions, "transitions")) if len(p.ids) <= 256]
    recipe = GrpoRecipe(
        steps=given.steps + 1,
        prompts_per_step=given.prompts,
        group=given.group,
        max_new_tokens=given.new,
        validation_every=1000,
        checkpoint_every=1000,
    )
    policy = HFModel(copy.deepcopy(lm.model), lm.tokenizer, "policy")
    run = Grpo(policy, copy.deepcopy(lm.model), make_reward("f1", {}, None), None, recipe, 0)
    with tempfile.TemporaryDirectory() as folder:
        curve = run.train(prompts, [], Path(folder) / "checkpoint")
        ours = sum(row["seconds"] for row in curve[1:]) / given.steps

        def reward(completions: list[str], gold: list[str], **_: Any) -> list[float]:
            return [token_f1(text, truth) for text, truth in zip(completions, gold, strict=True)]

        data = Dataset.from_dict(
            {"prompt": [lm.tokenizer.decode(p.ids) for p in prompts], "gold": [p.item.gold for p in prompts]}
        )
        settings = GRPOConfig(
            output_dir=folder, per_device_train_batch_size=given.prompts * given.group, num_generations=given.group,
            max_steps=given.steps + 1, max_completion_length=given.new, temperature=recipe.temperature,
            beta=recipe.kl_coefficient, learning_rate=recipe.learning_rate, use_cpu=True, bf16=False, report_to=[],
            save_strategy="no", logging_steps=1000, disable_tqdm=True, gradient_checkpointing=False,
        )  # fmt: skip
        clock = Clock()
        trainer = GRPOTrainer(
            model=copy.deepcopy(lm.model), reward_funcs=reward, args=settings, train_dataset=data,
            processing_class=lm.tokenizer, callbacks=[clock],
        )  # fmt: skip
        trainer.train()
        theirs = (clock.ends[-1] - clock.ends[0]) / given.steps
    print(f"ours {ours:.2f} s a step, TRL {theirs:.2f} s a step, ratio {theirs / ours:.2f}")


if __name__ == "__main__":
    main()
