"""What planning gives: an agent that plans against the same agent that does not, on the same tasks in Real.

behr.txt, Tables 6 and 21 (success with and without lookahead, paired McNemar test); memwm.txt, Table 2 (success and
steps of solved tasks). Beside the gain stands its price: calls and tokens a step, and how often a planner's question
got an answer that could not be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from wmlab.agents.planning.requests import tally
from wmlab.errors import InputError
from wmlab.metrics.consistency import wilson
from wmlab.metrics.episodes import Episode
from wmlab.stats.mcnemar import discordant, mcnemar

PLANNING_KEYS = (
    "planner",
    "world_model",
    "n",
    "SR_plan",
    "SR_base",
    "difference",
    "mcnemar",
    "cost",
    "steps",
)
RESAMPLES = 10_000


def planning_gain(
    tasks: Sequence[str],
    base: Sequence[Episode],
    planned: Sequence[Episode],
    source: object,
    seed: int = 0,
) -> dict[str, Any]:
    """Success with and without planning over ``tasks``, their difference, and the cost of a step.

    An errored episode is a failure and is counted. Raises InputError when a task has no episode on either side.
    """
    alone, ahead = _by_task(base), _by_task(planned)
    lacking = [task for task in tasks if task not in alone or task not in ahead]
    if lacking:
        raise InputError.at(
            source, f"{len(lacking)} tasks have no pair of episodes ({lacking[0]} …)", "run both"
        )
    won_alone = [alone[task].succeeded for task in tasks]
    won_ahead = [ahead[task].succeeded for task in tasks]
    gained, lost = discordant(won_ahead, won_alone)
    test = mcnemar(gained, lost)
    both = [ahead[task] for task in tasks]
    return {
        "n": len(tasks),
        "n_error": sum(alone[t].status == "error" or ahead[t].status == "error" for t in tasks),
        "SR_plan": fmean(won_ahead),
        "SR_base": fmean(won_alone),
        "SR_plan_ci": wilson(sum(won_ahead), len(tasks)),
        "SR_base_ci": wilson(sum(won_alone), len(tasks)),
        "difference": fmean(won_ahead) - fmean(won_alone),
        "difference_ci": _interval(won_ahead, won_alone, seed),
        "bootstrap": {"resamples": RESAMPLES, "seed": seed, "over": "tasks"},
        "mcnemar": {"plan_only": gained, "base_only": lost, "p": test.p, "method": test.method},
        "steps": {"plan": _steps(both), "base": _steps([alone[task] for task in tasks])},
        "cost": _cost(both),
        "tasks": [
            {"item_id": task, "base": alone[task].succeeded, "plan": ahead[task].succeeded} for task in tasks
        ],
    }


def _by_task(episodes: Sequence[Episode]) -> Mapping[str, Episode]:
    return {episode.item_id: episode for episode in episodes}


def _interval(first: Sequence[bool], second: Sequence[bool], seed: int) -> list[float]:
    """Percentile 95 % bootstrap interval of the paired difference over tasks."""
    differences = np.array(first, dtype=float) - np.array(second, dtype=float)
    rng = np.random.default_rng(seed)
    drawn = differences[rng.integers(len(differences), size=(RESAMPLES, len(differences)))].mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return [float(low), float(high)]


def _steps(episodes: Sequence[Episode]) -> dict[str, float | None]:
    """Mean steps of all episodes that did not error, and of the solved ones."""
    played = [one.n_steps for one in episodes if one.status != "error"]
    solved = [one.n_steps for one in episodes if one.succeeded]
    return {"all": fmean(played) if played else None, "solved": fmean(solved) if solved else None}


def _cost(episodes: Sequence[Episode]) -> dict[str, Any]:
    """Calls and tokens a planned step, over all episodes."""
    total: Counter[str] = Counter()
    steps = fallbacks = 0
    for episode in episodes:
        total += tally(episode.plan)
        steps += len(episode.plan)
        fallbacks += sum(int(step.get("fallbacks", 0)) for step in episode.plan)
    names = ("policy_calls", "world_model_calls", "policy_tokens", "world_model_tokens")
    return {
        "steps": steps,
        "fallbacks": fallbacks,
        "a_step": {name: total[name] / steps if steps else None for name in names},
        "total": {name: total[name] for name in names},
    }
