"""Section ``domains``: frozen task panels, the trajectories collected on them, and what differs by domain."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, create_model

from wmlab.config.evaluation import Evaluation
from wmlab.config.filter import Filter
from wmlab.config.memory import MemoryChanges
from wmlab.config.recipes import CollectRecipe, GrpoSettings, SftSettings, TokenizerRecipe
from wmlab.config.section import Count, Real, Section, partial
from wmlab.domains.registry import DOMAINS

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = ("train", "validation", "test")
SEEDED = ("textworld", "alfworld")
"""Domains whose tasks are generated from a seed, one range for all splits; 1 to 200 are test tasks."""
PUBLISHED_TASKS = 200

TokenizerChanges = partial(TokenizerRecipe)
FilterChanges = partial(Filter)
SftChanges = partial(SftSettings)
GrpoChanges = partial(GrpoSettings)
EvaluationChanges = partial(Evaluation)


class Tasks(Section):
    """A run of tasks, and how much is collected on each."""

    first: Count = Field(
        default=1, description="first task: its seed, or its place in the split where tasks are a list"
    )
    tasks: Count = Field(description="number of tasks")
    trajectories_per_task: Count = Field(description="trajectories collected on each task")


class DomainSection(Section):
    """A domain of the study."""

    options: dict[str, str | int | Real | bool] = Field(
        default_factory=dict,
        description="what the domain is opened with, e.g. paths of official files (`wmlab env --help`)",
    )
    test: Tasks
    train: Tasks
    validation: Tasks
    collect: CollectRecipe = Field(
        description="how they are played; trajectories_per_task comes from the split"
    )
    tokenizer: TokenizerChanges = Field(  # type: ignore[valid-type]
        default_factory=TokenizerChanges,
        description="keys of section `tokenizer` that differ in this domain",
    )
    filter: FilterChanges = Field(  # type: ignore[valid-type]
        default_factory=FilterChanges,
        description="keys of section `filter` that differ in this domain",
    )
    sft: SftChanges = Field(  # type: ignore[valid-type]
        default_factory=SftChanges,
        description="keys of section `sft` that differ in this domain, for its world models",
    )
    grpo: GrpoChanges = Field(  # type: ignore[valid-type]
        default_factory=GrpoChanges,
        description="keys of section `grpo` that differ in this domain, whatever the method says",
    )
    memory: MemoryChanges = Field(  # type: ignore[valid-type]
        default_factory=MemoryChanges, description="keys of section `memory` that differ in this domain"
    )
    evaluation: EvaluationChanges = Field(  # type: ignore[valid-type]
        default_factory=EvaluationChanges,
        description="keys of section `evaluation` that differ in this domain",
    )

    def tasks(self, split: Split) -> Tasks:
        """The tasks of ``split``."""
        found: Tasks = getattr(self, split)
        return found

    @property
    def demonstrations(self) -> int:
        """Demonstrations wanted: those of the training tasks that get any."""
        tasks = min(self.train.tasks, self.collect.demonstration_tasks or self.train.tasks)
        return tasks * self.collect.demonstrations_per_task

    def collection(self, split: Split) -> CollectRecipe:
        """What ``wmlab data collect --recipe`` takes; only training tasks get demonstrations."""
        changed: dict[str, int] = {"trajectories_per_task": self.tasks(split).trajectories_per_task}
        if split != "train":
            changed["demonstrations_per_task"] = 0
        return self.collect.model_copy(update=changed)


Domains: type[Section] = create_model(
    "Domains",
    __base__=Section,
    __doc__="One entry a domain; those named by `study.domains` are needed.",
    **{name: (DomainSection | None, Field(default=None, description=f"tasks of {name}")) for name in DOMAINS},  # type: ignore[call-overload]
)
