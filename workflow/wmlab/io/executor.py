"""The one executor of the package: spawned processes that never outlive the process that started them."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process


def spawned(workers: int) -> ProcessPoolExecutor:
    """An executor of ``workers`` spawned processes: the caller may have threads, so none is forked.

    A standard worker waits on a queue whose writing end the workers hold too: it never notices that the
    process that fed it was killed (scancel, out of memory), and stays. These end then, at work or not.
    """
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_follow_parent)


def _follow_parent() -> None:
    threading.Thread(target=_end_with_parent, name="follow-parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)
