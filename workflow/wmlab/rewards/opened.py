"""Open a reference agent: from its folder, or behind servers of it, with scores kept on disk where that is wanted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from wmlab.errors import InputError
from wmlab.io.provenance import sha256_file
from wmlab.rewards.reference import KEPT, ReferenceAgent


def open_reference(
    folder: Path, urls: Sequence[str] = (), model: str | None = None, kept: Path | None = None
) -> ReferenceAgent:
    """The frozen reference agent of a model folder.

    With ``urls`` servers score in its place, under the name ``model`` (the folder's name if not given); the folder
    then needs its tokenizer and config.json alone. ``kept`` is a file of scores that runs share. Raises InputError
    for a bad folder or address, ServerFailure when no server can be asked.
    """
    from wmlab.lm.answers import AnswerCache

    if model is not None and not urls:
        raise InputError("--reference-model names a model of a server; give --reference-url too")
    cache = None if kept is None else AnswerCache(kept, KEPT)
    if not urls:
        from wmlab.lm.hf import HFModel

        # Its identity is a hash of all its weights: taken only where scores outlive the run.
        identity = None if cache is None else _identity(folder, "")
        return ReferenceAgent(HFModel.load(folder), kept=cache, identity=identity)
    from wmlab.lm.served import ServedModel
    from wmlab.lm.tokenizer import load_tokenizer

    name = model or folder.name
    lm = ServedModel(urls, name, load_tokenizer(folder), folder.name, _context(folder))
    return ReferenceAgent(lm, kept=cache, identity=None if cache is None else _identity(folder, name))


def reference_files(folder: Path) -> list[Path]:
    """What the scores of the reference agent depend on, for provenance."""
    weights = sorted(folder.glob("*.safetensors"))
    return weights or [folder / "config.json", folder / "tokenizer.json"]


def _context(folder: Path) -> int:
    try:
        return int(json.loads((folder / "config.json").read_text())["max_position_embeddings"])
    except (OSError, ValueError, KeyError, TypeError):
        problem = "no max_position_embeddings can be read"
        raise InputError.at(folder / "config.json", problem, "give the folder of the served model") from None


def _identity(folder: Path, name: str) -> str:
    """What the scores depend on: weights and tokenizer by content; without weights the server's name for them."""
    files = reference_files(folder)
    named = [] if files[0].suffix == ".safetensors" else [name]
    parts = [*named, *(sha256_file(path) for path in dict.fromkeys([*files, folder / "tokenizer.json"]))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
