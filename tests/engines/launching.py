"""A run's own launch.sh on a CPU: our platform plug-in beside verl, one thread."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent


def launch(out: Path, given: Sequence[str], timeout: float = 900.0) -> str:
    """Run ``out``/launch.sh with more overrides and return what it says; it must end well."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": f"{HERE}:{HERE.parents[1] / 'workflow'}",
        "VERL_USE_EXTERNAL_MODULES": "verl_cpu",
        "VERL_PLATFORM": "cpu",
        "RAY_DEDUP_LOGS": "0",
        "OMP_NUM_THREADS": "1",
    }
    ended = subprocess.run(
        ["bash", str(out / "launch.sh"), *given],
        env=environment, capture_output=True, text=True, timeout=timeout, check=False, cwd=out,
    )  # fmt: skip
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-6000:]
    return ended.stdout + ended.stderr
