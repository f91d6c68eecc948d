"""Runs of verl, as far as they are ours: presets, overrides, the launch script, the reward function, the estimator.

What verl makes of them is tested in its own environment (tests/engines).
"""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models as tiny
import torch
from typer.testing import CliRunner
from wmlab.cli.train import app
from wmlab.config.presets import OPEN, PRESETS
from wmlab.config.verl import VerlRecipe
from wmlab.data.decompose import transitions
from wmlab.data.verl import write_verl
from wmlab.errors import InputError, ModelFailure
from wmlab.lm.build import save_model
from wmlab.rewards import verl as reward_function
from wmlab.training import verl, verl_plugin
from wmlab.training.advantage import advantages
from wmlab.training.verl_settings import SETTINGS
from wmlab.training.verl_stage import resolved

GOLD = list(tiny.STATES.values())
SMALL = '{"batch_size": 2, "mini_batch_size": 2, "group": 4, "epochs": 3}'


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["verl", *map(str, arguments)])


# Recipes ------------------------------------------------------------------------------------------


def test_presets_hold_what_their_sources_state() -> None:
    paper = resolved("paper", "{}")
    assert (paper.temperature, paper.group, paper.kl_coefficient, paper.tensor_parallel) == (1.3, 5, 1e-3, 2)
    assert (paper.reward, paper.reward_parameters, paper.batch_size, paper.gpus_per_node) == (
        "behr",
        {"scale": 1.0},
        32,
        8,
    )
    released = resolved("released-code-webshop", "{}")
    assert released.reward == "behr_facts" and released.learning_rate == 5e-6
    assert released.reward_parameters == {"scale": 1.0, "behavior_weight": 0.8, "facts_weight": 0.2}
    memwm = resolved("memwm-webshop", "{}")
    assert (memwm.learning_rate, memwm.group, memwm.epochs, memwm.max_prompt_tokens) == (1e-6, 8, 10, 24000)
    assert resolved("memwm-alfworld", "{}").micro_batch_per_gpu == 16
    for name in PRESETS:
        assert set(OPEN.get(name, ())) <= set(VerlRecipe.model_fields)


def test_a_recipe_is_printed_whole_and_changed_by_key() -> None:
    done = run("--preset", "memwm-webshop", "--recipe", '{"epochs": 2, "reward": "ssf"}', "--print")
    assert done.exit_code == 0, done.output
    text, _, said = done.output.rpartition("}")
    shown = json.loads(text + "}")
    assert set(shown) == set(VerlRecipe.model_fields) and (shown["epochs"], shown["reward"]) == (2, "ssf")
    assert "not stated by the source, chosen here: reward, temperature" in said
    for arguments, problem in (
        (("--preset", "papr", "--print"), "did you mean 'paper'"),
        (("--recipe", '{"epoch": 2}', "--print"), "epoch"),
        (("--recipe", '{"reward": "bher"}', "--print"), "did you mean 'behr'"),
        (("--recipe", '{"group": 1}', "--print"), "group"),
        (
            ("--recipe", '{"micro_batch_per_gpu": 3}', "--print"),
            "batch_size x group: 160 samples are no multiple of the 24",
        ),
        ((), "--model, --train, --validation, --out missing"),
    ):
        bad = run(*arguments)
        assert isinstance(bad.exception, InputError) and problem in str(bad.exception)


# A run's files ------------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = list(transitions([tiny.trajectory(4, number) for number in range(3)], "t"))
    write_verl(tmp_path / "train.parquet", rows, source="t")
    save_model(tmp_path / "agent", tiny.tiny_lm(3).model, tiny.tokenizer())
    return tmp_path


