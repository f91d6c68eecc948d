"""Tiny real models for tests: a tokenizer of a few sentences and Llamas of a few thousand weights."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from wmlab.config.recipes import Architecture, TokenizerRecipe
from wmlab.lm.build import new_model
from wmlab.lm.hf import HFModel
from wmlab.lm.tokenizer import train_tokenizer

FIRST = "Welcome! Take the key.\n\n-= Bedroom =-\nYou see a box.\n\n> -= Bedroom =-0/1"
STATES = {
    "open box": "You open the box, revealing a key.\n\n> -= Bedroom =-0/2",
    "take key": "You take the key.\n\n> -= Bedroom =-0/3",
    "go east": "\n-= Kitchen =-\nYou see a stove.\n\n> -= Kitchen =-1/4",
    "put key on stove": "You put the key on the stove.\n\n*** The End *** [SUCCESS]",
}
ARCHITECTURE = Architecture(
    hidden_size=32, layers=2, heads=4, kv_heads=2, intermediate_size=64, max_position=512
)


@cache
def tokenizer() -> Any:
    texts = [FIRST, *STATES, *STATES.values(), "Thought:\nGo on.\n\nAction:\nopen box"]
    return train_tokenizer(texts * 3, TokenizerRecipe(vocab_size=400))


def tiny_lm(seed: int = 0, name: str = "tiny") -> HFModel:
    return HFModel(new_model(ARCHITECTURE, tokenizer(), seed).eval(), tokenizer(), name)


def trajectory(n: int = 4, number: int = 0) -> dict[str, Any]:
    """The first n steps of the only game there is."""
    steps = [
        {"action": a, "observation": o, "reward": 0.0, "done": "[SUCCESS]" in o, "admissible": None}
        for a, o in list(STATES.items())[:n]
    ]
    return {
        "trajectory_id": f"textworld_{number}/train_000",
        "domain": "textworld",
        "task_id": f"textworld_{number}",
        "split": "train",
        "source": "expert",
        "goal": "Take the key.",
        "task_type": "tw-simple",
        "initial_observation": FIRST,
        "privileged": None,
        "steps": steps,
        "success": n == len(STATES),
        "score": 0.0,
    }


def history(n: int) -> list[dict[str, str]]:
    """World-model dialogue up to and including action n (0-based)."""
    pairs = list(STATES.items())
    messages = [{"role": "system", "content": FIRST}]
    for action, state in pairs[:n]:
        messages += [{"role": "user", "content": action}, {"role": "assistant", "content": state}]
    return [*messages, {"role": "user", "content": pairs[n][0]}]


ENCODER_WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "you",
    "see",
    "a",
    "mug",
    "pen",
    "on",
    "the",
    "desk",
    "fridge",
    "is",
    "open",
    "closed",
    ".",
    ",",
    "1",
    "2",
    "3",
]


def save_encoder(folder: Path) -> Path:
    """A BERT of a few thousand random weights for texts of up to 38 tokens, saved as any encoder is."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    (folder / "vocab.txt").write_text("\n".join(ENCODER_WORDS) + "\n")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(ENCODER_WORDS), hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=40,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=40).save_pretrained(folder)
    return folder
