"""Make, load and save the models: Llama architecture, safetensors only."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

from wmlab.config.recipes import Architecture
from wmlab.errors import InputError, ModelFailure

# Loading and saving take milliseconds here; their bars would bury the stages' own progress.
logging.disable_progress_bar()


def new_model(architecture: Architecture, tokenizer: Any, seed: int) -> Any:
    """A randomly initialised Llama with tied embeddings, weights drawn from ``seed`` alone."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=architecture.hidden_size,
        num_hidden_layers=architecture.layers,
        num_attention_heads=architecture.heads,
        num_key_value_heads=architecture.kv_heads,
        intermediate_size=architecture.intermediate_size,
        max_position_embeddings=architecture.max_position,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        attn_implementation="sdpa",
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).to(device())


def device() -> torch.device:
    """Where models run: the first GPU that the job sees, else the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def computed_in(model: Any, bf16: bool) -> AbstractContextManager[Any]:
    """Where the passes through ``model``'s blocks are computed: in bfloat16, or in the weights' own type."""
    if bf16 and model.device.type == "cpu":
        _warn_of_emulation()
    return torch.autocast(model.device.type, torch.bfloat16) if bf16 else nullcontext()


@cache
def _warn_of_emulation() -> None:
    if not torch.cpu._is_avx512_bf16_supported():
        print("bf16: this processor computes it in software, several times slower than fp32", file=sys.stderr)


def load_model(path: str | Path, dtype: torch.dtype = torch.float32) -> Any:
    """Load a causal LM folder for inference, on the job's device.

    Raises InputError or ModelFailure with the folder's name.
    """
    from transformers import AutoModelForCausalLM

    if not (Path(path) / "config.json").is_file():
        raise InputError.at(
            path, "no model there (config.json is missing)", "train it or give another folder"
        )
    try:
        model = AutoModelForCausalLM.from_pretrained(
            str(path), dtype=dtype, use_safetensors=True, attn_implementation="sdpa"
        )
    except Exception as error:
        raise ModelFailure(f"{path}: model cannot be loaded ({type(error).__name__}: {error})") from error
    return model.eval().to(device())


def save_folder(path: str | Path, *writers: Callable[[Path], Any]) -> None:
    """Let ``writers`` fill a fresh folder, then put it in place of ``path``."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    work.chmod(0o755)
    try:
        for write in writers:
            write(work)
        for file in work.rglob("*"):
            if file.is_file():  # safetensors writes files that only their owner may read
                file.chmod(0o644)
        if target.exists():
            shutil.rmtree(target)
        work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def save_model(path: str | Path, model: Any, tokenizer: Any) -> None:
    """Write weights (safetensors), config and tokenizer."""
    save_folder(path, model.save_pretrained, tokenizer.save_pretrained)
