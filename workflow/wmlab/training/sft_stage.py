"""``wmlab train sft``: read and check the inputs, train, write model, curve and provenance."""

from __future__ import annotations

import time
from pathlib import Path

import torch

from wmlab.config.recipes import SftRecipe, load_recipe
from wmlab.errors import InputError
from wmlab.io.jsonl import write_jsonl
from wmlab.io.provenance import run_key, write_meta
from wmlab.io.tables import read_table
from wmlab.lm.build import load_model, new_model, save_model
from wmlab.lm.tokenizer import load_tokenizer
from wmlab.memory.context import open_memory
from wmlab.rewards.opened import reference_files
from wmlab.training import sft
from wmlab.training.checkpoint import drop_checkpoint
from wmlab.training.sequences import TrainingSequence, agent_sequences, require, world_model_sequences

ROLES = ("world-model", "agent")


def _sequences(
    path: Path, role: str, tokenizer: object, recipe: SftRecipe, bank: Path | None, shown: str
) -> list[TrainingSequence]:
    if role == "world-model":
        rows = read_table(path, "trajectories")
        memory = open_memory(bank, shown, rows, path, tokenizer)
        return require(world_model_sequences(tokenizer, rows, recipe.max_length, memory), path)
    if bank is not None:
        raise InputError("train sft: memory is for world models; give --role world-model, or no --memory")
    rows = read_table(path, "demonstrations")
    # With thoughts, an agent learns both forms: the reference prompt has no thoughts (metrics.md 5).
    thoughts = (True, False) if recipe.thought else (False,)
    everything = recipe.train_on == "all"
    found = agent_sequences(tokenizer, rows, recipe.max_length, thoughts=thoughts, everything=everything)
    return require(found, path)


def run_sft(
    role: str,
    data: Path,
    tokenizer_dir: Path,
    recipe_source: str,
    out: Path,
    validation: Path | None,
    init: Path | None,
    threads: int,
    seed: int,
    checkpoints: Path | None,
    bank: Path | None = None,
    shown: str = "{}",
) -> None:
    """``wmlab train sft``; ``bank`` and ``shown`` are its memory and how it is shown.

    Raises InputError for a bad role, recipe, file or architecture.
    """
    started = time.time()
    if role not in ROLES:
        raise InputError(f"role {role!r}: not known; choose from {', '.join(ROLES)}")
    recipe = load_recipe(SftRecipe, recipe_source)
    torch.set_num_threads(threads)
    tokenizer = load_tokenizer(tokenizer_dir)
    sequences = _sequences(data, role, tokenizer, recipe, bank, shown)
    held_out = [] if validation is None else _sequences(validation, role, tokenizer, recipe, bank, shown)
    if init is not None:
        model = load_model(init)
    elif recipe.architecture is not None:
        model = new_model(recipe.architecture, tokenizer, seed)
    else:
        raise InputError("train sft: no weights to start from; give --init, or `architecture` in the recipe")
    # A pretrained model may have more rows than its tokenizer has entries.
    if init is not None and model.config.vocab_size < len(tokenizer):
        raise InputError.at(
            init, "its vocabulary is not the tokenizer's", "start from a model of this tokenizer"
        )
    folder = checkpoints or out.with_name(f".{out.name}.checkpoint")
    inputs = [data, tokenizer_dir / "tokenizer.json", *([validation] if validation else [])]
    inputs += reference_files(init) if init else []
    inputs += [bank] if bank else []
    config = {"role": role, "recipe": recipe.model_dump(mode="json"), "threads": threads, "memory": shown}
    key = run_key(config, seed, inputs)
    pad_id, label = tokenizer.pad_token_id, f"sft {role}"
    curve = sft.train(model, sequences, held_out, recipe, seed, pad_id, folder, label, key)
    save_model(out, model, tokenizer)
    write_jsonl(out / "curves.jsonl", curve)
    for name in ("model.safetensors", "curves.jsonl"):
        write_meta(out / name, config=config, seed=seed, inputs=inputs, started=started)
    drop_checkpoint(folder)
    em = curve[-1]["val_em"]
    print(f"{out}: loss {curve[-1]['loss']:.4f}" + ("" if em is None else f", validation EM {em:.3f}"))
