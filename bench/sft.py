"""SFT step time: our loop against TRL's SFTTrainer, same model, sequences, batch size and thread.

    python bench/sft.py --trajectories results/study/collect/textworld/train/trajectories.parquet \\
        --tokenizer results/study/models/textworld/tokenizer
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch
from datasets import Dataset
from trl import SFTConfig, SFTTrainer
from wmlab.config.recipes import Architecture, SftRecipe
from wmlab.io.tables import read_table
from wmlab.lm.build import new_model
from wmlab.lm.tokenizer import load_tokenizer
from wmlab.training import sft
from wmlab.training.sequences import world_model_sequences

BATCH, STEPS = 2, 60
SHAPE = Architecture(hidden_size=128, layers=4, heads=4, kv_heads=2, intermediate_size=352)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trajectories", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = load_tokenizer(given.tokenizer)
    rows = read_table(given.trajectories, "trajectories")
    sequences = world_model_sequences(tokenizer, rows, 1024)[: BATCH * STEPS]
    tokens = sum(len(s.ids) for s in sequences)
    with tempfile.TemporaryDirectory() as folder:
        recipe = SftRecipe(architecture=SHAPE, epochs=1, batch_size=BATCH, validation_points=1)
        started = time.perf_counter()
        sft.train(
            new_model(SHAPE, tokenizer, 0),
            sequences,
            [],
            recipe,
            0,
            tokenizer.pad_token_id,
            Path(folder),
            "ours",
        )
        ours = time.perf_counter() - started
        labels = [[i if t else -100 for i, t in zip(s.ids, s.taught, strict=True)] for s in sequences]
        data = Dataset.from_dict({"input_ids": [s.ids for s in sequences], "labels": labels})
        settings = SFTConfig(
            output_dir=folder, per_device_train_batch_size=BATCH, max_steps=STEPS, learning_rate=3e-3, use_cpu=True,
            bf16=False, report_to=[], save_strategy="no", logging_steps=1000, max_length=None, gradient_checkpointing=False,
            disable_tqdm=True, dataset_kwargs={"skip_prepare_dataset": True},
        )  # fmt: skip
        trainer = SFTTrainer(
            new_model(SHAPE, tokenizer, 0), args=settings, train_dataset=data, processing_class=tokenizer
        )
        started = time.perf_counter()
        trainer.train()
        theirs = time.perf_counter() - started
    print(f"ours {tokens / ours:.0f} tokens/s, {ours / STEPS * 1000:.0f} ms a step")
    print(
        f"TRL  {tokens / theirs:.0f} tokens/s, {theirs / STEPS * 1000:.0f} ms a step; ratio {theirs / ours:.2f}"
    )


if __name__ == "__main__":
    main()
