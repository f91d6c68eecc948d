"""Signs that a policy collapses: its entropy dies, or its samples repeat themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wmlab.config.recipes import GrpoRecipe

GRAM = 4


def repetition(token_ids: Sequence[int]) -> float:
    """Share of a sample's runs of four tokens that it has written before; 0 for a shorter sample."""
    grams = [tuple(token_ids[i : i + GRAM]) for i in range(len(token_ids) - GRAM + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def collapse(curve: Sequence[Mapping[str, Any]], recipe: GrpoRecipe) -> str | None:
    """Why training ends here: the last ``patience`` steps all show a sign of collapse. None: it goes on."""
    recent = curve[-recipe.patience :]
    if len(recent) < recipe.patience:
        return None
    if all(row["entropy"] < recipe.entropy_floor for row in recent):
        return f"entropy {recent[-1]['entropy']:.4f} under entropy_floor {recipe.entropy_floor:g}" + _for(
            recipe
        )
    if all(row["repetition"] > recipe.max_repetition for row in recent):
        return (
            f"repetition {recent[-1]['repetition']:.3f} over max_repetition {recipe.max_repetition:g}"
            + _for(recipe)
        )
    return None


def _for(recipe: GrpoRecipe) -> str:
    return f" for {recipe.patience} steps"
