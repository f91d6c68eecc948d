"""The GRPO recipes that papers and releases state, for verl and for the embedded trainer alike.

What a source leaves open is this project's choice and is said beside the key in ``OPEN``.
"""

from __future__ import annotations

from typing import Any

from wmlab.config.problems import near_match
from wmlab.config.recipes import GrpoRecipe, load_recipe
from wmlab.config.section import changed, partial
from wmlab.config.verl import VerlRecipe
from wmlab.errors import InputError

_MEMWM: dict[str, Any] = {
    "learning_rate": 1e-6,
    "group": 8,
    "temperature": 1.0,
    "epochs": 10,
    "nodes": 1,
    "gpus_per_node": 4,
    "validate_first": True,
    "test_every": 20,
}

PRESETS: dict[str, dict[str, Any]] = {
    # behr.txt B.1: T 1.3, n 5, KL 0.001, TP 2, 8 GPUs, batch 32, exp(-|Δ|).
    "paper": {},
    # The release's launchers: cauchy, 0.2 physical facts on WebShop, 4 GPUs. Its format penalty is not carried over:
    # it punishes texts by a marker that world models are never asked for.
    "released-code-textworld": {"reward": "behr_cauchy", "gpus_per_node": 4},
    "released-code-webshop": {
        "reward": "behr_facts",
        "reward_parameters": {"scale": 1.0, "behavior_weight": 0.8, "facts_weight": 0.2},
        "gpus_per_node": 4,
    },
    # memwm.txt, implementation details.
    "memwm-alfworld": {**_MEMWM, "batch_size": 64, "mini_batch_size": 64, "micro_batch_per_gpu": 16,
                       "max_prompt_tokens": 8192, "max_new_tokens": 256},
    "memwm-scienceworld": {**_MEMWM, "batch_size": 64, "mini_batch_size": 64, "micro_batch_per_gpu": 16,
                           "max_prompt_tokens": 8192, "max_new_tokens": 512},
    "memwm-webshop": {**_MEMWM, "batch_size": 32, "mini_batch_size": 32, "micro_batch_per_gpu": 8,
                      "max_prompt_tokens": 24000, "max_new_tokens": 512},
}  # fmt: skip

OPEN: dict[str, tuple[str, ...]] = {
    "paper": ("learning_rate", "epochs", "max_prompt_tokens", "max_new_tokens", "micro_batch_per_gpu"),
    "memwm-alfworld": ("reward", "temperature", "test_every"),
    "memwm-scienceworld": ("reward", "temperature", "test_every"),
    "memwm-webshop": ("reward", "temperature", "test_every"),
}
"""Keys that the source of a preset does not state: ours, or the release's."""


def verl_preset(name: str, changes: str = "{}") -> VerlRecipe:
    """A preset for verl with the keys that ``changes`` sets. Raises InputError for an unknown preset or key."""
    if name not in PRESETS:
        raise InputError(f"--preset {name!r}: not known; {near_match(name, PRESETS)}")
    return changed(VerlRecipe(**PRESETS[name]), load_recipe(partial(VerlRecipe), changes))


def planned_steps(n_prompts: int, recipe: VerlRecipe) -> int:
    """Steps of a whole run: an epoch's last incomplete batch is left out, as verl does."""
    steps = n_prompts // recipe.batch_size * recipe.epochs
    if steps == 0:
        raise InputError(
            f"{n_prompts} prompts do not fill a batch of {recipe.batch_size}; give more, or a smaller batch_size"
        )
    return steps


def grpo_preset(name: str, changes: str = "{}", n_prompts: int | None = None) -> tuple[str, GrpoRecipe]:
    """A preset's reward and its recipe for the embedded trainer, with the keys that ``changes`` sets.

    Its epochs become steps over ``n_prompts``, where they are known and ``changes`` has no ``steps``.
    Raises InputError for an unknown preset or key, or prompts that do not fill a batch.
    """
    stated = verl_preset(name)
    given = load_recipe(partial(GrpoRecipe), changes)
    recipe = GrpoRecipe(
        prompts_per_step=stated.batch_size,
        updates=stated.batch_size // stated.mini_batch_size,
        group=stated.group,
        temperature=stated.temperature,
        learning_rate=stated.learning_rate,
        warmup_steps=0,
        kl_coefficient=stated.kl_coefficient,
        clip=stated.clip_low,
        clip_high=None if stated.clip_high == stated.clip_low else stated.clip_high,
        loss="token-mean" if stated.loss == "token-mean" else "seq-mean-token-mean",
        std_floor=stated.std_floor,
        max_failed=stated.max_failed,
        max_prompt_tokens=stated.max_prompt_tokens,
        max_new_tokens=stated.max_new_tokens,
        checkpoint_every=stated.save_every,
        reward_parameters=stated.reward_parameters,
    )
    if n_prompts is not None and "steps" not in given.model_fields_set:
        by_prompts = stated.model_copy(update={"batch_size": changed(recipe, given).prompts_per_step})
        recipe = recipe.model_copy(update={"steps": planned_steps(n_prompts, by_prompts)})
    return stated.reward, changed(recipe, given)


def unstated(name: str) -> str:
    """The keys of a preset that its source leaves open, as a line to print; empty without any."""
    left = OPEN.get(name, ())
    return f"not stated by the source, chosen here: {', '.join(left)}" if left else ""
