"""Training sequences: dialogues as token ids with the positions to learn, and their batches.

With world memory every step has a prompt of its own, the history with that step's block. Such a prompt is a
branch of its trajectory's sequence: it sees the tokens it shares with the plain dialogue and itself, so one
forward pass over a trajectory teaches every step with its block, and without.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from wmlab.data.decompose import world_model_chat
from wmlab.errors import InputError
from wmlab.lm.tokenizer import encode_turns
from wmlab.memory.context import WorldMemory


@dataclass(frozen=True)
class TrainingSequence:
    """One dialogue: ids (T,), taught (T,) and, per taught turn, its (start, stop) in ids.

    A branch (start, stop, shared) is ids[start:stop] as if they followed ids[:shared].
    """

    ids: list[int]
    taught: list[bool]
    turns: list[tuple[int, int]]
    branches: list[tuple[int, int, int]] = field(default_factory=list)


def world_model_sequences(
    tokenizer: Any,
    trajectories: Iterable[dict[str, Any]],
    max_length: int,
    memory: WorldMemory | None = None,
    seed: int = 0,
) -> list[TrainingSequence]:
    """Sequences that teach every observation after an action; cut after the last whole turn that fits.

    With ``memory``, each has branches that teach its steps behind their blocks: as many, drawn by ``seed``, as
    fit into ``max_length`` tokens more.
    """
    rows = []
    for number, trajectory in enumerate(trajectories):
        chat = world_model_chat(trajectory)
        row = _sequence(tokenizer, chat, [m["role"] == "assistant" for m in chat], max_length)
        if memory is not None:
            order = np.random.default_rng((seed, number)).permutation(len(row.turns)).tolist()
            _add_branches(tokenizer, row, chat, trajectory["task_id"], memory, order, max_length)
        rows.append(row)
    return rows


def _add_branches(
    tokenizer: Any,
    row: TrainingSequence,
    chat: list[dict[str, str]],
    task_id: str,
    memory: WorldMemory,
    steps: Sequence[int],
    room: int,
) -> None:
    """Append to ``row`` the steps (0-based) that have a memory block, each behind it, while there is room."""
    trunk = list(row.ids)
    for step in steps:
        history, answer = chat[: 2 * step + 2], chat[2 * step + 2]
        told = memory.prompt(history, task_id)
        if told == history:
            continue
        ids, mask = encode_turns(tokenizer, [*told, answer], [False] * len(told) + [True])
        shared = 0
        while ids[shared] == trunk[shared]:
            shared += 1
        start, stop = len(row.ids), len(row.ids) + len(ids) - shared
        if stop - len(trunk) > room:
            continue
        row.ids.extend(ids[shared:])
        row.taught.extend(mask[shared:])
        row.turns.append((start + mask.index(True) - shared, stop))
        row.branches.append((start, stop, shared))


def agent_sequences(
    tokenizer: Any,
    demonstrations: Iterable[dict[str, Any]],
    max_length: int,
    *,
    thoughts: Sequence[bool],
    everything: bool,
) -> list[TrainingSequence]:
    """Sequences that teach the demonstrated turns, once per entry of ``thoughts`` (with or without them).

    ``everything`` teaches the observations too: reading the world is half of learning to act in it.
    """
    rows = []
    for demonstration in demonstrations:
        for think in thoughts:
            chat = [_without_thought(m) if not think else m for m in demonstration["messages"]]
            taught = [
                bool(t) or (everything and m["role"] == "user")
                for t, m in zip(demonstration["taught"], chat, strict=True)
            ]
            rows.append(_sequence(tokenizer, chat, taught, max_length))
    return rows


def _without_thought(message: dict[str, str]) -> dict[str, str]:
    if message["role"] != "assistant":
        return message
    return {"role": "assistant", "content": "Action:" + message["content"].split("Action:", 1)[1]}


def _sequence(
    tokenizer: Any, chat: list[dict[str, str]], taught: list[bool], max_length: int
) -> TrainingSequence:
    ids, mask = encode_turns(tokenizer, chat, taught)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], np.asarray(mask, dtype=np.int8), [0]])))
    turns = [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]
    if len(ids) > max_length:
        turns = [(a, b) for a, b in turns if b <= max_length]
        stop = turns[-1][1] if turns else 0
        ids, mask = ids[:stop], mask[:stop]
    return TrainingSequence(ids, mask, turns)


def require(sequences: Sequence[TrainingSequence], source: object) -> list[TrainingSequence]:
    """The sequences that teach something; InputError when none does."""
    useful = [sequence for sequence in sequences if sequence.turns]
    if not useful:
        raise InputError.at(source, "no turn fits into max_length", "raise max_length or give other data")
    return useful


def batches(lengths: Sequence[int], batch_size: int, rng: np.random.Generator) -> list[list[int]]:
    """One epoch of index batches: neighbours in length share a batch, batches in random order."""
    # Jitter breaks ties between equal lengths anew each epoch, so batches differ between epochs.
    keys = np.asarray(lengths) * (1 + 0.1 * rng.random(len(lengths)))
    order = np.argsort(keys, kind="stable")
    groups = [order[i : i + batch_size].tolist() for i in range(0, len(order), batch_size)]
    return [groups[i] for i in rng.permutation(len(groups))]


def layout(sequences: Sequence[TrainingSequence], length: int) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Position ids (B, length) and who sees whom (B, length, length) of padded rows; None without branches."""
    if not any(sequence.branches for sequence in sequences):
        return None
    positions = torch.arange(length).repeat(len(sequences), 1)
    visible = torch.ones((length, length), dtype=torch.bool).tril().repeat(len(sequences), 1, 1)
    for row, sequence in enumerate(sequences):
        for start, stop, shared in sequence.branches:
            positions[row, start:stop] += shared - start
            visible[row, start:stop, shared:start] = False
    return positions, visible


def pad(sequences: Sequence[TrainingSequence], pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """ids (B, T), right-padded, and the mask (B, T) of tokens to learn."""
    length = max(len(sequence.ids) for sequence in sequences)
    ids = torch.full((len(sequences), length), pad_id, dtype=torch.long)
    taught = torch.zeros((len(sequences), length), dtype=torch.bool)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence.ids)] = torch.tensor(sequence.ids)
        taught[row, : len(sequence.ids)] = torch.tensor(sequence.taught)
    return ids, taught
