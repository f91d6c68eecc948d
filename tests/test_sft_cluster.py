"""Supervised runs for clusters: the data that verl and LLaMA-Factory read, their settings, their scripts."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import tiny_models as tiny
import yaml
from memory_rows import transition_rule
from typer.testing import CliRunner
from wmlab.cli.train import app
from wmlab.config.sft_cluster import SftClusterRecipe
from wmlab.data.decompose import world_model_chat
from wmlab.io.tables import write_table
from wmlab.memory.bank import write_bank
from wmlab.training.verl_sft import command

SMALL = {"batch_size": 2, "micro_batch_per_gpu": 1, "gpus_per_node": 1, "epochs": 3}


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["sft-cluster", *arguments])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_table(tmp_path / "t.parquet", "trajectories", [tiny.trajectory(4, number) for number in range(5)])
    write_table(tmp_path / "v.parquet", "trajectories", [tiny.trajectory(2, 9)])
    return tmp_path


def made(data: Path, engine: str, *more: str, **recipe: Any) -> Path:
    out = data / "run"
    given = [
        "--engine",
        engine,
        "--model",
        "base",
        "--trajectories",
        str(data / "t.parquet"),
        "--out",
        str(out),
    ]
    done = run(*given, "--recipe", json.dumps({**SMALL, **recipe}), *more)
    assert done.exit_code == 0, (done.output, done.exception)
    assert subprocess.run(["bash", "-n", str(out / "launch.sh")], check=False).returncode == 0
    return out


def test_the_recipe_is_the_published_one() -> None:
    done = run("--print")
    shown = json.loads(done.output)
    assert set(shown) == set(SftClusterRecipe.model_fields)
    assert (shown["batch_size"], shown["micro_batch_per_gpu"], shown["gpus_per_node"]) == (128, 2, 4)
    assert (shown["learning_rate"], shown["epochs"], shown["max_length"]) == (1e-5, 5, 12288)
    assert (shown["warmup_steps"], shown["max_grad_norm"], shown["save_every"]) == (10, 100.0, 160)


def test_verl_gets_the_dialogues_and_its_overrides(data: Path) -> None:
    out = made(data, "verl", "--validation", str(data / "v.parquet"), max_samples=4)
    rows = pq.read_table(out / "train.parquet").to_pylist()
    assert [row["messages"] for row in rows] == [world_model_chat(tiny.trajectory(4, n)) for n in range(4)]
    assert pq.read_table(out / "validation.parquet").num_rows == 1
    lines = (out / "overrides.txt").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines)
    assert (given["data.train_batch_size"], given["optim.lr"], given["optim.clip_grad"]) == (
        "2",
        "1e-05",
        "100.0",
    )
    assert given["data.max_token_len_per_gpu"] == "12288" and given["engine.dtype"] == "bfloat16"
    assert json.loads((out / "recipe.json").read_text())["steps"] == 2 * 3
    script = (out / "launch.sh").read_text()
    assert "torchrun" in script and "--standalone" in script and "verl.trainer.sft_trainer" in script
    assert (out / "launch.sh.meta.json").is_file()


def test_llama_factory_gets_its_yaml_and_data_description(data: Path) -> None:
    out = made(
        data, "llama-factory", "--validation", str(data / "v.parquet"), batch_size=4, micro_batch_per_gpu=2
    )
    rows = [json.loads(line) for line in (out / "train.jsonl").read_text().splitlines()]
    assert [row["messages"] for row in rows] == [world_model_chat(tiny.trajectory(4, n)) for n in range(5)]
    settings = yaml.safe_load((out / "sft.yaml").read_text())
    assert settings["gradient_accumulation_steps"] == 2 and settings["per_device_train_batch_size"] == 2
    assert (settings["learning_rate"], settings["num_train_epochs"]) == (1e-5, 3.0)
    assert settings["lr_scheduler_type"] == "constant_with_warmup" and settings["template"] == "qwen"
    assert settings["disable_gradient_checkpointing"] is False and settings["mask_history"] is False
    assert settings["eval_dataset"] == "validation"
    described = json.loads((out / "dataset_info.json").read_text())
    assert {name: entry["file_name"] for name, entry in described.items()} == {
        "train": "train.jsonl",
        "validation": "validation.jsonl",
    }
    assert Path(settings["deepspeed"]).is_file() and settings["dataset_dir"] == str(out)


def test_with_memory_a_row_is_a_step_and_only_its_observation_is_learnt(data: Path) -> None:
    write_bank(data / "bank.jsonl", [transition_rule("open")])
    out = made(data, "llama-factory", "--memory", str(data / "bank.jsonl"))
    rows = [json.loads(line)["messages"] for line in (out / "train.jsonl").read_text().splitlines()]
    assert len(rows) == 5 * 4 and all(row[-1]["role"] == "assistant" for row in rows)
    chat = world_model_chat(tiny.trajectory(4, 0))
    told = [message["content"] for message in rows[0]]
    assert any("MEMORY]" in text for text in told) and told[-1] == chat[2]["content"]
    assert rows[1] == chat[:5]  # the next step has no entry
    assert yaml.safe_load((out / "sft.yaml").read_text())["mask_history"] is True


def test_nodes_meet_at_the_first_of_the_allocation(data: Path) -> None:
    recipe = SftClusterRecipe(nodes=3, gpus_per_node=8, batch_size=96)
    words = command(recipe, ["a=1"])
    assert (
        words[:3] == ["torchrun", "--nnodes=3", "--nproc_per_node=8"] and "--rdzv_id=$SLURM_JOB_ID" in words
    )
    stand_in = """#!/bin/sh
