"""Recipes: what one command needs to know, as small validated records.

A rule passes its slice of the study as JSON (``--recipe``); a person can pass a file. Unknown keys
and wrong types are errors.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError, model_validator

from wmlab.config.decoding import Decoding
from wmlab.config.problems import describe
from wmlab.config.section import Count, Name, NonNegative, Positive, Real, Section, Share, Whole
from wmlab.errors import InputError


class Recipe(Section):
    """Base: frozen, no unknown keys."""


Precision = Literal["fp32", "bf16"]
Shares = Annotated[tuple[Share, ...], Field(min_length=1, strict=False)]


class CollectRecipe(Recipe):
    """How real trajectories and demonstrations are played."""

    trajectories_per_task: Count = Field(default=8, description="trajectories played on each game")
    noise: Shares = Field(
        default=(0.0, 0.1, 0.2, 0.3, 0.4, 0.5),
        description="shares of stray actions; trajectory k of a game uses entry k modulo the length",
    )
    step_cap: Count = Field(default=50, description="actions after which a trajectory is cut")
    demonstrations_per_task: Whole = Field(default=0, description="expert demonstrations a game, for agents")
    demonstration_tasks: Count | None = Field(
        default=None, description="only the first tasks get demonstrations; all of them without it"
    )
    demonstration_noise: Shares = Field(
        default=(0.0, 0.15), description="shares of harmless detours in them: shown, not taught"
    )


class TokenizerRecipe(Recipe):
    """Byte-level BPE whose merges may cross spaces inside a sentence."""

    vocab_size: Annotated[int, Field(ge=300)] = Field(
        default=3000, description="entries, the 256 bytes and the special tokens included"
    )
    digits: Literal["single", "merged"] = Field(
        default="single",
        description="single: a token a digit, so that counters stay countable; merged: prices and product "
        "numbers may become one token",
    )


class Architecture(Recipe):
    """A Llama-architecture model trained from scratch."""

    hidden_size: Count = Field(description="width of the residual stream")
    layers: Count = Field(description="number of blocks")
    heads: Count = Field(description="attention heads")
    kv_heads: Count = Field(description="key-value heads")
    intermediate_size: Count = Field(description="width of the feed-forward layer")
    max_position: Count = Field(default=4096, description="longest sequence, tokens")

    @model_validator(mode="after")
    def _divides(self) -> Architecture:
        if self.hidden_size % self.heads:
            raise ValueError(f"hidden_size {self.hidden_size} is not a multiple of heads {self.heads}")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")
        return self

    def parameters(self, vocab_size: int) -> int:
        """Number of parameters, input and output embeddings tied."""
        attention = 2 * self.hidden_size**2 + 2 * self.hidden_size**2 * self.kv_heads // self.heads
        block = attention + 3 * self.hidden_size * self.intermediate_size + 2 * self.hidden_size
        return vocab_size * self.hidden_size + self.layers * block + self.hidden_size


class SftSettings(Recipe):
    """Supervised fine-tuning without its architecture: section ``sft``; lengths in tokens."""

    epochs: Positive = Field(default=8.0, description="passes over the data")
    batch_size: Count = Field(default=4, description="sequences a step")
    learning_rate: Positive = Field(default=3e-3, description="peak learning rate")
    warmup_fraction: Share = Field(default=0.05, description="share of the steps in which the rate rises")
    weight_decay: NonNegative = Field(default=0.0, description="decoupled weight decay")
    max_length: Count = Field(default=2048, description="longest training sequence, tokens")
    validation_points: Count = Field(default=4, description="validations during the run, evenly spaced")
    precision: Precision = Field(
        default="fp32", description="bf16: passes through the blocks in bf16; weights and the head stay fp32"
    )
    train_on: Literal["taught", "all"] = Field(
        default="taught", description="tokens with loss: observations (agents: taught actions), or all"
    )
    checkpoint_minutes: Positive = Field(default=2.0, description="minutes between checkpoints")


class SftRecipe(SftSettings):
    """What ``wmlab train sft --recipe`` takes."""

    architecture: Architecture | None = Field(
        default=None, description="without it training starts from the weights of --init"
    )
    thought: bool = Field(default=True, description="agents: learn the thought before each action")


class GrpoSettings(Recipe):
    """GRPO from an SFT checkpoint (behr.txt 4.3, B.1; metrics.md 5): section ``grpo``."""

    steps: Count = Field(default=60, description="optimiser steps")
    prompts_per_step: Count = Field(default=8, description="prompts sampled a step")
    group: Annotated[int, Field(ge=2)] = Field(default=5, description="samples a prompt")
    temperature: Positive = Field(default=1.3, description="sampling temperature")
    learning_rate: Positive = Field(default=1e-4, description="learning rate")
    gain_rate: Positive = Field(
        default=1.0,
        description="rate of the normalisation gains as a multiple of learning_rate; they are near 1, weights near 0",
    )
    warmup_steps: Whole = Field(default=5, description="steps in which the rate rises")
    kl_coefficient: NonNegative = Field(
        default=1e-3, description="weight of the low-variance KL to the SFT model"
    )
    clip: Positive = Field(default=0.2, description="clip range of the probability ratio")
    clip_high: Positive | None = Field(
        default=None, description="its range above 1, for clip-higher; as `clip` without it"
    )
    loss: Literal["seq-mean-token-mean", "token-mean"] = Field(
        default="seq-mean-token-mean",
        description="how token terms are averaged: over a sample's tokens, then over samples (GRPO); over all tokens",
    )
    updates: Count = Field(
        default=1,
        description="optimiser updates a step, each over its share of the prompts; clipping needs several",
    )
    backward_tokens: Count = Field(
        default=4096, description="tokens of one backward pass; an update's passes add up their gradients"
    )
    precision: Precision = Field(
        default="fp32", description="bf16: the updates' passes through the policy's blocks"
    )
    entropy_floor: NonNegative = Field(
        default=0.0, description="nats a token; training ends when it stays below for `patience` steps"
    )
    max_repetition: Share = Field(
        default=1.0,
        description="share of a sample's 4-grams that repeat earlier ones; training ends when it stays above",
    )
    patience: Count = Field(default=3, description="steps that show a collapse before training ends")
    std_floor: Positive = Field(default=1e-3, description="floor of a group's reward standard deviation")
    max_failed: Share = Field(
        default=0.05, description="share of failed rewards in a step that stops the run"
    )
    max_prompt_tokens: Count = Field(
        default=4096,
        description="training transitions with a longer history are left out and counted; tokens without memory",
    )
    max_new_tokens: Count = Field(default=192, description="longest sampled observation, tokens")
    max_grad_norm: Positive = Field(default=1.0, description="largest gradient norm")
    validation_every: Count = Field(default=20, description="steps between validations")
    validation_prompts: Count = Field(default=64, description="validation transitions read each time")
    heldout_prompts: Count = Field(
        default=64, description="held-out prompts scored before and after training"
    )
    heldout_samples: Count = Field(default=4, description="samples of each of them")
    checkpoint_every: Count = Field(default=20, description="steps between checkpoints")


class GrpoRecipe(GrpoSettings):
    """What ``wmlab train grpo --recipe`` takes: the settings and the reward's parameters."""

    reward_parameters: dict[str, Real] = Field(default_factory=dict, description="parameters of the reward")


