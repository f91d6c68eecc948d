"""The rollout commands' work: read and check the inputs, play, write episodes and provenance."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wmlab.agents.base import Agent
from wmlab.agents.registry import make_agent
from wmlab.config.recipes import AgentSpec, load_recipe
from wmlab.domains.base import EnvironmentBatch
from wmlab.domains.panels import panel_domain, read_panel
from wmlab.domains.recovery import RecoveringPool
from wmlab.errors import InputError
from wmlab.io.provenance import run_key, write_meta
from wmlab.metrics.episodes import read_episodes
from wmlab.rollout.engine import rollout
from wmlab.rollout.replay import RecordedAgent

Advice = tuple[Sequence[Path], str]
"""Skill banks that the agent reads, and the recipe of what it is shown."""
NO_ADVICE: Advice = ((), "{}")


def run_real(
    agent_text: str,
    agent_model: Path | None,
    panel: Path,
    out: Path,
    cache: Path,
    workers: int,
    step_cap: int,
    threads: int,
    seed: int,
    batch: int,
    advice: Advice = NO_ADVICE,
) -> None:
    """``wmlab rollout real``; no skill may come from a task of the panel."""
    spec = load_recipe(AgentSpec, agent_text)
    _threads(spec, threads)
    run = _Run(panel, out, "real", step_cap, batch, [*_weights(agent_model), *advice[0]], seed)
    agent = _player(spec, run.tasks[0].domain, agent_model, seed, panel, advice)
    config = {"agent": spec.model_dump(mode="json"), "threads": threads, "skills": advice[1]}
    with RecoveringPool(panel_domain(panel, cache).open, workers) as pool:
        run.play(pool, agent, spec.agent_id, None, config)


def run_world_model(
    model: Path,
    agent_text: str,
    agent_model: Path | None,
    panel: Path,
    out: Path,
    step_cap: int,
    threads: int,
    seed: int,
    batch: int,
    bank: Path | None = None,
    shown: str = "{}",
    advice: Advice = NO_ADVICE,
) -> None:
    """``wmlab rollout wm``; no entry of ``bank`` and no skill may come from a task of the panel."""
    import torch

    from wmlab.domains.world_model import WorldModelBatch
    from wmlab.lm.hf import HFModel
    from wmlab.memory.context import open_memory
    from wmlab.memory.guard import held_out

    spec = load_recipe(AgentSpec, agent_text)
    torch.set_num_threads(threads)
    inputs = [*_weights(model), *_weights(agent_model), *([bank] if bank else []), *advice[0]]
    run = _Run(panel, out, "wm", step_cap, batch, inputs, seed)
    agent = _player(spec, run.tasks[0].domain, agent_model, seed, panel, advice)
    lm = HFModel.load(model, "/".join(model.parts[-2:]))
    tasks = [{"domain": task.domain} for task in run.tasks]
    memory = open_memory(bank, shown, tasks, panel, lm.tokenizer, held_out([panel]))
    config = {
        "agent": spec.model_dump(mode="json"),
        "threads": threads,
        "memory": shown,
        "skills": advice[1],
    }
    run.play(WorldModelBatch(lm, memory=memory), agent, spec.agent_id, lm.model_id, config)


def run_replay(
    episodes: Path, panel: Path, out: Path, cache: Path, workers: int, step_cap: int, batch: int
) -> None:
    """``wmlab rollout replay``. Raises InputError when an episode of the panel is missing."""
    run = _Run(panel, out, "w2r", step_cap, batch, [episodes], None)
    recorded = read_episodes(episodes, "real", "wm")
    there = {episode.item_id for episode in recorded}
    missing = [task.task_id for task in run.tasks if task.task_id not in there]
    if missing:
        raise InputError.at(
            episodes,
            f"{len(missing)} tasks of the panel are missing ({missing[0]} …)",
            "finish that rollout first",
        )
    first = recorded[0]
    with RecoveringPool(panel_domain(panel, cache).open, workers) as pool:
        run.play(pool, RecordedAgent(recorded), first.agent_id, first.model_id, {})


class _Run:
    """What the three commands have in common: the panel's tasks, the run's identity, the files."""

    def __init__(
        self,
        panel: Path,
        out: Path,
        mode: str,
        step_cap: int,
        batch: int,
        inputs: list[Path],
        seed: int | None,
    ) -> None:
        self.started = time.time()
        self.tasks = read_panel(panel)
        self.out, self.mode, self.step_cap, self.batch, self.seed = out, mode, step_cap, batch, seed
        self.inputs = [panel, *inputs]

    def play(
        self,
        environment: EnvironmentBatch,
        agent: Agent,
        agent_id: str,
        model_id: str | None,
        config: dict[str, Any],
    ) -> None:
        """Play all tasks, write the episodes and where they come from."""
        config = {**config, "mode": self.mode, "step_cap": self.step_cap}
        rows = rollout(
            environment,
            agent,
            self.tasks,
            mode=self.mode,
            agent_id=agent_id,
            model_id=model_id,
            step_cap=self.step_cap,
            out=self.out,
            batch_size=self.batch,
            run=run_key(config, self.seed, self.inputs),
        )
        errors = sum(row["status"] == "error" for row in rows)
        retries = sum(row.get("retries", 0) for row in rows)
        write_meta(
            self.out,
            config=config,
            seed=self.seed,
            inputs=self.inputs,
            started=self.started,
            extra={"errors": errors, "retries": retries},
        )
        won = sum(row["success"] for row in rows)
        print(f"{self.out}: {won}/{len(rows)} won, {errors} errors, {retries} retries")


def _player(
    spec: AgentSpec, domain: str, model: Path | None, seed: int, panel: Path, advice: Advice
) -> Agent:
    """The agent, with what it is advised. Raises InputError when a scripted one has skills."""
    from wmlab.agents.language_model import LanguageModelAgent

    agent = make_agent(spec, domain, model, seed)
    banks, recipe = advice
    if not banks:
        return agent
    if not isinstance(agent, LanguageModelAgent):
        raise InputError(f"agent {spec.agent_id}: a script reads no advice; leave out --skills")
    from wmlab.agents.advised import AdvisedAgent
    from wmlab.memory.guard import held_out
    from wmlab.memory.retrieve import tokens_of
    from wmlab.skills.guidance import open_guide

    guide = open_guide(domain, banks, recipe, tokens_of(agent.lm.tokenizer), held_out([panel]))
    return AdvisedAgent(agent, guide)


def _threads(spec: AgentSpec, threads: int) -> None:
    if spec.kind == "lm":
        import torch

        torch.set_num_threads(threads)


def _weights(model: Path | None) -> list[Path]:
    return [] if model is None else [model / "model.safetensors"]
