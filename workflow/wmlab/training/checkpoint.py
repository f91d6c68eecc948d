"""Checkpoints of running trainings: one file, replaced atomically, loaded without pickle code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from wmlab.io.atomic import atomic_path

NAME = "state.pt"


def save_checkpoint(folder: Path, state: dict[str, Any]) -> None:
    """Replace the checkpoint in ``folder``."""
    with atomic_path(folder / NAME) as temporary:
        torch.save(state, temporary)


def load_checkpoint(folder: Path) -> dict[str, Any] | None:
    """The checkpoint in ``folder``, or None. Only tensors and plain values are unpickled."""
    path = folder / NAME
    if not path.exists():
        return None
    state: dict[str, Any] = torch.load(path, weights_only=True)
    return state


def drop_checkpoint(folder: Path) -> None:
    """Remove the checkpoint once the result it led to is on disk."""
    (folder / NAME).unlink(missing_ok=True)
