"""``wmlab rollout``: episodes in Real, in a world model, and replays of recorded actions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wmlab.cli.options import Memory, MemoryRecipeText, SkillRecipeText, Skills

app = typer.Typer(help="Episodes in Real, in a world model, and replays.", no_args_is_help=True)

AgentText = Annotated[str, typer.Option("--agent", help="Agent specification: JSON or a JSON file.")]
AgentModel = Annotated[Path | None, typer.Option("--agent-model", help="Model folder of an LM agent.")]
Panel = Annotated[Path, typer.Option("--panel", help="panel.json: the tasks, in order.")]
Out = Annotated[Path, typer.Option("--out", help="episodes.jsonl to write.")]
Cache = Annotated[Path, typer.Option("--cache", help="Folder of generated games.")]
Workers = Annotated[int, typer.Option("--workers", min=1, help="Environment processes.")]
StepCap = Annotated[int, typer.Option("--step-cap", min=1, help="Actions after which an episode is cut.")]
Threads = Annotated[int, typer.Option("--threads", min=1, help="CPU threads of the language models.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of scripted noise.")]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Episodes in lock-step.")]
CACHE = Path("results/cache")


@app.command()
def real(
    agent: AgentText,
    panel: Panel,
    out: Out,
    agent_model: AgentModel = None,
    cache: Cache = CACHE,
    workers: Workers = 2,
    step_cap: StepCap = 50,
    threads: Threads = 1,
    seed: Seed = 0,
    batch: Batch = 64,
    skills: Skills = None,
    skills_recipe: SkillRecipeText = "{}",
) -> None:
    """Let an agent play the panel in the real environment.

    Example: wmlab rollout real --agent '{"agent_id":"s","kind":"scripted"}' --panel panel.json --out real.jsonl
    """
    from wmlab.rollout.stages import run_real

    advice = (skills or [], skills_recipe)
    run_real(agent, agent_model, panel, out, cache, workers, step_cap, threads, seed, batch, advice)


@app.command()
def wm(
    model: Annotated[Path, typer.Option("--model", help="World model folder.")],
    agent: AgentText,
    panel: Panel,
    out: Out,
    agent_model: AgentModel = None,
    step_cap: StepCap = 50,
    threads: Threads = 1,
    seed: Seed = 0,
    batch: Batch = 64,
    memory: Memory = None,
    memory_recipe: MemoryRecipeText = "{}",
    skills: Skills = None,
    skills_recipe: SkillRecipeText = "{}",
) -> None:
    """Let an agent play the panel inside a world model.

    Example: wmlab rollout wm --model wm --agent agent.json --panel panel.json --out wm.jsonl
    """
    from wmlab.rollout.stages import run_world_model

    advice = (skills or [], skills_recipe)
    run_world_model(
        model, agent, agent_model, panel, out, step_cap, threads, seed, batch, memory, memory_recipe, advice
    )


@app.command()
def replay(
    episodes: Annotated[Path, typer.Option("--episodes", help="Recorded episodes.jsonl.")],
    panel: Panel,
    out: Out,
    cache: Cache = CACHE,
    workers: Workers = 2,
    step_cap: StepCap = 50,
    batch: Batch = 64,
) -> None:
    """Replay recorded actions in the real environment: W2R of WM episodes, the floor of Real ones.

    Example: wmlab rollout replay --episodes wm.jsonl --panel panel.json --out w2r.jsonl
    """
    from wmlab.rollout.stages import run_replay

    run_replay(episodes, panel, out, cache, workers, step_cap, batch)
