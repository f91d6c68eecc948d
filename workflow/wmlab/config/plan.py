"""What a study amounts to: its matrix, its files, and the slice of the configuration each command gets.

The workflow asks here; nothing in this module knows about Snakemake.
"""

from __future__ import annotations

import json

from wmlab.config.domains import DomainSection, Split
from wmlab.config.evaluation import Evaluation
from wmlab.config.filter import Filter
from wmlab.config.memory import SHOWN, MemoryRecipe
from wmlab.config.models import Pretrained
from wmlab.config.places import WEIGHTS, Places
from wmlab.config.recipes import AgentSpec, Architecture, GrpoRecipe, SftRecipe, SftSettings
from wmlab.config.scoring import Endpoint
from wmlab.config.section import Section, changed
from wmlab.config.skills import SHOWN as SHOWN_SKILLS
from wmlab.config.skills import SkillRecipe
from wmlab.config.study import Tier
from wmlab.metrics.ssf.schema import DOMAINS as READ_BY_MODELS
from wmlab.rewards.surface import SURFACE

REFERENCE = "reference"
"""Name of the reference agent's server in the commands that ask it."""


class Plan(Places):
    """The study, resolved: what it is made of, where it is, what each command is told."""

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
        backbone = self.config.backbones[entry.architecture]
        return _json(_trained(entry.sft, backbone, thought=entry.thought))

    def grpo_recipe(self, domain: str, method: str) -> str:
        """``wmlab train grpo --recipe``."""
        entry = self.config.methods[method]
        settings = changed(entry.grpo, self.domain(domain).grpo)
        return _json(GrpoRecipe(**settings.model_dump(), reward_parameters=entry.parameters))

    def memory_recipe(self, domain: str, training: bool) -> str:
        """``--memory-recipe`` of every command that asks a world model; dropout is for training."""
        shown = {**self.memory(domain).model_dump(include=SHOWN), **({} if training else {"dropout": 0.0})}
        return _json(MemoryRecipe(**shown, seed=self.study.seed))

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

    def asks_reference(self, method: str) -> bool:
        """Whether a method's reward needs the reference agent."""
        return self.config.methods[method].reward not in SURFACE

    def reference_options(self) -> dict[str, object]:
        """Options of every command that asks the reference agent: where it is, and where its scores are kept."""
        chosen = self.config.serving.reference
        url = [f"{{{REFERENCE}}}"] if chosen.engine is not None else list(chosen.urls)
        kept = f"{self.cache}/reference.sqlite" if chosen.cache else None
        return {"reference-url": url, "reference-model": chosen.model, "reference-cache": kept}

    def reference_server(self, folder: str, logs: str) -> list[str]:
        """Words before a command that asks the reference agent: the server that it brings along, or none."""
        chosen = self.config.serving.reference
        if chosen.engine is None:
            return []
        words = ["python", "-m", "wmlab", "serve", "run", "--model", f"{REFERENCE}={folder}", "--logs", logs]
        if chosen.options:
            words += ["--options", f"{REFERENCE}={chosen.options}"]
        for name, gpus in ((REFERENCE, chosen.gpus), ("command", chosen.job_gpus)):
            words += ["--gpus", f"{name}={gpus}"] if gpus is not None else []
        words += ["--python", chosen.python] if chosen.python is not None else []
        return [*words, "--"]

    def reward_parts(self, method: str) -> list[str]:
        """Which of its domain's modules a method's reward runs: the reference agent's script, the SSF parser."""
        return ["script", *(["ssf"] if "ssf" in self.config.methods[method].reward else [])]

    def agent_spec(self, agent: str) -> str:
        """``wmlab rollout --agent``: what an episode depends on."""
        entry = self.config.agents[agent]
        shared = entry.model_dump(include=set(AgentSpec.model_fields))
        spec = AgentSpec(agent_id=agent, **shared)
        return json.dumps(spec.model_dump(mode="json", exclude_defaults=True), sort_keys=True)

    def planner(self, name: str) -> str:
        """``wmlab rollout plan --planner``."""
        return _json(self.config.planners[name].settings)

    def planner_advice(self, domain: str, agent: str, planner: str) -> list[str]:
        """Skill banks that an agent reads when it plans."""
        wanted = self.config.planners[planner].skills or self.config.agents[agent].skills
        return self.skill_banks(domain) if wanted else []

    def server_options(self, agent: str) -> dict[str, object]:
        """Options of a rollout for an agent behind servers; none for the others."""
        entry = self.config.agents[agent]
        if entry.kind != "served":
            return {}
        return {"agent-url": list(entry.urls), "concurrency": entry.concurrency}

    def tier(self, name: str) -> Tier:
        """Resources of a kind of job."""
        tier: Tier = getattr(self.config.hardware, name)
        return tier


def _trained(settings: SftSettings, backbone: Architecture | Pretrained, thought: bool = True) -> SftRecipe:
    architecture = backbone if isinstance(backbone, Architecture) else None
    return SftRecipe(**settings.model_dump(), architecture=architecture, thought=thought)


def _endpoint(purpose: str, asked: Endpoint | None) -> dict[str, object]:
    return {} if asked is None else {f"{purpose}-url": asked.url, f"{purpose}-model": asked.model}


def _json(recipe: Section) -> str:
    return json.dumps(recipe.model_dump(mode="json"), sort_keys=True)
