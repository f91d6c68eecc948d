"""Transitions as verl training rows (design.md section 4), in one fixed Arrow schema.

verl passes ``extra_info`` to the reward function as it is in the file and never adds the prompt, so the
history is in there too, as a JSON string: a list of structs would make its type differ between data sets.
With world memory the prompt has the block and the history does not, for rewards read what the trajectory says.
``expert_action`` is the reference agent's next action, the one BehR scores. Rows without a next action have
nothing to score and are left out and counted unless asked for.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from wmlab.data.decompose import history_is_whole
from wmlab.domains.base import SUCCESS_MARKER
from wmlab.errors import InputError
from wmlab.io.schemas import MESSAGE
from wmlab.io.tables import read_batches, write_batches
from wmlab.memory.context import WorldMemory, prompts
from wmlab.memory.prompt import plain
from wmlab.memory.retrieve import check_row

EXTRA_INFO = pa.struct(
    [
        ("split", pa.string()),
        ("index", pa.int64()),  # row number in the file
        ("domain", pa.string()),
        ("task_id", pa.string()),
        ("trajectory_id", pa.string()),
        ("step", pa.int64()),
        ("item_id", pa.string()),  # the transition id
        ("history", pa.string()),  # JSON list of {role, content}: the prompt without a memory block
        ("expert_action", pa.string()),  # the next action; null at the end of a trajectory
        ("is_terminal", pa.bool_()),
        ("env_reward", pa.float64()),
    ]
)
SCHEMA = pa.schema(
    [
        ("data_source", pa.string()),
        ("prompt", pa.list_(MESSAGE)),
        ("ability", pa.string()),
        ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
        ("extra_info", EXTRA_INFO),
    ],
    metadata={"wmlab.schema": "grpo", "wmlab.version": "1"},
)
ABILITY = "world_model"
STYLE = "rule"


def record(transition: Mapping[str, Any], index: int, memory: WorldMemory | None = None) -> dict[str, Any]:
    """One verl row, its prompt with the block of ``memory``. ``env_reward`` is 1.0 when the observation carries the success marker, else 0.0."""
    history = [{"role": turn["role"], "content": turn["content"]} for turn in transition["history"]]
    return {
        "data_source": f"{transition['domain']}_grpo",
        "prompt": prompts(memory, [(history, transition["task_id"])])[0],
        "ability": ABILITY,
        "reward_model": {"style": STYLE, "ground_truth": transition["observation"]},
        "extra_info": {
            "split": transition["split"],
            "index": index,
            "domain": transition["domain"],
            "task_id": transition["task_id"],
            "trajectory_id": transition["trajectory_id"],
            "step": transition["step"],
            "item_id": transition["transition_id"],
            "history": json.dumps(history, ensure_ascii=False),
            "expert_action": transition["next_action"],
            "is_terminal": transition["is_terminal"],
            "env_reward": 1.0 if SUCCESS_MARKER in transition["observation"] else 0.0,
        },
    }


def records(
    transitions: Iterable[Mapping[str, Any]],
    counts: Counter[str],
    *,
    source: object,
    include_terminal: bool = False,
    memory: WorldMemory | None = None,
) -> Iterator[dict[str, Any]]:
    """Rows of the verl file; ``counts`` gets ``written`` and ``without_next_action`` (left out)."""
    for number, transition in enumerate(transitions):
        nulls = transition["observation"] is None or transition["domain"] is None
        if nulls or not history_is_whole(transition["history"]):
            raise InputError.at(source, "a field is null", "decompose the trajectories again", number)
        if memory is not None:
            check_row(memory.retriever.domain, transition, source, number)
        if transition["next_action"] is None and not include_terminal:
            counts["without_next_action"] += 1
            continue
        yield record(transition, counts["written"], memory)
        counts["written"] += 1


def write_verl(
    path: str | Path,
    transitions: Iterable[Mapping[str, Any]],
    *,
    source: object,
    include_terminal: bool = False,
    memory: WorldMemory | None = None,
) -> Counter[str]:
    """Write the verl file atomically, row groups of 10,000; return the counts of :func:`records`."""
    counts: Counter[str] = Counter(written=0, without_next_action=0)
    rows = records(transitions, counts, source=source, include_terminal=include_terminal, memory=memory)
    write_batches(path, SCHEMA, rows)
    return counts


def _fault(row: Mapping[str, Any]) -> str | None:
    """What is wrong with a row, or None."""
    prompt, reward, extra = row["prompt"], row["reward_model"], row["extra_info"]
    if not history_is_whole(prompt) or prompt[-1]["role"] != "user":
        return "prompt does not end with the action"
    if not reward or reward["style"] != STYLE or reward["ground_truth"] is None:
        return "reward_model is not {style: rule, ground_truth: text}"
    if not extra or row["data_source"] != f"{extra['domain']}_grpo":
        return "data_source is not <domain>_grpo"
    try:
        history = json.loads(extra["history"] or "")
    except ValueError:
        return "extra_info.history is not JSON"
    if history != plain(prompt):
        return "extra_info.history differs from the prompt"
    if extra["expert_action"] is not None and not extra["expert_action"].strip():
        return "expert_action is blank"
    return None


def read_verl(path: str | Path) -> list[dict[str, Any]]:
    """Read and validate a verl file. InputError naming file and row when it does not fit."""
    rows = []
    for number, row in enumerate(read_batches(path, SCHEMA, "grpo")):
        fault = _fault(row)
        if fault is not None:
            raise InputError.at(path, fault, "make it again with wmlab data verl", number)
        rows.append(row)
    return rows
