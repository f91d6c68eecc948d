"""Predicted next states: greedy from a world model, or copied from the most similar training transition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wmlab.errors import InputError
from wmlab.io.progress import Progress
from wmlab.lm.base import Sampling
from wmlab.lm.hf import HFModel
from wmlab.memory.context import WorldMemory, prompts

COPY_ID = "copy"
BATCH = 32


def choose(transitions: Sequence[dict[str, Any]], limit: int | None, seed: int) -> list[dict[str, Any]]:
    """At most ``limit`` transitions, drawn without replacement, in file order."""
    if limit is None or limit >= len(transitions):
        return list(transitions)
    picked = np.random.default_rng(seed).choice(len(transitions), size=limit, replace=False)
    return [transitions[i] for i in sorted(picked.tolist())]


def predict_states(
    lm: HFModel,
    transitions: Sequence[dict[str, Any]],
    max_new_tokens: int = 256,
    memory: WorldMemory | None = None,
) -> list[dict[str, Any]]:
    """Greedy prediction rows (contract ``predictions``), in the order given."""
    chats = prompts(memory, ((row["history"], row["task_id"]) for row in transitions))
    progress = Progress("predict", len(transitions), "states")
    # Neighbours in length share a batch; the answers are put back in order.
    lengths = [sum(len(m["content"]) for m in chat) for chat in chats]
    order = np.argsort(lengths, kind="stable").tolist()
    rows: dict[int, dict[str, Any]] = {}
    for start in range(0, len(order), BATCH):
        members = order[start : start + BATCH]
        answers = lm.generate([chats[i] for i in members], Sampling(0.0, 1, max_new_tokens))
        for index, answer in zip(members, answers, strict=True):
            rows[index] = _row(
                transitions[index],
                lm.model_id,
                answer[0].text,
                len(answer[0].token_ids),
                answer[0].finish_reason,
            )
        progress.update(len(members))
    return [rows[i] for i in range(len(transitions))]


def predict_copy(
    train: Sequence[dict[str, Any]], transitions: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The observation of the most similar training transition: same action, then the nearest last observation.

    Similarity is the overlap (multiset F1) of the words of the last observation before the action;
    among equal ones the first in file order. Without a training transition of that action, of its type.
    """
    from wmlab.metrics.text import token_f1

    if not train:
        raise InputError("predict copy: the training file holds no transitions; give the training split")
    by_action: dict[str, list[int]] = {}
    by_type: dict[str, list[int]] = {}
    for index, row in enumerate(train):
        by_action.setdefault(" ".join(row["action"].lower().split()), []).append(index)
        by_type.setdefault(row["action_type"], []).append(index)
    rows = []
    progress = Progress("copy baseline", len(transitions), "states")
    for row in transitions:
        pool = (
            by_action.get(" ".join(row["action"].lower().split()))
            or by_type.get(row["action_type"])
            or range(len(train))
        )
        here = _last_observation(row)
        best = max(pool, key=lambda i: token_f1(_last_observation(train[i]), here))
        rows.append(_row(row, COPY_ID, train[best]["observation"], 0, "stop"))
        progress.update()
    return rows


def _last_observation(row: dict[str, Any]) -> str:
    return str(row["history"][-2]["content"])


def _row(transition: dict[str, Any], model_id: str, text: str, n_tokens: int, finish: str) -> dict[str, Any]:
    return {
        "transition_id": transition["transition_id"],
        "model_id": model_id,
        "prediction": text,
        "n_tokens": n_tokens,
        "finish_reason": finish,
    }
