"""Arrow schemas of the data contracts (version 1). Column order is the order on disk."""

from __future__ import annotations

import pyarrow as pa

VERSION = 1

MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string())])
STEP = pa.struct(
    [
        ("action", pa.string()),
        ("observation", pa.string()),
        ("reward", pa.float64()),
        ("done", pa.bool_()),
        ("admissible", pa.list_(pa.string())),  # after the action; null when the environment lists none
    ]
)

TRAJECTORIES = pa.schema(
    [
        ("trajectory_id", pa.string()),
        ("domain", pa.string()),
        ("task_id", pa.string()),
        ("split", pa.string()),
        ("source", pa.string()),  # expert | agent | corpus
        ("goal", pa.string()),
        ("task_type", pa.string()),
        ("initial_observation", pa.string()),
        ("privileged", pa.string()),  # null where the domain has no privileged block
        ("steps", pa.list_(STEP)),
        ("success", pa.bool_()),
        ("score", pa.float64()),
    ]
)

DEMONSTRATIONS = pa.schema(
    [
        ("demonstration_id", pa.string()),
        ("domain", pa.string()),
        ("task_id", pa.string()),
        ("messages", pa.list_(MESSAGE)),  # the agent's dialogue: system, user = observation, assistant
        ("taught", pa.list_(pa.bool_())),  # per message: whether the agent learns to say it
    ]
)

TRANSITIONS = pa.schema(
    [
        ("transition_id", pa.string()),
        ("trajectory_id", pa.string()),
        ("domain", pa.string()),
        ("task_id", pa.string()),
        ("split", pa.string()),
        ("step", pa.int32()),  # 0-based index of the action in its trajectory
        ("history", pa.list_(MESSAGE)),  # world-model roles; the last message is the action
        ("action", pa.string()),
        ("action_type", pa.string()),
        ("observation", pa.string()),  # gold next observation, ` [SUCCESS]` included
        ("next_action", pa.string()),  # null at the end of the trajectory
        ("is_terminal", pa.bool_()),
        ("admissible", pa.list_(pa.string())),  # what was admissible before the action; may be null
    ]
)

PREDICTIONS = pa.schema(
    [
        ("transition_id", pa.string()),
        ("model_id", pa.string()),
        ("prediction", pa.string()),
        ("n_tokens", pa.int32()),
        ("finish_reason", pa.string()),  # stop | length
    ]
)

SCORES = pa.schema(
    [
        ("transition_id", pa.string()),
        ("model_id", pa.string()),
        ("action_type", pa.string()),
        ("predictable", pa.bool_()),
        ("em", pa.float64()),
        ("f1", pa.float64()),
        ("rouge_l", pa.float64()),
        ("ssf", pa.float64()),  # null only where a model reads the facts and failed
        ("behr", pa.float64()),  # exp(-|delta|); null when failed or not applicable
        ("behr_delta", pa.float64()),  # nats per action token
        ("error", pa.string()),  # why a metric is null
    ]
)

PERTURBATIONS = pa.schema(
    [
        ("transition_id", pa.string()),
        ("domain", pa.string()),
        ("perturbation", pa.string()),
        ("action", pa.string()),  # the logged next action
        ("target", pa.string()),  # what of it the observation names
        ("text", pa.string()),
        ("behr", pa.float64()),  # null when failed, like the two below
        ("multi_action_behr", pa.float64()),
        ("acs", pa.float64()),
        ("f1", pa.float64()),
        ("rouge_l", pa.float64()),
        ("em", pa.float64()),
        ("ssf", pa.float64()),  # null where the domain has no parser
        ("behr_delta", pa.float64()),  # nats per action token
        ("error", pa.string()),
    ]
)

STRESS = pa.schema(
    [
        ("domain", pa.string()),
        ("change", pa.string()),  # paraphrase | entity | value | state
        ("kind", pa.string()),
        ("source_id", pa.string()),  # transition the gold observation is from
        ("gold", pa.string()),
        ("prediction", pa.string()),
        ("em", pa.float64()),
        ("f1", pa.float64()),
        ("ssf", pa.float64()),
    ]
)

_RATES = (
    "SR_Real",
    "SR_WM",
    "SR_W2R",
    "CR",
    "CR_pw",
    "CR_pw_T",
    "dice",
    "kappa",
    "agreement",
    "calibration_agreement",
    "step_agreement",
    "mean_steps_Real",
    "mean_steps_WM",
    "mean_steps_W2R",
    "timeout_Real",
    "timeout_WM",
    "real_floor",
)
_COUNTS = ("n", "n_error", "n_missing", "both", "real_only", "w2r_only", "neither", "fp", "fn")

CELLS = pa.schema(
    [
        ("domain", pa.string()),
        ("backbone", pa.string()),
        ("method", pa.string()),
        ("agent", pa.string()),
        ("seed", pa.int32()),
        *[(name, pa.int32()) for name in _COUNTS],
        *[(name, pa.float64()) for name in _RATES],  # null with a reason, never NaN
        ("reasons", pa.string()),  # JSON object: null column -> why
    ]
)

BY_NAME = {
    "trajectories": TRAJECTORIES,
    "demonstrations": DEMONSTRATIONS,
    "transitions": TRANSITIONS,
    "predictions": PREDICTIONS,
    "scores": SCORES,
    "cells": CELLS,
    "perturbations": PERTURBATIONS,
    "stress": STRESS,
}

OPTIONAL: dict[str, dict[str, pa.DataType]] = {
    "scores": {"bertscore": pa.float64(), "ssf_error": pa.string()},  # why a model read no facts
    "perturbations": {"bertscore": pa.float64(), "judge": pa.float64()},
}
"""Columns a file has only where its study measured them, after those of its contract; readers skip them."""
