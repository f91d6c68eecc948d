"""``wmlab rollout``: episodes in Real, in a world model, with planning, and replays of recorded actions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wmlab.cli.options import Memory, MemoryRecipeText, SkillRecipeText, Skills

app = typer.Typer(
    help="Episodes in Real, in a world model, with planning, and replays.", no_args_is_help=True
)

AgentText = Annotated[str, typer.Option("--agent", help="Agent specification: JSON or a JSON file.")]
AgentModel = Annotated[Path | None, typer.Option("--agent-model", help="Model folder of an LM agent.")]
AgentUrls = Annotated[
    list[str] | None,
    typer.Option("--agent-url", help="OpenAI-compatible server, …/v1, of a served agent; repeatable."),
]
ModelUrls = Annotated[
    list[str] | None,
    typer.Option("--model-url", help="OpenAI-compatible server, …/v1, of the world model; repeatable."),
]
ModelName = Annotated[
    str | None, typer.Option("--model-name", help="The world model's name there; default: its folder's.")
]
Model = Annotated[Path | None, typer.Option("--model", help="World model folder.")]
Concurrency = Annotated[int, typer.Option("--concurrency", min=1, help="Requests under way at a server.")]
Panel = Annotated[Path, typer.Option("--panel", help="panel.json: the tasks, in order.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Only the panel's first tasks.")]
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
    agent_url: AgentUrls = None,
    concurrency: Concurrency = 16,
    cache: Cache = CACHE,
    workers: Workers = 2,
    step_cap: StepCap = 50,
    threads: Threads = 1,
    seed: Seed = 0,
    batch: Batch = 64,
    limit: Limit = None,
    skills: Skills = None,
    skills_recipe: SkillRecipeText = "{}",
    kept: Annotated[
        Path | None, typer.Option("--kept", help="Folder of finished runs: an equal one is taken from there.")
    ] = None,
) -> None:
    """Let an agent play the panel in the real environment.

    Example: wmlab rollout real --agent '{"agent_id":"s","kind":"scripted"}' --panel panel.json --out real.jsonl
    """
    from wmlab.agents.registry import Weights
    from wmlab.rollout.stages import Games, Settings, player_of, run_real

    weights = Weights(agent_model, tuple(agent_url or ()), concurrency)
    run_real(
        player_of(agent, weights, skills, skills_recipe),
        Settings(panel, out, step_cap, batch, threads, seed, limit),
        Games(cache, workers),
        kept,
    )


@app.command()
def wm(
    agent: AgentText,
    panel: Panel,
    out: Out,
    model: Model = None,
    model_url: ModelUrls = None,
    model_name: ModelName = None,
    agent_model: AgentModel = None,
    agent_url: AgentUrls = None,
    concurrency: Concurrency = 16,
    step_cap: StepCap = 50,
    threads: Threads = 1,
    seed: Seed = 0,
    batch: Batch = 64,
    limit: Limit = None,
    memory: Memory = None,
    memory_recipe: MemoryRecipeText = "{}",
    skills: Skills = None,
    skills_recipe: SkillRecipeText = "{}",
) -> None:
    """Let an agent play the panel inside a world model.

    Example: wmlab rollout wm --model wm --agent agent.json --panel panel.json --out wm.jsonl
    """
    from wmlab.agents.registry import Weights
    from wmlab.rollout.stages import Settings, World, player_of, run_world_model

    weights = Weights(agent_model, tuple(agent_url or ()), concurrency)
    run_world_model(
        player_of(agent, weights, skills, skills_recipe),
        World(model, tuple(model_url or ()), model_name, memory, memory_recipe, concurrency),
        Settings(panel, out, step_cap, batch, threads, seed, limit),
    )


@app.command()
def plan(
    agent: AgentText,
    planner: Annotated[str, typer.Option("--planner", help="Planner settings: JSON or a JSON file.")],
    panel: Panel,
    out: Out,
    model: Model = None,
    model_url: ModelUrls = None,
    model_name: ModelName = None,
    oracle: Annotated[
        bool, typer.Option("--oracle", help="The real environment as the world model: an upper bound.")
    ] = False,
    agent_model: AgentModel = None,
    agent_url: AgentUrls = None,
    concurrency: Concurrency = 16,
    cache: Cache = CACHE,
    workers: Workers = 2,
    step_cap: StepCap = 50,
    threads: Threads = 1,
    seed: Seed = 0,
    batch: Batch = 64,
    limit: Limit = None,
    memory: Memory = None,
    memory_recipe: MemoryRecipeText = "{}",
    skills: Skills = None,
    skills_recipe: SkillRecipeText = "{}",
) -> None:
    """Let an agent play the panel in the real environment, trying actions in a world model first.

    Example: wmlab rollout plan --planner '{"kind":"lookahead"}' --model wm --agent agent.json --panel panel.json
    --out plan.jsonl
    """
    from wmlab.agents.registry import Weights
    from wmlab.config.planners import PlannerSettings
    from wmlab.config.recipes import load_recipe
    from wmlab.errors import InputError
    from wmlab.rollout.stages import Games, Settings, World, player_of, run_plan

    if oracle and (model is not None or model_url or memory is not None):
        raise InputError("--oracle is a world model of its own; leave out --model, --model-url and --memory")
    world = None
    if not oracle:
        world = World(model, tuple(model_url or ()), model_name, memory, memory_recipe, concurrency)
    weights = Weights(agent_model, tuple(agent_url or ()), concurrency)
    run_plan(
        player_of(agent, weights, skills, skills_recipe),
        load_recipe(PlannerSettings, planner),
        world,
        Settings(panel, out, step_cap, batch, threads, seed, limit),
        Games(cache, workers),
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
    from wmlab.rollout.stages import Games, Settings, run_replay

    run_replay(episodes, Settings(panel, out, step_cap, batch), Games(cache, workers))
