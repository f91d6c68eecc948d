"""Section ``filter``: which training transitions GRPO sees (metrics.md section 7)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from wmlab.config.section import Count, Section, Share


class Filter(Section):
    """Difficulty filter."""

    pool: Count = Field(description="training transitions for which the SFT model makes baseline predictions")
    budget: Count = Field(description="transitions kept, shared among action types as sqrt(pool x hardness)")
    max_f1: Share | None = Field(
        default=None,
        description="only transitions whose baseline prediction has a lower token F1; without it the domain's "
        "own rule: below 0.35 in WebShop, no bound elsewhere",
    )
    order: Literal["hardest", "random"] = Field(description="which ones are kept within an action type")
