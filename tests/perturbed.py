"""Transitions made of recorded observations, for the tests of perturbations, stress test and audits."""

from __future__ import annotations

from typing import Any

from ssf_properties import recorded


def transition(domain: str, number: int, observation: str, next_action: str | None = None) -> dict[str, Any]:
    """A row of contract ``transitions`` whose history says nothing."""
    return {
        "transition_id": f"{domain}_{number}/step_000",
        "trajectory_id": f"{domain}_{number}",
        "domain": domain,
        "task_id": f"{domain}_{number}",
        "split": "test",
        "step": 0,
        "history": [{"role": "system", "content": "You start."}, {"role": "user", "content": "look"}],
        "action": "look",
        "action_type": "look",
        "observation": observation,
        "next_action": next_action,
        "is_terminal": next_action is None,
        "admissible": None,
    }


def transitions(domain: str) -> list[dict[str, Any]]:
    """All recorded observations of a domain, each as the answer to ``look``."""
    return [transition(domain, number, text) for number, text in enumerate(recorded(domain))]