def test_a_run_is_written_and_its_end_is_checked(data: Path) -> None:
    given = [
        "--recipe", SMALL, "--model", "org/some-model", "--train", data / "train.parquet",
        "--validation", data / "train.parquet", "--reference", data / "agent", "--out", data / "run's",
        "--reference-url", "http://a:8000/v1", "--reference-url", "http://b:8000/v1",
    ]  # fmt: skip
    done = run(*given)
    assert done.exit_code == 0, done.exception
    assert "12 steps over 9 prompts, not checked by verl" in done.output  # 9 // 2 batches, 3 epochs
    options = (data / "run's" / "overrides.txt").read_text().splitlines()
    assert len({line.partition("=")[0].lstrip("+") for line in options}) == len(options)
    assert "actor_rollout_ref.model.path='org/some-model'" in options
    assert (
        "+reward.custom_reward_function.reward_kwargs.reference_urls=['http://a:8000/v1','http://b:8000/v1']"
        in options
    )
    # The older top-level keys compose in verl and are ignored.
    assert not [
        line for line in options if line.lstrip("+").startswith(("custom_reward_function", "reward_model"))
    ]
    script = data / "run's" / "launch.sh"
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
    short = run(*given, "--done")
    assert isinstance(short.exception, ModelFailure) and "0 of 12 steps" in str(short.exception)
    checkpoints = data / "run's" / "checkpoints"
    (checkpoints / "global_step_8").mkdir(parents=True)
    (checkpoints / "latest_checkpointed_iteration.txt").write_text("8")
    with pytest.raises(ModelFailure, match="8 of 12 steps were done; run it again, it resumes from step 8"):
        verl.check_done(checkpoints, 12)
    (checkpoints / "latest_checkpointed_iteration.txt").write_text("12")
    with pytest.raises(InputError, match="no checkpoint"):
        verl.check_done(checkpoints, 12)
    (checkpoints / "global_step_12").mkdir()
    assert "all 12 steps were done" in run(*given, "--done").output


def test_a_run_needs_its_reference_and_a_full_batch(data: Path) -> None:
    given = [
        "--model",
        "m",
        "--train",
        data / "train.parquet",
        "--validation",
        data / "train.parquet",
        "--out",
        data / "r",
    ]
    bad = run(*given)
    assert isinstance(bad.exception, InputError) and "--reference" in str(bad.exception)
    few = run(*given, "--recipe", '{"reward": "f1"}')
    assert isinstance(few.exception, InputError) and "9 prompts do not fill a batch of 32" in str(
        few.exception
    )
    assert not (data / "r").exists()


@pytest.mark.parametrize("nodes", [1, 3])
def test_the_launch_script_is_shell_whatever_the_paths(nodes: int, tmp_path: Path) -> None:
    recipe = VerlRecipe(nodes=nodes, gpus_per_node=4)
    run_ = verl.VerlRun("m", tmp_path / "a'b $(x).parquet", tmp_path / "v", tmp_path / "o, {p}")
    text = verl.launch_script(recipe, verl.overrides(recipe, run_), run_.checkpoints, 5)
    path = tmp_path / "launch.sh"
    path.write_text(text.replace("python -m verl.trainer.main_ppo", "printf '%s\\n'"))
    if nodes == 1:
        said = subprocess.run(
            ["bash", str(path), "trainer.x=1"], capture_output=True, text=True, check=True
        ).stdout
        assert said.splitlines() == [*verl.overrides(recipe, run_), "trainer.x=1"]
    else:
        assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0
        assert "--nodes=2 --ntasks=2" in text and "RAY_AUTH_MODE=token" in text
        outside = subprocess.run(["bash", str(path)], capture_output=True, text=True, check=False)
        assert outside.returncode != 0 and "run this in a Slurm allocation" in outside.stderr
    assert f'{SETTINGS}=\'{{"std_floor": 0.001, "max_failed": 0.05}}\'' in text


@pytest.mark.parametrize(("step", "kept"), [(4, True), (5, False), (10, False), (11, True)])
def test_a_checkpoint_of_an_epochs_end_loses_its_used_up_data_loader(
    tmp_path: Path, step: int, kept: bool
) -> None:
    checkpoints = tmp_path / "it's here"
    script = "\n".join(["set -euo pipefail", *verl.at_an_epochs_end(checkpoints, 5)])
    assert subprocess.run(["bash", "-c", script], check=False).returncode == 0  # nothing there yet
    for n in (step, 3):
        for name in ("data.pt", "data_1.pt", "model_world_size_1_rank_0.pt"):
            file = checkpoints / f"global_step_{n}" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
    (checkpoints / "latest_checkpointed_iteration.txt").write_text(str(step))
    assert subprocess.run(["bash", "-c", script], check=False).returncode == 0
    left = sorted(file.name for file in (checkpoints / f"global_step_{step}").iterdir())
    assert left == [*(["data.pt", "data_1.pt"] if kept else []), "model_world_size_1_rank_0.pt"]
    assert len(list((checkpoints / "global_step_3").iterdir())) == 3


# The reward function -------------------------------------------------------------------------------


