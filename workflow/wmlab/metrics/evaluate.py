"""Single-step evaluation of predicted states: every metric per transition, and their summary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wmlab.errors import InputError
from wmlab.io.progress import Progress
from wmlab.metrics.predictable import is_predictable
from wmlab.metrics.ssf import ssf
from wmlab.metrics.text import exact_match, rouge_l, token_f1
from wmlab.rewards.base import RewardInput
from wmlab.rewards.behr import BehaviourConsistency
from wmlab.rewards.reference import ReferenceAgent

BATCH = 64
METRICS = ("em", "f1", "rouge_l", "ssf", "behr")
TextMetric = Callable[[Sequence[str], Sequence[str]], Sequence[float]]
"""(predictions, golds) → one score a pair."""


def score_predictions(
    predictions: Sequence[dict[str, Any]],
    transitions: Sequence[dict[str, Any]],
    reference: ReferenceAgent,
    source: object,
    bertscore: TextMetric | None = None,
) -> list[dict[str, Any]]:
    """Score rows (contract ``scores``), in the predictions' order; with ``bertscore`` a column more.

    BehR needs a next action: without one it is null with its reason, like any failed score. Raises
    InputError for a prediction of an unknown transition.
    """
    by_id = {row["transition_id"]: row for row in transitions}
    behr = BehaviourConsistency(reference)
    progress = Progress("score", len(predictions), "states")
    rows: list[dict[str, Any]] = []
    for start in range(0, len(predictions), BATCH):
        batch = predictions[start : start + BATCH]
        golds = []
        for number, row in enumerate(batch, start=start):
            if row["transition_id"] not in by_id:
                raise InputError.at(
                    source,
                    f"transition {row['transition_id']} is not in the transitions file",
                    "give the file that was predicted",
                    number,
                )
            golds.append(by_id[row["transition_id"]])
        items = [RewardInput(g["domain"], g["history"], g["observation"], g["next_action"]) for g in golds]
        records = behr(items, [[row["prediction"]] for row in batch])
        added: list[dict[str, float]] = [{} for _ in batch]
        if bertscore is not None:
            values = bertscore([row["prediction"] for row in batch], [gold["observation"] for gold in golds])
            added = [{"bertscore": value} for value in values]
        for row, gold, record, more in zip(batch, golds, records, added, strict=True):
            text, truth = row["prediction"], gold["observation"]
            rows.append(
                {
                    "transition_id": row["transition_id"],
                    "model_id": row["model_id"],
                    "action_type": gold["action_type"],
                    "predictable": is_predictable(gold["history"], truth, domain=gold["domain"]),
                    "em": float(exact_match(text, truth)),
                    "f1": token_f1(text, truth),
                    "rouge_l": rouge_l(text, truth),
                    "ssf": float(ssf(gold["domain"], text, truth)),
                    "behr": record[0].reward,
                    "behr_delta": record[0].delta,
                    "error": record[0].error,
                    **more,
                }
            )
        progress.update(len(batch))
    return rows


def summarise(rows: Sequence[dict[str, Any]], transitions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over all rows; BehR over the rows that have it, with its own n; errors counted.

    A missing BehR on a transition without a next action is no error (metrics.md 5).
    """
    ends = {row["transition_id"] for row in transitions if not row["next_action"]}
    predictable = [row["em"] for row in rows if row["predictable"]]
    behr = [row["behr"] for row in rows if row["behr"] is not None]
    summary: dict[str, Any] = {"model_id": rows[0]["model_id"] if rows else None, "n": len(rows)}
    for name in ("em", "f1", "rouge_l", "ssf", *(["bertscore"] if rows and "bertscore" in rows[0] else [])):
        summary[name] = _mean([row[name] for row in rows])
    return {
        **summary,
        "em_predictable": _mean(predictable),
        "n_predictable": len(predictable),
        "behr": _mean(behr),
        "n_behr": len(behr),
        "n_error": sum(row["behr"] is None and row["transition_id"] not in ends for row in rows),
    }


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
