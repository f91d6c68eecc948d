"""Section ``serving``: the reference agent behind servers, those that run already or one that each job brings along."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from wmlab.config.section import Section


class ReferenceServing(Section):
    """Who scores for the reference agent: without ``urls`` and ``engine`` each job by itself."""

    urls: list[str] = Field(default=[], description="servers that run already, …/v1; several share the work")
    model: str | None = Field(default=None, description="its name there; without it that of its folder")
    engine: Literal["vllm"] | None = Field(
        default=None, description="start such a server in every job that asks the reference agent"
    )
    python: str | None = Field(
        default=None, description="Python that has the engine; without it the one that runs the job"
    )
    options: str = Field(default="", description="the engine's own options: --gpu-memory-utilization 0.3")
    gpus: str | None = Field(
        default=None, description="GPUs of the server, as CUDA counts them; without it all"
    )
    job_gpus: str | None = Field(default=None, description="GPUs of the job beside it; without it all")
    cache: bool = Field(default=False, description="keep scores in a file that all studies share")

    @model_validator(mode="after")
    def _one_way(self) -> ReferenceServing:
        if self.urls and self.engine:
            raise ValueError(
                "`urls` are of servers that run already and `engine` starts one; give one of them"
            )
        if self.engine is None and (self.python or self.options or self.gpus or self.job_gpus):
            raise ValueError("`python`, `options` and `gpus` are the engine's; give `engine`")
        if self.model is not None and not self.urls:
            raise ValueError("`model` is a name at `urls`; give them")
        return self


class Serving(Section):
    """Models behind servers."""

    reference: ReferenceServing = Field(default_factory=ReferenceServing)
