"""The rollout commands' work: read and check the inputs, play, write episodes and provenance."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from wmlab.agents.registry import make_agent
from wmlab.config.recipes import AgentSpec, load_recipe
from wmlab.domains.panels import panel_domain, read_panel
from wmlab.domains.workers import WorkerPool
from wmlab.errors import InputError
from wmlab.io.provenance import run_key, write_meta
from wmlab.metrics.episodes import read_episodes
from wmlab.rollout.engine import rollout
from wmlab.rollout.replay import RecordedAgent


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
) -> None:
    """``wmlab rollout real``."""
    started = time.time()
    tasks = read_panel(panel)
    spec = load_recipe(AgentSpec, agent_text)
    _threads(spec, threads)
    agent = make_agent(spec, tasks[0].domain, agent_model, seed)
    config = {"agent": spec.model_dump(mode="json"), "mode": "real", "step_cap": step_cap, "threads": threads}
    inputs = [panel, *_weights(agent_model)]
    with WorkerPool(panel_domain(panel, cache).open, workers) as pool:
        rows = rollout(
            pool,
            agent,
            tasks,
            mode="real",
            agent_id=spec.agent_id,
            model_id=None,
            step_cap=step_cap,
            out=out,
            batch_size=batch,
            run=run_key(config, seed, inputs),
        )
    _finish(out, rows, config, seed, inputs, started)


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
) -> None:
    """``wmlab rollout wm``."""
    import torch

    from wmlab.domains.world_model import WorldModelBatch
    from wmlab.lm.hf import HFModel

    started = time.time()
    tasks = read_panel(panel)
    spec = load_recipe(AgentSpec, agent_text)
    torch.set_num_threads(threads)
    agent = make_agent(spec, tasks[0].domain, agent_model, seed)
    lm = HFModel.load(model, "/".join(model.parts[-2:]))
    world = WorldModelBatch(lm)
    config = {"agent": spec.model_dump(mode="json"), "mode": "wm", "step_cap": step_cap, "threads": threads}
    inputs = [panel, *_weights(model), *_weights(agent_model)]
    rows = rollout(
        world,
        agent,
        tasks,
        mode="wm",
        agent_id=spec.agent_id,
        model_id=lm.model_id,
        step_cap=step_cap,
        out=out,
        batch_size=batch,
        run=run_key(config, seed, inputs),
    )
    _finish(out, rows, config, seed, inputs, started)


def run_replay(
    episodes: Path, panel: Path, out: Path, cache: Path, workers: int, step_cap: int, batch: int
) -> None:
    """``wmlab rollout replay``. Raises InputError when an episode of the panel is missing."""
    started = time.time()
    tasks = read_panel(panel)
    recorded = read_episodes(episodes, "real", "wm")
    missing = [task.task_id for task in tasks if task.task_id not in {e.item_id for e in recorded}]
    if missing:
        raise InputError.at(
            episodes,
            f"{len(missing)} tasks of the panel are missing ({missing[0]} …)",
            "finish that rollout first",
        )
    agent = RecordedAgent(recorded)
    config = {"mode": "w2r", "step_cap": step_cap}
    inputs = [panel, episodes]
    with WorkerPool(panel_domain(panel, cache).open, workers) as pool:
        rows = rollout(
            pool,
            agent,
            tasks,
            mode="w2r",
            agent_id=recorded[0].agent_id,
            model_id=recorded[0].model_id,
            step_cap=step_cap,
            out=out,
            batch_size=batch,
            run=run_key(config, None, inputs),
        )
    _finish(out, rows, config, None, inputs, started)


def _threads(spec: AgentSpec, threads: int) -> None:
    if spec.kind == "lm":
        import torch

        torch.set_num_threads(threads)


def _weights(model: Path | None) -> list[Path]:
    return [] if model is None else [model / "model.safetensors"]


def _finish(
    out: Path,
    rows: list[dict[str, Any]],
    config: dict[str, Any],
    seed: int | None,
    inputs: list[Path],
    started: float,
) -> None:
    write_meta(out, config=config, seed=seed, inputs=inputs, started=started)
    errors = sum(row["status"] == "error" for row in rows)
    won = sum(row["success"] for row in rows)
    print(f"{out}: {won}/{len(rows)} won, {errors} errors")
