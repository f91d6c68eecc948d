"""What a study is made of: its world models, those that agents play in, those with memory, its agents."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from wmlab.config.grpo import Method
from wmlab.config.memory import CONTROL_METHOD, MEMORY_METHOD, Memory
from wmlab.config.models import Pretrained
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
        """Agents that have to be trained: language models that are evaluated or that the study's rewards ask."""
        references = [self.reference(method) for method in self.methods]
        wanted = dict.fromkeys([*self.study.agents, self.study.reference_agent, *references])
        players = dict.fromkeys(self.player(name) for name in wanted)
        agents = self.config.agents
        return [name for name in players if agents[name].kind == "lm" and agents[name].train]

    def reference(self, method: str) -> str:
        """The frozen agent that scores in training: the method's own, or the study's (behr.txt, Table 4)."""
        return self.config.methods[method].reference or self.study.reference_agent

    @property
    def defined(self) -> list[str]:
        """The study's methods, and those that only an ablation's target makes."""
        return list(dict.fromkeys([*self.study.methods, *self.config.methods]))

    def pretrained(self, backbone: str) -> Pretrained | None:
        """The pretrained model behind a backbone; None for one that is trained from scratch."""
        entry = self.config.backbones[backbone]
        return entry if isinstance(entry, Pretrained) else None

    def player(self, agent: str) -> str:
        """The agent whose weights ``agent`` plays with: mostly itself."""
        return self.config.agents[agent].weights or agent

    def with_memory(self, method: str) -> bool:
        """Whether the world models of ``method`` are shown memory blocks."""
        entry = self.config.methods.get(method)
        return method == MEMORY_METHOD or (entry is not None and entry.memory)

    def plain(self, method: str) -> str | None:
        """What a method with memory is compared with: the study's nearest one without, None without any.

        For GRPO the method with the same reward, for ``mem_sft`` its control, where the study has them.
        """
        wanted = [CONTROL_METHOD, SFT_METHOD]
        entry = self.config.methods.get(method)
        if entry is not None:
            alike = [name for name in self.methods if _same(self.config.methods[name], entry)]
            wanted = [*alike, *wanted]
        return next((name for name in wanted if name in self.study.methods), None)

    def memory(self, domain: str) -> Memory:
        """Section `memory` as it holds in a domain."""
        return changed(self.config.memory, self.config.domain(domain).memory)

    def memory_models(self, method: str | None = None) -> list[Model]:
        """World models that are shown memory blocks, of one method or of all."""
        return [model for model in self.models(method) if self.with_memory(model.method)]


def _same(plain: Method, entry: Method) -> bool:
    """Whether a method without memory trains on what ``entry`` does."""
    chosen = ("reward", "parameters", "reference")
    return not plain.memory and all(getattr(plain, key) == getattr(entry, key) for key in chosen)