class Prompted(Recipe):
    """What a language model is told when it acts (agents/prompts.py)."""

    style: Literal["react", "cot"] = Field(
        default="react", description="react: thoughts stay in sight; cot: reasons anew at each step"
    )
    source: Literal["own", "panel"] = Field(
        default="own", description="panel: the prompt that the panel's initial contexts carry"
    )
    opening: Literal["system", "acknowledged"] = Field(
        default="system", description="acknowledged: the prompt is a user turn with an answer, as released"
    )


class AgentSpec(Recipe):
    """What ``wmlab rollout --agent`` takes: the agent as a rollout sees it."""

    agent_id: Name = Field(description="name of the agent in the results")
    kind: Literal["scripted", "lm", "served"] = Field(
        description="scripted: follows the goal text; lm: a model, --agent-model; served: one behind --agent-url"
    )
    epsilon: Share = Field(default=0.0, description="scripted: share of turns spent on some other command")
    choose: bool = Field(
        default=False, description="lm: picks among the commands that the goal text names; else writes freely"
    )
    prompting: Prompted = Field(default_factory=lambda: Prompted(), description="how it is told to act")
    max_new_tokens: Count = Field(default=96, description="lm: longest turn")
    model: str | None = Field(default=None, min_length=1, description="served: the model's name there")
    decoding: Decoding = Field(default_factory=Decoding, description="served: fields of a request")

    @model_validator(mode="after")
    def _fits_kind(self) -> AgentSpec:
        if (self.kind == "served") != (self.model is not None):
            raise ValueError(
                "`model` is the name of a served agent's model: kind served needs it, no other has it"
            )
        return self


R = TypeVar("R", bound=BaseModel)


def load_recipe(model: type[R], source: str) -> R:
    """Validate JSON text or a JSON file as ``model``. Raises InputError naming the first bad key."""
    text, where = source, "recipe"
    if not source.lstrip().startswith("{"):
        where = source
        try:
            text = Path(source).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError.at(source, f"cannot be read ({error})", "give JSON or a JSON file") from None
    try:
        data = json.loads(text)
    except ValueError as error:
        raise InputError.at(where, f"not JSON ({error})", "give a JSON object") from None
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InputError(f"{where}: {describe(error, model, data)}") from None
