"""Recipes: what one command needs to know, as small validated records.

A rule passes its slice of the study as JSON (``--recipe``); a person can pass a file. Unknown keys
and wrong types are errors.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wmlab.errors import InputError

Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[int, Field(ge=1)]


class Recipe(BaseModel):
    """Base: frozen, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CollectRecipe(Recipe):
    """How real trajectories and demonstrations are played."""

    trajectories_per_game: Positive = 8
    noise: tuple[Fraction, ...] = Field((0.0, 0.15, 0.3, 0.45, 0.6, 0.8), min_length=1)
    step_cap: Positive = 50
    demonstrations_per_game: int = Field(0, ge=0)
    demonstration_noise: tuple[Fraction, ...] = Field((0.0, 0.15), min_length=1)


class TokenizerRecipe(Recipe):
    """Byte-level BPE whose merges may cross spaces inside a sentence."""

    vocab_size: Positive = 3000


class Architecture(Recipe):
    """A Llama-architecture model trained from scratch."""

    hidden_size: Positive
    layers: Positive
    heads: Positive
    kv_heads: Positive
    intermediate_size: Positive
    max_position: Positive = 4096


class SftRecipe(Recipe):
    """Supervised fine-tuning; lengths in tokens."""

    architecture: Architecture
    epochs: float = Field(8, gt=0)
    batch_size: Positive = 4
    learning_rate: float = Field(3e-3, gt=0)
    warmup_fraction: Fraction = 0.05
    weight_decay: float = Field(0.0, ge=0)
    max_length: Positive = 2048
    validation_points: int = Field(4, ge=1)
    train_on: Literal["taught", "all"] = "taught"
    checkpoint_minutes: float = Field(2.0, gt=0)


class RewardSpec(Recipe):
    """A reward of the registry and its parameters."""

    name: str
    parameters: dict[str, float] = Field(default_factory=dict)


class GrpoRecipe(Recipe):
    """GRPO from an SFT checkpoint (behr.txt 4.3, B.1; metrics.md 5)."""

    steps: Positive = 60
    prompts_per_step: Positive = 8
    group: int = Field(5, ge=2)
    temperature: float = Field(1.3, gt=0)
    learning_rate: float = Field(1e-4, gt=0)
    warmup_steps: int = Field(5, ge=0)
    kl_coefficient: float = Field(1e-3, ge=0)
    clip: float = Field(0.2, gt=0)
    std_floor: float = Field(1e-3, gt=0)
    max_failed: Fraction = 0.05
    max_new_tokens: Positive = 192
    max_grad_norm: float = Field(1.0, gt=0)
    validation_every: Positive = 20
    validation_prompts: Positive = 64
    heldout_prompts: Positive = 64
    heldout_samples: Positive = 4
    checkpoint_every: Positive = 20


R = TypeVar("R", bound=BaseModel)


def load_recipe(model: type[R], source: str) -> R:
    """Validate JSON text or a JSON file as ``model``. Raises InputError naming the first bad key."""
    text, where = source, "--recipe"
    if not source.lstrip().startswith("{"):
        where = source
        try:
            text = Path(source).read_text(encoding="utf-8")
        except OSError as error:
            raise InputError.at(source, f"cannot be read ({error.strerror})", "give JSON or a JSON file") from None
    try:
        return model.model_validate(json.loads(text))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        known = ", ".join(model.model_fields)
        raise InputError.at(where, f"{key}: {first['msg']}", f"known keys: {known}") from None
    except ValueError as error:
        raise InputError.at(where, f"not JSON ({error})", "give a JSON object") from None
