"""GRPO on a cluster by verl: its recipe, and the recipes that papers and releases state (presets).

What a source leaves open is this project's choice and is said beside the key in ``OPEN``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from wmlab.config.section import Count, NonNegative, Positive, Real, Section, Share, Whole


class VerlRecipe(Section):
    """What ``wmlab train verl --recipe`` takes."""

    reward: str = Field(default="behr", description="name in the reward registry")
    reward_parameters: dict[str, Real] = Field(
        default_factory=lambda: {"scale": 1.0}, description="its parameters"
    )
    batch_size: Count = Field(default=32, description="prompts a step")
    mini_batch_size: Count = Field(default=32, description="prompts an update")
    micro_batch_per_gpu: Count = Field(default=1, description="samples a forward pass and GPU")
    group: Annotated[int, Field(ge=2)] = Field(default=5, description="samples a prompt")
    temperature: Positive = Field(default=1.3, description="sampling temperature")
    top_p: Share = Field(default=1.0, description="nucleus of sampling")
    learning_rate: Positive = Field(default=5e-6, description="learning rate")
    kl_coefficient: NonNegative = Field(default=1e-3, description="weight of the low-variance KL in the loss")
    entropy_coefficient: NonNegative = Field(default=0.0, description="weight of the entropy bonus")
    clip_low: Positive = Field(default=0.2, description="clip range below 1")
    clip_high: Positive = Field(default=0.2, description="clip range above 1 (clip-higher: more)")
    loss: Literal["token-mean", "seq-mean-token-sum", "seq-mean-token-mean"] = Field(
        default="seq-mean-token-mean", description="how the loss is averaged; GRPO's is over samples"
    )
    std_floor: Positive = Field(default=1e-3, description="floor of a group's reward standard deviation")
    max_failed: Share = Field(
        default=0.05, description="share of failed rewards in a step that stops the run"
    )
    max_prompt_tokens: Count = Field(default=14336, description="longer prompts are left out")
    max_new_tokens: Count = Field(default=1024, description="longest sampled observation")
    epochs: Count = Field(default=5, description="passes over the prompts")
    save_every: Count = Field(default=20, description="steps between checkpoints")
    test_every: int = Field(default=-1, ge=-1, description="steps between validations; -1: none")
    validate_first: bool = Field(default=False, description="validate before training")
    tensor_parallel: Count = Field(default=2, description="GPUs a rollout server spans")
    rollout_memory: Share = Field(default=0.5, description="share of a GPU's memory that the rollout takes")
    gradient_checkpointing: bool = Field(default=True, description="recompute activations")
    nodes: Count = Field(default=1, description="nodes")
    gpus_per_node: Count = Field(default=8, description="GPUs of each")
    reward_workers: Count = Field(default=2, description="processes that ask the reference agent")
    seed: Whole = Field(default=0, description="seed of the data order")


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
