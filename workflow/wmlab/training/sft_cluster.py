"""``wmlab train sft-cluster``: the files of a supervised run by verl or LLaMA-Factory, and what became of it."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from wmlab.config.problems import near_match
from wmlab.config.recipes import load_recipe
from wmlab.config.sft_cluster import SftClusterRecipe
from wmlab.data.messages import SCHEMA, dialogues
from wmlab.errors import InputError
from wmlab.io.atomic import write_json, write_text
from wmlab.io.jsonl import write_jsonl
from wmlab.io.provenance import write_meta
from wmlab.io.tables import read_rows, write_batches
from wmlab.lm.tokenizer import load_tokenizer
from wmlab.memory.context import WorldMemory, open_memory
from wmlab.training import llama_factory, verl, verl_sft

ENGINES = ("verl", "llama-factory")


def _recipe(source: str) -> SftClusterRecipe:
    recipe = load_recipe(SftClusterRecipe, source)
    share = recipe.micro_batch_per_gpu * recipe.gpus_per_node * recipe.nodes
    if recipe.batch_size % share:
        raise InputError(
            f"batch_size {recipe.batch_size} is no multiple of the {share} trajectories that all GPUs take at once;"
            f" change batch_size, micro_batch_per_gpu, gpus_per_node or nodes"
        )
    return recipe


def _export(
    engine: str, trajectories: Path, target: Path, memory: WorldMemory | None, most: int | None
) -> int:
    rows = list(dialogues(read_rows(trajectories, "trajectories"), memory, most))
    if not rows:
        raise InputError.at(trajectories, "no trajectory has a step", "give other data")
    if engine == "verl":
        write_batches(target, SCHEMA, rows)
    else:
        write_jsonl(target, rows)
    return len(rows)


def launch_script(recipe: SftClusterRecipe, words: list[str], engine: str, before: Sequence[str] = ()) -> str:
    """A script for one node, or for every node of a Slurm allocation; ``before`` are lines that come first."""
    lines = [
        "#!/usr/bin/env bash",
        f"# Supervised fine-tuning by {engine}; run again, it resumes.",
        "set -euo pipefail",
    ]
    lines += ["export HF_HUB_OFFLINE=1", *before]
    # What the launcher fills in stands unquoted: names of the environment.
    said = " \\\n  ".join(word if word.startswith("--rdzv") else shlex.quote(word) for word in [*words])
    if recipe.nodes == 1:
        return "\n".join([*lines, f'{said} \\\n  "$@"', ""])
    lines += [
        ': "${SLURM_JOB_NODELIST:?run this in a Slurm allocation of several nodes}"',
        'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        'export RENDEZVOUS="$head:29400" MASTER_ADDR="$head" MASTER_PORT=29400',
    ]
    if engine == "llama-factory":
        lines.append(f"export FORCE_TORCHRUN=1 NNODES={recipe.nodes} NPROC_PER_NODE={recipe.gpus_per_node}")
        each = f'NODE_RANK=$SLURM_NODEID exec {" ".join(map(shlex.quote, words))} "$@"'
        return "\n".join([*lines, f'srun --ntasks-per-node=1 bash -c {shlex.quote(each)} node "$@"', ""])
    return "\n".join([*lines, f'srun --ntasks-per-node=1 \\\n  {said} \\\n  "$@"', ""])


def _finish(out: Path, merge: Path | None, started: float) -> None:
    """Check that the run in ``out`` did the steps that its recipe plans, and merge its model where asked."""
    path = out / "recipe.json"
    if not path.is_file():
        raise InputError.at(path, "file not found", "write the run with wmlab train sft-cluster first")
    recipe = json.loads(path.read_text(encoding="utf-8"))
    verl.check_done(out / "checkpoints", int(recipe["steps"]))
    print(f"{out}: all {recipe['steps']} steps were done")
    if merge is not None:
        config = {"recipe": recipe, "step": verl.merge(out / "checkpoints", merge, part=None)}
        inputs = [out / "train.parquet"]
        target = merge / "model.safetensors"
        write_meta(target, config=config, seed=recipe["seed"], inputs=inputs, started=started)
        print(f"{merge}: the model of step {config['step']}")


def run_sft_cluster(
    engine: str,
    source: str,
    model: str | None,
    trajectories: Path | None,
    validation: Path | None,
    out: Path | None,
    bank: Path | None,
    shown: str,
    tokenizer: Path | None,
    *,
    show: bool,
    check: bool,
    done: bool,
    merge: Path | None,
) -> None:
    """Raises InputError for bad input or what verl refuses, ModelFailure for a run that is short of its steps."""
    started = time.time()
    if engine not in ENGINES:
        raise InputError(f"--engine {engine!r}: not known; {near_match(engine, ENGINES)}")
    recipe = _recipe(source)
    if show:
        print(json.dumps(recipe.model_dump(mode="json"), indent=2, sort_keys=True))
        return
    if (check or done or merge is not None) and engine != "verl":
        raise InputError("--check, --done and --merge are for --engine verl")
    if done or merge is not None:
        if out is None:
            raise InputError("train sft-cluster: --out missing; give the folder of the run")
        _finish(out, merge, started)
        return
    given = {"--model": model, "--trajectories": trajectories, "--out": out}
    missing = [name for name, value in given.items() if value is None]
    if missing:
        raise InputError(
            f"train sft-cluster: {', '.join(missing)} missing; give them, or --print for the recipe alone"
        )
    assert model is not None and trajectories is not None and out is not None
    if bank is not None and engine == "verl":
        raise InputError(
            "verl's SFT trainer teaches every turn of a row, and with memory only the last may be; "
            "give --engine llama-factory, or no --memory"
        )
    out = out.resolve()
    ending = "parquet" if engine == "verl" else "jsonl"
    files = {"train": trajectories, **({"validation": validation} if validation else {})}
    memory = None
    if bank is not None:
        first = next(read_rows(trajectories, "trajectories"), None)
        counting = load_tokenizer(tokenizer) if tokenizer is not None else None
        memory = open_memory(bank, shown, [first] if first else [], trajectories, counting)
    counts = {
        name: _export(
            engine, path, out / f"{name}.{ending}", memory, recipe.max_samples if name == "train" else None
        )
        for name, path in files.items()
    }
    planned = counts["train"] // recipe.batch_size * recipe.epochs
    if planned == 0:
        raise InputError.at(
            trajectories,
            f"{counts['train']} rows do not fill a batch of {recipe.batch_size}",
            "give more, or a smaller batch_size",
        )
    named = str(Path(model).resolve()) if Path(model).exists() else model  # or a name of the hub
    before: list[str] = []
    if engine == "verl":
        before = verl.at_an_epochs_end(out / "checkpoints", planned // recipe.epochs)
        held_out = out / "validation.parquet" if validation else None
        options = verl_sft.overrides(recipe, named, out / "train.parquet", held_out, out)
        if check:
            write_json(out / "verl.json", verl_sft.validate(options))
        write_text(out / "overrides.txt", "\n".join(options) + "\n")
        words = verl_sft.command(recipe, options)
    else:
        exported = {name: f"{name}.{ending}" for name in files}
        words = llama_factory.write(recipe, named, out, exported, last_turn=memory is not None)
    write_json(out / "recipe.json", {**recipe.model_dump(mode="json"), "engine": engine, "steps": planned})
    write_text(out / "launch.sh", launch_script(recipe, words, engine, before))
    (out / "launch.sh").chmod(0o755)
    config = {"engine": engine, "recipe": recipe.model_dump(mode="json"), "memory": shown if bank else None}
    inputs = [*files.values(), *([bank] if bank else [])]
    write_meta(out / "launch.sh", config=config, seed=recipe.seed, inputs=inputs, started=started)
    print(f"{out}/launch.sh: {planned} steps over {counts['train']} rows")
