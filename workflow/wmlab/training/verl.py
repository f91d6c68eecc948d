"""Runs of verl 0.9.1: our recipe as its configuration, the script that launches it, what it left behind.

verl is not imported here but by :func:`validate`, which runs in verl's own environment: its pins exclude ours.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wmlab.config.verl import VerlRecipe
from wmlab.errors import InputError, ModelFailure
from wmlab.training.verl_settings import SETTINGS

VERSION = "0.9.1"
PLUGIN = "wmlab.training.verl_plugin"
ESTIMATOR = "wmlab_grpo"


@dataclass(frozen=True)
class VerlRun:
    """The files of a run; ``model`` is a folder or a name of the hub, ``reference_urls`` are servers of the reference agent."""

    model: str
    train: Path
    validation: Path
    out: Path
    reference: Path | None = None
    reference_urls: tuple[str, ...] = ()
    reference_model: str | None = None

    @property
    def checkpoints(self) -> Path:
        """Where verl keeps its checkpoints."""
        return self.out / "checkpoints"


def overrides(recipe: VerlRecipe, run: VerlRun) -> list[str]:
    """The recipe as verl's hydra overrides. The reward's keys are those under ``reward.``: verl composes the older
    top-level ones too, and ignores them."""
    kwargs: dict[str, object] = {
        "reward": recipe.reward,
        "parameters": json.dumps(recipe.reward_parameters, sort_keys=True),
    }
    if run.reference is not None:
        kwargs["reference"] = str(run.reference)
    if run.reference_urls:
        kwargs["reference_urls"] = list(run.reference_urls)
        if run.reference_model is not None:
            kwargs["reference_model"] = run.reference_model
    micro = recipe.micro_batch_per_gpu
    chosen: dict[str, object] = {
        "algorithm.adv_estimator": ESTIMATOR,
        "algorithm.use_kl_in_reward": False,
        "data.train_files": str(run.train),
        "data.val_files": str(run.validation),
        "data.train_batch_size": recipe.batch_size,
        "data.max_prompt_length": recipe.max_prompt_tokens,
        "data.max_response_length": recipe.max_new_tokens,
        "data.filter_overlong_prompts": True,
        "data.truncation": "error",
        "data.seed": recipe.seed,
        "actor_rollout_ref.model.path": run.model,
        "actor_rollout_ref.model.use_remove_padding": False,
        "actor_rollout_ref.model.enable_gradient_checkpointing": recipe.gradient_checkpointing,
        "actor_rollout_ref.actor.optim.lr": recipe.learning_rate,
        "actor_rollout_ref.actor.ppo_mini_batch_size": recipe.mini_batch_size,
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": micro,
        "actor_rollout_ref.actor.use_kl_loss": recipe.kl_coefficient > 0,
        "actor_rollout_ref.actor.kl_loss_coef": recipe.kl_coefficient,
        "actor_rollout_ref.actor.kl_loss_type": "low_var_kl",
        "actor_rollout_ref.actor.entropy_coeff": recipe.entropy_coefficient,
        "actor_rollout_ref.actor.clip_ratio_low": recipe.clip_low,
        "actor_rollout_ref.actor.clip_ratio_high": recipe.clip_high,
        "actor_rollout_ref.actor.loss_agg_mode": recipe.loss,
        "actor_rollout_ref.rollout.name": "vllm",
        "actor_rollout_ref.rollout.n": recipe.group,
        "actor_rollout_ref.rollout.temperature": recipe.temperature,
        "actor_rollout_ref.rollout.top_p": recipe.top_p,
        "actor_rollout_ref.rollout.tensor_model_parallel_size": recipe.tensor_parallel,
        "actor_rollout_ref.rollout.gpu_memory_utilization": recipe.rollout_memory,
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu": micro,
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": micro,
        "reward.custom_reward_function.path": "pkg://wmlab.rewards.verl",
        "reward.custom_reward_function.name": "compute_score",
        **{f"+reward.custom_reward_function.reward_kwargs.{name}": value for name, value in kwargs.items()},
        "reward.num_workers": recipe.reward_workers,
        "trainer.nnodes": recipe.nodes,
        "trainer.n_gpus_per_node": recipe.gpus_per_node,
        "trainer.total_epochs": recipe.epochs,
        "trainer.save_freq": recipe.save_every,
        "trainer.test_freq": recipe.test_every,
        "trainer.val_before_train": recipe.validate_first,
        "trainer.logger": ["console", "file"],
        "trainer.project_name": "wmlab",
        "trainer.experiment_name": run.out.name,
        "trainer.default_local_dir": str(run.checkpoints),
        "trainer.resume_mode": "auto",
    }
    return [f"{key}={hydra(value)}" for key, value in chosen.items()]


def hydra(value: object) -> str:
    """A value in hydra's grammar: texts quoted, so that no character of a path is read as more than itself."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, list):
        return f"[{','.join(hydra(one) for one in value)}]"
    if isinstance(value, str) and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", value):
        quoted = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{quoted}'"
    return str(value)


def at_an_epochs_end(checkpoints: Path, per_epoch: int) -> list[str]:
    """Lines of a launch script for a checkpoint of an epoch's end. verl keeps its data loader there as used up, and
    resumed from it trains nothing, exits with 0 and comes no further; without it the next epoch begins afresh."""
    return [
        f"checkpoints={shlex.quote(str(checkpoints))}",
        'step=$(cat "$checkpoints/latest_checkpointed_iteration.txt" 2> /dev/null || echo 0)',
        f'if [ "$step" -gt 0 ] && [ $((step % {per_epoch})) -eq 0 ]; then',
        '  find "$checkpoints/global_step_$step" -name "data*.pt" -delete',
        "fi",
    ]


