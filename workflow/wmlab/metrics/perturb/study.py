"""The study of decision-critical perturbations: samples, scores, tables (behr.txt Tables 1, 15 and 16).

Every metric compares a perturbed observation with the real one of the same transition; higher is better and
the unperturbed observation has the maximum, 1. BehR is exp(-|Δ|), the papers' "monotone scale in [0, 1]" of
the log-probability gap; multi-action BehR and ACS are those of ``rewards.actions``. Means are over the same
samples for every perturbation and metric: a sample that any metric fails on leaves the comparison, counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wmlab.errors import InputError
from wmlab.io.progress import Progress
from wmlab.lm.transport import AnswerFailure
from wmlab.metrics.perturb.decision import PERTURBATIONS, Decision, find_target, perturb
from wmlab.metrics.ssf import PARSERS, ssf
from wmlab.metrics.text import exact_match, rouge_l, token_f1
from wmlab.rewards.actions import ActionConsistency, MultiActionConsistency
from wmlab.rewards.base import Reward, RewardInput
from wmlab.rewards.behr import BehaviourConsistency
from wmlab.rewards.reference import ReferenceAgent
from wmlab.stats.arrays import percentile_interval

METRICS = ("behr", "multi_action_behr", "acs", "f1", "rouge_l", "em", "ssf")
BY_MODEL = ("bertscore", "judge")
"""Metrics of the text that need a model of their own, present where one is configured."""
DENSE = frozenset((*METRICS, *BY_MODEL)) - {"acs", "em"}
"""Metrics whose value is graded, so that they can serve as a reward (Table 1's last column)."""
ByModel = Callable[[Sequence[str], Sequence[str]], Sequence[float | AnswerFailure]]
"""(perturbed, real observations) → a score or failure each."""
POOL = 400
"""Decisions of a domain that replacements and unrelated observations are drawn from."""
RESAMPLES = 10_000
BATCH = 8


@dataclass(frozen=True)
class Sample:
    """A transition with its seven texts and what else could have been done after it."""

    transition_id: str
    decision: Decision
    item: RewardInput
    texts: Mapping[str, str]


def draw_samples(
    transitions: Sequence[Mapping[str, Any]], n: int, seed: int
) -> tuple[list[Sample], dict[str, int]]:
    """At most ``n`` samples, drawn without replacement, and the counts of transitions that cannot be one.

    Reasons: ``no_next_action``, ``repeated`` (the same observation and next action again), ``no_target``
    (the observation names nothing of the next action), or the perturbation that does not exist. Only
    transitions looked at are counted, in the drawn order. Raises InputError when no sample is found.
    """
    listed = {(row["trajectory_id"], row["step"]): row["admissible"] for row in transitions}
    rng = np.random.default_rng(seed)
    skipped: Counter[str] = Counter()
    found: list[tuple[Mapping[str, Any], Decision]] = []
    seen: set[tuple[str, str]] = set()
    for index in rng.permutation(len(transitions)).tolist():
        row = transitions[index]
        action, observation = row["next_action"], row["observation"]
        if not action:
            skipped["no_next_action"] += 1
        elif (observation, action) in seen:
            skipped["repeated"] += 1
        elif (target := find_target(row["domain"], action, observation)) is None:
            skipped["no_target"] += 1
        else:
            seen.add((observation, action))
            found.append((row, Decision(row["domain"], observation, action, target)))
    pools: dict[str, list[Decision]] = {}
    for _, decision in found:
        pool = pools.setdefault(decision.domain, [])
        if len(pool) < POOL:
            pool.append(decision)
    samples: list[Sample] = []
    for row, decision in found:
        if len(samples) == n:
            break
        texts, missing = perturb(decision, pools[decision.domain], rng)
        if missing is not None:
            skipped[missing] += 1
            continue
        others = listed.get((row["trajectory_id"], row["step"] + 1)) or decision.listed or []
        item = RewardInput(
            row["domain"], row["history"], decision.observation, decision.action, tuple(others)
        )
        samples.append(Sample(row["transition_id"], decision, item, texts))
    if not samples:
        raise InputError(
            f"perturbations: none of {len(transitions)} transitions can be a sample ({dict(skipped)}); "
            "give more transitions"
        )
    return samples, dict(sorted(skipped.items()))


def score_samples(
    samples: Sequence[Sample], reference: ReferenceAgent, by_model: Mapping[str, ByModel] | None = None
) -> list[dict[str, Any]]:
    """Rows of contract ``perturbations``: a sample and perturbation each, in order.

    ``by_model`` has the metrics of BY_MODEL that are configured; each adds its column.
    """
    asked = by_model or {}
    rewards: dict[str, Reward] = {
        "behr": BehaviourConsistency(reference),
        "multi_action_behr": MultiActionConsistency(reference),
        "acs": ActionConsistency(reference),
    }
    progress = Progress("perturb", len(samples), "samples")
    rows: list[dict[str, Any]] = []
    for start in range(0, len(samples), BATCH):
        batch = samples[start : start + BATCH]
        items = [sample.item for sample in batch]
        groups = [[sample.texts[name] for name in PERTURBATIONS] for sample in batch]
        records = {name: reward(items, groups) for name, reward in rewards.items()}
        texts = [text for group in groups for text in group]
        golds = [sample.decision.observation for sample in batch for _ in PERTURBATIONS]
        values = {name: metric(texts, golds) for name, metric in asked.items()}
        for number, sample in enumerate(batch):
            for place, name in enumerate(PERTURBATIONS):
                found = {key: records[key][number][place] for key in rewards}
                added = {key: scores[number * len(PERTURBATIONS) + place] for key, scores in values.items()}
                errors = [r.error for r in found.values() if r.error]
                errors += [str(value) for value in added.values() if isinstance(value, AnswerFailure)]
                rows.append(
                    {
                        "transition_id": sample.transition_id,
                        "domain": sample.decision.domain,
                        "perturbation": name,
                        "action": sample.decision.action,
                        "target": sample.decision.target,
                        "text": sample.texts[name],
                        **{key: record.reward for key, record in found.items()},
                        **_surface(sample, sample.texts[name]),
                        "behr_delta": found["behr"].delta,
                        "error": errors[0] if errors else None,
                        **{k: None if isinstance(v, AnswerFailure) else v for k, v in added.items()},
                    }
                )
        progress.update(len(batch))
    return rows


def _surface(sample: Sample, text: str) -> dict[str, float | None]:
    gold, domain = sample.decision.observation, sample.decision.domain
    return {
        "f1": token_f1(text, gold),
        "rouge_l": rouge_l(text, gold),
        "em": exact_match(text, gold),
        "ssf": ssf(domain, text, gold) if domain in PARSERS else None,
    }


def summarise(rows: Sequence[Mapping[str, Any]], seed: int = 0) -> dict[str, Any]:
    """Tables 15 and 16, and Table 1's contrast of DI and DT.

    ``means``: per perturbation, the mean of every metric over the shared samples (null where a domain has
    no SSF parser). ``contrast``: per metric DI, DT, their mean paired difference with its 95 % bootstrap
    interval over samples, whether DI is ranked above DT, and whether the metric is dense. ``n_failed``
    counts samples that were left out because a metric failed on one of their texts.
    """
    by_sample: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        by_sample.setdefault(row["transition_id"], {})[row["perturbation"]] = row
    shared = [texts for texts in by_sample.values() if all(row["error"] is None for row in texts.values())]
    named = [*METRICS, *(m for m in BY_MODEL if rows and m in rows[0])]
    metrics = [m for m in named if all(t[p][m] is not None for t in shared for p in PERTURBATIONS)]
    means = {
        name: {m: _mean([texts[name][m] for texts in shared]) if m in metrics else None for m in named}
        for name in PERTURBATIONS
    }
    contrast = {}
    for metric in metrics if shared else ():
        gaps = [texts["drop_irrelevant"][metric] - texts["drop_target"][metric] for texts in shared]
        rng = np.random.default_rng(seed)
        values = np.asarray(gaps, dtype=np.float64)
        drawn = values[rng.integers(0, values.size, (RESAMPLES, values.size))].mean(axis=1)
        low, high = percentile_interval(drawn, 0.95)
        irrelevant, target = means["drop_irrelevant"][metric], means["drop_target"][metric]
        contrast[metric] = {
            "drop_irrelevant": irrelevant,
            "drop_target": target,
            "difference": _mean(gaps),
            "ci95": [low, high],
            "di_above_dt": _above(irrelevant, target),
            "dense": metric in DENSE,
        }
    reasons = Counter(row["error"] for row in rows if row["error"] is not None)
    return {
        "schema": 1,
        "n": len(shared),
        "n_failed": len(by_sample) - len(shared),
        "domains": sorted({row["domain"] for row in rows}),
        "means": means,
        "contrast": contrast,
        "errors": dict(reasons.most_common(5)),
        "bootstrap_seed": seed,
    }


def _above(left: float | None, right: float | None) -> bool:
    return left is not None and right is not None and left > right


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
