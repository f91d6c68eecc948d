"""``wmlab train grpo``: read and check the inputs, train, write model, curves, held-out reward and provenance."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from wmlab.config.presets import grpo_preset, unstated, verl_preset
from wmlab.config.recipes import GrpoRecipe, load_recipe
from wmlab.config.section import partial
from wmlab.errors import InputError, ModelFailure
from wmlab.io.atomic import write_json
from wmlab.io.jsonl import write_jsonl
from wmlab.io.provenance import run_key, write_meta
from wmlab.io.tables import read_table
from wmlab.lm.build import save_model
from wmlab.lm.hf import HFModel
from wmlab.memory.context import open_memory
from wmlab.rewards.opened import open_reference, reference_files
from wmlab.rewards.registry import check_reward, make_reward, needs_reference
from wmlab.training.checkpoint import drop_checkpoint
from wmlab.training.grpo import Grpo, Prompt, prompts_of
from wmlab.training.heldout import compare, prompt_means


def resolved(
    reward: str | None, source: str, preset: str | None, n_prompts: int | None = None
) -> tuple[str, GrpoRecipe]:
    """The reward and the recipe: a preset's with what ``source`` and ``reward`` change, or what they say alone.

    Raises InputError for an unknown preset, key or reward, and when neither a preset nor a reward is given.
    """
    if preset is not None:
        stated, recipe = grpo_preset(preset, source, n_prompts)
        # A preset's parameters are its own reward's.
        if (
            reward not in (None, stated)
            and recipe.reward_parameters == grpo_preset(preset)[1].reward_parameters
        ):
            recipe = recipe.model_copy(update={"reward_parameters": {}})
        return check_reward(reward or stated), recipe
    if reward is None:
        raise InputError("train grpo: --reward missing; give it, or --preset")
    return check_reward(reward), load_recipe(GrpoRecipe, source)


def print_grpo(reward: str | None, source: str, preset: str | None) -> None:
    """``wmlab train grpo --print``: everything that decides the training but its data."""
    name, recipe = resolved(reward, source, preset)
    shown = {"reward": name, **recipe.model_dump(mode="json")}
    if preset is not None and "steps" not in load_recipe(partial(GrpoRecipe), source).model_fields_set:
        shown["steps"] = f"{verl_preset(preset).epochs} epochs"
    print(json.dumps(shown, indent=2, sort_keys=True))
    if preset is not None and unstated(preset):
        print(unstated(preset))


def _pick(prompts: list[Prompt], n: int, seed: int) -> list[Prompt]:
    order = np.random.default_rng(seed).permutation(len(prompts))[:n]
    return [prompts[int(i)] for i in order]


def run_grpo(
    model_dir: Path | None,
    transitions: Path | None,
    reward_name: str | None,
    recipe_source: str,
    out: Path | None,
    validation: Path | None,
    reference_dir: Path | None,
    threads: int,
    seed: int,
    checkpoints: Path | None,
    bank: Path | None = None,
    shown: str = "{}",
    reference_urls: Sequence[str] = (),
    reference_model: str | None = None,
    reference_cache: Path | None = None,
    preset: str | None = None,
) -> None:
    """``wmlab train grpo``; ``bank`` and ``shown`` are its memory and how it is shown. Raises InputError for bad input, ModelFailure when too many rewards fail."""
    started = time.time()
    asked, (reward_name, recipe) = reward_name, resolved(reward_name, recipe_source, preset)
    given = {"--model": model_dir, "--transitions": transitions, "--validation": validation, "--out": out}
    missing = [name for name, value in given.items() if value is None]
    if missing:
        raise InputError(
            f"train grpo: {', '.join(missing)} missing; give them, or --print for the recipe alone"
        )
    assert model_dir is not None and transitions is not None and validation is not None and out is not None
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
    _, recipe = resolved(asked, recipe_source, preset, len(prompts))
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