def launch_script(
    recipe: VerlRecipe, given: Sequence[str], checkpoints: Path, per_epoch: int, python: str = "python"
) -> str:
    """A script for one node, or for every node of a Slurm allocation: Ray's head on the first, workers on the rest.

    ``per_epoch`` are the steps of an epoch.
    """
    settings = json.dumps({"std_floor": recipe.std_floor, "max_failed": recipe.max_failed})
    command = " \\\n  ".join([f"{python} -m verl.trainer.main_ppo", *map(shlex.quote, given), '"$@"'])
    lines = [
        "#!/usr/bin/env bash",
        f"# GRPO by verl {VERSION}, resumed from its latest checkpoint when run again.",
        "set -euo pipefail",
        f"export VERL_USE_EXTERNAL_MODULES={PLUGIN}${{VERL_USE_EXTERNAL_MODULES:+,$VERL_USE_EXTERNAL_MODULES}}",
        f"export {SETTINGS}={shlex.quote(settings)}",
        "export HF_HUB_OFFLINE=1",
        *at_an_epochs_end(checkpoints, per_epoch),
    ]
    if recipe.nodes > 1:
        lines += [
            ': "${SLURM_JOB_NODELIST:?run this in a Slurm allocation of several nodes}"',
            "export RAY_AUTH_MODE=token  # Ray asks for its token; ~/.ray is shared by the nodes",
            'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
            'export RAY_ADDRESS="$head:6379"',
            'srun --nodes=1 --ntasks=1 -w "$head" --overlap \\',
            f"  ray start --head --port=6379 --num-gpus={recipe.gpus_per_node} --block &",
            "sleep 15",
            f'srun --nodes={recipe.nodes - 1} --ntasks={recipe.nodes - 1} --exclude="$head" --overlap \\',
            f'  ray start --address="$RAY_ADDRESS" --num-gpus={recipe.gpus_per_node} --block &',
            "trap 'ray stop --force; kill $(jobs -p) 2> /dev/null || true' EXIT",
            "sleep 15",
        ]
    return "\n".join([*lines, command, ""])


def latest_step(checkpoints: Path) -> int:
    """The last step with a whole checkpoint, 0 for none: what ``latest_checkpointed_iteration.txt`` says."""
    path = checkpoints / "latest_checkpointed_iteration.txt"
    if not path.is_file():
        return 0
    text = path.read_text().strip()
    if not text.isdecimal() or not (checkpoints / f"global_step_{text}").is_dir():
        raise InputError.at(path, f"says {text[:40]!r}, which is no checkpoint", "remove it to start anew")
    return int(text)


def check_done(checkpoints: Path, planned: int) -> None:
    """Raise ModelFailure when fewer steps were done than planned: verl may resume at an epoch's end, train nothing
    and exit with 0."""
    done = latest_step(checkpoints)
    if done < planned:
        raise ModelFailure(
            f"{checkpoints}: {done} of {planned} steps were done; run it again, it resumes from step {done}"
        )


def check_version() -> None:
    """Raise InputError when another verl is installed than the configuration is made for."""
    import verl

    found = getattr(verl, "__version__", "unknown")
    if found != VERSION:
        raise InputError(f"verl {found} is installed; the configuration is that of {VERSION}")


def validate(given: Sequence[str]) -> dict[str, object]:
    """Compose verl's configuration, check it by verl's own code, and load the reward function by its loader.

    Runs in verl's environment. Raises InputError for what verl refuses, and when it does not find the reward.
    """
    from hydra import compose, initialize_config_module
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import get_custom_reward_fn
    from verl.utils.config import validate_config

    check_version()
    try:
        with initialize_config_module("verl.trainer.config", version_base=None):
            config = compose("ppo_trainer", overrides=list(given))
        OmegaConf.resolve(config)
        validate_config(
            config, use_reference_policy=bool(config.actor_rollout_ref.actor.use_kl_loss), use_critic=False
        )
    except Exception as error:
        raise InputError(f"verl refuses the configuration: {error}") from error
    if get_custom_reward_fn(config) is None:
        raise InputError("verl finds no reward function: reward.custom_reward_function is not set")
    resolved = OmegaConf.to_container(config)
    assert isinstance(resolved, dict)
    return {str(key): value for key, value in resolved.items()}


def merge(checkpoints: Path, target: Path, part: str | None = "actor") -> int:
    """Merge the latest checkpoint's FSDP shards into a Hugging Face folder, by verl's merger; return its step.

    GRPO's checkpoints have the policy in folder ``part``, those of supervised training have no parts. The merger
    writes bf16. Raises InputError without a checkpoint, ModelFailure when the merger fails.
    """
    step = latest_step(checkpoints)
    if step == 0:
        raise InputError.at(checkpoints, "no checkpoint there", "train first")
    actor = checkpoints / f"global_step_{step}" / (part or "")
    command = [sys.executable, "-m", "verl.model_merger", "merge", "--backend", "fsdp"]
    command += ["--local_dir", str(actor), "--target_dir", str(target)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0 or not list(target.glob("*.safetensors")):
        raise ModelFailure(f"{actor}: verl's merger failed; it said: {ended.stderr.strip()[-800:]}")
    return step
