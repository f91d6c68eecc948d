"""Sections ``evaluation`` and ``stats``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from wmlab.config.section import Count, Name, Section, Whole


class Evaluation(Section):
    """One protocol for Real, world model and replay; every model decodes greedily (T=0)."""

    step_cap: Count = Field(description="actions after which an episode is cut")
    transitions: Count = Field(description="held-out transitions of the single-step evaluation")


class Stats(Section):
    """Tests over the cells (domain x backbone x agent x seed)."""

    metric: Literal["CR_pw", "CR", "CR_pw_T", "dice", "kappa", "agreement"] = Field(
        description="column to compare"
    )
    target: Name = Field(description="method that the others are compared with")
    bootstrap: Count = Field(description="resamples of the cells")
    seed: Whole = Field(description="seed of the resampling")
