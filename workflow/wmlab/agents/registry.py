"""Agents from their specification (``wmlab rollout --agent``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wmlab.agents.base import Agent
from wmlab.config.recipes import AgentSpec
from wmlab.errors import InputError

if TYPE_CHECKING:
    from wmlab.agents.prompts import Prompting
    from wmlab.lm.chat import ChatModel
    from wmlab.lm.hf import HFModel


@dataclass(frozen=True)
class Weights:
    """Where an agent's model is: a folder, or servers; neither for a script."""

    folder: Path | None = None
    urls: Sequence[str] = ()
    concurrency: int = 16

    def check(self, spec: AgentSpec) -> None:
        """Raise InputError unless they are what the kind of agent needs."""
        named = f"agent {spec.agent_id}"
        if spec.kind == "scripted" and (self.folder is not None or self.urls):
            raise InputError(
                f"{named}: scripted agents take no model; leave out --agent-model and --agent-url"
            )
        if spec.kind == "lm" and (self.folder is None or self.urls):
            raise InputError(f"{named}: a language model agent needs --agent-model DIR, and no --agent-url")
        if spec.kind == "served" and (not self.urls or self.folder is not None):
            raise InputError(f"{named}: a served agent needs --agent-url, and no --agent-model")


def make_agent(
    spec: AgentSpec, domain: str, weights: Weights, seed: int, told: dict[str, str] | None = None
) -> Agent:
    """Build an agent; ``told`` is what the panel's initial contexts say to agents, {} without any.

    Raises InputError when an agent lacks what it needs, or has what it cannot use.
    """
    weights.check(spec)
    if spec.kind == "scripted":
        from wmlab.agents.scripted import ScriptedAgent

        return ScriptedAgent(domain, epsilon=spec.epsilon, seed=seed)
    if spec.choose:
        from wmlab.agents.language_model import ChoosingAgent

        return ChoosingAgent(open_model(spec, weights), domain, spec.max_new_tokens)
    from wmlab.agents.language_model import ChatAgent

    return ChatAgent(open_chat(spec, weights), prompting_of(spec, domain, told or {}))


def open_model(spec: AgentSpec, weights: Weights) -> HFModel:
    """The model of an agent of kind lm."""
    from wmlab.lm.hf import HFModel

    assert weights.folder is not None  # checked
    return HFModel.load(weights.folder, spec.agent_id)


def open_chat(spec: AgentSpec, weights: Weights) -> ChatModel:
    """The model that an agent writes with."""
    from wmlab.lm.chat import LocalChat, ServedChat

    if spec.model is None:
        return LocalChat(open_model(spec, weights), spec.max_new_tokens)
    concurrency = weights.concurrency
    return ServedChat(weights.urls, spec.model, spec.agent_id, spec.decoding, concurrency=concurrency)


def prompting_of(spec: AgentSpec, domain: str, told: dict[str, str]) -> Prompting:
    """How an agent is told to act. Raises InputError when the panel should say so and does not."""
    from wmlab.agents.prompts import Prompting

    chosen = spec.prompting
    prompt = told.get("prompt") if chosen.source == "panel" else None
    if chosen.source == "panel" and not prompt:
        raise InputError(
            f"agent {spec.agent_id}: its prompt is the panel's, which has none; "
            "make the panel from initial contexts (wmlab data import-contexts) or take `source: own`"
        )
    return Prompting.of(domain, chosen.style, prompt=prompt, acknowledged=chosen.opening == "acknowledged")
