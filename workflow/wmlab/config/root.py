"""The whole configuration of a study, and the checks that span sections."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field, model_validator

from wmlab.config.agents import Agent
from wmlab.config.domains import PUBLISHED_TASKS, SEEDED, SPLITS, Domains, DomainSection
from wmlab.config.evaluation import Audits, Evaluation, Stats
from wmlab.config.filter import Filter
from wmlab.config.grpo import Method
from wmlab.config.memory import CONTROL_METHOD, MEMORY_METHOD, Memory
from wmlab.config.models import Backbones, Pretrained, Tokenizer
from wmlab.config.planners import Planner, Planning
from wmlab.config.problems import near_match
from wmlab.config.recipes import GrpoSettings, SftSettings
from wmlab.config.scoring import Scoring
from wmlab.config.section import Section
from wmlab.config.serving import Serving
from wmlab.config.skills import Skills
from wmlab.config.study import Hardware, Paths, Study
from wmlab.domains.registry import DOMAINS

SFT_METHOD = "w2w"
COPY_METHOD = "copy"
SUPERVISED = (SFT_METHOD, CONTROL_METHOD, MEMORY_METHOD)
"""World models that no reward trained; the other methods are keys of ``methods``."""


class StudyConfig(Section):
    """A study, as config.yaml and its overlays declare it."""

    study: Study
    paths: Paths = Field(default_factory=Paths)
    hardware: Hardware
    domains: Domains  # type: ignore[valid-type]
    tokenizer: Tokenizer
    backbones: Backbones
    sft: SftSettings
    agents: dict[str, Agent]
    filter: Filter
    grpo: GrpoSettings
    methods: dict[str, Method]
    planners: dict[str, Planner] = Field(default_factory=dict)
    planning: Planning = Field(default_factory=Planning)
    memory: Memory = Field(default_factory=Memory)
    skills: Skills = Field(default_factory=Skills)
    evaluation: Evaluation
    serving: Serving = Field(default_factory=Serving)
    scoring: Scoring = Field(default_factory=Scoring)
    stats: Stats
    audits: Audits = Field(default_factory=Audits)

    def domain(self, name: str) -> DomainSection:
        """Section of a domain of the study."""
        section: DomainSection = getattr(self.domains, name)
        return section

    @model_validator(mode="after")
    def _names_exist(self) -> StudyConfig:
        study = self.study
        _known("study.domains", study.domains, [n for n in DOMAINS if getattr(self.domains, n) is not None])
        _known("study.backbones", study.backbones, self.backbones)
        _known("study.methods", study.methods, [*SUPERVISED, *self.methods])
        _known("study.agents", study.agents, self.agents)
        for seed in study.rollout_seeds:
            if seed not in study.seeds:
                raise ValueError(f"study.rollout_seeds: {seed} is not one of study.seeds {study.seeds}")
        _known("stats.target", [self.stats.target], study.methods)
        for name in (*SUPERVISED, COPY_METHOD):
            if name in self.methods:
                raise ValueError(f"methods.{name}: the name is taken (w2w is the SFT model); choose another")
        for name, agent in self.agents.items():
            if agent.architecture is not None:
                _known(f"agents.{name}.architecture", [agent.architecture], self.backbones)
                if not agent.train and not isinstance(self.backbones[agent.architecture], Pretrained):
                    raise ValueError(
                        f"agents.{name}.train: its backbone {agent.architecture!r} has random weights"
                    )
            if agent.weights is not None:
                trained = [n for n, a in self.agents.items() if a.architecture is not None]
                _known(f"agents.{name}.weights", [agent.weights], trained)
        self._can_plan()
        self._can_score("study.reference_agent", study.reference_agent)
        for name, method in self.methods.items():
            if method.reference is not None:
                self._can_score(f"methods.{name}.reference", method.reference)
        return self

    def _can_plan(self) -> None:
        """Raise ValueError unless the agents that plan can, with planners and world models of the study."""
        chosen = self.planning
        _known("planning.planners", chosen.planners, self.planners)
        if not chosen.planners:
            return
        _known("planning.agents", chosen.agents, self.agents)
        _known("planning.methods", chosen.methods, [*SUPERVISED, *self.methods])
        if not chosen.agents or not (chosen.methods or chosen.oracle):
            raise ValueError("planning: give `agents`, and `methods` or `oracle: true`, beside `planners`")
        for name in chosen.agents:
            agent = self.agents[name]
            judges = {self.planners[one].judge for one in chosen.planners}
            fits = {
                "likelihood": agent.kind == "lm" and agent.choose,
                "prompted": agent.kind == "served" or (agent.kind == "lm" and not agent.choose),
            }
            for judge in sorted(judges):
                if not fits[judge]:
                    raise ValueError(
                        f"planning.agents: {name!r} cannot plan with `judge: {judge}`; likelihood needs an agent of kind"
                        " lm with `choose: true`, prompted one that writes"
                    )

    def _can_score(self, key: str, agent: str) -> None:
        """Raise ValueError unless ``agent`` is a model of its own."""
        _known(key, [agent], self.agents)
        if self.agents[agent].kind != "lm":
            raise ValueError(f"{key}: {agent!r} is scripted; name an agent of kind lm")
        if self.agents[agent].weights is not None:
            raise ValueError(f"{key}: {agent!r} has another agent's weights; name that agent")

    @model_validator(mode="after")
    def _splits_disjoint(self) -> StudyConfig:
        for name in self.study.domains:
            if name not in SEEDED:
                continue
            ranges = {split: self.domain(name).tasks(split) for split in SPLITS}
            for first in SPLITS:
                for second in SPLITS[SPLITS.index(first) + 1 :]:
                    a, b = ranges[first], ranges[second]
                    if a.first < b.first + b.tasks and b.first < a.first + a.tasks:
                        raise ValueError(
                            f"domains.{name}: tasks of {first} and {second} overlap; move `first`"
                        )
            if min(ranges["train"].first, ranges["validation"].first) <= PUBLISHED_TASKS:
                raise ValueError(f"domains.{name}: seeds 1 to 200 are the published test tasks; start at 201")
        return self


def _known(key: str, wanted: Iterable[str], known: Iterable[str]) -> None:
    """Raise ValueError for the first wanted name that is unknown or named twice."""
    names = list(known)
    seen: set[str] = set()
    for name in wanted:
        if name not in names:
            raise ValueError(f"{key}: {name!r} is not defined; {near_match(name, names)}")
        if name in seen:
            raise ValueError(f"{key}: {name!r} is named twice")
        seen.add(name)