case "$1" in show) printf 'first\\nsecond\\n';; *) shift; exec "$@";; esac
"""
    for engine, told in (
        ("verl", "--rdzv_endpoint=first:29400 --rdzv_id=7"),
        ("llama-factory", "rank 1 of 2"),
    ):
        out = made(data, engine, nodes=2)
        (data / "bin").mkdir(exist_ok=True)
        speaks = {
            "scontrol": stand_in,
            "srun": stand_in,
            "torchrun": '#!/bin/sh\necho "$@"\n',
            "llamafactory-cli": '#!/bin/sh\necho "rank $NODE_RANK of $NNODES at $MASTER_ADDR: $@"\n',
        }
        for name, text in speaks.items():
            (data / "bin" / name).write_text(text)
            (data / "bin" / name).chmod(0o755)
        told_by = {"PATH": f"{data}/bin:/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_NODEID": "1"}
        ended = subprocess.run(
            ["bash", str(out / "launch.sh"), "more=1"],
            env={**told_by, "SLURM_JOB_NODELIST": "n[1-2]"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        assert told in ended.stdout and ended.stdout.rstrip().endswith("more=1")
        alone = subprocess.run(
            ["bash", str(out / "launch.sh")], env=told_by, capture_output=True, text=True, check=False
        )
        assert alone.returncode != 0 and "in a Slurm allocation" in alone.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--engine", "vrel"], "did you mean 'verl'"),
        (["--recipe", '{"epoch": 2}'], "did you mean 'epochs'"),
        (["--recipe", '{"batch_size": 9}'], "no multiple of the 8 trajectories"),
        ([], "--model, --trajectories, --out missing"),
        (["--engine", "llama-factory", "--check"], "are for --engine verl"),
        (["--done"], "--out missing"),
        (["--done", "--out", "nowhere"], "recipe.json: file not found"),
        (["--model", "m", "--trajectories", "t.parquet", "--out", "o"], "5 rows do not fill a batch of 128"),
        (
            ["--model", "m", "--trajectories", "t.parquet", "--out", "o", "--memory", "b"],
            "teaches every turn",
        ),
    ],
)
def test_bad_input(data: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], problem: str) -> None:
    monkeypatch.chdir(data)
    done = run(*arguments)
    assert done.exit_code != 0 and problem in str(done.exception), done.exception


def test_a_run_that_is_short_of_its_steps_is_told(data: Path) -> None:
    out = made(data, "verl")
    done = run("--done", "--out", str(out))
    assert "0 of 6 steps were done" in str(done.exception)
