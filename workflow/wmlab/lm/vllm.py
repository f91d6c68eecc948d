"""A vLLM server for as long as a block runs: on a free port, healthy before it is used, stopped whatever happens.

It runs in the Python that has vLLM, by its module, for the command of some builds is broken. It ends with the block,
with SIGTERM (a cancelled job), and with this process.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from wmlab.errors import InputError
from wmlab.io.child import following
from wmlab.lm.transport import ServerFailure

TRIES = 3
"""Starts, each on another port: one may be taken between asking for it and using it."""
_STOP_TIMEOUT_S = 30.0
_TAIL = 2_000


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def vllm_server(
    folder: Path,
    log: Path,
    *,
    name: str | None = None,
    python: str = sys.executable,
    options: Sequence[str] = (),
    timeout: float = 900.0,
    ports: Iterator[int] | None = None,
    gpus: str | None = None,
) -> Iterator[str]:
    """Serve a model folder under ``name`` (the folder's own if not given); yields the server's URL (``…/v1``).

    ``options`` are vLLM's own (``--dtype float32``, ``--gpu-memory-utilization 0.3``); ``log`` gets what it says, start
    after start; ``gpus`` are those it may use, as CUDA counts them (``0,1``), None for all. Raises InputError without
    a model, ServerFailure with the end of the log when it does not start.
    """
    if not (folder / "config.json").is_file():
        raise InputError.at(folder, "no model there (config.json is missing)", "give a model folder")
    log.parent.mkdir(parents=True, exist_ok=True)
    with _ended_by_sigterm(), log.open("ab") as output:
        for attempt in range(1, TRIES + 1):
            port = next(ports) if ports is not None else free_port()
            command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)]
            command += [
                "--served-model-name",
                name or folder.name,
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
            ]
            started = output.tell()
            process = subprocess.Popen(
                following([*command, *options], signal.SIGTERM),
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
                env={
                    **os.environ,
                    "VLLM_NO_USAGE_STATS": "1",
                    **({} if gpus is None else {"CUDA_VISIBLE_DEVICES": gpus}),
                },
            )  # fmt: skip
            try:
                if _healthy(process, port, timeout):
                    yield f"http://127.0.0.1:{port}/v1"
                    return
            finally:
                _stop(process)
            said = log.read_bytes()[started:].decode("utf-8", "replace")
            taken = "address already in use" in said.lower()
            if not taken or attempt == TRIES:
                why = (
                    f"ended with {process.returncode}"
                    if process.returncode
                    else f"was not healthy in {timeout:.0f} s"
                )
                raise ServerFailure(f"vLLM for {folder} {why}; the end of {log}: {said[-_TAIL:].strip()}")


def _healthy(process: subprocess.Popen[bytes], port: int, timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline and process.poll() is None:
        with (
            suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer,
        ):
            # Another program may have taken the port: it answers, ours has ended or is about to.
            if answer.status == 200 and process.poll() is None:
                return True
        time.sleep(0.5)
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server and what it started: asked first, then killed."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_TIMEOUT_S)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM unwind the stack, so that what is running is stopped; only the main thread may say so."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    try:
        before = signal.signal(signal.SIGTERM, leave)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
