"""Worker processes end with the process that started them, however it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from wmlab.io.executor import spawned

PACKAGE = Path(__file__).resolve().parents[1] / "workflow" / "wmlab"
# One worker at work in Python, one asleep, one that has nothing to do; then the owner waits for them.
OWNER = """
import os, sys, time
from wmlab.io.executor import spawned

def spin(path):
    open(path, "w").write(str(os.getpid()))
    while True:
        pass

def sleep(path):
    open(path, "w").write(str(os.getpid()))
    time.sleep(600)

def rest(path):
    open(path, "w").write(str(os.getpid()))

if __name__ == "__main__":
    with spawned(3) as pool:
        futures = [pool.submit(work, f"{sys.argv[1]}/{work.__name__}") for work in (spin, sleep, rest)]
        [future.result() for future in futures]
"""


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not collected yet does not."""
    try:
        return "Z" not in re.split(r"\) ", Path(f"/proc/{pid}/stat").read_text())[1][:1]
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_their_owner(tmp_path: Path, how: signal.Signals) -> None:
    script = tmp_path / "owner.py"
    script.write_text(OWNER)
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    owner = subprocess.Popen([sys.executable, str(script), str(tmp_path)], env=environment)
    notes = [tmp_path / name for name in ("spin", "sleep", "rest")]
    deadline = time.monotonic() + 60
    while not all(note.exists() and note.read_text() for note in notes):
        assert time.monotonic() < deadline and owner.poll() is None
        time.sleep(0.1)
    workers = {int(note.read_text()) for note in notes}
    assert all(map(alive, workers))
    owner.send_signal(how)
    if how == signal.SIGINT:  # it waits for its workers, as the standard executor does
        time.sleep(0.5)
        owner.kill()
    owner.wait(timeout=30)
    deadline = time.monotonic() + 30
    while any(map(alive, workers)):
        assert time.monotonic() < deadline, "workers were left behind"
        time.sleep(0.1)


def test_an_executor_gives_results_and_what_its_work_raises() -> None:
    with spawned(2) as pool:
        assert list(pool.map(abs, [-3, 4])) == [3, 4]
        with pytest.raises(ZeroDivisionError):
            pool.submit(divmod, 1, 0).result()


def test_every_executor_of_the_package_is_this_one() -> None:
    made = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(r"ProcessPoolExecutor\(|multiprocessing\.Pool\(|ThreadPool\(", path.read_text())
    }
    assert made == {"io/executor.py"}
