"""Checkpoints of running trainings: one file, replaced atomically, loaded without pickle code.

A checkpoint belongs to one run: the same recipe, seed and input files. What another run left behind (a
changed configuration, other data) is not resumed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from wmlab.io.atomic import atomic_path

NAME = "state.pt"


def save_checkpoint(folder: Path, state: dict[str, Any], run: str) -> None:
    """Replace the checkpoint in ``folder`` by one of ``run`` (``provenance.run_key``)."""
    with atomic_path(folder / NAME) as temporary:
        torch.save({**state, "run": run}, temporary)


def load_checkpoint(folder: Path, run: str) -> dict[str, Any] | None:
    """The checkpoint of ``run`` in ``folder``, or None. Only tensors and plain values are unpickled."""
    path = folder / NAME
    if not path.exists():
        return None
    state: dict[str, Any] = torch.load(path, weights_only=True)
    if state.get("run") != run:
        print(f"{path}: left by another run (other recipe, seed or data); starting afresh", file=sys.stderr)
        return None
    return state


def drop_checkpoint(folder: Path) -> None:
    """Remove the checkpoint once the result it led to is on disk."""
    (folder / NAME).unlink(missing_ok=True)
