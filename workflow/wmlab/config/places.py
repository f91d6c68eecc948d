"""Where the results of a study are: the files of its cells, by stage."""

from __future__ import annotations

from pathlib import PurePosixPath

from wmlab.config.domains import SPLITS
from wmlab.config.matrix import SFT_SEED, Matrix
from wmlab.config.memory import MEMORY_METHOD
from wmlab.config.root import SFT_METHOD
from wmlab.report.contents import (
    MEMORY_FIGURES,
    MEMORY_TABLES,
    PERTURB_FIGURES,
    PERTURB_TABLES,
    PLANNING_TABLES,
    SSF_FIGURES,
    SSF_TABLES,
    STUDY_FIGURES,
    STUDY_TABLES,
)

WEIGHTS = "model.safetensors"
ORACLE = "real/oracle/seed0"
"""Where results of the real environment as a world model stand, in a model's place."""


class Places(Matrix):
    """The study's files."""

    def weights(self, domain: str, backbone: str, method: str, seed: int | str) -> str:
        """Weights of a world model; ``w2w`` is the SFT model."""
        folder = f"{'sft' if method == SFT_METHOD else method}/seed{seed}"
        return f"{self.root}/models/{domain}/{backbone}/{folder}/{WEIGHTS}"

    def base(self, backbone: str) -> list[str]:
        """The weights of a pretrained backbone: none for one that is trained from scratch."""
        found = f"{self.cache}/pretrained/{backbone}/{WEIGHTS}"
        return [] if self.pretrained(backbone) is None else [found]

    def tokenizer(self, domain: str, backbone: str) -> str:
        """The tokenizer of a backbone's models: its own, or the one trained on the domain's text."""
        base = self.base(backbone)
        folder = PurePosixPath(base[0]).parent if base else f"{self.root}/models/{domain}/tokenizer"
        return f"{folder}/tokenizer.json"

    def agent_tokenizer(self, domain: str, agent: str) -> str:
        """The tokenizer of an agent that is trained."""
        return self.tokenizer(domain, self.config.agents[agent].architecture or "")

    def start_weights(self, domain: str, backbone: str, method: str, seed: int | str) -> str:
        """What GRPO starts from: the SFT model, or the one of the same seed that learnt to read memory."""
        if self.config.methods[method].memory:
            return self.weights(domain, backbone, MEMORY_METHOD, seed)
        return self.weights(domain, backbone, SFT_METHOD, SFT_SEED)

    def reader_start(self, domain: str, backbone: str) -> list[str]:
        """What learning to read memory starts from, and its control: the SFT model, or nothing."""
        found = self.weights(domain, backbone, SFT_METHOD, SFT_SEED)
        return [found] if self.memory(domain).start == "w2w" else self.base(backbone)

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

    def gains(self, method: str | None = None) -> list[str]:
        """What memory gives each method that has it, over all its training seeds."""
        shown = dict.fromkeys((m.domain, m.backbone, m.method) for m in self.memory_models(method))
        return [f"{self.root}/memory/{domain}/{name}/{told}/gain.json" for domain, name, told in shown]

    def seeds_of(self, stage: str, domain: str, backbone: str, method: str, name: str) -> list[str]:
        """A file of every training seed of a method."""
        where = f"{self.root}/{stage}/{domain}/{backbone}/{method}"
        return [f"{where}/seed{seed}/{name}" for seed in self.seeds(method)]

    def plain_predictions(self, domain: str, backbone: str, method: str) -> list[str]:
        """Predictions of every seed of the method that one with memory is compared with."""
        plain = self.plain(method)
        return (
            [] if plain is None else self.seeds_of("predict", domain, backbone, plain, "predictions.parquet")
        )

    def online_gains(self) -> list[str]:
        """What each memory-augmented model gains when it remembers what earlier tasks executed."""
        return [f"{self.root}/memory/{model.place}/online.json" for model in self.memory_models()]

    def agent_weights(self, domain: str, agent: str) -> str:
        """Weights of an agent: trained, or its backbone's own."""
        entry = self.config.agents[agent]
        if not entry.train:
            return self.base(entry.architecture or "")[0]
        return f"{self.root}/models/{domain}/agents/{agent}/{WEIGHTS}"

    def initial_weights(self, domain: str, agent: str) -> list[str]:
        """What an agent's training starts from: a world model, a pretrained backbone, or nothing."""
        entry = self.config.agents[agent]
        if entry.start == "scratch":
            return self.base(entry.architecture or "")
        return [self.weights(domain, entry.architecture or "", SFT_METHOD, SFT_SEED)]

    def reference_weights(self, domain: str, method: str | None = None) -> str:
        """Weights of the frozen reference agent: the study's, which judges, or the one that trains ``method``."""
        agent = self.study.reference_agent if method is None else self.reference(method)
        return self.agent_weights(domain, agent)

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

    def plans(self, method: str | None = None) -> list[str]:
        """Folders of the agents that plan: of each planner in each world model it asks, and in Real itself.

        With ``method`` those of its world models alone.
        """
        chosen = self.config.planning
        asked = [one for one in chosen.methods if one in self.study.methods and method in (None, one)]
        places = [model.place for one in asked for model in self.played_models(one)]
        if chosen.oracle and method is None:
            places += [f"{domain}/{ORACLE}" for domain in self.study.domains]
        return [
            f"{self.root}/plan/{place}/{agent}/{planner}"
            for place in places
            for agent in chosen.agents
            if agent in self.study.agents
            for planner in chosen.planners
        ]

    def planning_gains(self, method: str | None = None) -> list[str]:
        """What planning gives each of them."""
        return [f"{folder}/gain.json" for folder in self.plans(method)]

    def planning_reports(self) -> list[str]:
        """What the report shows of planning: nothing where nobody plans."""
        return [f"{self.root}/tables/{name}.json" for name in PLANNING_TABLES if self.plans()]

    def tables(self) -> list[str]:
        """Names of the tables of the models; that of GRPO only where something is trained by it."""
        there = {"grpo_objective": bool(self.methods)}
        return [name for name in STUDY_TABLES if there.get(name, True)]

    def figures(self) -> list[str]:
        """Names of the figures of the models."""
        return list(STUDY_FIGURES)

    def memory_reports(self) -> list[str]:
        """What the report shows of world memory: nothing where no model has it."""
        if not self.memory_models():
            return []
        tables = [f"{self.root}/tables/{name}.json" for name in MEMORY_TABLES]
        return tables + [f"{self.root}/figures/{name}.svg" for name in MEMORY_FIGURES]

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
