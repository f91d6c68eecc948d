"""GRPO on a cluster by verl: its recipe."""

from __future__ import annotations

from typing import Annotated, Literal

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
