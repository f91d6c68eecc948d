"""The training commands' work: read and check the inputs, train, write model, curve and provenance."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from wmlab.config.recipes import GrpoRecipe, SftRecipe, load_recipe
from wmlab.errors import InputError, ModelFailure
from wmlab.io.atomic import write_json
from wmlab.io.jsonl import write_jsonl
from wmlab.io.provenance import run_key, write_meta
from wmlab.io.tables import read_table
from wmlab.lm.build import load_model, new_model, save_model
from wmlab.lm.hf import HFModel
from wmlab.lm.tokenizer import load_tokenizer
from wmlab.memory.context import open_memory
from wmlab.rewards.opened import open_reference, reference_files
from wmlab.rewards.registry import check_reward, make_reward, needs_reference
from wmlab.training import sft
from wmlab.training.checkpoint import drop_checkpoint
from wmlab.training.grpo import Grpo, Prompt, prompts_of
from wmlab.training.heldout import compare, prompt_means
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
    """``wmlab train sft``; ``bank`` and ``shown`` are its memory and how it is shown. Raises InputError for a bad role, recipe, file or architecture."""
    started = time.time()
    if role not in ROLES:
        raise InputError(f"role {role!r}: not known; choose from {', '.join(ROLES)}")
    recipe = load_recipe(SftRecipe, recipe_source)
    torch.set_num_threads(threads)
    tokenizer = load_tokenizer(tokenizer_dir)
    sequences = _sequences(data, role, tokenizer, recipe, bank, shown)
    held_out = [] if validation is None else _sequences(validation, role, tokenizer, recipe, bank, shown)
    model = new_model(recipe.architecture, tokenizer, seed) if init is None else load_model(init)
    if init is not None and model.config.vocab_size != len(tokenizer):
        raise InputError.at(
            init, "its vocabulary is not the tokenizer's", "start from a model of this tokenizer"
        )
    folder = checkpoints or out.with_name(f".{out.name}.checkpoint")
    inputs = [data, tokenizer_dir / "tokenizer.json", *([validation] if validation else [])]
    inputs += [init / "model.safetensors"] if init else []
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


def _pick(prompts: list[Prompt], n: int, seed: int) -> list[Prompt]:
    order = np.random.default_rng(seed).permutation(len(prompts))[:n]
    return [prompts[int(i)] for i in order]


def run_grpo(
    model_dir: Path,
    transitions: Path,
    reward_name: str,
    recipe_source: str,
    out: Path,
    validation: Path,
    reference_dir: Path | None,
    threads: int,
    seed: int,
    checkpoints: Path | None,
    bank: Path | None = None,
    shown: str = "{}",
    reference_urls: Sequence[str] = (),
    reference_model: str | None = None,
    reference_cache: Path | None = None,
) -> None:
    """``wmlab train grpo``; ``bank`` and ``shown`` are its memory and how it is shown. Raises InputError for bad input, ModelFailure when too many rewards fail."""
    started = time.time()
    check_reward(reward_name)
    recipe = load_recipe(GrpoRecipe, recipe_source)
    torch.set_num_threads(threads)
    reference = None
    if needs_reference(reward_name) and reference_dir is not None:
        reference = open_reference(reference_dir, reference_urls, reference_model, reference_cache)
    reward = make_reward(reward_name, recipe.reward_parameters, (lambda: reference) if reference else None)
    policy = HFModel.load(model_dir)
    frozen = copy.deepcopy(policy.model)
    rows = read_table(transitions, "transitions")
    memory = open_memory(bank, shown, rows, transitions, policy.tokenizer)
    offered = prompts_of(policy, rows, memory)
    # Measured without memory blocks: a method learns from the same transitions with memory and without.
    prompts = [prompt for prompt in offered if prompt.history_tokens <= recipe.max_prompt_tokens]
    if offered and not prompts:
        raise InputError.at(
            transitions,
            f"every history is longer than {recipe.max_prompt_tokens} tokens",
            "raise max_prompt_tokens",
        )
    unseen = prompts_of(policy, read_table(validation, "transitions"), memory)
    if not prompts or not unseen:
        raise InputError.at(
            transitions if not prompts else validation, "no transition has a next action", "give other data"
        )
    # The held-out comparison and the curve's validation use the same draw for every method and seed.
    held_out = _pick(unseen, recipe.heldout_prompts, 0)
    watched = _pick(unseen, recipe.validation_prompts, 1)
    inputs = [model_dir / "model.safetensors", transitions, validation]
    inputs += reference_files(reference_dir) if reference is not None and reference_dir else []
    inputs += [bank] if bank else []
    config = {
        "reward": reward_name,
        "recipe": recipe.model_dump(mode="json"),
        "threads": threads,
        "memory": shown,
    }
    run = Grpo(policy, frozen, reward, reference, recipe, seed, run_key(config, seed, inputs))
    before = prompt_means(run.score(held_out, run.sample(held_out, recipe.heldout_samples, 0)))
    if all(mean is None for mean in before):
        raise ModelFailure(
            f"{validation}: no held-out prompt could be rewarded with {reward_name}; check the reference agent"
        )
    em_before = run.greedy_em(held_out)
    if reference is not None:
        reference.calls = reference.prefill_tokens = 0
    folder = checkpoints or out.with_name(f".{out.name}.checkpoint")
    curve = run.train(prompts, watched, folder)
    after = prompt_means(run.score(held_out, run.sample(held_out, recipe.heldout_samples, 0)))
    result = {
        "reward": reward_name,
        "n_train": len(prompts),
        "n_train_too_long": len(offered) - len(prompts),
        "steps": len(curve),
        "stopped": run.stopped,
        **compare(before, after, seed),
        "em_before": em_before,
        "em_after": run.greedy_em(held_out),
    }
    save_model(out, policy.model, policy.tokenizer)
    write_jsonl(out / "curves.jsonl", curve)
    write_json(out / "heldout.json", result)
    for name in ("model.safetensors", "curves.jsonl", "heldout.json"):
        write_meta(out / name, config=config, seed=seed, inputs=inputs, started=started)
    drop_checkpoint(folder)
    print(f"{out}: held-out {reward_name} reward {result['before']:.4f} before, {result['after']:.4f} after")
