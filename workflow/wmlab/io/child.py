"""Child processes that do not outlive this one, whatever happens to it (Linux; elsewhere they may)."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

# Runs the command in the place of a small Python that first asks the kernel for a signal when its parent dies; done
# here and not in ``preexec_fn``, which may deadlock in a process with threads.
_LAUNCHER = """
import os, sys
parent = int(sys.argv[1])
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None, use_errno=True).prctl(1, int(sys.argv[2]), 0, 0, 0)
if os.getppid() != parent:
    sys.exit(1)
os.execv(sys.argv[3], sys.argv[3:])
"""


def following(command: Sequence[str], how: signal.Signals = signal.SIGKILL) -> list[str]:
    """``command``, an executable's path and its arguments, so that it gets the signal ``how`` when this process dies.

    The kernel watches the thread that starts it: start it from one that lives as long as the process.
    """
    return [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), str(int(how)), *command]
