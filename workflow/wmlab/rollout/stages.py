"""The rollout commands' work: read and check the inputs, play, write episodes and provenance."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wmlab.agents.base import Agent
from wmlab.agents.registry import Weights, make_agent
from wmlab.config.decoding import Decoding
from wmlab.config.planners import PlannerSettings
from wmlab.config.recipes import AgentSpec, load_recipe
from wmlab.domains.base import EnvironmentBatch, Task
from wmlab.domains.panels import panel_agent, panel_domain, read_panel
from wmlab.domains.recovery import RecoveringPool
from wmlab.errors import InputError
from wmlab.io.fingerprint import fingerprint
from wmlab.io.provenance import run_key, write_meta
from wmlab.metrics.episodes import read_episodes
from wmlab.rollout.engine import rollout
from wmlab.rollout.kept import Kept
from wmlab.rollout.replay import RecordedAgent

WORLD_MODEL_TOKENS = 256
"""Longest predicted observation."""


@dataclass(frozen=True)
class Player:
    """An agent as a command names it: its specification, its model, and the skill banks that it reads."""

    spec: AgentSpec
    weights: Weights = field(default_factory=Weights)
    banks: Sequence[Path] = ()
    advice: str = "{}"

    @property
    def inputs(self) -> list[Path]:
        """Files that its play depends on."""
        return [*_weights(self.weights.folder), *self.banks]


@dataclass(frozen=True)
class World:
    """A world model as a command names it: a folder, or a model behind servers; its memory bank.

    ``folder`` of a served model has its tokenizer, which a memory's blocks are counted with.
    """

    folder: Path | None = None
    urls: Sequence[str] = ()
    name: str | None = None
    bank: Path | None = None
    shown: str = "{}"
    concurrency: int = 16

    @property
    def inputs(self) -> list[Path]:
        """Files that its predictions depend on."""
        return [*_weights(self.folder), *([self.bank] if self.bank else [])]

    @property
    def model_id(self) -> str:
        """Its name in records."""
        return "/".join(self.folder.parts[-2:]) if self.folder is not None else str(self.name)

    def check(self) -> None:
        """Raise InputError unless it is one model."""
        if self.urls and self.name is None and self.folder is None:
            raise InputError(
                "world model: --model-url needs --model-name, the model's name there, or its folder"
            )
        if not self.urls and self.folder is None:
            raise InputError("world model: give its folder, --model, or servers, --model-url")


@dataclass(frozen=True)
class Settings:
    """What all runs have: the panel (its first ``limit`` tasks), the result, the protocol."""

    panel: Path
    out: Path
    step_cap: int = 50
    batch: int = 64
    threads: int = 1
    seed: int = 0
    limit: int | None = None


@dataclass(frozen=True)
class Games:
    """Where real environments run: the folder of generated games, and how many processes."""

    cache: Path
    workers: int


def run_real(player: Player, settings: Settings, games: Games, kept: Path | None = None) -> None:
    """``wmlab rollout real``; no skill may come from a task of the panel.

    ``kept`` is a folder of finished runs that studies share: an equal run is taken from there, not played again.
    """
    _threads(player.spec, settings.threads)
    run = _Run(settings, "real", player.inputs, settings.seed)
    config = _config(player, settings)
    store = None
    if kept is not None:
        domain = run.tasks[0].domain
        code = fingerprint(
            "wmlab.rollout.stages:run_real",
            *(f"wmlab.domains.{domain}.{part}" for part in ("domain", "script")),
        )
        store = Kept(
            kept, run_key({**config, "step_cap": settings.step_cap, "code": code}, settings.seed, run.inputs)
        )
        if run.take(store, config, player.spec.agent_id):
            return
    agent = _player(player, run.tasks[0].domain, settings)
    with RecoveringPool(panel_domain(settings.panel, games.cache).open, games.workers) as pool:
        run.play(pool, agent, player.spec.agent_id, None, config)
    if store is not None:
        store.put(settings.out)


def run_world_model(player: Player, world: World, settings: Settings) -> None:
    """``wmlab rollout wm``; no entry of the bank and no skill may come from a task of the panel."""
    from wmlab.domains.world_model import WorldModelBatch

    world.check()
    _torch_threads(settings.threads)
    run = _Run(settings, "wm", [*world.inputs, *player.inputs], settings.seed)
    agent = _player(player, run.tasks[0].domain, settings)
    chat, memory = _open_world(world, run.tasks, settings.panel)
    config = {**_config(player, settings), "memory": world.shown}
    run.play(WorldModelBatch(chat, memory), agent, player.spec.agent_id, world.model_id, config)


def run_plan(
    player: Player, planner: PlannerSettings, world: World | None, settings: Settings, games: Games
) -> None:
    """``wmlab rollout plan``: the agent plays in Real and thinks ahead in ``world``, None: in Real itself."""
    from wmlab.agents.planning.registry import make_planner, make_policy
    from wmlab.agents.planning.simulator import EnvironmentSimulator, WorldModelSimulator

    if world is not None:
        world.check()
    _torch_threads(settings.threads)
    run = _Run(settings, "real", [*(world.inputs if world else []), *player.inputs], settings.seed)
    domain = run.tasks[0].domain
    policy = make_policy(player.spec, planner, domain, player.weights, panel_agent(settings.panel))
    config = _config(player, settings) | {"planner": planner.model_dump(mode="json")}
    real = panel_domain(settings.panel, games.cache)
    with RecoveringPool(real.open, games.workers) as pool:
        if world is None:
            oracle = EnvironmentSimulator(real.open, run.tasks)
            agent = _advised(player, make_planner(policy, planner, oracle), None, domain, settings)
            try:
                run.play(pool, agent, player.spec.agent_id, "oracle", config)
            finally:
                oracle.close()
            return
        chat, memory = _open_world(world, run.tasks, settings.panel)
        simulator = WorldModelSimulator(chat, run.tasks, memory)
        agent = _advised(player, make_planner(policy, planner, simulator), None, domain, settings)
        run.play(pool, agent, player.spec.agent_id, world.model_id, config | {"memory": world.shown})


def run_replay(episodes: Path, settings: Settings, games: Games) -> None:
    """``wmlab rollout replay``. Raises InputError when an episode of the panel is missing."""
    run = _Run(settings, "w2r", [episodes], None)
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
    with RecoveringPool(panel_domain(settings.panel, games.cache).open, games.workers) as pool:
        run.play(pool, RecordedAgent(recorded), first.agent_id, first.model_id, {})


class _Run:
    """What the commands have in common: the panel's tasks, the run's identity, the files."""

    def __init__(self, settings: Settings, mode: str, inputs: list[Path], seed: int | None) -> None:
        self.started = time.time()
        self.settings, self.mode, self.seed = settings, mode, seed
        self.tasks = read_panel(settings.panel)[: settings.limit]
        self.inputs = [settings.panel, *inputs]

    def play(
        self,
        environment: EnvironmentBatch,
        agent: Agent,
        agent_id: str,
        model_id: str | None,
        config: dict[str, Any],
    ) -> None:
        """Play all tasks, write the episodes and where they come from."""
        config = self._config(config)
        rows = rollout(
            environment,
            agent,
            self.tasks,
            mode=self.mode,
            agent_id=agent_id,
            model_id=model_id,
            step_cap=self.settings.step_cap,
            out=self.settings.out,
            batch_size=self.settings.batch,
            run=run_key(config, self.seed, self.inputs),
        )
        self._told(rows, config, {})

    def take(self, store: Kept, config: dict[str, Any], agent_id: str) -> bool:
        """Whether an equal run was kept; then its episodes are the result."""
        rows = store.take(self.settings.out, self.tasks, agent_id)
        if rows is None:
            return False
        self._told(rows, self._config(config), {"taken_from": store.path.name})
        return True

    def _config(self, config: dict[str, Any]) -> dict[str, Any]:
        return {
            **config,
            "mode": self.mode,
            "step_cap": self.settings.step_cap,
            **({} if self.settings.limit is None else {"limit": self.settings.limit}),
        }

    def _told(self, rows: Sequence[dict[str, Any]], config: dict[str, Any], extra: dict[str, Any]) -> None:
        errors = sum(row["status"] == "error" for row in rows)
        retries = sum(row.get("retries", 0) for row in rows)
        write_meta(
            self.settings.out,
            config=config,
            seed=self.seed,
            inputs=self.inputs,
            started=self.started,
            extra={"errors": errors, "retries": retries, **extra},
        )
        won = sum(row["success"] for row in rows)
        where = " (taken from an equal run)" if extra else ""
        print(f"{self.settings.out}: {won}/{len(rows)} won, {errors} errors, {retries} retries{where}")


def _config(player: Player, settings: Settings) -> dict[str, Any]:
    spec = player.spec.model_dump(mode="json", exclude_defaults=True)
    return {"agent": spec, "threads": settings.threads, "skills": player.advice}


def _player(player: Player, domain: str, settings: Settings) -> Agent:
    """The agent, with what it is advised."""
    agent = make_agent(player.spec, domain, player.weights, settings.seed, panel_agent(settings.panel))
    return _advised(player, agent, getattr(agent, "lm", None), domain, settings)


def _advised(player: Player, agent: Agent, lm: Any, domain: str, settings: Settings) -> Agent:
    """``agent``, reading the player's skill banks. Raises InputError when it is a script, which reads none."""
    if not player.banks:
        return agent
    if player.spec.kind == "scripted":
        raise InputError(f"agent {player.spec.agent_id}: a script reads no advice; leave out --skills")
    from wmlab.agents.advised import AdvisedAgent
    from wmlab.memory.guard import held_out
    from wmlab.memory.retrieve import estimated_tokens, tokens_of
    from wmlab.skills.guidance import open_guide

    tokenizer = _tokenizer(player, lm)
    count = estimated_tokens if tokenizer is None else tokens_of(tokenizer)
    guide = open_guide(domain, player.banks, player.advice, count, held_out([settings.panel]))
    return AdvisedAgent(agent, guide)


