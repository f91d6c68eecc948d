"""Sections ``evaluation``, ``stats`` and ``audits``."""

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


class Annotation(Section):
    """A judged annotation sheet and its key, as ``wmlab eval sheet`` made them."""

    sheet: str = Field(min_length=1, description="CSV with the judgements, relative to the repository")
    key: str = Field(min_length=1, description="CSV with models and scores")


class Audits(Section):
    """How the metrics themselves are judged; the defaults are the papers' sizes."""

    perturbed_samples: Count = Field(
        default=100, description="shared samples a domain of the decision-critical perturbations"
    )
    stress_examples: Count = Field(
        default=50, description="examples a class of change and domain of the stress test"
    )
    observations: Count = Field(
        default=100, description="distinct observations a domain whose extraction is audited"
    )
    annotation: Annotation | None = Field(
        default=None, description="blinded judgements that the metrics are compared with; none: no such table"
    )