def row(n: int, action: str | None = "take key") -> dict[str, Any]:
    return {
        "domain": "textworld",
        "history": json.dumps(tiny.history(n)),
        "expert_action": action,
        "index": n,
    }


def test_samples_are_scored_together_and_a_failure_is_no_number(data: Path) -> None:
    settings = {"reward": "behr", "parameters": '{"scale": 1.0}', "reference": str(data / "agent")}
    said = ["x", GOLD[0], "x", "You open the box.", "word " * 900]

    async def all_of_them() -> list[dict[str, float]]:
        asked = [
            reward_function.compute_score("textworld_grpo", text, GOLD[0], row(0), **settings)
            for text in said
        ]
        end = reward_function.compute_score("textworld_grpo", "x", GOLD[3], row(3, None), **settings)
        return list(await asyncio.gather(*asked, end))

    reward_function._opened.cache_clear()
    *found, end = asyncio.run(all_of_them())
    agent = reward_function._opened(reward_function._key(settings)).reference  # type: ignore[attr-defined]
    assert (
        agent.calls == 3
    )  # the real state and two others: equal samples and the real one are not asked about twice
    assert found[0] == found[2] and found[1]["score"] == 1.0 and 0 < found[0]["score"] < 1
    assert math.isnan(found[4]["score"]) and found[4]["failed"] == 1.0 and math.isnan(end["score"])
    assert {tuple(one) for one in (*found, end)} == {("score", "failed", "delta")}
    alone = reward_function.compute_score_sync("textworld_grpo", "x", GOLD[0], row(0), **settings)
    assert alone["score"] == pytest.approx(found[0]["score"], abs=1e-6)


def test_rows_and_settings_are_checked() -> None:
    with pytest.raises(InputError, match="wmlab data verl"):
        reward_function.compute_score_sync("gsm8k", "x", "y", {"index": 1}, reward="f1")
    for settings in ({}, {"reward": "f1", "temperature": 1}):
        with pytest.raises(InputError, match="reward_kwargs"):
            reward_function.compute_score_sync("textworld_grpo", "x", "y", row(0), **settings)
    with pytest.raises(InputError, match="--reference"):
        reward_function.compute_score_sync("textworld_grpo", "x", "y", row(0), reward="behr")
    assert (
        reward_function.compute_score_sync("textworld_grpo", "a b", "a b", row(0), reward="f1")["score"]
        == 1.0
    )


def test_an_error_reaches_every_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(items: Any, candidates: Any) -> Any:
        raise ModelFailure("gone")

    async def ask() -> list[Any]:
        gatherer = reward_function._Gatherer(broken)
        item = reward_function.input_of("d", GOLD[0], row(0))
        return await asyncio.gather(*(gatherer.ask(item, str(n)) for n in range(3)), return_exceptions=True)

    assert [str(error) for error in asyncio.run(ask())] == ["gone"] * 3


# The estimator -------------------------------------------------------------------------------------


def test_failures_leave_their_group_and_too_many_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTINGS, '{"std_floor": 0.001, "max_failed": 0.2}')
    rewards = torch.zeros(6, 3)
    rewards[:, 2] = torch.tensor([1.0, 0.0, 0.0, math.nan, 0.5, 0.5 + 1e-5])
    mask = torch.tensor([[1.0, 1.0, 1.0]] * 5 + [[1.0, 1.0, 0.0]])
    index = np.asarray(["a", "a", "a", "a", "b", "b"], dtype=object)
    found, returns = verl_plugin.wmlab_grpo(rewards, mask, index, config=None, epsilon=1e-6)
    by_hand = advantages([1.0, 0.0, 0.0, None], 0.001)
    assert found[:4, 0].tolist() == pytest.approx(by_hand) and found[3].tolist() == [0.0] * 3
    # Noise is not amplified: the floor of the standard deviation.
    assert abs(float(found[4, 0])) < 0.2 and float(found[5, 2]) == 0.0
    assert torch.equal(found, returns)
    rewards[0, 2] = math.nan
    with pytest.raises(ModelFailure, match="2 of 6 rewards failed, more than 20%"):
        verl_plugin.wmlab_grpo(rewards, mask, index)
    monkeypatch.delenv(SETTINGS)
    with pytest.raises(InputError, match="use the launch script"):
        verl_plugin.wmlab_grpo(rewards, mask, index)
