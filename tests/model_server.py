"""A real model behind vLLM's protocols on a free port here, which fails as a test tells it to."""

from __future__ import annotations

import base64
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from wmlab.lm.base import Sampling
from wmlab.lm.hf import HFModel

Fault = Callable[[int, str], "int | Callable[[dict[str, Any]], dict[str, Any]] | None"]
"""Number of the request (from 0) and its path → a status, a change of the answer, or None."""


class ModelServer:
    """Scores and completes token ids with ``lm``; counts requests; ``fixed`` is vLLM's own route."""

    def __init__(
        self, lm: HFModel, *, name: str = "agent", fixed: bool = True, fault: Fault | None = None
    ) -> None:
        self.lm, self.name, self.fixed, self.fault = lm, name, fixed, fault
        self.healthy, self.hang = True, 0.0
        self.requests: list[tuple[str, dict[str, Any], str | None]] = []
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/health":
                    self._say(200 if server.healthy else 503, {})
                else:
                    assert self.path == "/v1/models"
                    said = server._fault(self.path, {}, self.headers.get("Authorization"))
                    if isinstance(said, int):
                        return self._say(said, {"error": "no"})
                    self._say(200, {"data": [{"id": server.name}]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                said = server._fault(self.path, body, self.headers.get("Authorization"))
                time.sleep(server.hang)
                if isinstance(said, int):
                    return self._say(said, {"error": "no"})
                if body.get("model") != server.name or (
                    self.path == "/inference/v1/generate" and not server.fixed
                ):
                    return self._say(404, {"error": "not found"})
                with server._lock:
                    answer = server._answer(self.path, body)
                self._say(200, said(answer) if said else answer)

            def _say(self, status: int, body: dict[str, Any]) -> None:
                content = json.dumps(body).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                except OSError:
                    pass  # the client left

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def posts(self, route: str) -> list[dict[str, Any]]:
        return [body for path, body, _ in self.requests if path.endswith(route) and body]

    def _fault(self, path: str, body: dict[str, Any], key: str | None) -> Any:
        with self._lock:
            number = len(self.requests)
            self.requests.append((path, body, key))
        return self.fault(number, path) if self.fault else None

    def _answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path == "/inference/v1/generate":
            ids, sampling = body["token_ids"], body["sampling_params"]
            rows, start = sampling["prompt_logprob_token_ids"], sampling["prompt_logprob_start"]
            assert len(rows) == len(ids) - 1 - start
            table = self._logprobs(ids)
            values = np.asarray(
                [[table[start + at, token] for token in row] for at, row in enumerate(rows)], np.float32
            )
            with io.BytesIO() as buffer:
                np.save(buffer, values)
                return {
                    "prompt_token_id_logprobs": base64.b64encode(buffer.getvalue()).decode(),
                    "choices": [],
                }
        assert path == "/v1/completions"
        ids = body["prompt"]
        if "prompt_logprobs" in body:
            table = self._logprobs(ids)
            rest = [
                {str(token): {"logprob": float(table[at, token]), "rank": 1}}
                for at, token in enumerate(ids[1:])
            ]
            return {"choices": [{"text": "x", "finish_reason": "length", "prompt_logprobs": [None, *rest]}]}
        (found,) = self.lm.generate_ids([ids], Sampling(body["temperature"], body["n"], body["max_tokens"]))
        return {"choices": [{"text": one.text, "finish_reason": one.finish_reason} for one in found]}

    def _logprobs(self, ids: list[int]) -> Any:
        import torch

        with torch.no_grad():
            logits = self.lm.model(torch.tensor([ids])).logits[0].double()
        return torch.log_softmax(logits, -1).numpy()


@contextmanager
def serving(lm: HFModel, **options: Any) -> Iterator[ModelServer]:
    server = ModelServer(lm, **options)
    try:
        yield server
    finally:
        server.http.shutdown()
        server.http.server_close()
