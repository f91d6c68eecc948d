"""Section ``skills``: the advice that agents with ``skills: true`` are shown, and where it comes from."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from wmlab.config.scoring import Endpoint
from wmlab.config.section import Count, NonNegative, Section, Whole


class SkillRecipe(Section):
    """How advice reaches an agent: what ``wmlab rollout --skills-recipe`` takes."""

    task_budget: Whole = Field(
        default=384, description="most tokens of an episode's task skills, markers included"
    )
    step_budget: Whole = Field(default=160, description="most tokens of a step's rules, markers included")
    most_rules: Whole = Field(default=3, description="rules a step is shown at most")


SHOWN = set(SkillRecipe.model_fields)


class Skills(SkillRecipe):
    """World skill (MemWM): skills from solved training trajectories, rules from failing ones."""

    guidance: Literal["bundled", "mined"] = Field(
        default="bundled",
        description="a step's rules: those that come with the package, or mined from the training trajectories",
    )
    min_support: Count = Field(default=3, description="mined: failing trajectories behind a rule, at least")
    min_lift: NonNegative = Field(
        default=1.0, description="mined: misstep rate of a rule's steps against that of all failing steps"
    )
    min_score: NonNegative = Field(default=0.0, description="least score of a trajectory that teaches skills")
    per_pack: Count = Field(default=12, description="trajectories that a summary is made from")
    general: Whole = Field(default=6, description="general skills of a bank, at most")
    task_specific: Whole = Field(default=4, description="skills of a task type, at most")
    common_mistake: Whole = Field(default=6, description="common mistakes of a bank, at most")
    summariser: Endpoint | None = Field(
        default=None, description="model that writes the skills; none: by rule"
    )
