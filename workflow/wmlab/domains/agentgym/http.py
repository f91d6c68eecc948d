"""JSON over HTTP with bounds: one deadline a request, a few retries, an answer of limited size.

AgentGym's own client waits for ever, trusts any answer and steps twice when it retries. Here a request is
repeated only when it cannot have been carried out (no connection, status 503) or when repeating it changes
nothing (``repeatable``). Whatever goes wrong is an EnvironmentFailure that names the request.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from wmlab.errors import EnvironmentFailure, InputError

MAX_ANSWER_BYTES = 4 << 20
BACKOFF_S = 0.2
"""First pause before a retry; it doubles, and a random half of it is added or not."""
_PASSING = (502, 503, 504)


class NoSuchRoute(EnvironmentFailure):
    """The server does not have this route (404, 405): another dialect or another program."""


class _Unreached(Exception):
    """The request was not carried out: no connection, or the server is too busy for now."""


class _Lost(Exception):
    """Whether the request was carried out is not known."""


@dataclass(frozen=True)
class Server:
    """One server: its base URL, seconds a request may take in all, and how often it is tried."""

    url: str
    timeout: float = 60.0
    attempts: int = 3

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        try:
            port = parts.port
        except ValueError:
            port = None
            parts = parts._replace(scheme="")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise InputError(f"server {self.url[:100]!r}: not a URL; give one like http://127.0.0.1:8000")
        if parts.username or port == 0:
            raise InputError("server: credentials or port 0 in its URL; give only scheme, host and port")
        if self.timeout <= 0 or self.attempts < 1:
            raise InputError("server: timeout must be above 0 and attempts at least 1")

    def get(self, path: str, query: dict[str, Any]) -> Any:
        """The decoded answer of a GET."""
        return self._ask("GET", f"{path}?{urlencode(query)}" if query else path, None, True)

    def post(self, path: str, body: dict[str, Any], *, repeatable: bool) -> Any:
        """The decoded answer of a POST. ``repeatable``: doing it twice is the same as doing it once."""
        return self._ask("POST", path, body, repeatable)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None, repeatable: bool) -> Any:
        for attempt in range(1, self.attempts + 1):
            try:
                return self._once(method, path, body)
            except (_Unreached, _Lost) as error:
                again = isinstance(error, _Unreached) or repeatable
                if not again or attempt == self.attempts:
                    tried = f" ({attempt} attempts)" if attempt > 1 else ""
                    raise EnvironmentFailure(f"{method} {self.url}{path}: {error}{tried}") from None
            pause = BACKOFF_S * 2 ** (attempt - 1)
            time.sleep(pause * random.uniform(0.5, 1.5))
        raise AssertionError("unreachable")

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(str(parts.hostname), parts.port, timeout=self.timeout)
        try:
            connection.connect()
        except OSError as error:
            raise _Unreached(f"no connection ({error})") from None
        return connection

    def _once(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        connection = self._connect()
        sock = connection.sock
        late = threading.Event()

        def stop() -> None:
            late.set()
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # closed meanwhile

        # A socket's own timeout restarts with every byte; this deadline does not.
        deadline = threading.Timer(self.timeout, stop)
        deadline.daemon = True
        deadline.start()
        try:
            data = None if body is None else json.dumps(body).encode()
            headers = {"Accept": "application/json", "Connection": "close"}
            if data is not None:
                headers["Content-Type"] = "application/json"
            connection.request(method, urlsplit(self.url).path.rstrip("/") + path, data, headers)
            answer = connection.getresponse()
            text = answer.read(MAX_ANSWER_BYTES + 1)
            whole = answer.length in (None, 0)
        except (OSError, http.client.HTTPException) as error:
            if late.is_set() or isinstance(error, TimeoutError):
                raise self._failure(method, path, f"no answer within {self.timeout:g} s") from None
            told = _shown(f"{type(error).__name__}: {error}".encode())
            raise _Lost(f"the connection broke ({told})") from None
        finally:
            deadline.cancel()
            connection.close()
        if late.is_set():
            raise self._failure(method, path, f"no answer within {self.timeout:g} s")
        if len(text) > MAX_ANSWER_BYTES:
            raise self._failure(method, path, f"the answer is larger than {MAX_ANSWER_BYTES} bytes")
        if not whole:
            raise _Lost("the answer ended early")
        return self._decode(method, path, answer, text)

    def _decode(self, method: str, path: str, answer: http.client.HTTPResponse, text: bytes) -> Any:
        if answer.status == 503:
            raise _Unreached(f"status 503 {_shown(text)}")
        if answer.status in _PASSING:
            raise _Lost(f"status {answer.status} {_shown(text)}")
        if answer.status in (404, 405):
            raise NoSuchRoute(
                f"{method} {self.url}{path}: status {answer.status}, the server has no such route"
            )
        if answer.status != 200:
            raise self._failure(method, path, f"status {answer.status} {_shown(text)}")
        try:
            value = json.loads(text.decode("utf-8"))
        except (ValueError, RecursionError):
            kind = answer.headers.get_content_type()
            raise self._failure(method, path, f"the answer is {kind}, not JSON: {_shown(text)}") from None
        if isinstance(value, dict) and value.get("error"):
            raise self._failure(method, path, f"the server says: {str(value['error'])[:200]}")
        return value

    def _failure(self, method: str, path: str, problem: str) -> EnvironmentFailure:
        return EnvironmentFailure(f"{method} {self.url}{path}: {problem}")


def _shown(text: bytes) -> str:
    """The start of an answer on one printable line."""
    return " ".join(text[:200].decode("utf-8", "replace").split()).encode("unicode_escape").decode()[:120]
