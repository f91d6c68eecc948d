"""Checked answers of a chat model, kept on disk by the content of their question.

A question is a chat; ``check`` turns the model's text into a value or says what is wrong with it. Only answers
that passed the check are kept, so a failure is asked again in the next run and never read as a value. The file
is one SQLite database: each write is whole or absent, several processes may share it, and the oldest answers
leave when it holds more than ``limit``.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from wmlab.errors import InputError
from wmlab.lm.base import Chat
from wmlab.lm.server import ChatServer
from wmlab.lm.transport import AnswerFailure

T = TypeVar("T")
KEPT_AFTER = 8
"""Questions a request slot gets before what was answered is kept: a lost server costs no more than these."""
LIMIT = 1_000_000
"""Answers a cache holds; one of a page of facts takes about 1 kB."""
_FENCE = re.compile(r"\A```[a-z]*\s*(.*?)\s*```\Z", re.DOTALL)


class AnswerCache:
    """Text by content hash. Raises InputError for a file that is no such cache."""

    def __init__(self, path: str | Path, limit: int = LIMIT) -> None:
        if limit < 1:
            raise InputError("answer cache: its limit must be at least 1")
        self.path, self.limit = Path(path), limit
        self._lock = threading.Lock()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._database = sqlite3.connect(self.path, timeout=60.0, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS answers (row INTEGER PRIMARY KEY, digest TEXT UNIQUE, text TEXT)"
            )
            self._database.commit()
        except sqlite3.DatabaseError as error:
            raise InputError.at(
                path, f"no answer cache ({error})", "remove it or give another file"
            ) from None

    def get(self, digest: str) -> str | None:
        """The answer of a question, or None."""
        with self._lock:
            row = self._database.execute("SELECT text FROM answers WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else str(row[0])

    def put(self, digest: str, text: str) -> None:
        """Keep an answer; the oldest beyond the limit leave."""
        with self._lock, self._database:
            self._database.execute(
                "INSERT OR REPLACE INTO answers (digest, text) VALUES (?, ?)", (digest, text)
            )
            self._database.execute(
                "DELETE FROM answers WHERE row <= (SELECT MAX(row) FROM answers) - ?", (self.limit,)
            )

    def __len__(self) -> int:
        with self._lock:
            return int(self._database.execute("SELECT COUNT(*) FROM answers").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def json_answer(text: str, purpose: str) -> Any:
    """The JSON value of an answer, with or without a code fence around it. Raises AnswerFailure for prose."""
    fenced = _FENCE.match(text.strip())
    try:
        value = json.loads(fenced[1] if fenced else text)
        json.dumps(
            value, ensure_ascii=False
        ).encode()  # escapes may spell a lone surrogate, which no file can hold
    except (ValueError, RecursionError):
        raise AnswerFailure(f"{purpose}: the answer is no JSON") from None
    return value


def digest_of(model: str, chat: Chat, max_tokens: int) -> str:
    """The content hash of a question: the model's name, every message and the answer's length."""
    return hashlib.sha256(json.dumps([model, chat, max_tokens]).encode()).hexdigest()


@dataclass
class Questions(Generic[T]):
    """Questions to one server, answers from the cache where it has them.

    ``counts`` has ``answered``, ``cached``, ``failed`` and, for each kind of failure, ``failed: why``.
    """

    server: ChatServer
    max_tokens: int
    cache: AnswerCache | None = None
    counts: Counter[str] = field(default_factory=Counter)

    def ask(self, chats: Sequence[Chat], check: Callable[[str, int], T]) -> list[T | AnswerFailure]:
        """One value or failure a question, in order; equal questions are asked once.

        ``check(text, i)`` gives the value of the i-th question's answer, or raises AnswerFailure. Raises
        ServerFailure when the server cannot be used: then nothing is known of any question.
        """
        digests = [digest_of(self.server.model, chat, self.max_tokens) for chat in chats]
        found: dict[str, T | AnswerFailure] = {}
        open_: dict[str, int] = {}
        for index, digest in enumerate(digests):
            if digest in found or digest in open_:
                continue
            known = self.cache.get(digest) if self.cache is not None else None
            value = self._checked(known, index, check) if known is not None else None
            if value is None or isinstance(value, AnswerFailure):
                open_[digest] = index  # unknown, or kept by a version whose check was another
            else:
                found[digest] = value
                self.counts["cached"] += 1
        waiting, step = list(open_.items()), KEPT_AFTER * self.server.concurrency
        for start in range(0, len(waiting), step):
            part = waiting[start : start + step]
            texts = self.server.ask_all([chats[index] for _, index in part], self.max_tokens)
            for (digest, index), text in zip(part, texts, strict=True):
                value = text if isinstance(text, AnswerFailure) else self._checked(text, index, check)
                found[digest] = value
                self._keep(digest, text, value)
        return [found[digest] for digest in digests]

    def _keep(self, digest: str, text: str | AnswerFailure, value: T | AnswerFailure) -> None:
        """Count an answer, and keep it when it passed."""
        if isinstance(value, AnswerFailure) or isinstance(text, AnswerFailure):
            self.counts["failed"] += 1
            self.counts[f"failed: {str(value).rpartition(': ')[2]}"] += 1
            return
        self.counts["answered"] += 1
        if self.cache is not None:
            self.cache.put(digest, text)

    @classmethod
    def opened(
        cls,
        purpose: str,
        url: str | None,
        model: str | None,
        max_tokens: int,
        cache: Path | None,
        concurrency: int,
    ) -> Questions[T] | None:
        """Questions to ``model`` at ``url``; None when neither is given. Raises InputError when one is."""
        if url is None and model is None:
            return None
        if url is None or model is None:
            raise InputError(f"--{purpose}-url and --{purpose}-model go together; give both")
        server = ChatServer(url, model, purpose, concurrency=concurrency)
        return cls(server, max_tokens, None if cache is None else AnswerCache(cache))

    def _checked(self, text: str, index: int, check: Callable[[str, int], T]) -> T | AnswerFailure:
        try:
            return check(text, index)
        except AnswerFailure as failure:
            return failure
