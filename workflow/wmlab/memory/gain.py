"""What memory gives a method, over its training seeds (memwm.txt, Table 1 and Figure 4).

Two contrasts on the same held-out transitions: the models with their blocks against the same models without
(what the blocks give at inference), and against the method's models that never had memory (what training with
it gives). Intervals are percentiles over resampled tasks and training seeds, each drawn anew with replacement;
with one seed only the tasks vary.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmlab.errors import InputError
from wmlab.metrics.ssf import ssf

RESAMPLES = 10_000
Tasks = Mapping[str, Sequence[float]]
"""Task to its number of transitions and sums of SSF over them."""


def plain_tasks(
    predictions: Sequence[Mapping[str, Any]], gold: Mapping[str, Mapping[str, Any]], source: object
) -> dict[str, list[float]]:
    """A model without memory: number of transitions and sum of SSF by task.

    ``gold`` are transitions by id. Raises InputError for a prediction of no transition.
    """
    found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in predictions:
        truth = gold.get(row["transition_id"])
        if truth is None:
            problem = f"{row['transition_id']} is not among the transitions"
            raise InputError.at(source, problem, "give the transitions it was predicted from")
        entry = found[truth["task_id"]]
        entry[0] += 1
        entry[1] += float(ssf(truth["domain"], row["prediction"], truth["observation"]))
    return dict(found)


def gain(
    removals: Sequence[tuple[str, Mapping[str, Any]]],
    plain: Sequence[tuple[str, Tasks]],
    plain_method: str | None,
    seed: int,
) -> dict[str, Any]:
    """Means over seeds of SSF with memory, with it removed and without any, and both contrasts.

    ``removals`` and ``plain`` hold a pair of source and content for every training seed. Raises InputError
    naming the source that is not of the same tasks and transitions as the first.
    """
    first_source, first = removals[0]
    sizes = {task: entry[0] for task, entry in first["tasks"].items()}
    for source, tasks in [*((source, one["tasks"]) for source, one in removals), *plain]:
        if {task: entry[0] for task, entry in tasks.items()} != sizes:
            problem = f"not of the same tasks and transitions as {first_source}"
            raise InputError.at(source, problem, "predict both on the same transitions")
    counts = np.asarray([sizes[task] for task in sizes], dtype=float)
    told = np.asarray([[one["tasks"][task][1] for task in sizes] for _, one in removals])
    bare = np.asarray([[one["tasks"][task][2] for task in sizes] for _, one in removals])
    without = np.asarray([[tasks[task][1] for task in sizes] for _, tasks in plain])
    shares = [one["share"] for one in first["removal"]]
    return {
        "n": first["n"],
        "n_tasks": len(sizes),
        "n_seeds": len(removals),
        "seed": seed,
        "memory": _seeds(told, counts),
        "removed": _seeds(bare, counts),
        "vs_removed": _contrast(told, bare, counts, paired=True, seed=seed),
        "plain_method": plain_method,
        "plain": _seeds(without, counts) if plain else None,
        "vs_plain": _contrast(told, without, counts, paired=False, seed=seed) if plain else None,
        "removal": [
            {"share": share, **_spread([float(one["removal"][at]["ssf"]) for _, one in removals])}
            for at, share in enumerate(shares)
        ],
        "with_block": sum(one["n_with_block"] for _, one in removals) / sum(one["n"] for _, one in removals),
    }


def _seeds(sums: NDArray[np.float64], counts: NDArray[np.float64]) -> dict[str, Any]:
    return _spread([float(value) for value in sums.sum(axis=1) / counts.sum()])


def _spread(values: Sequence[float]) -> dict[str, Any]:
    sd = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "sd": sd, "seeds": list(values)}


def _contrast(
    target: NDArray[np.float64],
    other: NDArray[np.float64],
    counts: NDArray[np.float64],
    paired: bool,
    seed: int,
) -> dict[str, Any]:
    """Difference of two ``(seeds, tasks)`` arrays of sums; the seeds of the same models are drawn together."""
    rng = np.random.default_rng(seed)
    tasks = rng.multinomial(len(counts), [1 / len(counts)] * len(counts), size=RESAMPLES).astype(float)
    weights = _drawn(len(target), rng)
    second = weights if paired else _drawn(len(other), rng)
    drawn = ((weights @ target) * tasks).sum(axis=1) - ((second @ other) * tasks).sum(axis=1)
    low, high = np.percentile(drawn / (tasks @ counts), [2.5, 97.5])
    difference = (target.mean(axis=0).sum() - other.mean(axis=0).sum()) / counts.sum()
    return {"difference": float(difference), "ci": [float(low), float(high)]}


def _drawn(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Shares of ``n`` training seeds in every resample ``(resamples, n)``."""
    return rng.multinomial(n, [1 / n] * n, size=RESAMPLES) / n
