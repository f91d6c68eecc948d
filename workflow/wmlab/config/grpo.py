"""Section ``methods``: reinforcement learning of the world model, one entry a method."""

from __future__ import annotations

from pydantic import Field

from wmlab.config.recipes import GrpoSettings
from wmlab.config.section import Name, Real, Section


class Method(Section):
    """A GRPO method: a reward, its parameters, and where its recipe differs from section ``grpo``."""

    reward: Name = Field(description="name of the reward in the registry")
    parameters: dict[str, Real] = Field(default_factory=dict, description="parameters of the reward")
    reference: Name | None = Field(
        default=None, description="agent that scores in training; without it study.reference_agent"
    )
    memory: bool = Field(
        default=False, description="shown memory blocks; starts from the model that learnt to read them"
    )
    grpo: GrpoSettings = Field(
        description="keys of section `grpo` that differ here; the others are inherited"
    )
