"""Supervised fine-tuning on a cluster, by verl's SFT trainer or by LLaMA-Factory: one recipe for both.

The defaults are Word2World's published run (formats.md 5.3), which BehR's world models start from.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from wmlab.config.section import Count, NonNegative, Positive, Section, Whole


class SftClusterRecipe(Section):
    """What ``wmlab train sft-cluster --recipe`` takes."""

    batch_size: Count = Field(default=128, description="trajectories an optimiser step, over all GPUs")
    micro_batch_per_gpu: Count = Field(default=2, description="trajectories a forward pass and GPU")
    learning_rate: Positive = Field(default=1e-5, description="learning rate, constant after warm-up")
    warmup_steps: Whole = Field(default=10, description="steps in which the rate rises")
    weight_decay: NonNegative = Field(default=0.0, description="decoupled weight decay")
    max_grad_norm: Positive = Field(default=100.0, description="largest gradient norm")
    epochs: Count = Field(default=5, description="passes over the trajectories")
    max_length: Count = Field(
        default=12288, description="tokens of a trajectory; what is longer is cut there"
    )
    max_samples: Count | None = Field(
        default=None, description="first trajectories of the file; all without it"
    )
    precision: Literal["bf16", "fp32"] = Field(default="bf16", description="type of the passes")
    template: str = Field(
        default="qwen", description="LLaMA-Factory: name of its chat template; verl takes the tokenizer's own"
    )
    gradient_checkpointing: bool = Field(default=True, description="recompute activations")
    save_every: Count = Field(default=160, description="steps between checkpoints")
    nodes: Count = Field(default=1, description="nodes")
    gpus_per_node: Count = Field(default=4, description="GPUs of each")
    seed: Whole = Field(default=1, description="seed of the data order")
