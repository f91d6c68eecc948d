"""What verl itself makes of our runs, in verl's own environment (``make test-engines``).

Configuration composed and validated by verl, data read by its dataset, the reward called through its manager with
a reference agent behind HTTP, the estimator found in its registry.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models as tiny
import torch
from model_server import serving
from wmlab.config.presets import PRESETS
from wmlab.data.decompose import transitions
from wmlab.data.verl import read_verl, write_verl
from wmlab.errors import InputError
from wmlab.lm.build import save_model
from wmlab.rewards.behr import BehaviourConsistency
from wmlab.rewards.opened import open_reference
from wmlab.rewards.verl import input_of
from wmlab.training import verl
from wmlab.training.verl_settings import SETTINGS
from wmlab.training.verl_stage import resolved, run_verl

SMALL = '{"batch_size": 4, "mini_batch_size": 4, "gpus_per_node": 1, "tensor_parallel": 1, "group": 2}'


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verl")
    rows = list(transitions([tiny.trajectory(4, number) for number in range(3)], "t"))
    write_verl(folder / "train.parquet", rows, source="t")
    for name, seed in (("agent", 3), ("world_model", 1)):
        save_model(folder / name, tiny.tiny_lm(seed).model, tiny.tokenizer())
    return folder


def options(data: Path, recipe: str = SMALL, preset: str = "paper", **changes: Any) -> list[str]:
    run = verl.VerlRun(
        str(data / "world_model"), data / "train.parquet", data / "train.parquet", data / "run",
        reference=data / "agent", **changes,
    )  # fmt: skip
    return verl.overrides(resolved(preset, recipe), run)


def composed(given: list[str]) -> Any:
    from hydra import compose, initialize_config_module

    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=given)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_a_configuration_that_verl_accepts(data: Path, preset: str) -> None:
    config = verl.validate(options(data, "{}", preset))
    recipe = resolved(preset, "{}")
    rollout, actor = config["actor_rollout_ref"]["rollout"], config["actor_rollout_ref"]["actor"]  # type: ignore[index]
    assert (rollout["n"], rollout["temperature"]) == (recipe.group, recipe.temperature)
    assert (actor["optim"]["lr"], actor["kl_loss_coef"]) == (recipe.learning_rate, recipe.kl_coefficient)
    assert config["algorithm"]["adv_estimator"] == "wmlab_grpo"  # type: ignore[index]


def test_the_command_lets_verl_check(data: Path) -> None:
    run_verl(
        "paper", SMALL, str(data / "world_model"), data / "train.parquet", data / "train.parquet", data / "out",
        data / "agent", (), None, show=False, check=True, done=False,
    )  # fmt: skip
    assert json.loads((data / "out" / "verl.json").read_text())["trainer"]["n_gpus_per_node"] == 1


def test_what_verl_refuses_or_would_ignore_is_an_error(data: Path) -> None:
    good = options(data)
    with pytest.raises(InputError, match="verl refuses the configuration"):
        verl.validate([*good, "actor_rollout_ref.rollout.no_such_key=1"])
    # The keys of older versions compose, and verl then scores with its own default.
    older = [line for line in good if "reward.custom_reward_function" not in line]
    with pytest.raises(InputError, match="finds no reward function"):
        verl.validate([*older, "custom_reward_function.path='pkg://wmlab.rewards.verl'"])


def test_its_dataset_reads_our_rows(data: Path) -> None:
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    config = composed([*options(data), "data.max_prompt_length=512"]).data
    dataset = RLHFDataset(str(data / "train.parquet"), tiny.tokenizer(), config)
    rows = read_verl(data / "train.parquet")
    assert len(dataset) == len(rows) == 9
    batch = collate_fn([dataset[at] for at in range(3)])
    for at in range(3):
        assert list(batch["raw_prompt"][at]) == rows[at]["prompt"]
        assert batch["extra_info"][at]["history"] == rows[at]["extra_info"]["history"]


@pytest.mark.parametrize("name", ["compute_score", "compute_score_sync"])
def test_its_manager_calls_our_reward_over_http(data: Path, name: str) -> None:
    from verl import DataProto
    from verl.trainer.ppo.reward import load_reward_manager

    rows, tokenizer = read_verl(data / "train.parquet"), tiny.tokenizer()
    said = ["You open the box.", rows[0]["reward_model"]["ground_truth"], "You open the box."]

    def sample(text: str) -> DataProto:
        ids = tokenizer.encode(text, add_special_tokens=False)
        return DataProto.from_dict(
            tensors={
                "responses": torch.tensor([ids]),
                "attention_mask": torch.ones(1, len(ids), dtype=torch.long),
            },
            non_tensors={
                key: np.asarray([rows[0][key]], dtype=object)
                for key in ("data_source", "reward_model", "extra_info")
            },
        )

    with serving(tiny.tiny_lm(3)) as server:
        given = options(data, reference_urls=(server.url,))
        config = composed([*given, f"reward.custom_reward_function.name={name}"])
        manager = load_reward_manager(config, tokenizer)
        loop = asyncio.new_event_loop()
        manager.loop = loop
        found = loop.run_until_complete(
            asyncio.wait_for(_together(manager, [sample(text) for text in said]), 120)
        )
        assert len(server.posts("generate")) >= 2
    reward = BehaviourConsistency(open_reference(data / "agent"))
    item = input_of("textworld_grpo", rows[0]["reward_model"]["ground_truth"], rows[0]["extra_info"])
    wanted = [record.reward for record in reward([item], [said])[0]]
    assert [one["reward_score"] for one in found] == pytest.approx(wanted, abs=1e-5)
    assert found[1]["reward_score"] == 1.0 and all(one["reward_extra_info"]["failed"] == 0 for one in found)


async def _together(manager: Any, samples: list[Any]) -> list[dict[str, Any]]:
    return list(await asyncio.gather(*(manager.run_single(sample) for sample in samples)))


def test_its_registry_has_our_estimator_and_ours_is_its_own_without_failures(data: Path) -> None:
    code = (
        "import verl, numpy as np, torch\n"
        "from verl.trainer.ppo.core_algos import get_adv_estimator_fn, compute_grpo_outcome_advantage as theirs\n"
        "ours = get_adv_estimator_fn('wmlab_grpo')\n"
        "r = torch.zeros(8, 4); r[:, 3] = torch.tensor([1., 0, 0, 0, .2, .9, .4, .4])\n"
        "mask, index = torch.ones(8, 4), np.asarray(list('aaaabbbb'), dtype=object)\n"
        "print(float((ours(r, mask, index)[0] - theirs(r.clone(), mask, index)[0]).abs().max()))\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "VERL_USE_EXTERNAL_MODULES": verl.PLUGIN,
        SETTINGS: '{"std_floor": 0.001, "max_failed": 0.05}',
    }
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert math.isclose(float(ended.stdout.split()[-1]), 0.0, abs_tol=1e-4)
