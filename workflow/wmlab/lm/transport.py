"""Requests to an OpenAI-compatible server: the one way out.

A request is sent again only for what passes by itself: status 429 and 5xx, a timeout, a lost connection; after
a pause that doubles, with a random part, or as long as the server asks for. Every request has one deadline and
every answer a largest size. At most ``concurrency`` requests are under way, whatever the number of threads.
The key comes from the environment, is sent to the endpoint and shown nowhere.

Two failures, for callers to tell apart: :class:`AnswerFailure` concerns one request, :class:`ServerFailure`
all of them. Neither is ever a value.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from wmlab.errors import InputError, ModelFailure

if TYPE_CHECKING:
    import httpx

A = TypeVar("A")
R = TypeVar("R")

KEY_VARIABLE = "OPENAI_API_KEY"
MAX_ANSWER_BYTES = 1 << 20
BACKOFF_S = 0.2
LONGEST_PAUSE_S = 30.0
GIVE_UP = 8
"""Requests that may fail one after the other, none answered between them, before the server counts as lost."""
_REFUSED = frozenset({401, 403, 404, 405})
_NAMED = {
    "context_overflow": ("context_length_exceeded", "maximum context length", "maximum model length"),
    "content_filter": ("content_filter", "content management policy"),
}
"""Requests that a server refuses for what they hold, by what its error says."""


class AnswerFailure(ModelFailure):
    """One request got no usable answer."""


class NoAnswer(AnswerFailure):
    """One request passed by unanswered, every time: another server may answer it."""


class ServerFailure(ModelFailure):
    """The server cannot be used: refused key, unknown model or route, or out of reach."""


class _Passing(Exception):
    """What may pass by itself, and how many seconds the server asked to wait."""

    def __init__(self, said: str, pause: float | None = None) -> None:
        super().__init__(said)
        self.pause = pause


def _pause_of(header: str | None) -> float | None:
    """Seconds of a Retry-After header; None for a date or anything else."""
    try:
        return min(LONGEST_PAUSE_S, max(0.0, float(header))) if header else None
    except ValueError:
        return None


@dataclass
class Transport:
    """``model`` at ``url`` (``…/v1``). ``timeout`` is seconds a request may take in all, ``largest`` an answer's bytes.

    ``purpose`` names the caller in messages. Safe for threads.
    """

    url: str
    model: str
    purpose: str = "model"
    timeout: float = 60.0
    attempts: int = 4
    concurrency: int = 8
    largest: int = MAX_ANSWER_BYTES
    _client: httpx.Client | None = field(default=None, repr=False)
    _lost: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(
                f"{self.purpose} {self.url[:100]!r}: not a URL; give one like http://127.0.0.1:8000/v1"
            )
        if parts.username or parts.query or parts.fragment:
            raise InputError(
                f"{self.purpose}: its URL holds more than an address; put the key into {KEY_VARIABLE} only"
            )
        if not self.model.strip():
            raise InputError(f"{self.purpose}: the model has no name; give the one the server lists")
        if self.timeout <= 0 or self.attempts < 1 or self.concurrency < 1:
            raise InputError(f"{self.purpose}: timeout must be above 0, attempts and concurrency at least 1")
        self._slots = threading.BoundedSemaphore(self.concurrency)
        self._lock = threading.Lock()

    def request(self, route: str, body: dict[str, Any] | None) -> bytes:
        """What ``POST url/route`` answers, with status 200. Raises AnswerFailure or ServerFailure.

        A route that starts with a slash is the server's own, beside ``/v1``; without a body it is a GET.
        """
        return self._checked(*self._answered(route, body))

    def status(self, route: str, body: dict[str, Any] | None = None) -> int:
        """The status that :meth:`request` would get, whatever it is. Raises NoAnswer or ServerFailure."""
        return self._answered(route, body)[0]

    @property
    def lost(self) -> bool:
        """Whether so many requests in a row passed by unanswered that no more are sent."""
        return self._lost >= GIVE_UP

    def lose(self) -> None:
        """Send no more requests."""
        self._lost = GIVE_UP

    def find(self) -> None:
        """Send requests again to a server that was lost."""
        self._count(failed=False)

    def _answered(self, route: str, body: dict[str, Any] | None) -> tuple[int, bytes]:
        with self._slots:
            for attempt in range(1, self.attempts + 1):
                if self.lost:
                    raise ServerFailure(f"{self.where}: {GIVE_UP} requests in a row failed; check the server")
                try:
                    status, content = self._send(route, body)
                except _Passing as error:
                    if attempt == self.attempts:
                        self._count(failed=True)
                        raise NoAnswer(
                            f"{self.where}: no answer after {attempt} attempts ({error})"
                        ) from None
                    backoff = BACKOFF_S * 2 ** (attempt - 1) * (1.0 + random.random())
                    time.sleep(backoff if error.pause is None else error.pause)
                    continue
                return status, content
        raise AssertionError("every attempt returns or raises")

    @property
    def where(self) -> str:
        """Purpose and address, for messages."""
        return f"{self.purpose} {self.url}"

    def _count(self, *, failed: bool) -> None:
        with self._lock:
            self._lost = self._lost + 1 if failed else 0

    def _open(self) -> httpx.Client:
        import httpx

        with self._lock:
            if self._client is None:
                limits = httpx.Limits(max_connections=self.concurrency)
                self._client = httpx.Client(timeout=self.timeout, limits=limits)
            return self._client

    def _send(self, route: str, body: dict[str, Any] | None) -> tuple[int, bytes]:
        """Status and content of one attempt, whole and in time. Raises _Passing, or AnswerFailure when too long."""
        import httpx

        key = os.environ.get(KEY_VARIABLE)
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        base = self.url.rstrip("/")
        url = f"{base.removesuffix('/v1')}{route}" if route.startswith("/") else f"{base}/{route}"
        deadline = time.monotonic() + self.timeout
        # ASCII: a lone surrogate has no UTF-8.
        method, asked, content = (
            ("GET", None, b"") if body is None else ("POST", json.dumps(body).encode(), b"")
        )
        try:
            with self._open().stream(method, url, content=asked, headers=headers) as answer:
                status = answer.status_code
                if status == 429 or status >= 500:
                    raise _Passing(f"status {status}", _pause_of(answer.headers.get("Retry-After")))
                for part in answer.iter_bytes():
                    content += part
                    if len(content) > self.largest:
                        raise AnswerFailure(f"{self.where}: an answer of more than {self.largest} bytes")
                    if time.monotonic() > deadline:
                        raise _Passing("timeout")
        except httpx.TransportError as error:
            raise _Passing(
                "timeout" if isinstance(error, httpx.TimeoutException) else type(error).__name__
            ) from None
        except httpx.DecodingError:
            raise AnswerFailure(f"{self.where}: its answer cannot be decoded") from None
        return status, content

    def _checked(self, status: int, content: bytes) -> bytes:
        if status in _REFUSED:
            raise ServerFailure(
                f"{self.where}: status {status}; check the address, the model's name and {KEY_VARIABLE}"
            )
        self._count(failed=False)
        if status != 200:
            raise AnswerFailure(f"{self.where}: status {status}{_named(content)}")
        return content


def _named(content: bytes) -> str:
    """What a refused request is called here, in our words only; "" for an error that has no name."""
    try:
        error = json.loads(content)["error"]
        told = f"{error.get('code')} {error.get('message')}".lower()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""
    for name, signs in _NAMED.items():
        if any(sign in told for sign in signs):
            return f" ({name})"
    return ""


def several(ask: Callable[[A], R], asked: Sequence[A], concurrency: int) -> list[R | AnswerFailure]:
    """``ask`` of every question, at most ``concurrency`` at a time, in order; a ServerFailure ends it."""

    def one(question: A) -> R | AnswerFailure:
        try:
            return ask(question)
        except AnswerFailure as failure:
            return failure

    if len(asked) < 2 or concurrency == 1:
        return [one(question) for question in asked]
    with ThreadPoolExecutor(min(concurrency, len(asked))) as pool:
        try:
            return list(pool.map(one, asked))
        except ServerFailure:
            pool.shutdown(cancel_futures=True)  # a refusal is heard once, not for every question
            raise
