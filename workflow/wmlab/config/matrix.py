"""What a study is made of: its world models, those that agents play in, those with memory, its agents."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from wmlab.config.memory import CONTROL_METHOD, MEMORY_METHOD, Memory
from wmlab.config.root import COPY_METHOD, SFT_METHOD, SUPERVISED, StudyConfig
from wmlab.config.section import changed

SFT_SEED = 0


@dataclass(frozen=True, order=True)
class Model:
    """A world model of the study; its id names folders: domain/backbone/method/seedS."""

    domain: str
    backbone: str
    method: str
    seed: int

    @property
    def place(self) -> str:
        """Where its results are, under a stage's folder."""
        return f"{self.domain}/{self.backbone}/{self.method}/seed{self.seed}"


class Matrix:
    """The study's matrix, resolved."""

    def __init__(self, config: StudyConfig) -> None:
        self.config = config
        self.study = config.study
        self.root = str(PurePosixPath(config.paths.results) / config.study.name)
        self.cache = config.paths.cache

    @property
    def methods(self) -> list[str]:
        """GRPO methods of the study, in table order."""
        return [m for m in self.study.methods if m not in SUPERVISED]

    def seeds(self, method: str) -> list[int]:
        """Training seeds of ``method``: the SFT model and the copy baseline have one."""
        return [SFT_SEED] if method in (SFT_METHOD, COPY_METHOD) else list(self.study.seeds)

    def models(self, method: str | None = None) -> list[Model]:
        """World models, of one method or of all."""
        methods = self.study.methods if method is None else [method]
        return [
            Model(domain, backbone, name, seed)
            for domain in self.study.domains
            for backbone in self.study.backbones
            for name in methods
            for seed in self.seeds(name)
        ]

    def played_models(self, method: str | None = None) -> list[Model]:
        """World models that agents act in: the SFT model and the seeds chosen for rollouts."""
        chosen = self.study.rollout_seeds
        return [m for m in self.models(method) if m.method == SFT_METHOD or m.seed in chosen]

    def predictors(self) -> list[Model]:
        """World models and the copy baseline: what the single-step evaluation covers."""
        return [*self.models(), *self.models(COPY_METHOD)]

    def lm_agents(self) -> list[str]:
        """Agents that have to be trained: language models that are evaluated or are the reference."""
        wanted = dict.fromkeys([*self.study.agents, self.study.reference_agent])
        players = dict.fromkeys(self.player(name) for name in wanted)
        return [name for name in players if self.config.agents[name].kind == "lm"]

    def player(self, agent: str) -> str:
        """The agent whose weights ``agent`` plays with: mostly itself."""
        return self.config.agents[agent].weights or agent

    def with_memory(self, method: str) -> bool:
        """Whether the world models of ``method`` are shown memory blocks."""
        return method == MEMORY_METHOD or (method in self.methods and self.config.methods[method].memory)

    def plain(self, method: str) -> str | None:
        """What a method with memory is compared with: the study's nearest one without, None without any.

        For GRPO the method with the same reward, for ``mem_sft`` its control, where the study has them.
        """
        wanted = [CONTROL_METHOD, SFT_METHOD]
        if method in self.methods:
            entry = self.config.methods[method]
            alike = [
                name
                for name in self.methods
                if (self.config.methods[name].reward, self.config.methods[name].parameters)
                == (entry.reward, entry.parameters)
                and not self.config.methods[name].memory
            ]
            wanted = [*alike, *wanted]
        return next((name for name in wanted if name in self.study.methods), None)

    def memory(self, domain: str) -> Memory:
        """Section `memory` as it holds in a domain."""
        return changed(self.config.memory, self.config.domain(domain).memory)

    def memory_models(self, method: str | None = None) -> list[Model]:
        """World models that are shown memory blocks, of one method or of all."""
        return [model for model in self.models(method) if self.with_memory(model.method)]
