"""What a memory-augmented world model loses without its memory (memwm.txt, Figures 4 and 6).

Greedy predictions of one transition do not depend on those of another, so two runs of the single-step
evaluation, with blocks and without, hold every share of task-level removal between them: a task that the share
takes counts with its prediction without memory. Intervals are percentiles over resampled tasks, pairs kept.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wmlab.errors import InputError
from wmlab.memory.prompt import dropped
from wmlab.metrics.ssf import ssf
from wmlab.metrics.text import exact_match, rouge_l, token_f1

METRICS = ("ssf", "em", "f1", "rouge_l")
RESAMPLES = 10_000
REMOVAL_KEYS = (
    *("n", "n_tasks", "n_with_block", "mean_tokens", "metrics", "found", "levels", "tasks", "removal"),
)
Scores = Mapping[str, Mapping[str, float]]
"""Transition to metric to score."""


def _scored(predictions: Sequence[Mapping[str, Any]], gold: Mapping[str, Mapping[str, Any]]) -> Scores:
    found = {}
    for row in predictions:
        truth = gold[row["transition_id"]]
        said, real = row["prediction"], truth["observation"]
        found[row["transition_id"]] = {
            "ssf": float(ssf(truth["domain"], said, real)),
            "em": float(exact_match(said, real)),
            "f1": token_f1(said, real),
            "rouge_l": rouge_l(said, real),
        }
    return found


def removed(
    predictions: Sequence[Mapping[str, Any]],
    without: Sequence[Mapping[str, Any]],
    records: Sequence[Mapping[str, Any]],
    transitions: Sequence[Mapping[str, Any]],
    shares: Sequence[float],
    seed: int,
    source: object,
) -> dict[str, Any]:
    """Means with and without memory, SSF by how the memory was found, and at every share of removal.

    ``records`` are retrieval records by transition; ``tasks`` has a task's number of transitions and its sums of
    SSF with memory and without. Raises InputError naming ``source`` when predictions with
    and without memory, records and transitions are not of the same rows.
    """
    gold = {row["transition_id"]: row for row in transitions}
    how = {row["transition_id"]: row for row in records}
    names = [row["transition_id"] for row in predictions]
    same = set(names) == {row["transition_id"] for row in without} == set(how)
    if not names or not same or not set(names) <= set(gold):
        problem = "predictions with and without memory, records and transitions are not of the same rows"
        raise InputError.at(source, problem, "predict them in one run")
    told, bare = _scored(predictions, gold), _scored(without, gold)
    tasks = {name: gold[name]["task_id"] for name in names}
    by_task: dict[str, list[str]] = defaultdict(list)
    for name in names:
        by_task[tasks[name]].append(name)
    ways = Counter(how[name]["how"] for name in names)
    return {
        "n": len(names),
        "n_tasks": len(by_task),
        "n_with_block": sum(how[name]["n_tokens"] > 0 for name in names),
        "mean_tokens": float(np.mean([how[name]["n_tokens"] for name in names])),
        "seed": seed,
        "metrics": {
            metric: _compared(metric, told, bare, list(by_task.values()), seed) for metric in METRICS
        },
        "found": {
            way: {"n": n, **_means([name for name in names if how[name]["how"] == way], told, bare)}
            for way, n in sorted(ways.items())
        },
        "levels": dict(sorted(_levels(records).items())),
        "tasks": {
            task: [len(group), *(sum(found[name]["ssf"] for name in group) for found in (told, bare))]
            for task, group in sorted(by_task.items())
        },
        "removal": [{"share": share, "ssf": _mixed(share, told, bare, by_task, seed)} for share in shares],
    }


def _levels(records: Sequence[Mapping[str, Any]]) -> Counter[str]:
    """Matches in blocks by the fields of their key; ``bm25`` for the last resort."""
    return Counter(
        "bm25" if match["level"] < 0 else match["fields"]
        for record in records
        for match in record["matches"]
        if match["status"] != "over_budget"
    )


def _means(names: Sequence[str], told: Scores, bare: Scores) -> dict[str, float]:
    return {
        "with": float(np.mean([told[name]["ssf"] for name in names])),
        "without": float(np.mean([bare[name]["ssf"] for name in names])),
    }


def _compared(
    metric: str, told: Scores, bare: Scores, groups: Sequence[Sequence[str]], seed: int
) -> dict[str, Any]:
    """Means over transitions, and the 95 % interval of their difference over resampled tasks."""
    table = np.asarray(
        [
            (sum(told[name][metric] for name in group), sum(bare[name][metric] for name in group), len(group))
            for group in groups
        ],
        dtype=float,
    )
    draws = np.random.default_rng(seed).integers(len(table), size=(RESAMPLES, len(table)))
    drawn, total = table[draws].sum(axis=1), table.sum(axis=0)
    low, high = np.percentile((drawn[:, 0] - drawn[:, 1]) / drawn[:, 2], [2.5, 97.5])
    return {
        "with": float(total[0] / total[2]),
        "without": float(total[1] / total[2]),
        "difference": float((total[0] - total[1]) / total[2]),
        "difference_ci": [float(low), float(high)],
    }


def _mixed(
    share: float, told: Scores, bare: Scores, by_task: Mapping[str, Sequence[str]], seed: int
) -> float:
    """Mean SSF when memory is taken from this share of tasks."""
    values = [
        (bare if dropped(task, share, seed) else told)[name]["ssf"]
        for task, names in by_task.items()
        for name in names
    ]
    return float(np.mean(values))
