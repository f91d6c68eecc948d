"""Model servers for as long as one command runs: started before it, told to it, stopped after it, whatever happens.

A job that asks a served model brings its server along: both end together, on success, failure, SIGTERM and SIGKILL.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from wmlab.errors import InputError
from wmlab.io.child import following
from wmlab.lm.vllm import vllm_server

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True)
class Server:
    """A model folder to serve, as ``{name}`` of the command; ``gpus`` as CUDA counts them, None for all."""

    name: str
    folder: Path
    options: tuple[str, ...] = ()
    gpus: str | None = None


def run_beside(
    servers: Sequence[Server],
    command: Sequence[str],
    logs: Path,
    *,
    python: str = sys.executable,
    gpus: str | None = None,
) -> int:
    """Run ``command`` beside its servers and return its exit code.

    Each word of the command may say ``{name}`` for the URL of a server. ``python`` has vLLM; ``gpus`` are those of
    the command; ``logs`` gets a file a server. Raises InputError for a word that names no server or no command, and
    what ``vllm_server`` raises when one does not start.
    """
    if not command:
        raise InputError("serve run: no command; give it after --")
    with ExitStack() as running:
        urls = {
            server.name: running.enter_context(
                vllm_server(
                    server.folder,
                    logs / f"{server.name}.log",
                    name=server.folder.name,
                    python=python,
                    options=server.options,
                    gpus=server.gpus,
                )
            )
            for server in servers
        }
        words = [_told(word, urls) for word in command]
        process = subprocess.Popen(following(words, signal.SIGTERM), env=_environment(gpus))
        try:
            return process.wait()
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()


def _told(word: str, urls: dict[str, str]) -> str:
    for name, url in urls.items():
        word = word.replace(f"{{{name}}}", url)
    return word


def _environment(gpus: str | None) -> dict[str, str]:
    return dict(os.environ) if gpus is None else {**os.environ, VISIBLE: gpus}
