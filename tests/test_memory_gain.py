"""What memory gives a method over its seeds: means and contrasts by hand, refusals, the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from memory_rows import opened, said_empty
from typer.testing import CliRunner
from wmlab.cli.memory import app
from wmlab.errors import InputError
from wmlab.io.atomic import write_json
from wmlab.io.tables import write_table
from wmlab.memory.gain import gain, plain_tasks
from wmlab.metrics.ssf import ssf


def removal(tasks: dict[str, list[float]], shares: tuple[float, float] = (0.9, 0.5)) -> dict[str, Any]:
    n = sum(int(entry[0]) for entry in tasks.values())
    return {
        "n": n, "n_tasks": len(tasks), "n_with_block": n - 1, "mean_tokens": 1.0, "metrics": {}, "found": {},
        "levels": {}, "tasks": tasks,
        "removal": [{"share": share, "ssf": value} for share, value in zip((0.0, 1.0), shares, strict=True)],
    }  # fmt: skip


def test_means_and_contrasts_by_hand() -> None:
    first = removal({"a": [2, 2.0, 1.0], "b": [1, 0.5, 0.5]}, (0.8, 0.4))
    second = removal({"a": [2, 1.0, 1.0], "b": [1, 1.0, 0.5]}, (0.6, 0.2))
    found = gain([("r0", first), ("r1", second)], [("p", {"a": [2, 1.2], "b": [1, 0.3]})], "w2w", 0)
    assert (found["n"], found["n_tasks"], found["n_seeds"]) == (3, 2, 2)
    assert found["memory"]["seeds"] == pytest.approx([2.5 / 3, 2 / 3])
    assert found["memory"]["mean"] == pytest.approx(0.75)
    assert found["memory"]["sd"] == pytest.approx((2.5 / 3 - 2 / 3) / 2**0.5)
    assert found["removed"]["mean"] == pytest.approx(0.5) and found["removed"]["sd"] == 0
    assert found["plain"] == {"mean": pytest.approx(0.5), "sd": None, "seeds": [pytest.approx(0.5)]}
    assert found["vs_removed"]["difference"] == pytest.approx(0.25)
    assert found["vs_plain"]["difference"] == pytest.approx(0.25)
    low, high = found["vs_removed"]["ci"]
    # Extremes of the resamples: seed 1 with task a alone gains nothing, seed 0 or 1 at most 1/2.
    assert low == pytest.approx(0.0) and 0.25 < high <= 0.5 + 1e-9
    assert [one["mean"] for one in found["removal"]] == pytest.approx([0.7, 0.3])
    assert found["with_block"] == pytest.approx(4 / 6)


def test_a_constant_gain_has_no_width_and_one_seed_is_enough() -> None:
    tasks = {name: [n, 0.75 * n, 0.5 * n] for name, n in (("a", 3), ("b", 1), ("c", 7))}
    found = gain([("r", removal(tasks))], [], None, 4)
    assert found["vs_removed"]["difference"] == pytest.approx(0.25)
    assert found["vs_removed"]["ci"] == pytest.approx([0.25, 0.25])
    assert found["plain"] is None and found["vs_plain"] is None and found["plain_method"] is None


def test_other_tasks_or_transitions_are_refused() -> None:
    mine = removal({"a": [2, 1.0, 1.0]})
    for other in ({"a": [1, 0.5]}, {"b": [2, 1.0]}, {"a": [2, 1.0], "b": [1, 1.0]}):
        with pytest.raises(InputError, match=r"p: not of the same tasks and transitions as r; predict both"):
            gain([("r", mine)], [("p", other)], "w2w", 0)
    with pytest.raises(InputError, match="r1: not of the same"):
        gain([("r", mine), ("r1", removal({"b": [2, 1.0, 1.0]}))], [], None, 0)


def test_the_command(tmp_path: Path) -> None:
    rows = [{**opened(name), "task_id": f"alfworld_{at // 2}"} for at, name in enumerate("abcd")]
    said = [
        {"transition_id": row["transition_id"], "model_id": "m", "n_tokens": 1, "finish_reason": "stop",
         "prediction": said_empty() if at else row["observation"]}
        for at, row in enumerate(rows)
    ]  # fmt: skip
    gold = {row["transition_id"]: row for row in rows}
    empty = float(ssf("alfworld", said_empty(), rows[0]["observation"]))
    plain = plain_tasks(said, gold, "p")
    assert plain == {"alfworld_0": [2, pytest.approx(1 + empty)], "alfworld_1": [2, pytest.approx(2 * empty)]}
    with pytest.raises(InputError, match="p: a is not among the transitions"):
        plain_tasks(said, {}, "p")
    write_table(tmp_path / "t.parquet", "transitions", rows)
    write_table(tmp_path / "p.parquet", "predictions", said)
    write_json(tmp_path / "r.json", removal({"alfworld_0": [2, 2.0, 1.0], "alfworld_1": [2, 2.0, 1.0]}))
    given = ["gain", "--removal", str(tmp_path / "r.json"), "--transitions", str(tmp_path / "t.parquet")]
    given += ["--plain", str(tmp_path / "p.parquet"), "--out", str(tmp_path / "gain.json")]
    done = CliRunner().invoke(app, [*given, "--plain-method", "w2w"])
    assert done.exit_code == 0, done.output
    assert "SSF +0.500 [+0.500, +0.500] against the same without blocks" in done.output
    found = json.loads((tmp_path / "gain.json").read_text())
    assert found["vs_plain"]["difference"] == pytest.approx(1 - (1 + 3 * empty) / 4)
    alone = CliRunner().invoke(app, given)
    assert isinstance(alone.exception, InputError) and "go together" in str(alone.exception)
