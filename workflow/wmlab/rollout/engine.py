"""The one rollout loop: an agent in Real, in a world model, or a recorded action list in Real (W2R).

Episodes run in lock-step batches, so that one LM call serves all of them. Finished batches are
appended to a partial file and a killed run resumes after them; the result file appears whole.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wmlab.agents.base import Agent, Decision, Message, Turn
from wmlab.domains.base import EnvironmentBatch, Task
from wmlab.io.atomic import write_json
from wmlab.io.jsonl import JsonlAppender, write_jsonl
from wmlab.io.progress import Progress


@dataclass
class _Running:
    """One episode under way."""

    task: Task
    messages: list[Message]
    actions: list[str] = field(default_factory=list)
    advice: list[dict[str, Any]] = field(default_factory=list)
    plan: list[Any] = field(default_factory=list)
    reward: float = 0.0
    score: float = 0.0
    success: bool = False
    status: str = ""
    error: str | None = None
    agent_tokens: int = 0
    model_tokens: int = 0
    retries: int = 0
    started: float = field(default_factory=time.monotonic)
    seconds: float = 0.0

    def end(self, status: str, error: str | None = None) -> None:
        self.status, self.error = status, error
        self.seconds = time.monotonic() - self.started


def rollout(
    environment: EnvironmentBatch,
    agent: Agent,
    tasks: Sequence[Task],
    *,
    mode: str,
    agent_id: str,
    model_id: str | None,
    step_cap: int,
    out: Path,
    batch_size: int,
    run: str = "",
) -> list[dict[str, Any]]:
    """Play every task and write ``out`` (contract episodes.jsonl), tasks in panel order.

    ``run`` identifies agent, model, panel and cap (``provenance.run_key``): the partial file carries it in
    its name, so a changed run never continues another one's episodes.
    A failing environment ends its own episode with status ``error``; no episode is dropped. ``retries`` of a
    row counts how often its environment's process died and the episode was played again in another one; its
    ``advice`` names the skill entries an agent was shown, {step, entries} for each step (0-based) that had new ones;
    ``plan`` is what a planner considered, a step each. Seconds are not of the result, which is the same bytes
    whenever it is computed: they are in ``<out>.timing.json``, those of the episodes that this run played.
    """
    partial = out.with_name(f".{out.name}.{run[:16]}.partial")
    seconds: dict[str, float] = {}
    with JsonlAppender(partial) as done:
        finished = {row["item_id"] for row in done}
        left = [task for task in tasks if task.task_id not in finished]
        found = len(tasks) - len(left)
        progress = Progress(f"rollout {mode} {agent_id}", len(tasks), "episodes", done=found)
        for start in range(0, len(left), batch_size):
            batch = left[start : start + batch_size]
            for episode in _play(environment, agent, batch, step_cap, progress):
                seconds[episode.task.task_id] = round(episode.seconds, 3)
                done.append(_record(episode, mode, agent_id, model_id))
        rows = {row["item_id"]: row for row in done}
    ordered = [rows[task.task_id] for task in tasks]
    write_json(out.with_name(f"{out.name}.timing.json"), {"schema": 1, "seconds": seconds})
    write_jsonl(out, ordered)
    partial.unlink()
    return ordered


def _play(
    environment: EnvironmentBatch, agent: Agent, tasks: Sequence[Task], step_cap: int, progress: Progress
) -> Iterator[_Running]:
    """Yield the episodes of one lock-step batch as they end."""
    episodes: list[_Running] = []
    for task, first in zip(tasks, environment.reset(tasks), strict=True):
        episode = _Running(task, [{"role": "system", "content": agent.system_prompt}])
        if isinstance(first, Exception):
            episode.end("error", str(first))
        else:
            episode.messages.append({"role": "user", "content": first.text})
            if not agent.left(task.task_id, 0):
                episode.end("finished")
        episodes.append(episode)
    running = []
    for index, episode in enumerate(episodes):
        if episode.status:
            episode.retries = _retries(environment, index)
            progress.update()
            yield episode
        else:
            running.append(index)
    for _ in range(step_cap):
        if not running:
            break
        turns = [Turn(episodes[i].task.task_id, episodes[i].messages) for i in running]
        decisions = agent.act(turns)
        actions = {index: d.action for index, d in zip(running, decisions, strict=True) if d.error is None}
        answers = environment.step(actions)
        ended = []
        for index, decision in zip(running, decisions, strict=True):
            episode = episodes[index]
            if decision.error is not None:
                episode.end("error", decision.error)
            else:
                _advance(episode, decision, answers[index], environment, index)
            if not episode.status and len(episode.actions) == step_cap:
                episode.end("step_cap")
            elif not episode.status and not agent.left(episode.task.task_id, len(episode.actions)):
                # A recording that ends before the game does: the task is not solved.
                episode.end("finished")
            if episode.status:
                ended.append(index)
        if ended:
            for index in ended:
                episodes[index].retries = _retries(environment, index)
            environment.release(ended)
            agent.finish([episodes[i].task.task_id for i in ended])
            running = [index for index in running if index not in ended]
            for index in ended:
                progress.update(1, note=f"{sum(e.success for e in episodes)} won in this batch")
                yield episodes[index]


def _retries(environment: EnvironmentBatch, index: int) -> int:
    """How often an episode of the batch was started again; 0 where environments cannot be lost."""
    counts: dict[int, int] = getattr(environment, "retries", {})
    return counts.get(index, 0)


def _advance(
    episode: _Running, decision: Decision, answer: Any, environment: EnvironmentBatch, index: int
) -> None:
    episode.messages.append({"role": "assistant", "content": decision.output})
    if decision.advice:
        episode.advice.append({"step": len(episode.actions), "entries": list(decision.advice)})
    if decision.plan is not None:
        episode.plan.append({"step": len(episode.actions), **decision.plan})
    episode.actions.append(decision.action)
    episode.agent_tokens += decision.n_tokens
    if isinstance(answer, Exception):
        episode.end("error", str(answer))
        return
    episode.messages.append({"role": "user", "content": answer.observation})
    episode.reward = answer.reward
    episode.score += answer.reward
    episode.success = answer.success
    counts = getattr(environment, "n_tokens", None)
    if counts is not None:
        episode.model_tokens = counts[index]
    if answer.done:
        episode.end("finished")


def _record(episode: _Running, mode: str, agent_id: str, model_id: str | None) -> dict[str, Any]:
    return {
        "item_id": episode.task.task_id,
        "task_sha256": episode.task.sha256,
        "mode": mode,
        "agent_id": agent_id,
        "model_id": model_id,
        "messages": episode.messages,
        "actions": episode.actions,
        "reward": episode.reward,
        "score": episode.score,
        "success": episode.success,
        "status": episode.status,
        "n_steps": len(episode.actions),
        "error": episode.error,
        "retries": episode.retries,
        "advice": episode.advice,
        "plan": episode.plan,
        "timing": {},
        "tokens": {"agent": episode.agent_tokens, "world_model": episode.model_tokens},
    }
