"""The commands of a study with memory, one after the other, at the smallest size: what one writes the next reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny_models as tiny
from typer.testing import CliRunner
from wmlab.cli.data import app as data
from wmlab.cli.memory import app as memory
from wmlab.cli.predict import app as predict
from wmlab.cli.rollout import app as rollout
from wmlab.cli.train import app as train
from wmlab.data.decompose import transitions
from wmlab.data.verl import read_verl
from wmlab.domains.base import Task
from wmlab.domains.panels import write_panel
from wmlab.errors import InputError
from wmlab.io.jsonl import read_jsonl
from wmlab.io.tables import read_table, write_table
from wmlab.lm.tokenizer import load_tokenizer
from wmlab.memory.prompt import phrases

SFT = {
    "architecture": tiny.ARCHITECTURE.model_dump(),
    "epochs": 1.0,
    "validation_points": 1,
    "max_length": 512,
}
GRPO = {
    "steps": 1, "prompts_per_step": 2, "group": 2, "max_new_tokens": 8, "validation_prompts": 2, "heldout_prompts": 2,
    "heldout_samples": 1, "warmup_steps": 1,
}  # fmt: skip
SHOWN = '{"budget": 400}'


def run(app: Any, *arguments: object) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.exception or done.output
    return done.output


def played(split: str, names: str) -> list[dict[str, Any]]:
    """The one game there is, under other first observations, so that each task is its own."""
    return [
        {
            **tiny.trajectory(4, at),
            "trajectory_id": f"{split}/{name}",
            "task_id": f"textworld_{split}_{name}",
            "split": split,
            "initial_observation": f"{tiny.FIRST} {split} {name}",
        }
        for at, name in enumerate(names)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("memory study")
    for split, names in (("train", "abcd"), ("validation", "e"), ("test", "fg")):
        rows = played(split, names)
        write_table(root / f"{split}.parquet", "trajectories", rows)
        write_table(root / f"t_{split}.parquet", "transitions", list(transitions(rows, split)))
        tasks = [Task(r["task_id"], "textworld", r["goal"], r["initial_observation"], None) for r in rows]
        write_panel(root / f"{split}.json", "textworld", split, tasks, {})
    data_of = ("--trajectories", root / "train.parquet")
    run(train, "tokenizer", *data_of, "--recipe", '{"vocab_size": 400}', "--out", root / "tok")
    sft = ("sft", "--role", "world-model", *data_of, "--validation", root / "validation.parquet")
    sft += ("--tokenizer", root / "tok", "--recipe", json.dumps(SFT))
    run(train, *sft, "--out", root / "w2w")
    run(
        predict,
        "states",
        "--model",
        root / "w2w",
        "--transitions",
        root / "t_train.parquet",
        "--out",
        root / "base.parquet",
    )
    panels = ("--exclude-panel", root / "test.json", "--exclude-panel", root / "validation.json")
    run(
        memory, "build", "--domain", "textworld", "--transitions", root / "t_train.parquet",
        "--predictions", root / "base.parquet", *panels, "--out", root / "bank.jsonl",
    )  # fmt: skip
    blocks = ("--memory", root / "bank.jsonl", "--memory-recipe", SHOWN)
    run(train, *sft, "--init", root / "w2w", *blocks, "--out", root / "mem_sft")
    return root


def test_the_tokenizer_knows_the_words_of_a_block(folder: Path) -> None:
    tokenizer = load_tokenizer(folder / "tok")
    for phrase in phrases("textworld"):
        assert len(tokenizer.encode(phrase, add_special_tokens=False)) == 1


def test_grpo_with_memory(folder: Path) -> None:
    run(
        train, "grpo", "--model", folder / "mem_sft", "--transitions", folder / "t_train.parquet", "--reward", "f1",
        "--validation", folder / "t_validation.parquet", "--recipe", json.dumps(GRPO), "--out", folder / "mem_f1",
        "--memory", folder / "bank.jsonl", "--memory-recipe", SHOWN,
    )  # fmt: skip
    meta = json.loads((folder / "mem_f1" / "model.safetensors.meta.json").read_text())
    assert meta["config"]["memory"] == SHOWN
    assert "bank.jsonl" in json.dumps(meta["inputs"])


def test_prediction_with_memory_and_without(folder: Path) -> None:
    panels = ("--exclude-panel", folder / "test.json")
    asked = ("states", "--model", folder / "mem_sft", "--transitions", folder / "t_test.parquet")
    blocks = ("--memory", folder / "bank.jsonl", "--memory-recipe", SHOWN)
    files = {name: folder / f"p_{name}" for name in ("with.parquet", "without.parquet", "records.jsonl")}
    run(
        predict, *asked, *blocks, *panels, "--records", files["records.jsonl"], "--without", files["without.parquet"],
        "--out", files["with.parquet"],
    )  # fmt: skip
    told = read_table(files["with.parquet"], "predictions")
    records = read_jsonl(files["records.jsonl"])
    assert [row["transition_id"] for row in told] == [row["transition_id"] for row in records]
    assert {row["how"] for row in records} == {"keyed"} and all(0 < row["n_tokens"] <= 400 for row in records)
    run(predict, *asked, "--out", folder / "p_alone.parquet")
    assert read_table(files["without.parquet"], "predictions") == read_table(
        folder / "p_alone.parquet", "predictions"
    )
    said = run(
        memory, "removal", "--predictions", files["with.parquet"], "--without", files["without.parquet"],
        "--records", files["records.jsonl"], "--transitions", folder / "t_test.parquet", "--out", folder / "removal.json",
    )  # fmt: skip
    assert "SSF" in said and json.loads((folder / "removal.json").read_text())["n_with_block"] == len(told)
    with pytest.raises(InputError, match="evaluation tasks"):
        result = CliRunner().invoke(
            predict,
            [
                str(a)
                for a in (*asked, *blocks, "--exclude-panel", folder / "train.json", "--out", folder / "x")
            ],
        )
        raise result.exception or AssertionError("a bank of evaluation tasks was taken")


def test_rollout_with_memory(folder: Path) -> None:
    run(
        rollout, "wm", "--model", folder / "mem_sft", "--agent", '{"agent_id": "s", "kind": "scripted"}', "--step-cap", 2,
        "--panel", folder / "test.json", "--out", folder / "wm.jsonl",
        "--memory", folder / "bank.jsonl", "--memory-recipe", SHOWN,
    )  # fmt: skip
    episodes = read_jsonl(folder / "wm.jsonl")
    assert len(episodes) == 2 and not any("MEMORY" in m["content"] for e in episodes for m in e["messages"])


def test_verl_export_with_memory(folder: Path) -> None:
    run(
        data, "verl", "--transitions", folder / "t_train.parquet", "--out", folder / "grpo.parquet",
        "--memory", folder / "bank.jsonl", "--memory-recipe", SHOWN, "--tokenizer", folder / "tok",
    )  # fmt: skip
    rows = read_verl(folder / "grpo.parquet")
    assert rows and all(row["prompt"][-1]["content"].startswith("[BEGIN TEXTWORLD_MEMORY]\n") for row in rows)
    assert all("MEMORY" not in row["extra_info"]["history"] for row in rows)
