"""What made a file: the record written beside each result as ``<name>.meta.json``."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import time
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from wmlab import __version__
from wmlab.io.atomic import write_json

PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "trl",
    "textworld",
    "numpy",
    "scipy",
    "pyarrow",
    "snakemake",
)


def sha256_file(path: str | Path) -> str:
    """Hex digest of a file, or of a folder's files in sorted order (names and contents)."""
    target = Path(path)
    if target.is_dir():
        digest = hashlib.sha256()
        for child in sorted(p for p in target.rglob("*") if p.is_file()):
            digest.update(f"{child.relative_to(target)}\0{sha256_file(child)}\n".encode())
        return digest.hexdigest()
    status = target.stat()
    return _sha256(target.resolve(), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4096)
def _sha256(path: Path, size: int, mtime_ns: int) -> str:
    """Digest of a file as it is at this size and time: a run names its inputs several times, weights among them."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        for block in iter(lambda: handle.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def run_key(config: Mapping[str, Any], seed: int | None, inputs: Iterable[str | Path]) -> str:
    """Identity of a run: what must be equal for its unfinished work to be resumed."""
    parts = [json.dumps(dict(config), sort_keys=True), str(seed), *(sha256_file(path) for path in inputs)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def code_version() -> dict[str, str]:
    """Package version, git commit of the source tree (``unknown`` outside git), Python version."""
    root = Path(__file__).resolve().parents[3]
    try:
        commit = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        commit = "unknown"
    return {"wmlab": __version__, "commit": commit, "python": platform.python_version()}


def package_versions() -> dict[str, str]:
    """Installed versions of the packages that can change a number."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def write_meta(
    path: str | Path,
    *,
    config: Mapping[str, Any],
    seed: int | None,
    inputs: Iterable[str | Path],
    started: float,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Write ``<path>.meta.json``: config slice, seed, code and package versions, input hashes, seconds.

    ``started`` is ``time.time()`` at the start of the stage.
    """
    target = Path(path)
    record = {
        "schema": 1,
        "file": target.name,
        "config": dict(config),
        "seed": seed,
        "code": code_version(),
        "packages": package_versions(),
        "inputs": {Path(p).as_posix(): sha256_file(p) for p in inputs},
        "finished_unix": round(time.time(), 3),
        "duration_s": round(time.time() - started, 3),
        **(dict(extra) if extra else {}),
    }
    write_json(target.with_name(target.name + ".meta.json"), record)
