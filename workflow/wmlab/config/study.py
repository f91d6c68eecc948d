"""Sections ``study``, ``paths`` and ``hardware``: what is run, where it goes and on what."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from wmlab.config.section import Count, Name, Positive, Section, Whole

Names = Annotated[list[Name], Field(min_length=1)]


class Study(Section):
    """The matrix: every method of every backbone in every domain, with every agent."""

    name: Name = Field(description="name of the study: its results are in <results>/<name>")
    seed: Whole = Field(description="seed of everything that is not a training run of a method")
    domains: Names = Field(description="domains to run, keys of `domains`")
    backbones: Names = Field(description="world-model backbones, keys of `backbones`")
    methods: Names = Field(description="`w2w` (the SFT model) and keys of `methods`, in table order")
    seeds: Annotated[list[Whole], Field(min_length=1)] = Field(
        description="training seeds of every GRPO method"
    )
    rollout_seeds: Annotated[list[Whole], Field(min_length=1)] = Field(
        description="those of `seeds` whose models are also played by the agents"
    )
    agents: Names = Field(description="evaluation agents, keys of `agents`")
    reference_agent: Name = Field(
        description="frozen agent that scores behaviour, a key of `agents` of kind lm"
    )


class Paths(Section):
    """Folders, relative to the repository."""

    results: str = Field(default="results", min_length=1, description="folder of all results")
    cache: str = Field(default="results/cache", min_length=1, description="folder of generated games")


class Tier(Section):
    """What one job of a kind asks of the machine."""

    threads: Count = Field(description="CPU threads")
    mem_mb: Count = Field(description="memory, megabytes")
    runtime: Count = Field(description="time limit on a cluster, minutes")
    gpu: Whole = Field(default=0, description="GPUs")


class Hardware(Section):
    """Resources by kind of job."""

    training: Tier = Field(description="SFT and GRPO")
    inference: Tier = Field(description="prediction, scoring and rollouts with a model")
    games: Tier = Field(
        description="collection and replay in real environments; threads is the number of game processes"
    )
    light: Tier = Field(description="panels, statistics, tables, figures")
    flops: Positive = Field(
        description="floating-point operations a second that one training job sustains (estimates)"
    )
