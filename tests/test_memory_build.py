"""Banks: built by hand-counted cases, in any order, within bounds, and without evaluation tasks."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_rows import KITCHEN, chat, opened, said_empty, shop_rows, transition
from typer.testing import CliRunner
from wmlab.cli.memory import app
from wmlab.domains.base import Task
from wmlab.domains.panels import write_panel
from wmlab.errors import InputError
from wmlab.io.tables import write_table
from wmlab.memory.bank import Entry, entry_id, read_bank, write_bank
from wmlab.memory.build import Build, BuildSettings
from wmlab.memory.curate import RuleCurator
from wmlab.memory.guard import held_out, leaks, require_clean, screen, task_hash
from wmlab.memory.store import Bucket, CountStore, PredictionIndex


def build(
    rows: list[dict[str, Any]], predictions: dict[str, str] | None, domain: str = "alfworld", **options: Any
) -> list[Entry]:
    making = Build(domain, **options)
    return list(making.entries(rows, predictions.get if predictions is not None else None, "rows"))


def by_key(entries: list[Entry]) -> dict[tuple[str, ...], Entry]:
    return {tuple(name for name, _ in one.key): one for one in entries}


def test_a_bank_by_hand() -> None:
    rows = [opened("a"), opened("b"), opened("c", "cabinet 1", "a mug 2"), opened("d")]
    predictions = {
        "a": said_empty(),
        "b": said_empty(),
        "c": said_empty("cabinet 1"),
        "d": rows[3]["observation"],
    }
    making = Build("alfworld")
    entries = list(making.entries(rows, predictions.get, "rows"))
    # d is right. a and b share every key, which is theirs alone down to (schema, object); c joins at (schema).
    assert making.report["hard"] == 3 and making.report["right"] == 1
    found = by_key(entries)
    assert set(found) == {("schema", "object"), ("schema",)}
    fridge, general = found["schema", "object"], found[("schema",)]
    assert (fridge.support, general.support) == (2, 3)
    assert fridge.source_ids == ("a", "b") and general.source_ids == ("a", "b", "c")
    assert fridge.positive == "in such a case expect IN(object, apple) 2/2, STATE(object, open) 2/2"
    assert fridge.negative == (
        "in such a case do not leave out IN(object, apple) 2/2 nor invent EMPTY(object) 2/2 unless shown"
    )
    assert general.payload["counts"]["missed"] == {"IN(object, apple)": 2, "IN(object, mug)": 1}
    assert making.report["below_support"] > 0 and making.report["same_as_general"] > 0


def test_a_row_without_prediction_is_counted_not_guessed() -> None:
    making = Build("alfworld")
    assert list(making.entries([opened("a")], {}.get, "rows")) == []
    assert making.report["without_prediction"] == 1
    with pytest.raises(InputError, match="no predictions"):
        build([opened("a")], None)


def random_rows(rng: random.Random, n: int) -> tuple[list[dict[str, Any]], dict[str, str]]:
    things = [f"{name} {number}" for name in ("fridge", "cabinet", "drawer") for number in (1, 2)]
    rows = [
        opened(
            f"r{at}",
            rng.choice(things),
            f"a {rng.choice(['mug', 'apple'])} {at % 3}",
            KITCHEN + " " * (at % 4),
        )
        for at in range(n)
    ]
    return rows, {row["transition_id"]: said_empty(row["action"][5:]) for row in rows}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 40), st.integers(1, 60))
def test_order_and_spilling_change_nothing(seed: int, n: int, in_memory: int) -> None:
    rng = random.Random(seed)
    rows, predictions = random_rows(rng, n)
    plain = build(rows, predictions, settings=BuildSettings(keep_sources=3))
    rng.shuffle(rows)
    small = BuildSettings(keep_sources=3, in_memory=in_memory)
    assert build(rows, predictions, settings=small) == plain
    assert [one.id for one in plain] == sorted(one.id for one in plain)
    for one in plain:
        assert one.support >= 2 and 1 <= len(one.source_ids) <= 3


def test_the_same_bytes_twice(tmp_path: Path) -> None:
    rows, predictions = random_rows(random.Random(1), 30)
    for name in ("a", "b"):
        write_bank(tmp_path / name, build(rows, predictions))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert read_bank(tmp_path / "a", "alfworld") == build(rows, predictions)


def test_a_site_cache_by_hand() -> None:
    making = Build("webshop")
    entries = list(making.entries([*shop_rows("a"), *shop_rows("bb", "find a cup")], None, "rows"))
    found = {one.key: one for one in entries}
    item = (("page", "item"), ("asin", "B000000001"))
    assert found[item].support == 4  # opened and re-shown after the option, in both trajectories
    assert found[item].positive == (
        "product B000000001 [SEP] size [SEP] small [SEP] large [SEP] color [SEP] red [SEP] Blue Mug [SEP] Price: $9.99"
    )
    chosen = found[(*item, ("options", "size: large"))]
    assert chosen.support == 2 and chosen.positive.endswith("selected size large")
    tab = found[(("page", "tab"), ("asin", "B000000001"), ("tab", "description"))]
    assert tab.positive == "product B000000001 description [SEP] Holds a pint."
    assert {one.kind for one in entries} == {"page", "state_cache"} and len(entries) == 4
    assert all(one.negative == "" and len(one.task_hashes) == 2 for one in entries)


def test_scienceworld_memories_and_caches() -> None:
    first = "Task Description:\nYour task is to boil water.\nThis room is called the kitchen. In it, you see: a sink."
    rows = [
        transition(name, chat(first, "look around"), "room", domain="scienceworld", task_id="sciworld_1")
        for name in ("a", "b")
    ]
    told = {"room": ["ROOM(kitchen)", "VISIBLE(sink)"], "said": ["ROOM(kitchen)"]}
    entries = build(rows, {"a": "said", "b": "said"}, "scienceworld", facts=lambda domain, text: told[text])
    found = {one.key: one for one in entries}
    room = found[(("cache", "room"), ("subject", "kitchen"))]
    assert (room.kind, room.support) == ("state_cache", 2)
    assert (
        room.positive == "in such a case expect ROOM(kitchen) 2/2, VISIBLE(sink) 2/2" and room.negative == ""
    )
    assert found[(("schema", "look"),)].kind == "fact"
    assert "leave out VISIBLE(sink) 2/2" in found[(("schema", "look"),)].negative


def test_rule_curator_names_the_commonest_when_nothing_is_common() -> None:
    bucket = Bucket("x", "transition", (("schema", "look"),), n=10)
    bucket.gold.update({"B(1)": 2, "A(1)": 2})
    hints = RuleCurator().curate(bucket)
    assert hints.positive == "in such a case expect A(1) 2/10" and hints.negative == ""
    with pytest.raises(InputError, match="above 0"):
        RuleCurator(majority=0.0)


def test_evaluation_tasks_stay_out(tmp_path: Path) -> None:
    rows = [
        opened("a"),
        opened("b"),
        opened("c", first="another " + KITCHEN),
        opened("d", first="another " + KITCHEN),
    ]
    predictions = {row["transition_id"]: said_empty() for row in rows}
    # The panel files the task under another id, with a list of actions and a privileged block.
    shown = "another " + KITCHEN + "\nAVAILABLE ACTIONS: look, help"
    write_panel(
        tmp_path / "panel.json", "alfworld", "test", [Task("alfworld_99", "alfworld", "g", shown, "secret")]
    )
    excluded = held_out([tmp_path / "panel.json"])
    assert task_hash(rows[2]["history"]) in excluded and task_hash(rows[0]["history"]) not in excluded
    making = Build("alfworld", excluded=excluded)
    clean = list(making.entries(rows, predictions.get, "rows"))
    assert making.report["held_out"] == 2 and all(set(one.source_ids) <= {"a", "b"} for one in clean)
    assert screen(clean, excluded) == (clean, [])
    leaky = build(rows, predictions)
    kept, refused = screen(leaky, excluded)
    assert (
        refused
        and all(leaks(one, excluded) for one in refused)
        and not any(leaks(one, excluded) for one in kept)
    )
    with pytest.raises(InputError, match="evaluation tasks"):
        require_clean(leaky, excluded, "bank")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"domain": "webshop"}, "give one domain"),
        ({"observation": None}, "a field is null"),
        ({"history": []}, "history is empty"),
    ],
)
def test_broken_rows_are_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=f"rows, row 1.*{said}"):
        build([opened("a"), {**opened("b"), **change}], {"a": "x", "b": "x"})


def test_predictions_are_one_a_transition() -> None:
    with PredictionIndex([{"transition_id": "a", "prediction": "x"}], "p") as index:
        assert (index.get("a"), index.get("b")) == ("x", None)
    with pytest.raises(InputError, match="two predictions for 'a'"):
        PredictionIndex([{"transition_id": "a", "prediction": "x"}] * 2, "p")
    with pytest.raises(InputError, match="null"):
        PredictionIndex([{"transition_id": "a", "prediction": None}], "p")


def test_sources_are_the_same_sample_in_any_order() -> None:
    def sample(order: list[int]) -> list[str]:
        with CountStore("alfworld", keep=4, in_memory=20) as store:
            for at in order:
                store.add([("transition", (("schema", "open"),))], {"gold": ["A()"]}, f"t{at}", "0")
            (bucket,) = store.buckets()
        assert bucket.n == bucket.gold["A()"] == len(order)
        return bucket.source_ids

    assert sample(list(range(100))) == sample(list(reversed(range(100))))
    assert len(sample([1, 2])) == 2


def entry(**changes: Any) -> dict[str, Any]:
    row = {
        "id": entry_id("alfworld", "transition", (("schema", "open"),)), "kind": "transition",
        "key": {"schema": "open"}, "positive": "p", "negative": "n", "payload": {"task_hashes": []}, "support": 1,
        "source_ids": [],
    }  # fmt: skip
    return {**row, **changes}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "rumour"}, "kind 'rumour'"),
        ({"key": {}}, "key is not"),
        ({"key": {"schema": "close"}}, "is not its key's"),
        ({"positive": None}, "positive is not text"),
        ({"payload": {}}, "task_hashes"),
        ({"support": 0}, "support"),
        ({"support": True}, "support"),
        ({"source_ids": [1]}, "source_ids"),
    ],
)
def test_broken_entries_are_named(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    bank = tmp_path / "bank.jsonl"
    bank.write_text(json.dumps(entry(**change)) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="row 1.*" + said):
        read_bank(bank, "alfworld")


def test_broken_lines_and_empty_banks(tmp_path: Path) -> None:
    bank = tmp_path / "bank.jsonl"
    line = json.dumps(entry())
    bank.write_text(f"{line}\n{line[:20]}", encoding="utf-8")  # a killed writer's last line
    assert len(read_bank(bank, "alfworld")) == 1
    bank.write_text(f"{line[:20]}\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match="row 1: not JSON"):
        read_bank(bank, "alfworld")
    bank.write_text(f"{line}\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"row 2.*repeated"):
        read_bank(bank, "alfworld")
    bank.write_text("", encoding="utf-8")
    assert read_bank(bank, "alfworld") == []
    with pytest.raises(InputError, match="give that domain's bank"):
        bank.write_text(line + "\n", encoding="utf-8")
        read_bank(bank, "textworld")


def test_commands(tmp_path: Path) -> None:
    rows, predictions = random_rows(random.Random(2), 20)
    write_table(tmp_path / "t.parquet", "transitions", rows)
    told = [
        {"transition_id": name, "model_id": "m", "prediction": text, "n_tokens": 1, "finish_reason": "stop"}
        for name, text in predictions.items()
    ]
    write_table(tmp_path / "p.parquet", "predictions", told)
    bank, blocks = tmp_path / "memory_alfworld.jsonl", tmp_path / "blocks.jsonl"
    base = ["--domain", "alfworld", "--transitions", str(tmp_path / "t.parquet")]
    run = CliRunner().invoke
    made = run(app, ["build", *base, "--predictions", str(tmp_path / "p.parquet"), "--out", str(bank)])
    assert made.exit_code == 0 and "from 20 transitions" in made.output
    meta = json.loads((tmp_path / "memory_alfworld.jsonl.meta.json").read_text())
    assert meta["report"]["hard"] == 20 and meta["config"]["curator"] == "rules"
    other = [{**row, "history": chat("Your task is to: look.", row["action"])} for row in rows]
    write_table(tmp_path / "other.parquet", "transitions", other)
    asked = ["--domain", "alfworld", "--transitions", str(tmp_path / "other.parquet")]
    found = run(app, ["retrieve", *asked, "--bank", str(bank), "--out", str(blocks)])
    assert found.exit_code == 0 and "20 prompts, 20 with a block (20 keyed" in found.output
    first = json.loads(blocks.read_text().splitlines()[0])
    assert first["block"].startswith("[BEGIN ALFWORLD_MEMORY]\n") and first["matches"][0]["status"] == "used"
    own = run(app, ["retrieve", *base, "--bank", str(bank), "--out", str(blocks)])
    assert "20 prompts, 0 with a block" in own.output  # they are the bank's only task
    shown = run(app, ["show", "--domain", "alfworld", "--bank", str(bank), "--key", "schema=open"])
    assert shown.exit_code == 0 and "Key: schema=open" in shown.output
    assert isinstance(
        run(app, ["show", "--domain", "alfworld", "--bank", str(bank), "--key", "x"]).exception, InputError
    )
