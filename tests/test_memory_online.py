"""Memory that grows while a model is used: who sees what, and its own file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tiny_models as tiny
from memory_rows import opened, said_empty, shop_rows
from typer.testing import CliRunner
from wmlab.cli.predict import app
from wmlab.config.memory import MemoryRecipe
from wmlab.io.tables import read_table, write_table
from wmlab.lm.build import save_model
from wmlab.memory.bank import Entry, read_bank, write_bank
from wmlab.memory.build import Build
from wmlab.memory.context import WorldMemory
from wmlab.memory.online import merged, predict_online
from wmlab.memory.retrieve import Retriever


def shopping() -> list[dict[str, Any]]:
    """The same walk through the shop in three tasks."""
    return [
        {**row, "task_id": f"webshop_{at}"}
        for at, name in enumerate("abc")
        for row in shop_rows(name, f"wish {at}")
    ]


def told(rows: list[dict[str, Any]], text: str | None = None) -> list[dict[str, Any]]:
    return [
        {"transition_id": row["transition_id"], "prediction": row["observation"] if text is None else text}
        for row in rows
    ]


def test_a_task_sees_what_earlier_tasks_executed() -> None:
    asked: list[tuple[str, str]] = []

    def predict(rows: list[dict[str, Any]], memory: WorldMemory) -> list[dict[str, Any]]:
        for row in rows:
            asked.append((row["task_id"], memory.retrieve(row["history"], row["task_id"]).how))
        return told(rows)

    empty = WorldMemory(Retriever("webshop", []), MemoryRecipe())
    steps = list(predict_online(empty, shopping(), predict, "rows"))
    assert {how for task, how in asked if task == "webshop_0"} == {"none"}
    assert {how for task, how in asked if task == "webshop_1"} == {"keyed"}
    assert {how for task, how in asked if task == "webshop_2"} == {"keyed"}
    assert [len(found) for found, _ in steps] == [4, 4, 4] and empty.retriever.entries == []
    hashes = [{digest for entry in entries for digest in entry.task_hashes} for _, entries in steps]
    assert [len(one) for one in hashes] == [1, 2, 3]  # the second bank says whose steps it holds


def test_rules_are_learnt_from_the_errors_just_made() -> None:
    rows = [
        {**opened(name, first=f"Your task is to: look {name}."), "task_id": name} for name in ("a", "b", "c")
    ]
    counted: list[int] = []

    def predict(some: list[dict[str, Any]], memory: WorldMemory) -> list[dict[str, Any]]:
        counted.append(len(memory.retriever.entries))
        return told(some, said_empty())

    empty = WorldMemory(Retriever("alfworld", []), MemoryRecipe())
    *_, (_, last) = predict_online(empty, rows, predict, "rows")
    assert counted[:2] == [0, 0] and counted[2] > 0  # a rule needs two transitions
    assert any("not" in entry.negative for entry in last)


def test_what_was_executed_replaces_the_bank() -> None:
    old = list(Build("webshop").entries(shop_rows("a"), None, "rows"))
    changed = [
        {**row, "observation": row["observation"].replace("$9.99", "$8.88")} for row in shop_rows("b", "w")
    ]
    new = list(Build("webshop").entries(changed, None, "rows"))
    both: list[Entry] = merged(old, new[:1])
    assert [one.id for one in both] == sorted({one.id for one in old}) and new[0] in both


def test_the_command_writes_a_second_bank(tmp_path: Path) -> None:
    rows = shopping()[:8]
    write_table(tmp_path / "t.parquet", "transitions", rows)
    lm = tiny.tiny_lm()
    save_model(tmp_path / "wm", lm.model, lm.tokenizer)
    bank, online = tmp_path / "bank.jsonl", tmp_path / "online.jsonl"
    write_bank(bank, [])
    arguments = ["states", "--model", str(tmp_path / "wm"), "--transitions", str(tmp_path / "t.parquet")]
    arguments += ["--out", str(tmp_path / "p.parquet"), "--online", str(online)]
    refused = CliRunner().invoke(app, arguments)
    assert "--online adds to a memory" in str(refused.exception)
    done = CliRunner().invoke(app, [*arguments, "--memory", str(bank)])
    assert done.exit_code == 0, done.output
    assert read_bank(bank, "webshop") == [] and len(read_bank(online, "webshop")) == 4
    predicted = read_table(tmp_path / "p.parquet", "predictions")
    assert [row["transition_id"] for row in predicted] == [row["transition_id"] for row in rows]
    assert (tmp_path / "online.jsonl.meta.json").exists()
