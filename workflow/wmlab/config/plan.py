"""What a study amounts to: its cells, its files, and the slice of the configuration each command gets.

The workflow asks here; nothing in this module knows about Snakemake.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePosixPath

from wmlab.config.domains import SPLITS, DomainSection, Split
from wmlab.config.evaluation import Evaluation
from wmlab.config.filter import Filter
from wmlab.config.memory import MEMORY_METHOD, SHOWN, MemoryRecipe
from wmlab.config.recipes import AgentSpec, Architecture, GrpoRecipe, SftRecipe, SftSettings
from wmlab.config.root import COPY_METHOD, SFT_METHOD, StudyConfig
from wmlab.config.scoring import Endpoint
from wmlab.config.section import Section, changed
from wmlab.config.skills import SHOWN as SHOWN_SKILLS
from wmlab.config.skills import SkillRecipe
from wmlab.config.study import Tier
from wmlab.metrics.ssf.schema import DOMAINS as READ_BY_MODELS
from wmlab.report.contents import (
    PERTURB_FIGURES,
    PERTURB_TABLES,
    SSF_FIGURES,
    SSF_TABLES,
    STUDY_FIGURES,
    STUDY_TABLES,
)

WEIGHTS = "model.safetensors"
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


class Plan:
    """The study's matrix, resolved."""

    def __init__(self, config: StudyConfig) -> None:
        self.config = config
        self.study = config.study
        self.root = str(PurePosixPath(config.paths.results) / config.study.name)
        self.cache = config.paths.cache

    @property
    def methods(self) -> list[str]:
        """GRPO methods of the study, in table order."""
        return [m for m in self.study.methods if m not in (SFT_METHOD, MEMORY_METHOD)]

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

    def memory_models(self, method: str | None = None) -> list[Model]:
        """World models that are shown memory blocks, of one method or of all."""
        return [model for model in self.models(method) if self.with_memory(model.method)]

    # Files -----------------------------------------------------------------------------------

    def weights(self, domain: str, backbone: str, method: str, seed: int | str) -> str:
        """Weights of a world model; ``w2w`` is the SFT model."""
        folder = f"{'sft' if method == SFT_METHOD else method}/seed{seed}"
        return f"{self.root}/models/{domain}/{backbone}/{folder}/{WEIGHTS}"

    def start_weights(self, domain: str, backbone: str, method: str, seed: int | str) -> str:
        """What GRPO starts from: the SFT model, or the one of the same seed that learnt to read memory."""
        if self.config.methods[method].memory:
            return self.weights(domain, backbone, MEMORY_METHOD, seed)
        return self.weights(domain, backbone, SFT_METHOD, SFT_SEED)

    def banks(self, domain: str, backbone: str, method: str) -> list[str]:
        """The memory bank that the world models of ``method`` ask: none for most."""
        found = f"{self.root}/memory/{domain}/{backbone}/bank.jsonl"
        return [found] if self.with_memory(method) else []

    def bank_predictions(self, domain: str, backbone: str) -> list[str]:
        """The SFT model's training predictions that a bank learns errors from; WebShop's cache needs none."""
        found = f"{self.root}/predict/{domain}/{backbone}/{SFT_METHOD}/seed{SFT_SEED}/baseline.parquet"
        return [] if domain == "webshop" else [found]

    def memory_exports(self) -> list[str]:
        """Filtered training transitions in verl's format, with memory blocks."""
        shown = dict.fromkeys((model.domain, model.backbone) for model in self.memory_models())
        return [f"{self.root}/filter/{domain}/{name}/mem_grpo_train.parquet" for domain, name in shown]

    def removals(self, method: str | None = None) -> list[str]:
        """What each memory-augmented model loses without its memory."""
        return [f"{self.root}/memory/{model.place}/removal.json" for model in self.memory_models(method)]

    def online_gains(self) -> list[str]:
        """What each memory-augmented model gains when it remembers what earlier tasks executed."""
        return [f"{self.root}/memory/{model.place}/online.json" for model in self.memory_models()]

    def agent_weights(self, domain: str, agent: str) -> str:
        """Weights of a trained agent."""
        return f"{self.root}/models/{domain}/agents/{agent}/{WEIGHTS}"

    def initial_weights(self, domain: str, agent: str) -> list[str]:
        """The world model an agent's training starts from: none from scratch."""
        entry = self.config.agents[agent]
        if entry.start == "scratch":
            return []
        return [self.weights(domain, entry.architecture or "", SFT_METHOD, SFT_SEED)]

    def reference_weights(self, domain: str) -> str:
        """Weights of the frozen reference agent."""
        return self.agent_weights(domain, self.study.reference_agent)

    def acting_weights(self, domain: str, agent: str) -> list[str]:
        """The weights an agent needs to act: none for a scripted one."""
        lm = self.config.agents[agent].kind == "lm"
        return [self.agent_weights(domain, self.player(agent))] if lm else []

    def skill_banks(self, domain: str) -> list[str]:
        """Advice in a domain: the skills of its tasks, the rules of a step."""
        return [f"{self.root}/skills/{domain}/{name}.jsonl" for name in ("skills", "guidance")]

    def advice(self, domain: str, agent: str) -> list[str]:
        """The skill banks that an agent reads: none for most."""
        return self.skill_banks(domain) if self.config.agents[agent].skills else []

    def curves(self) -> list[str]:
        """Training curves of world models and agents."""
        files = [self.weights(m.domain, m.backbone, m.method, m.seed) for m in self.models()]
        files += [
            self.agent_weights(domain, agent) for domain in self.study.domains for agent in self.lm_agents()
        ]
        return [str(PurePosixPath(file).with_name("curves.jsonl")) for file in files]

    def heldout(self) -> list[str]:
        """Reward before and after training, of every GRPO model."""
        return [
            f"{self.root}/models/{model.place}/heldout.json"
            for method in self.methods
            for model in self.models(method)
        ]

    def predictions(self, domain: str) -> list[str]:
        """Predictions of the first backbone's models in ``domain``, the target method's last."""
        found = [m for m in self.predictors() if (m.domain, m.backbone) == (domain, self.study.backbones[0])]
        found.sort(key=lambda m: m.method == self.config.stats.target)
        return [f"{self.root}/predict/{m.place}/predictions.parquet" for m in found]

    def transitions(self) -> list[str]:
        """Decomposed transitions of every split."""
        return [
            f"{self.root}/decompose/{domain}/{split}/transitions.parquet"
            for domain in self.study.domains
            for split in SPLITS
        ]

    def exports(self) -> list[str]:
        """Filtered training transitions in verl's format."""
        return [
            f"{self.root}/filter/{domain}/{backbone}/grpo_train.parquet"
            for domain in self.study.domains
            for backbone in self.study.backbones
        ]

    def summaries(self, method: str | None = None) -> list[str]:
        """Single-step scores of every predictor, or of one method."""
        models = self.predictors() if method is None else self.models(method)
        return [f"{self.root}/score/{model.place}/summary.json" for model in models]

    def cells(self, method: str | None = None) -> list[str]:
        """Task-level consistency of every model and agent, or of one method."""
        return [
            f"{self.root}/consistency/{model.place}/{agent}/cell.json"
            for model in self.played_models(method)
            for agent in self.study.agents
        ]

    def played(self) -> list[str]:
        """Episodes of every agent as it acts: Real once, and in every world model."""
        real = [
            f"{self.root}/rollout/{domain}/real/{agent}/episodes.jsonl"
            for domain in self.study.domains
            for agent in self.study.agents
        ]
        imagined = [
            f"{self.root}/rollout/{model.place}/{agent}/wm.jsonl"
            for model in self.played_models()
            for agent in self.study.agents
        ]
        return real + imagined

    def tables(self) -> list[str]:
        """Names of the tables of the models; those of GRPO and of memory only where a model has it."""
        there = {"grpo_objective": bool(self.methods), "memory": bool(self.memory_models())}
        return [name for name in STUDY_TABLES if there.get(name, True)]

    def figures(self) -> list[str]:
        """Names of the figures of the models."""
        return list(STUDY_FIGURES)

    def audit_tables(self, part: str) -> list[str]:
        """Names of the tables that judge the metrics, of the part ``perturb`` or ``ssf``, as far as it has data."""
        without = {
            "ssf_weights": "webshop" not in self.study.domains,
            "ssf_transfer": "cookingworld" not in self.study.domains,
            "ssf_agreement": self.config.audits.annotation is None,
        }
        names = PERTURB_TABLES if part == "perturb" else SSF_TABLES
        return [name for name in names if not without.get(name, False)]

    def audit_figures(self, part: str) -> list[str]:
        """Names of the figures that judge the metrics, of the part ``perturb`` or ``ssf``."""
        return list(PERTURB_FIGURES if part == "perturb" else SSF_FIGURES)

    def annotation(self) -> dict[str, str]:
        """The judged annotation sheet and its key, {} where the study has none."""
        given = self.config.audits.annotation
        return {} if given is None else given.model_dump()

    # Slices of the configuration ---------------------------------------------------------------

    def domain(self, name: str) -> DomainSection:
        """Section of a domain."""
        return self.config.domain(name)

    def options(self, domain: str) -> str:
        """``wmlab env panel --options``."""
        return json.dumps(self.domain(domain).options, sort_keys=True)

    def resolved(self) -> str:
        """The whole configuration, inheritance resolved: ``wmlab study freeze --study``."""
        return _json(self.config)

    def collect_recipe(self, domain: str, split: Split) -> str:
        """``wmlab data collect --recipe``."""
        return _json(self.domain(domain).collection(split))

    def filtering(self, domain: str) -> Filter:
        """How a domain's training transitions are chosen."""
        return changed(self.config.filter, self.domain(domain).filter)

    def evaluation(self, domain: str) -> Evaluation:
        """The protocol of a domain's rollouts and single-step evaluation."""
        return changed(self.config.evaluation, self.domain(domain).evaluation)

    def tokenizer_recipe(self, domain: str) -> str:
        """``wmlab train tokenizer --recipe``."""
        return _json(changed(self.config.tokenizer, self.domain(domain).tokenizer))

    def sft_recipe(self, domain: str, backbone: str) -> str:
        """``wmlab train sft --role world-model --recipe``."""
        settings = changed(self.config.sft, self.domain(domain).sft)
        return _json(_trained(settings, self.config.backbones[backbone]))

    def agent_recipe(self, agent: str) -> str:
        """``wmlab train sft --role agent --recipe``."""
        entry = self.config.agents[agent]
        assert entry.architecture is not None  # checked with the configuration
        architecture = self.config.backbones[entry.architecture]
        return _json(_trained(entry.sft, architecture, thought=entry.thought))

    def grpo_recipe(self, domain: str, method: str) -> str:
        """``wmlab train grpo --recipe``."""
        entry = self.config.methods[method]
        settings = changed(entry.grpo, self.domain(domain).grpo)
        return _json(GrpoRecipe(**settings.model_dump(), reward_parameters=entry.parameters))

    def memory_recipe(self, domain: str, training: bool) -> str:
        """``--memory-recipe`` of every command that asks a world model; dropout is for training."""
        settings = changed(
            MemoryRecipe(**self.config.memory.model_dump(include=SHOWN)), self.domain(domain).memory
        )
        return _json(
            settings.model_copy(update={"seed": self.study.seed, **({} if training else {"dropout": 0.0})})
        )

    def curator(self) -> dict[str, object]:
        """Options of ``wmlab memory build`` that choose the curator: none for hints by rule."""
        return _endpoint("curator", self.config.memory.curator)

    def scorers(self, domain: str) -> dict[str, object]:
        """Options of ``wmlab score predictions`` that choose the models behind its metrics."""
        chosen = self.config.scoring.extractor if domain in READ_BY_MODELS else None
        kind = {} if chosen is None else {"extractor": chosen.kind}
        return {**kind, **_endpoint("extractor", chosen), **self._kept(chosen), **self._encoder()}

    def judges(self) -> dict[str, object]:
        """Options of ``wmlab eval perturb`` that choose the models behind its metrics."""
        chosen = self.config.scoring.judge
        return {**_endpoint("judge", chosen), **self._kept(chosen), **self._encoder()}

    def encoder_weights(self) -> list[str]:
        """What a score depends on when BERTScore is wanted."""
        encoder = self.config.scoring.encoder
        return [] if encoder is None else [f"{encoder}/{WEIGHTS}"]

    def _encoder(self) -> dict[str, object]:
        return {"encoder": self.config.scoring.encoder, "encoder-layer": self.config.scoring.encoder_layer}

    def _kept(self, asked: Endpoint | None) -> dict[str, object]:
        """Where answers are kept: all studies share them."""
        return {} if asked is None else {"cache": f"{self.cache}/answers.sqlite"}

    @property
    def mines_guidance(self) -> bool:
        """Whether a step's rules are mined from the study's own failures."""
        return self.config.skills.guidance == "mined"

    def distil_options(self) -> dict[str, object]:
        """Options of ``wmlab skill distil``; None for one that is left out."""
        names = ["min_score", "per_pack", "general", "task_specific", "common_mistake"]
        chosen = {name.replace("_", "-"): getattr(self.config.skills, name) for name in names}
        return {**chosen, **_endpoint("summariser", self.config.skills.summariser)}

    def mine_options(self) -> dict[str, object]:
        """Options of ``wmlab skill mine``; none where the bundled rules are taken."""
        skills = self.config.skills
        if not self.mines_guidance:
            return {}
        return {"min-support": skills.min_support, "min-lift": skills.min_lift}

    def skill_recipe(self) -> str:
        """``wmlab rollout --skills-recipe``."""
        return _json(SkillRecipe(**self.config.skills.model_dump(include=SHOWN_SKILLS)))

    def reader_recipe(self, domain: str, backbone: str) -> str:
        """``wmlab train sft --recipe`` of the model that learns to read memory."""
        settings = changed(changed(self.config.sft, self.domain(domain).sft), self.config.memory.sft)
        return _json(_trained(settings, self.config.backbones[backbone]))

    def reward_parts(self, method: str) -> list[str]:
        """Which of its domain's modules a method's reward runs: the reference agent's script, the SSF parser."""
        return ["script", *(["ssf"] if "ssf" in self.config.methods[method].reward else [])]

    def agent_spec(self, agent: str) -> str:
        """``wmlab rollout --agent``: what an episode depends on."""
        entry = self.config.agents[agent]
        return _json(AgentSpec(agent_id=agent, kind=entry.kind, epsilon=entry.epsilon, choose=entry.choose))

    def tier(self, name: str) -> Tier:
        """Resources of a kind of job."""
        tier: Tier = getattr(self.config.hardware, name)
        return tier


def _trained(settings: SftSettings, architecture: Architecture, thought: bool = True) -> SftRecipe:
    return SftRecipe(**settings.model_dump(), architecture=architecture, thought=thought)


def _endpoint(purpose: str, asked: Endpoint | None) -> dict[str, object]:
    return {} if asked is None else {f"{purpose}-url": asked.url, f"{purpose}-model": asked.model}


def _json(recipe: Section) -> str:
    return json.dumps(recipe.model_dump(mode="json"), sort_keys=True)
