"""verl's own GRPO, for real: three steps on a CPU with BehR from a reference agent behind HTTP, resumed, merged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny_models as tiny
import torch
from launching import launch
from model_server import serving
from wmlab.data.decompose import transitions
from wmlab.data.verl import write_verl
from wmlab.errors import ModelFailure
from wmlab.lm.build import load_model, save_model
from wmlab.training.verl_stage import run_verl

RECIPE = json.dumps({
    "batch_size": 4, "mini_batch_size": 4, "micro_batch_per_gpu": 4, "group": 3, "gpus_per_node": 1, "nodes": 1,
    "tensor_parallel": 1, "max_prompt_tokens": 400, "max_new_tokens": 24, "epochs": 1, "save_every": 1,
    "learning_rate": 1e-3, "gradient_checkpointing": False, "reward_workers": 1, "reward_parameters": {"scale": 20.0},
})  # fmt: skip
# What a CPU needs beside the plug-in: eager attention of transformers, no compiler, few of Ray's and the queue's actors.
ON_A_CPU = [
    "actor_rollout_ref.rollout.name=transformers",
    "actor_rollout_ref.rollout.agent.num_workers=1",
    "actor_rollout_ref.actor.strategy=fsdp2",
    "actor_rollout_ref.ref.strategy=fsdp2",
    "+actor_rollout_ref.model.override_config.attn_implementation=sdpa",
    "actor_rollout_ref.actor.use_torch_compile=False",
    "actor_rollout_ref.actor.fsdp_config.use_torch_compile=False",
    "actor_rollout_ref.ref.fsdp_config.use_torch_compile=False",
    "actor_rollout_ref.actor.fsdp_config.dtype=float32",
    "actor_rollout_ref.ref.fsdp_config.dtype=float32",
    "data.dataloader_num_workers=0",
    "trainer.device=cpu",
    "trainer.logger=[console]",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
    "ray_kwargs.ray_init.num_cpus=32",
    "+ray_kwargs.ray_init.num_gpus=1",
]


def test_three_steps_with_behr_resumed_checked_and_merged(tmp_path: Path) -> None:
    rows = list(transitions([tiny.trajectory(4, number) for number in range(4)], "t"))
    write_verl(tmp_path / "train.parquet", rows, source="t")
    for name, seed in (("agent", 3), ("world_model", 1)):
        save_model(tmp_path / name, tiny.tiny_lm(seed).model, tiny.tokenizer())
    out = tmp_path / "run"

    with serving(tiny.tiny_lm(3)) as server:

        def stage(done: bool = False, merge: Path | None = None) -> None:
            run_verl(
                "paper", RECIPE, str(tmp_path / "world_model"), tmp_path / "train.parquet",
                tmp_path / "train.parquet", out, tmp_path / "agent", (server.url,), None,
                show=False, check=False, done=done, merge=merge,
            )  # fmt: skip

        stage()
        launch(out, [*ON_A_CPU, "trainer.total_training_steps=2"])
        with pytest.raises(ModelFailure, match="2 of 3 steps were done; run it again"):
            stage(done=True)
        asked = len(server.posts("generate"))
        assert asked >= 2  # the rewards of two steps came over HTTP
        said = launch(out, ON_A_CPU)
        assert len(server.posts("generate")) > asked
        stage(done=True, merge=tmp_path / "merged")
    assert "step:3" in said.replace(" ", "") and "step:1 " not in said  # from its checkpoint
    before, after = load_model(tmp_path / "world_model"), load_model(tmp_path / "merged")
    moved = max(
        float((a - b).abs().max()) for a, b in zip(before.parameters(), after.parameters(), strict=True)
    )
    assert 1e-4 < moved < 0.1 and all(torch.isfinite(p).all() for p in after.parameters())
    assert (tmp_path / "merged" / "model.safetensors.meta.json").exists()
