"""Planning agents from their settings (``wmlab rollout plan --planner``)."""

from __future__ import annotations

from wmlab.agents.planning.itp import Itp
from wmlab.agents.planning.lookahead import Lookahead
from wmlab.agents.planning.mcts import Rap
from wmlab.agents.planning.planner import Method, PlanningAgent
from wmlab.agents.planning.requests import Policy, Simulator
from wmlab.agents.registry import Weights, open_chat, open_model, prompting_of
from wmlab.config.planners import PlannerSettings
from wmlab.config.recipes import AgentSpec
from wmlab.errors import InputError


def method_of(planner: PlannerSettings) -> Method:
    """The planner of these settings."""
    if planner.kind == "rap":
        return Rap(
            planner.iterations,
            planner.candidates,
            planner.depth,
            planner.exploration,
            planner.discount,
            planner.itp_compat,
        )
    if planner.kind == "itp":
        return Itp(planner.depth, planner.adaptive)
    decide = "choose" if planner.kind == "lookahead" else "rate"
    return Lookahead(planner.candidates, decide, planner.block_loops, planner.force_options)  # type: ignore[arg-type]


def make_policy(
    spec: AgentSpec, planner: PlannerSettings, domain: str, weights: Weights, told: dict[str, str]
) -> Policy:
    """Who proposes and judges. Raises InputError for an agent that cannot."""
    weights.check(spec)
    if planner.judge == "prompted":
        from wmlab.agents.planning.prompted import PromptedPolicy

        if spec.kind == "scripted" or spec.choose:
            raise InputError(
                f"agent {spec.agent_id}: it follows no instructions; plan with `judge: likelihood`, or another agent"
            )
        return PromptedPolicy(open_chat(spec, weights), prompting_of(spec, domain, told), domain)
    from wmlab.agents.language_model import ChoosingAgent
    from wmlab.agents.planning.likelihood import LikelihoodPolicy

    if spec.kind != "lm" or not spec.choose:
        raise InputError(
            f"agent {spec.agent_id}: `judge: likelihood` reads the likelihoods of an agent of kind lm that chooses; "
            "take `judge: prompted`, or another agent"
        )
    return LikelihoodPolicy(ChoosingAgent(open_model(spec, weights), domain, spec.max_new_tokens))


def make_planner(policy: Policy, planner: PlannerSettings, simulator: Simulator) -> PlanningAgent:
    """The agent that plays."""
    return PlanningAgent(method_of(planner), policy, simulator)
