"""verl's SFT trainer: our recipe as its configuration, checked by verl itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wmlab.config.sft_cluster import SftClusterRecipe
from wmlab.errors import InputError
from wmlab.training.verl import check_version, hydra


def overrides(
    recipe: SftClusterRecipe, model: str, train: Path, validation: Path | None, out: Path
) -> list[str]:
    """The recipe as hydra overrides of ``verl.trainer.sft_trainer``."""
    chosen: dict[str, object] = {
        "data.train_files": str(train),
        **({"data.val_files": str(validation)} if validation else {}),
        "data.messages_key": "messages",
        "data.train_batch_size": recipe.batch_size,
        "data.micro_batch_size_per_gpu": recipe.micro_batch_per_gpu,
        "data.use_dynamic_bsz": False,
        "data.max_length": recipe.max_length,
        "data.max_token_len_per_gpu": recipe.max_length * recipe.micro_batch_per_gpu,
        "data.truncation": "right",
        "model.path": model,
        "model.enable_gradient_checkpointing": recipe.gradient_checkpointing,
        "optim.lr": recipe.learning_rate,
        "optim.lr_warmup_steps": recipe.warmup_steps,
        "optim.lr_scheduler_type": "constant",
        "optim.weight_decay": recipe.weight_decay,
        "optim.clip_grad": recipe.max_grad_norm,
        "engine.dtype": "bfloat16" if recipe.precision == "bf16" else "float32",
        "trainer.nnodes": recipe.nodes,
        "trainer.n_gpus_per_node": recipe.gpus_per_node,
        "trainer.total_epochs": recipe.epochs,
        "trainer.save_freq": recipe.save_every,
        "trainer.test_freq": recipe.save_every if validation else -1,
        "trainer.seed": recipe.seed,
        "trainer.logger": ["console", "file"],
        "trainer.project_name": "wmlab",
        "trainer.experiment_name": out.name,
        "trainer.default_local_dir": str(out / "checkpoints"),
        "trainer.resume_mode": "auto",
    }
    return [f"{key}={hydra(value)}" for key, value in chosen.items()]


def command(recipe: SftClusterRecipe, given: Sequence[str]) -> list[str]:
    """What a node of the run executes, one word an item; the rendezvous is in the environment."""
    launcher = ["torchrun", f"--nnodes={recipe.nodes}", f"--nproc_per_node={recipe.gpus_per_node}"]
    if recipe.nodes == 1:
        launcher.append("--standalone")
    else:
        launcher += ["--rdzv_backend=c10d", "--rdzv_endpoint=$RENDEZVOUS", "--rdzv_id=$SLURM_JOB_ID"]
    return [*launcher, "-m", "verl.trainer.sft_trainer", *given]


def validate(given: Sequence[str]) -> dict[str, object]:
    """Compose the configuration and build verl's own dataclasses from it, in verl's environment.

    Raises InputError for what verl refuses.
    """
    from hydra import compose, initialize_config_module
    from omegaconf import OmegaConf
    from verl.utils.config import omega_conf_to_dataclass

    check_version()
    try:
        with initialize_config_module("verl.trainer.config", version_base=None):
            config = compose("sft_trainer_engine", overrides=list(given))
        OmegaConf.resolve(config)
        for section in ("engine", "optim", "checkpoint"):
            omega_conf_to_dataclass(config[section])
    except Exception as error:
        raise InputError(f"verl refuses the configuration: {error}") from error
    resolved = OmegaConf.to_container(config)
    assert isinstance(resolved, dict)
    return {str(key): value for key, value in resolved.items()}
