"""How long a study takes: a rough model, stated so that it can be doubted.

Work is counted in floating-point operations: training on a token costs 6 N, reading one 2 N, for a
model of N parameters (Kaplan et al. 2020, arXiv:2001.08361, section 2.1). ``hardware.flops`` is what
one training job sustains. Generation is bound by latency and runs at ``GENERATION`` of that. Token
counts are those of TextWorld under a tokenizer whose merges cross spaces. Every job adds ``START``.
"""

from __future__ import annotations

from dataclasses import dataclass

from wmlab.config.domains import SPLITS
from wmlab.config.plan import Plan
from wmlab.config.root import COPY_METHOD
from wmlab.config.section import changed

START = 6.0  # seconds a job needs before it works: Python, torch, model
LIGHT = 1.5  # the same for a job without a model
GENERATION = 0.15  # share of the training throughput that batched generation reaches
TRAJECTORY = 350  # tokens of a trajectory
STEP = 25  # tokens of one observation or action
PROMPT = 200  # tokens of a history
MEMORY = 3  # tokens of a trajectory with all its memory blocks, as a multiple of its own
PERTURBED = 7  # texts of a perturbed sample
ACTIONS = 10  # actions scored for each of them: the logged one and what else could be done
GAME_SECONDS = 0.1  # one game made or played through in the real environment


@dataclass(frozen=True)
class Stage:
    """A stage of the study: how many jobs, seconds of each on average, GPUs of each."""

    name: str
    jobs: int
    seconds: float
    gpus: int

    @property
    def gpu_hours(self) -> float:
        """GPU-hours of all its jobs."""
        return self.jobs * self.gpus * self.seconds / 3600


def stages(plan: Plan) -> list[Stage]:
    """Stages in the order of the workflow; seconds are rough."""
    config, study = plan.config, plan.study
    domains = study.domains
    flops = config.hardware.flops
    vocabulary = config.tokenizer.vocab_size
    sizes = [config.backbones[name].parameters(vocabulary) for name in study.backbones]
    size = sum(sizes) / len(sizes)
    reference = config.backbones[config.agents[study.reference_agent].architecture or ""].parameters(
        vocabulary
    )
    games = [plan.domain(domain).tasks(split) for domain in domains for split in SPLITS]
    train = sum(
        plan.domain(domain).train.tasks * plan.domain(domain).train.trajectories_per_task
        for domain in domains
    )
    train_per_domain = train / len(domains)
    demonstrations = sum(plan.domain(domain).demonstrations for domain in domains) / len(domains)

    def training(parameters: float, sequences: float, epochs: float) -> float:
        return START + 6 * parameters * sequences * TRAJECTORY * epochs / flops

    def generation(parameters: float, tokens: float, read: float = 0.0) -> float:
        return 2 * parameters * (tokens / GENERATION + read) / flops

    agents = [config.agents[name] for name in plan.lm_agents()]
    agent_seconds = [
        training(
            config.backbones[agent.architecture or ""].parameters(vocabulary),
            demonstrations,
            agent.sft.epochs,
        )
        for agent in agents
    ]
    grpo_seconds = []
    for method in plan.methods:
        recipe = config.methods[method].grpo
        samples = recipe.steps * recipe.prompts_per_step * recipe.group
        heldout = 2 * recipe.heldout_prompts * recipe.heldout_samples
        learn = 6 * size * samples * (PROMPT + STEP) / flops
        score = 2 * reference * samples * (PROMPT + STEP) / flops
        grpo_seconds.append(
            START + learn + score + generation(size, (samples + heldout) * STEP, samples * PROMPT)
        )
    banks = {(model.domain, model.backbone) for model in plan.memory_models()}
    advised = {bank for domain in domains for agent in study.agents for bank in plan.advice(domain, agent)}
    readers = {(model.domain, model.backbone, model.seed) for model in plan.memory_models()}
    reading = training(size, MEMORY * train_per_domain, changed(config.sft, config.memory.sft).epochs)
    tasks = _mean([plan.domain(domain).test.tasks for domain in domains])
    episode = _mean(
        [plan.domain(domain).test.tasks * plan.evaluation(domain).step_cap / 2 * STEP for domain in domains]
    )
    cells = len(plan.cells())
    asked = [config.planners[name].candidates for name in config.planning.planners]
    share = min(1.0, (config.planning.tasks or tasks) / tasks) if tasks else 0.0
    planned = generation(size, share * episode * _mean(asked)) + generation(reference, share * episode)
    held_out = _mean([plan.evaluation(domain).transitions for domain in domains])
    hardware = config.hardware
    per_domain = len(domains) * len(study.backbones)
    return [
        Stage("panel", len(games), LIGHT + GAME_SECONDS * _mean([g.tasks for g in games]), 0),
        Stage(
            "collect",
            len(games),
            LIGHT + GAME_SECONDS * _mean([g.tasks * g.trajectories_per_task for g in games]),
            0,
        ),
        Stage("decompose", len(games), LIGHT, 0),
        Stage("tokenizer", len(domains), START, 0),
        Stage(
            "sft world model",
            per_domain,
            training(size, train_per_domain, config.sft.epochs),
            hardware.training.gpu,
        ),
        Stage("sft agent", len(domains) * len(agents), _mean(agent_seconds), hardware.training.gpu),
        Stage("filter", per_domain, LIGHT, 0),
        Stage("export", per_domain, LIGHT, 0),
        Stage(
            "grpo", sum(len(plan.models(m)) for m in plan.methods), _mean(grpo_seconds), hardware.training.gpu
        ),
        Stage("skill banks", len(advised), LIGHT, 0),
        Stage("memory bank", len(banks), LIGHT, 0),
        Stage("sft with memory", len(readers), reading, hardware.training.gpu),
        Stage("memory removal", len(plan.memory_models()), LIGHT, 0),
        Stage(
            "predict",
            per_domain + len(plan.models()),
            START + generation(size, (held_out + config.filter.pool) / 2 * STEP, held_out * PROMPT),
            hardware.inference.gpu,
        ),
        Stage("copy", len(plan.models(COPY_METHOD)), LIGHT, 0),
        Stage(
            "score",
            len(plan.predictors()),
            START + 2 * reference * 2 * held_out * (PROMPT + STEP) / flops,
            hardware.inference.gpu,
        ),
        Stage(
            "perturb",
            len(domains),
            START
            + 2 * reference * config.audits.perturbed_samples * PERTURBED * ACTIONS * (PROMPT + STEP) / flops,
            hardware.inference.gpu,
        ),
        Stage("stress test and audits", 2, START, 0),
        Stage(
            "rollout real",
            len(domains) * len(study.agents),
            START + generation(reference, episode) + GAME_SECONDS * tasks,
            hardware.inference.gpu,
        ),
        Stage("rollout wm", cells, START + generation(size + reference, episode), hardware.inference.gpu),
        Stage("rollout plan", len(plan.plans()), START + planned, hardware.inference.gpu),
        Stage("replay", cells + len(domains) * len(study.agents), LIGHT + GAME_SECONDS * tasks, 0),
        Stage("consistency", cells, LIGHT, 0),
        Stage("statistics", 2, LIGHT, 0),
        Stage("report", 7, START, 0),
    ]


def _mean(values: list[int] | list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
