"""``wmlab train verl``: resolve a preset, write the files of a run, check what verl made of them."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from wmlab.config.presets import planned_steps, unstated, verl_preset
from wmlab.config.verl import VerlRecipe
from wmlab.data.verl import read_verl
from wmlab.errors import InputError
from wmlab.io.atomic import write_json, write_text
from wmlab.io.provenance import write_meta
from wmlab.rewards.registry import check_reward, needs_reference
from wmlab.training import verl


def resolved(preset: str, changes: str) -> VerlRecipe:
    """A preset with the keys that ``changes`` sets. Raises InputError for an unknown preset, key or reward."""
    recipe = verl_preset(preset, changes)
    check_reward(recipe.reward)
    share = recipe.nodes * recipe.gpus_per_node * recipe.micro_batch_per_gpu
    for name in ("batch_size", "mini_batch_size"):
        samples = getattr(recipe, name) * recipe.group
        if samples % share:
            raise InputError(
                f"{name} x group: {samples} samples are no multiple of the {share} that all GPUs take at once;"
                f" change {name}, group or micro_batch_per_gpu"
            )
    return recipe


def run_verl(
    preset: str,
    changes: str,
    model: str | None,
    train: Path | None,
    validation: Path | None,
    out: Path | None,
    reference: Path | None,
    reference_urls: Sequence[str],
    reference_model: str | None,
    *,
    show: bool,
    check: bool,
    done: bool,
    merge: Path | None = None,
) -> None:
    """``wmlab train verl``. Raises InputError for bad input or what verl refuses, ModelFailure for a run that is short
    of its steps."""
    started = time.time()
    recipe = resolved(preset, changes)
    if show:
        print(json.dumps(recipe.model_dump(mode="json"), indent=2, sort_keys=True))
        if unstated(preset):
            print(unstated(preset))
        return
    given = {"--model": model, "--train": train, "--validation": validation, "--out": out}
    if merge is not None and not done:
        raise InputError("train verl: --merge goes with --done: a model is merged when its run has ended")
    missing = [name for name, value in given.items() if value is None]
    if missing:
        raise InputError(
            f"train verl: {', '.join(missing)} missing; give them, or --print for the recipe alone"
        )
    assert model is not None and train is not None and validation is not None and out is not None
    if needs_reference(recipe.reward) and reference is None:
        raise InputError(f"reward {recipe.reward}: needs a reference agent; give --reference FOLDER")
    rows = len(read_verl(train))
    planned = planned_steps(rows, recipe)
    run = verl.VerlRun(
        model=str(Path(model).resolve()) if Path(model).exists() else model,  # or a name of the hub
        train=train.resolve(),
        validation=validation.resolve(),
        out=out.resolve(),
        reference=reference.resolve() if reference else None,
        reference_urls=tuple(reference_urls),
        reference_model=reference_model,
    )
    if done:
        verl.check_done(run.checkpoints, planned)
        print(f"{out}: all {planned} steps were done")
        if merge is not None:
            step = verl.merge(run.checkpoints, merge)
            config = {"preset": preset, "recipe": recipe.model_dump(mode="json"), "step": step}
            write_meta(
                merge / "model.safetensors", config=config, seed=recipe.seed, inputs=[train], started=started
            )
            print(f"{merge}: the model of step {step}")
        return
    options = verl.overrides(recipe, run)
    if check:
        write_json(out / "verl.json", verl.validate(options))
    write_json(out / "recipe.json", {**recipe.model_dump(mode="json"), "preset": preset, "steps": planned})
    write_text(out / "overrides.txt", "\n".join(options) + "\n")
    write_text(
        out / "launch.sh", verl.launch_script(recipe, options, run.checkpoints, planned // recipe.epochs)
    )
    (out / "launch.sh").chmod(0o755)
    config = {"preset": preset, "recipe": recipe.model_dump(mode="json"), "verl": verl.VERSION}
    write_meta(
        out / "launch.sh", config=config, seed=recipe.seed, inputs=[train, validation], started=started
    )
    how = "checked by verl" if check else "not checked by verl (--check, in its environment)"
    print(f"{out}/launch.sh: {planned} steps over {rows} prompts, {how}")
