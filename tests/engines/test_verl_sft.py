"""verl's own SFT trainer on a CPU: our run's configuration, data and script, resumed, checked and merged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny_models as tiny
import torch
from launching import launch
from wmlab.data.decompose import world_model_chat
from wmlab.errors import InputError, ModelFailure
from wmlab.io.tables import write_table
from wmlab.lm.build import load_model, save_model
from wmlab.lm.tokenizer import encode_turns
from wmlab.training import verl_sft
from wmlab.training.sft_cluster import run_sft_cluster

RECIPE = json.dumps({
    "batch_size": 4, "micro_batch_per_gpu": 2, "gpus_per_node": 1, "epochs": 2, "max_length": 400, "save_every": 1,
    "learning_rate": 1e-3, "warmup_steps": 0, "precision": "fp32", "gradient_checkpointing": False,
})  # fmt: skip
ON_A_CPU = [
    "data.num_workers=0",
    "model.use_remove_padding=False",
    "+model.override_config.attn_implementation=sdpa",
    "engine.use_torch_compile=False",
    "engine.strategy=fsdp2",
    "trainer.device=cpu",
    "trainer.logger=[console]",
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sft")
    rows = [tiny.trajectory(4, number) for number in range(9)]
    write_table(path / "t.parquet", "trajectories", rows)
    write_table(path / "v.parquet", "trajectories", rows[:4])
    save_model(path / "base", tiny.tiny_lm(1).model, tiny.tokenizer())
    return path


def stage(data: Path, out: Path, **more: Any) -> None:
    chosen = {"show": False, "check": False, "done": False, "merge": None, **more}
    run_sft_cluster(
        "verl",
        RECIPE,
        str(data / "base"),
        data / "t.parquet",
        data / "v.parquet",
        out,
        None,
        "{}",
        None,
        **chosen,
    )


def test_its_dataclasses_take_our_recipe(data: Path) -> None:
    stage(data, data / "checked", check=True)
    config = json.loads((data / "checked" / "verl.json").read_text())
    assert config["optim"]["lr"] == 1e-3 and config["optim"]["lr_scheduler_type"] == "constant"
    assert config["engine"]["dtype"] == "float32" and config["data"]["max_length"] == 400
    given = (data / "checked" / "overrides.txt").read_text().splitlines()
    with pytest.raises(InputError, match="verl refuses the configuration"):
        verl_sft.validate([*given, "optim.no_such_key=1"])


def test_its_dataset_teaches_the_observations_and_nothing_else(data: Path) -> None:
    from hydra import compose, initialize_config_module
    from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

    stage(data, data / "read")
    given = (data / "read" / "overrides.txt").read_text().splitlines()
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("sft_trainer_engine", overrides=given).data
    dataset = MultiTurnSFTDataset(str(data / "read" / "train.parquet"), tiny.tokenizer(), config)
    assert len(dataset) == 9
    row = dataset[0]
    chat = world_model_chat(tiny.trajectory(4, 0))
    ids, taught = encode_turns(tiny.tokenizer(), chat, [turn["role"] == "assistant" for turn in chat])
    found, mask = row["input_ids"].tolist(), row["loss_mask"].tolist()
    assert found[: len(ids)] == ids
    said = [i for i, learnt in zip(found, mask, strict=True) if learnt]
    observations = "".join(turn["content"] for turn in chat if turn["role"] == "assistant")
    told = tiny.tokenizer().decode(said, skip_special_tokens=True)
    assert "".join(told.split()) == "".join(observations.split())
    assert (
        sum(taught) <= len(said) <= sum(taught) + len(chat)
    )  # what follows the end of a turn may count with it


def test_it_trains_stops_resumes_and_merges(data: Path) -> None:
    out = data / "run"
    stage(data, out)
    launch(out, [*ON_A_CPU, "trainer.total_training_steps=2"])
    with pytest.raises(ModelFailure, match="2 of 4 steps were done; run it again"):
        stage(data, out, done=True)
    said = launch(out, ON_A_CPU)
    stage(data, out, merge=data / "merged")
    assert "step:4" in said.replace(" ", "")
    before, after = load_model(data / "base"), load_model(data / "merged")
    moved = max(
        float((a - b).detach().abs().max())
        for a, b in zip(before.parameters(), after.parameters(), strict=True)
    )
    assert 1e-4 < moved < 0.1 and all(torch.isfinite(p).all() for p in after.parameters())
    meta = json.loads((data / "merged" / "model.safetensors.meta.json").read_text())
    assert meta["config"]["step"] == 4
