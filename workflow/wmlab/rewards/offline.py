"""Score reward rows from JSONL, outside any training (contract of ``wmlab score rewards``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from wmlab.errors import InputError
from wmlab.rewards.base import Reward, RewardInput
from wmlab.rewards.reference import ReferenceAgent


def reward_input(row: dict[str, Any], source: object, number: int) -> tuple[RewardInput, list[str]]:
    """Validate one row ``{"id","domain","history","gold","candidates","action"}`` (row numbers from 1)."""

    def bad(problem: str) -> InputError:
        return InputError.at(source, problem, "see `wmlab score rewards --help`", number)

    for name, kind in (("domain", str), ("gold", str), ("history", list), ("candidates", list)):
        if not isinstance(row.get(name), kind):
            raise bad(f"{name!r} must be a {kind.__name__}")
    if not all(isinstance(candidate, str) for candidate in row["candidates"]):
        raise bad("'candidates' must be texts")
    if row.get("action") is not None and not isinstance(row["action"], str):
        raise bad("'action' must be a text or null")
    roles = [
        m.get("role") if isinstance(m, dict) and isinstance(m.get("content"), str) else None
        for m in row["history"]
    ]
    if (
        len(roles) < 2
        or roles[0] != "system"
        or roles[-1] != "user"
        or roles[1:] != (["user", "assistant"] * len(roles))[: len(roles) - 1]
    ):
        raise bad("'history' must be system, user, assistant, …, user messages with role and content")
    item = RewardInput(row["domain"], row["history"], row["gold"], row.get("action"))
    return item, list(row["candidates"])


def score_rows(
    rows: Sequence[dict[str, Any]], source: object, reward: Reward, reference: ReferenceAgent | None
) -> list[dict[str, Any]]:
    """Result rows ``{"id","records","calls","prefill_tokens"}``; the counts are the row's own."""
    parsed = [reward_input(row, source, number) for number, row in enumerate(rows, start=1)]
    results = []
    for row, (item, candidates) in zip(rows, parsed, strict=True):
        calls = reference.calls if reference else 0
        tokens = reference.prefill_tokens if reference else 0
        records = reward([item], [candidates])[0]
        results.append(
            {
                "id": row.get("id"),
                "records": [asdict(record) for record in records],
                "calls": (reference.calls if reference else 0) - calls,
                "prefill_tokens": (reference.prefill_tokens if reference else 0) - tokens,
            }
        )
    return results
