"""Trajectories as the dialogues that chat trainers read: verl's SFT (Parquet), LLaMA-Factory (JSON Lines).

One row a trajectory in the world model's roles. With world memory one row a step, for each step has a prompt of its
own: the history with that step's block, then the observation, which alone is to be learnt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from wmlab.data.decompose import world_model_chat
from wmlab.io.schemas import MESSAGE
from wmlab.io.tables import write_batches
from wmlab.memory.context import WorldMemory, prompts

SCHEMA = pa.schema(
    [("messages", pa.list_(MESSAGE))], metadata={"wmlab.schema": "messages", "wmlab.version": "1"}
)


def dialogues(
    trajectories: Iterable[Mapping[str, Any]], memory: WorldMemory | None = None, limit: int | None = None
) -> Iterator[dict[str, list[dict[str, str]]]]:
    """Rows {"messages": [{role, content}]} of the first ``limit`` trajectories that have a step."""
    played = (trajectory for trajectory in trajectories if trajectory["steps"])
    for trajectory in islice(played, limit):
        chat = world_model_chat(trajectory)
        if memory is None:
            yield {"messages": chat}
            continue
        asked = [(chat[:end], trajectory["task_id"]) for end in range(2, len(chat), 2)]
        for told, (history, _) in zip(prompts(memory, asked), asked, strict=True):
            yield {"messages": [*told, chat[len(history)]]}


def write_parquet(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    """Write the rows for verl; return their number."""
    return write_batches(path, SCHEMA, rows)
