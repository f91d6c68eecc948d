"""The HTTP server of ``wmlab env serve --protocol agentgym``: the standard library's, with bounds.

Made for one machine or one cluster job, not for the internet: no authentication, so it listens on
127.0.0.1 unless told otherwise. Bodies, targets, connections and seconds a connection may idle are bounded.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from wmlab import __version__
from wmlab.domains.agentgym.protocols import Dialect
from wmlab.domains.agentgym.routes import Answer, Routes, routes_of
from wmlab.domains.agentgym.sessions import Sessions
from wmlab.domains.base import Domain

MAX_BODY_BYTES = 64 << 10
MAX_TARGET_BYTES = 1 << 10
MAX_CONNECTIONS = 256
READ_TIMEOUT_S = 30.0


class _Handler(BaseHTTPRequestHandler):
    """One request a connection, as upstream's clients send them."""

    protocol_version = "HTTP/1.1"
    server_version = f"wmlab/{__version__}"
    sys_version = ""
    timeout = READ_TIMEOUT_S
    server: AgentGymServer

    def do_GET(self) -> None:
        """Serve a query."""
        parts = urlsplit(self.path)
        if self._refuse_target():
            return
        self._send(
            self.server.routes.answer("GET", parts.path, dict(parse_qsl(parts.query, max_num_fields=20)))
        )

    def do_POST(self) -> None:
        """Serve a JSON body; none at all is an empty object."""
        if self._refuse_target():
            return
        length = self.headers.get("Content-Length", "0")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdigit()):
            self._send(Answer(411, {"detail": "send the body with its Content-Length"}))
            return
        if len(length) > 9 or int(length) > MAX_BODY_BYTES:
            self._send(Answer(413, {"detail": f"the body is larger than {MAX_BODY_BYTES} bytes"}))
            return
        try:
            body: Any = json.loads(self.rfile.read(int(length)).decode("utf-8") or "{}")
        except (ValueError, RecursionError):
            self._send(Answer(422, {"detail": "the body is not JSON"}))
            return
        values = body if isinstance(body, Mapping) else None
        if values is None:
            self._send(Answer(422, {"detail": "the body is not an object"}))
            return
        self._send(self.server.routes.answer("POST", urlsplit(self.path).path, values))

    def _refuse_target(self) -> bool:
        if len(self.path) > MAX_TARGET_BYTES:
            self._send(Answer(414, {"detail": f"the target is longer than {MAX_TARGET_BYTES} bytes"}))
            return True
        return False

    def _send(self, answer: Answer) -> None:
        self.close_connection = True
        data = json.dumps(answer.value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
        try:
            self.send_response(answer.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            return  # the client went away

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: a study sends hundreds of thousands."""


class AgentGymServer(ThreadingHTTPServer):
    """Serve a domain; ``serve_forever`` until ``shutdown``, then ``server_close`` stops every worker."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        domain: Domain,
        dialect: Dialect,
        host: str,
        port: int,
        *,
        environments: int = 64,
        idle_s: float = 600.0,
        workers: int = 2,
    ) -> None:
        self.sessions = Sessions(domain, environments, idle_s, workers)
        self.routes: Routes = routes_of(self.sessions, dialect)
        self._room = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._stopped = threading.Event()
        super().__init__((host, port), _Handler)
        self._reaper = threading.Thread(target=self._expire, daemon=True)
        self._reaper.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self.server_address[:2]
        return f"http://{host if isinstance(host, str) else host.decode()}:{port}"

    def _expire(self) -> None:
        while not self._stopped.wait(max(0.05, self.sessions.idle_s / 4)):
            self.sessions.expire()

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread a connection, as long as there is room; others are closed at once."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve the connection and give its place back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no event; anything else is a fault of ours and goes to standard error."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def server_close(self) -> None:
        """Stop listening, expiring and every worker process."""
        self._stopped.set()
        super().server_close()
        self.sessions.shut()
