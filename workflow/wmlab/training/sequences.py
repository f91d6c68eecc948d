"""Training sequences: dialogues as token ids with the positions to learn, and their batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from wmlab.data.decompose import world_model_chat
from wmlab.errors import InputError
from wmlab.lm.tokenizer import encode_turns


@dataclass(frozen=True)
class TrainingSequence:
    """One dialogue: ids (T,), taught (T,) and, per taught turn, its (start, stop) in ids."""

    ids: list[int]
    taught: list[bool]
    turns: list[tuple[int, int]]


def world_model_sequences(
    tokenizer: Any, trajectories: Iterable[dict[str, Any]], max_length: int
) -> list[TrainingSequence]:
    """Sequences that teach every observation after an action; cut after the last whole turn that fits."""
    rows = []
    for trajectory in trajectories:
        chat = world_model_chat(trajectory)
        rows.append(_sequence(tokenizer, chat, [m["role"] == "assistant" for m in chat], max_length))
    return rows


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


def pad(sequences: Sequence[TrainingSequence], pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """ids (B, T), right-padded, and the mask (B, T) of tokens to learn."""
    length = max(len(sequence.ids) for sequence in sequences)
    ids = torch.full((len(sequences), length), pad_id, dtype=torch.long)
    taught = torch.zeros((len(sequences), length), dtype=torch.bool)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence.ids)] = torch.tensor(sequence.ids)
        taught[row, : len(sequence.ids)] = torch.tensor(sequence.taught)
    return ids, taught
