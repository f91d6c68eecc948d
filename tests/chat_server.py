"""A chat-completions server on a free port here, which answers what a test tells it to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from wmlab.lm import transport


@dataclass(frozen=True)
class Raw:
    """An answer as it goes over the wire; ``slow`` seconds pass before each of its two halves."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    slow: float = 0.0


Said = str | int | Raw | Callable[[dict[str, Any]], "str | int | Raw"]


def completion(text: str | None) -> bytes:
    return json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()


class ChatStub:
    """Answers each request with the next of ``answers`` (the last one again).

    An answer is a completion's text, a status, what goes over the wire, or a function of the request's body.
    ``most`` is how many requests were under way at once.
    """

    def __init__(self) -> None:
        self.answers: list[Said] = []
        self.requests: list[tuple[dict[str, Any], str | None]] = []
        self.most = self._open = 0
        self._lock = threading.Lock()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/chat/completions"
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with stub._lock:
                    stub.requests.append((body, self.headers.get("Authorization")))
                    said = stub.answers[min(len(stub.requests), len(stub.answers)) - 1]
                    stub._open += 1
                    stub.most = max(stub.most, stub._open)
                self.ended = False
                try:
                    self._answer(said(body) if callable(said) else said)
                except OSError:
                    pass  # the client left
                finally:
                    self._end()

            def _end(self) -> None:
                """Count the request as answered, once: before its last bytes, after which the client may ask again."""
                with stub._lock:
                    stub._open -= not self.ended
                self.ended = True

            def _answer(self, said: str | int | Raw) -> None:
                if isinstance(said, str):
                    said = Raw(body=completion(said))
                elif isinstance(said, int):
                    said = Raw(said, b'{"error": "no"}')
                half = len(said.body) // 2
                time.sleep(said.slow)
                self.send_response(said.status)
                self.send_header("Content-Length", str(len(said.body)))
                for name, value in said.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(said.body[:half])
                self.wfile.flush()
                time.sleep(said.slow)
                self._end()
                self.wfile.write(said.body[half:])

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatStub]:
    monkeypatch.setattr(transport, "BACKOFF_S", 0.0)
    monkeypatch.delenv(transport.KEY_VARIABLE, raising=False)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    made = ChatStub()
    yield made
    made.http.shutdown()
    made.http.server_close()
