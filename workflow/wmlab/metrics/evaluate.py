"""Single-step evaluation of predicted states: every metric per transition, and their summary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from wmlab.errors import InputError
from wmlab.io.progress import Progress
from wmlab.lm.transport import AnswerFailure
from wmlab.metrics.predictable import is_predictable
from wmlab.metrics.ssf import compare_facts, ssf
from wmlab.metrics.ssf.extractor import Extractor
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
    extractor: Extractor | None = None,
) -> list[dict[str, Any]]:
    """Score rows (contract ``scores``), in the predictions' order; with ``bertscore`` a column more.

    BehR needs a next action: without one it is null with its reason, like any failed score. With an
    ``extractor`` that asks a model, SSF is of the facts it reads; where it has none for a text, SSF is null and
    the reason in a column ``ssf_error``. Raises InputError for a prediction of an unknown transition.
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
        states = _state_fidelity(batch, golds, extractor)
        for row, gold, record, more, state in zip(batch, golds, records, added, states, strict=True):
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
                    **state,
                    "behr": record[0].reward,
                    "behr_delta": record[0].delta,
                    "error": record[0].error,
                    **more,
                }
            )
        progress.update(len(batch))
    return rows


def _state_fidelity(
    predictions: Sequence[dict[str, Any]], golds: Sequence[dict[str, Any]], extractor: Extractor | None
) -> list[dict[str, Any]]:
    """SSF of each prediction by the domain's rules, or of the facts that a model reads, with its failures."""
    sides = [(row["prediction"], gold["observation"]) for row, gold in zip(predictions, golds, strict=True)]
    if extractor is None:
        return [{"ssf": float(ssf(gold["domain"], *pair))} for pair, gold in zip(sides, golds, strict=True)]
    texts = list(dict.fromkeys(chain.from_iterable(sides)))
    found = dict(zip(texts, extractor.extract(texts), strict=True))
    scores: list[dict[str, Any]] = []
    for pair in sides:
        prediction, truth = (found[text] for text in pair)
        if isinstance(prediction, AnswerFailure) or isinstance(truth, AnswerFailure):
            failure = prediction if isinstance(prediction, AnswerFailure) else truth
            scores.append({"ssf": None, "ssf_error": str(failure)})
        else:
            scores.append({"ssf": compare_facts(prediction, truth).score, "ssf_error": None})
    return scores


def summarise(rows: Sequence[dict[str, Any]], transitions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over all rows; BehR and SSF over the rows that have it, with their own n; errors counted.

    A missing BehR on a transition without a next action is no error (metrics.md 5).
    """
    ends = {row["transition_id"] for row in transitions if not row["next_action"]}
    predictable = [row["em"] for row in rows if row["predictable"]]
    behr = [row["behr"] for row in rows if row["behr"] is not None]
    summary: dict[str, Any] = {"model_id": rows[0]["model_id"] if rows else None, "n": len(rows)}
    for name in ("em", "f1", "rouge_l", "ssf", *(["bertscore"] if rows and "bertscore" in rows[0] else [])):
        summary[name] = _mean([row[name] for row in rows if row[name] is not None])
    return {
        **summary,
        "n_ssf": sum(row["ssf"] is not None for row in rows),
        "em_predictable": _mean(predictable),
        "n_predictable": len(predictable),
        "behr": _mean(behr),
        "n_behr": len(behr),
        "n_error": sum(
            (row["behr"] is None and row["transition_id"] not in ends) or row["ssf"] is None for row in rows
        ),
    }


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
