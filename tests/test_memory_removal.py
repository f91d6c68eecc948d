"""What a model loses without its memory: hand-computed means, nested removal, the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from memory_rows import opened, said_empty
from typer.testing import CliRunner
from wmlab.cli.memory import app
from wmlab.errors import InputError
from wmlab.io.jsonl import write_jsonl
from wmlab.io.tables import write_table
from wmlab.memory.prompt import dropped
from wmlab.memory.removal import removed
from wmlab.metrics.ssf import ssf

SHARES = (0.0, 0.5, 1.0)


def predicted(name: str, text: str) -> dict[str, Any]:
    return {
        "transition_id": name, "model_id": "m", "prediction": text, "n_tokens": 1, "finish_reason": "stop",
    }  # fmt: skip


def record(name: str, how: str) -> dict[str, Any]:
    match = {"fields": "schema+object", "level": 4, "status": "used"}
    return {
        "transition_id": name,
        "how": how,
        "n_tokens": 10 * (how == "keyed"),
        "matches": [match] if how == "keyed" else [],
    }


def rows() -> list[dict[str, Any]]:
    return [{**opened(name), "task_id": f"alfworld_{at}"} for at, name in enumerate("abcd")]


def test_removal_by_hand() -> None:
    gold = rows()
    right = [predicted(row["transition_id"], row["observation"]) for row in gold]
    wrong = [predicted(row["transition_id"], said_empty()) for row in gold]
    told = [*right[:3], wrong[3]]
    records = [record(name, "keyed" if name != "d" else "none") for name in "abcd"]
    found = removed(told, wrong, records, gold, SHARES, 5, "p")
    empty = ssf("alfworld", said_empty(), gold[0]["observation"])
    assert 0 < empty < 1
    by_hand = {"with": (3 + empty) / 4, "without": empty, "difference": 3 * (1 - empty) / 4}
    assert {name: found["metrics"]["ssf"][name] for name in by_hand} == pytest.approx(by_hand)
    assert found["metrics"]["em"]["difference"] == 0.75
    low, high = found["metrics"]["em"]["difference_ci"]
    assert 0.0 <= low < 0.75 < high <= 1.0
    assert found["found"]["keyed"] == {"n": 3, "with": 1.0, "without": pytest.approx(empty)}
    assert found["found"]["none"] == {"n": 1, "with": pytest.approx(empty), "without": pytest.approx(empty)}
    assert found["levels"] == {"schema+object": 3} and found["mean_tokens"] == 7.5
    assert (found["n"], found["n_tasks"], found["n_with_block"]) == (4, 4, 3)
    shares = {one["share"]: one["ssf"] for one in found["removal"]}
    assert shares[0.0] == pytest.approx(by_hand["with"]) and shares[1.0] == pytest.approx(empty)
    kept = sum(not dropped(f"alfworld_{at}", 0.5, 5) for at in range(3))
    assert shares[0.5] == pytest.approx((kept + (4 - kept) * empty) / 4)


def test_rows_that_differ_are_refused() -> None:
    gold = rows()
    right = [predicted(row["transition_id"], row["observation"]) for row in gold]
    records = [record(name, "none") for name in "abcd"]
    for told, bare, how, truth in (
        (right[:3], right, records, gold),
        (right, right[:3], records, gold),
        (right, right, records[:3], gold),
        (right, right, records, gold[:3]),
        ([], [], [], gold),
    ):
        with pytest.raises(InputError, match=r"p: .*not of the same rows; predict them in one run"):
            removed(told, bare, how, truth, SHARES, 0, "p")


def test_the_command(tmp_path: Path) -> None:
    gold = rows()
    right = [predicted(row["transition_id"], row["observation"]) for row in gold]
    write_table(tmp_path / "t.parquet", "transitions", gold)
    write_table(tmp_path / "p.parquet", "predictions", right)
    write_jsonl(tmp_path / "r.jsonl", [record(name, "keyed") for name in "abcd"])
    arguments = [
        "removal",
        "--predictions",
        str(tmp_path / "p.parquet"),
        "--without",
        str(tmp_path / "p.parquet"),
    ]
    arguments += ["--records", str(tmp_path / "r.jsonl"), "--transitions", str(tmp_path / "t.parquet")]
    done = CliRunner().invoke(app, [*arguments, "--shares", "0,1", "--out", str(tmp_path / "removal.json")])
    assert done.exit_code == 0 and "difference 0.000 [0.000, 0.000]" in done.output
    found = json.loads((tmp_path / "removal.json").read_text())
    assert [one["share"] for one in found["removal"]] == [0.0, 1.0]
    bad = CliRunner().invoke(app, [*arguments, "--shares", "half", "--out", str(tmp_path / "x.json")])
    assert isinstance(bad.exception, InputError) and "not numbers" in str(bad.exception)
