"""LLaMA-Factory's files for the supervised training of a world model: data description, YAML, ZeRO-2 settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from wmlab.config.sft_cluster import SftClusterRecipe
from wmlab.io.atomic import write_json, write_text

DATA, SETTINGS, ZERO = "dataset_info.json", "sft.yaml", "zero2.json"


def dataset_info(files: dict[str, str]) -> dict[str, Any]:
    """Its description of data sets ``{name: file}`` of OpenAI-style messages."""
    tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user"}
    tags |= {"assistant_tag": "assistant", "system_tag": "system"}
    return {
        name: {"file_name": file, "formatting": "sharegpt", "columns": {"messages": "messages"}, "tags": tags}
        for name, file in files.items()
    }


def settings(
    recipe: SftClusterRecipe, model: str, out: Path, held_out: bool, last_turn: bool
) -> dict[str, Any]:
    """The training's YAML; ``last_turn``: only a row's last observation is learnt (rows with memory)."""
    share = recipe.micro_batch_per_gpu * recipe.gpus_per_node * recipe.nodes
    found: dict[str, Any] = {
        "model_name_or_path": model,
        "stage": "sft",
        "do_train": True,
        "finetuning_type": "full",
        "deepspeed": str(out / ZERO),
        "dataset_dir": str(out),
        "dataset": "train",
        "template": recipe.template,
        "cutoff_len": recipe.max_length,
        "mask_history": last_turn,
        "output_dir": str(out / "model"),
        "per_device_train_batch_size": recipe.micro_batch_per_gpu,
        "gradient_accumulation_steps": recipe.batch_size // share,
        "learning_rate": recipe.learning_rate,
        "num_train_epochs": float(recipe.epochs),
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": recipe.warmup_steps,
        "weight_decay": recipe.weight_decay,
        "max_grad_norm": recipe.max_grad_norm,
        "bf16": recipe.precision == "bf16",
        "disable_gradient_checkpointing": not recipe.gradient_checkpointing,  # its own switch
        "save_steps": recipe.save_every,
        "save_only_model": False,
        "logging_steps": 1,
        "seed": recipe.seed,
        "report_to": "none",
    }
    if held_out:
        found |= {"eval_dataset": "validation", "eval_strategy": "steps", "eval_steps": recipe.save_every}
    return found


def zero2() -> dict[str, Any]:
    """DeepSpeed's ZeRO stage 2; ``auto`` takes the trainer's values."""
    sizes = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    return {
        **dict.fromkeys((*sizes, "gradient_clipping"), "auto"),
        "bf16": {"enabled": "auto"},
        "zero_optimization": {"stage": 2, "overlap_comm": True, "contiguous_gradients": True},
    }


def write(
    recipe: SftClusterRecipe, model: str, out: Path, files: dict[str, str], last_turn: bool
) -> list[str]:
    """Write the files into ``out``; return the command that trains, one word an item."""
    write_json(out / DATA, dataset_info(files))
    write_json(out / ZERO, zero2())
    chosen = settings(recipe, model, out, "validation" in files, last_turn)
    write_text(out / SETTINGS, yaml.safe_dump(chosen, sort_keys=False, allow_unicode=True))
    return ["llamafactory-cli", "train", str(out / SETTINGS)]
