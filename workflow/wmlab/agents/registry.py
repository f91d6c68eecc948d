"""Agents from their specification (``wmlab rollout --agent``)."""

from __future__ import annotations

from pathlib import Path

from wmlab.agents.base import Agent
from wmlab.config.recipes import AgentSpec
from wmlab.errors import InputError


def make_agent(spec: AgentSpec, domain: str, model_dir: Path | None, seed: int) -> Agent:
    """Build an agent. Raises InputError when an LM agent has no model or a scripted one has."""
    if spec.kind == "scripted":
        from wmlab.agents.scripted import ScriptedAgent

        if model_dir is not None:
            raise InputError(f"agent {spec.agent_id}: scripted agents take no model; leave out --agent-model")
        return ScriptedAgent(domain, epsilon=spec.epsilon, seed=seed)
    from wmlab.agents.language_model import LanguageModelAgent
    from wmlab.lm.hf import HFModel

    if model_dir is None:
        raise InputError(f"agent {spec.agent_id}: a language model agent needs --agent-model DIR")
    return LanguageModelAgent(HFModel.load(model_dir, spec.agent_id), domain, choose=spec.choose)
