"""The work of ``wmlab env serve``: start, say where, run until a signal, stop every worker."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import cast

from wmlab.domains.agentgym.protocols import DIALECTS, Dialect
from wmlab.domains.agentgym.server import AgentGymServer
from wmlab.domains.base import Domain
from wmlab.errors import EnvironmentFailure, InputError

PROTOCOLS = ("agentgym",)


def serve(
    domain: Domain,
    protocol: str,
    dialect: str,
    host: str,
    port: int,
    environments: int,
    idle_s: float,
    workers: int,
) -> None:
    """Serve until SIGINT or SIGTERM. Raises EnvironmentFailure when the address cannot be listened on."""
    for value, allowed, name in ((protocol, PROTOCOLS, "protocol"), (dialect, DIALECTS, "dialect")):
        if value not in allowed:
            raise InputError(f"--{name} {value!r}: not known; choose from {', '.join(allowed)}")
    try:
        server = AgentGymServer(
            domain,
            cast(Dialect, dialect),
            host,
            port,
            environments=environments,
            idle_s=idle_s,
            workers=workers,
        )
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot listen on {host}:{port} ({error.strerror}); give another --port"
        ) from None

    def stop(number: int, frame: FrameType | None) -> None:
        # shutdown waits for serve_forever, which this handler interrupts: it must run elsewhere.
        threading.Thread(target=server.shutdown, daemon=True).start()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    print(f"{server.url}: serving {domain.name} ({protocol}, {dialect})", flush=True)
    try:
        server.serve_forever(poll_interval=0.1)
    finally:
        server.server_close()
    lost = server.sessions.retries
    again = f"; {lost} episodes were played again, their workers had died" if lost else ""
    print(f"{server.url}: stopped{again}", flush=True)
