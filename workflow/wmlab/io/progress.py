"""Progress of long stages: a bar on a terminal, plain lines with rate and ETA in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


class Progress:
    """Count finished units of work and print rate and ETA to standard error.

    ``done`` counts what a resumed run found finished; it does not enter the rate.
    On a terminal one line is redrawn; elsewhere a line is printed every ``interval`` seconds.
    """

    def __init__(
        self, label: str, total: int, unit: str = "it", *, done: int = 0, interval: float = 10.0
    ) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.done = self._resumed = done
        self.started = time.monotonic()
        self._tty = sys.stderr.isatty()
        self._interval = 0.2 if self._tty else interval
        self._printed = self.started

    def update(self, n: int = 1, note: str = "") -> None:
        """Add ``n`` finished units; ``note`` is shown at the end of the line."""
        self.done += n
        now = time.monotonic()
        if now - self._printed >= self._interval or self.done >= self.total:
            self._printed = now
            self._print(now, note)

    def _print(self, now: float, note: str) -> None:
        elapsed = max(now - self.started, 1e-9)
        rate = (self.done - self._resumed) / elapsed
        left = (self.total - self.done) / rate if rate > 0 else float("inf")
        eta = f"{left:.0f} s" if left != float("inf") else "?"
        line = f"{self.label}: {self.done}/{self.total} {self.unit}, {rate:.3g} {self.unit}/s, ETA {eta} {note}".rstrip()
        end = "\n" if not self._tty or self.done >= self.total else ""
        start = "\r\x1b[K" if self._tty else ""
        print(f"{start}{line}", end=end, file=sys.stderr, flush=True)


def track(items: Iterable[T], label: str, total: int, unit: str = "it") -> Iterator[T]:
    """Yield ``items`` while reporting progress."""
    progress = Progress(label, total, unit)
    for item in items:
        yield item
        progress.update()
