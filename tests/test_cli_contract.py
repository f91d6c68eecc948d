"""The commands of the contract exist, start fast, and each shows an example."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
import typer
from wmlab.cli.main import GROUPS, command

CONTRACT = {
    "env": ("panel", "play", "check", "serve"),
    "data": ("collect", "import", "export", "decompose", "filter", "verl"),
    "train": ("tokenizer", "sft", "grpo"),
    "memory": ("build", "retrieve", "show", "removal"),
    "skill": ("distil", "mine", "show", "guide"),
    "predict": ("states", "copy"),
    "serve": ("run",),
    "score": ("states", "rewards", "predictions"),
    "rollout": ("real", "wm", "replay"),
    "eval": ("consistency", "cells", "perturb", "stress", "audit", "sheet"),
    "stats": ("cells", "mcnemar"),
    "report": ("tables", "figures", "site"),
    "study": ("show", "headline"),
}


@pytest.mark.parametrize("group", GROUPS)
def test_every_command_has_an_example_and_described_options(group: str) -> None:
    tree = command([group]).commands[group]
    assert isinstance(tree, typer.core.TyperGroup)
    assert set(CONTRACT[group]) <= set(tree.commands)
    for name, leaf in tree.commands.items():
        assert f"wmlab {group} {name}" in (leaf.help or ""), name
        for option in leaf.params:
            assert getattr(option, "help", None), (name, option.name)


def test_the_command_starts_without_its_heavy_libraries() -> None:
    code = "import sys; from wmlab.cli.main import command; command(['train']); print([m for m in ('torch','transformers','textworld','scipy') if m in sys.modules])"
    started = time.monotonic()
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]" and time.monotonic() - started < 30
