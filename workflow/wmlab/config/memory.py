"""Section ``memory``: the banks, what a memory-augmented world model is shown, and how it learns to read it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from wmlab.config.recipes import SftSettings
from wmlab.config.scoring import Endpoint
from wmlab.config.section import Count, Section, Share, Whole, partial

MEMORY_METHOD = "mem_sft"
"""The world model that learnt to read memory blocks, from the SFT model or from scratch; GRPO methods with
``memory: true`` start from it."""
CONTROL_METHOD = "more_sft"
"""Its control: the same start and steps on the same trajectories, without blocks."""

SftPart = partial(SftSettings)


class MemorySettings(Section):
    """How a bank reaches the prompts of a world model."""

    budget: Count = Field(default=128, description="most tokens of a block, its markers included")
    position: Literal["action", "system"] = Field(
        default="action",
        description="where the block stands: before the action that is predicted (what precedes it is not computed"
        " again at the next step), or before the whole prompt as in the paper",
    )
    dropout: Share = Field(default=0.0, description="share of training tasks that see no memory")


SHOWN = set(MemorySettings.model_fields)


class ReaderSettings(MemorySettings):
    """How a domain's world models learn to read memory, and how it reaches them."""

    start: Literal["w2w", "scratch"] = Field(
        default="w2w",
        description="what learning to read memory starts from: the SFT model, or fresh weights of the same seed,"
        " which cannot know by heart what the blocks say; `more_sft` starts alike",
    )


class MemoryRecipe(MemorySettings):
    """What ``--memory-recipe`` takes."""

    seed: Whole = Field(default=0, description="seed of the tasks that dropout takes")


MemoryChanges = partial(ReaderSettings)


class Memory(ReaderSettings):
    """World memory (MemWM): banks from training transitions, and the models that are shown them."""

    min_support: Count = Field(default=2, description="hard transitions behind a rule, at least")
    shares: Annotated[list[Share], Field(min_length=1)] = Field(
        default=[0.0, 0.25, 0.5, 0.75, 1.0],
        description="shares of test tasks without memory that the removal study reports",
    )
    curator: Endpoint | None = Field(default=None, description="model that writes the hints; none: by rule")
    sft: SftPart = Field(  # type: ignore[valid-type]
        default_factory=SftPart,
        description="keys of the world model's `sft` that differ when it learns to read memory",
    )