def _tokenizer(player: Player, lm: Any) -> Any:
    """The tokenizer that advice is counted with; None for a model elsewhere."""
    if lm is not None:
        return lm.tokenizer
    if player.weights.folder is None:
        return None
    from wmlab.lm.tokenizer import load_tokenizer

    return load_tokenizer(player.weights.folder)


def _open_world(world: World, tasks: Sequence[Task], panel: Path) -> tuple[Any, Any]:
    """(chat model, memory) of a world model; the memory None for one without."""
    from wmlab.lm.chat import LocalChat, ServedChat
    from wmlab.lm.hf import HFModel
    from wmlab.lm.tokenizer import load_tokenizer
    from wmlab.memory.context import open_memory
    from wmlab.memory.guard import held_out

    rows = [{"domain": task.domain} for task in tasks]
    if world.urls:
        name = world.name or (world.folder.name if world.folder is not None else "")
        decoding = Decoding(max_new_tokens=WORLD_MODEL_TOKENS)
        served = ServedChat(
            world.urls, name, world.model_id, decoding, purpose="world model", concurrency=world.concurrency
        )
        tokenizer = None if world.folder is None else load_tokenizer(world.folder)
        return served, open_memory(world.bank, world.shown, rows, panel, tokenizer, held_out([panel]))
    assert world.folder is not None  # checked
    lm = HFModel.load(world.folder, world.model_id)
    memory = open_memory(world.bank, world.shown, rows, panel, lm.tokenizer, held_out([panel]))
    return LocalChat(lm, WORLD_MODEL_TOKENS), memory


def player_of(agent: str, weights: Weights, banks: Sequence[Path] | None, advice: str) -> Player:
    """A player from a command's options. Raises InputError for a specification that is none."""
    return Player(load_recipe(AgentSpec, agent), weights, tuple(banks or ()), advice)


def _threads(spec: AgentSpec, threads: int) -> None:
    if spec.kind == "lm":
        _torch_threads(threads)


def _torch_threads(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


def _weights(model: Path | None) -> list[Path]:
    return [] if model is None else [model / "model.safetensors"]
