"""Sections ``planners`` and ``planning``: how agents think ahead, and which of them do with which world models."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from wmlab.config.section import Count, Name, NonNegative, Positive, Section


class PlannerSettings(Section):
    """A planner: how many actions it imagines, how far, and who judges what it sees."""

    kind: Literal["lookahead", "memwm", "rap", "itp"] = Field(
        description="lookahead: chooses among K imagined states; memwm: rates each; rap: tree search; itp: imagines "
        "its own future, then reflects"
    )
    judge: Literal["likelihood", "prompted"] = Field(
        default="likelihood",
        description="likelihood: a model that chooses (`choose: true`), by its probabilities; prompted: one that "
        "follows instructions",
    )
    candidates: Annotated[int, Field(ge=2)] = Field(default=5, description="K: actions imagined from a state")
    depth: Count = Field(default=5, description="rap, itp: most steps ahead")
    iterations: Count = Field(default=10, description="rap: simulations a decision")
    exploration: NonNegative = Field(default=1.0, description="rap: weight of UCT's exploration")
    discount: Annotated[Positive, Field(le=1)] = Field(
        default=0.95, description="rap: of later rewards: a nearer win is better"
    )
    adaptive: bool = Field(default=True, description="itp: chooses its horizon; false: always `depth`")
    itp_compat: bool = Field(
        default=False, description="rap: quirks of the published baseline (agents/planning/mcts.py)"
    )
    block_loops: bool = Field(
        default=False, description="lookahead: the released script's block of A-A and A-B-A repetitions"
    )
    force_options: bool = Field(
        default=False,
        description="lookahead: the released script's rule that options come before buying (WebShop)",
    )


class Planner(PlannerSettings):
    """An entry of ``planners``."""

    skills: bool = Field(
        default=False, description="the agent reads the advice of section `skills` (MemWM+Skill)"
    )

    @property
    def settings(self) -> PlannerSettings:
        """What the planner itself is told."""
        return PlannerSettings(**self.model_dump(exclude={"skills"}))


class Planning(Section):
    """Agents that plan in Real; nothing without planners."""

    planners: list[Name] = Field(default=[], description="keys of `planners`")
    agents: list[Name] = Field(default=[], description="agents that plan, of those that the study has")
    methods: list[Name] = Field(
        default=[], description="methods whose world models they ask, of those that the study has"
    )
    oracle: bool = Field(
        default=False, description="also the real environment as the world model: an upper bound"
    )
    tasks: Count | None = Field(default=None, description="first tasks of the test panel; null: all")
