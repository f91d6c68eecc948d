"""The way to a chat server, against a real one: what is sent again, what fails and how, what is kept."""

from __future__ import annotations

import json
import sqlite3
import time
from pathlib import Path

import pytest
from chat_server import ChatStub, Raw, completion
from wmlab.errors import InputError
from wmlab.lm import transport
from wmlab.lm.answers import AnswerCache, Questions, digest_of
from wmlab.lm.server import ChatServer
from wmlab.lm.transport import AnswerFailure, ServerFailure

ASKED = [{"role": "user", "content": "hello \ud800"}]


def test_what_is_sent(chat: ChatStub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(transport.KEY_VARIABLE, "sk-secret")
    chat.answers = ["hi"]
    asked = ChatServer(chat.url + "/", "m")
    assert asked.ask(ASKED, 7) == "hi"
    body, authorization = chat.requests[0]
    assert body == {"model": "m", "messages": ASKED, "temperature": 0.0, "max_tokens": 7}
    assert authorization == "Bearer sk-secret" and "sk-secret" not in repr(asked)


@pytest.mark.parametrize("passing", [429, 500, 503, Raw(slow=1.0), Raw(body=b"", headers={}, status=502)])
def test_what_passes_is_sent_again(chat: ChatStub, passing: int | Raw) -> None:
    chat.answers = [passing, passing, "hi"]
    assert ChatServer(chat.url, "m", timeout=0.4).ask(ASKED, 7) == "hi"
    assert len(chat.requests) == 3


def test_the_server_says_how_long_to_wait(chat: ChatStub, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(transport.time, "sleep", lambda s: waits.append(s))
    monkeypatch.setattr(transport, "BACKOFF_S", 1.0)
    busy = [Raw(429, b"{}", {"Retry-After": said}) for said in ("2", "99999", "tomorrow")]
    chat.answers = [*busy, "hi"]
    assert ChatServer(chat.url, "m").ask(ASKED, 7) == "hi"
    told = [wait for wait in waits if wait]  # the stub's own pauses are 0
    assert told[:2] == [2.0, 30.0] and 4.0 <= told[2] <= 8.0


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (Raw(body=completion("hello")[:-9]), "no chat completion"),  # cut off, with an honest length
        (Raw(body=b"<html>busy</html>"), "no chat completion"),
        (Raw(body=b'{"choices": []}'), "no chat completion"),
        (Raw(body=b'{"choices": [{"message": {"content": ["a"]}}]}'), "no chat completion"),
        (Raw(body=b"[" * 100_000), "no chat completion"),
        (Raw(body=b'{"choices": [{"message": {"content": "\\ud800"}}]}'), "no chat completion"),
        (Raw(body=b"a" * (transport.MAX_ANSWER_BYTES + 1)), "more than"),
        (400, "status 400"),
        (Raw(302, b"", {"Location": "http://127.0.0.1:9/"}), "status 302"),
    ],
)
def test_one_request_fails(chat: ChatStub, said: int | Raw, problem: str) -> None:
    chat.answers = [said]
    with pytest.raises(AnswerFailure, match=problem):
        ChatServer(chat.url, "m").ask(ASKED, 7)
    assert len(chat.requests) == 1


def test_no_content_is_empty(chat: ChatStub) -> None:
    chat.answers = [Raw(body=completion(None))]
    assert ChatServer(chat.url, "m").ask(ASKED, 7) == ""


def test_a_request_has_one_deadline(chat: ChatStub) -> None:
    chat.answers = [Raw(body=completion("hi"), slow=0.35)]  # each half in time, both not
    started = time.monotonic()
    with pytest.raises(AnswerFailure, match=r"after 2 attempts \(timeout\)"):
        ChatServer(chat.url, "m", timeout=0.5, attempts=2).ask(ASKED, 7)
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_server_that_refuses(chat: ChatStub, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(transport.KEY_VARIABLE, "sk-secret")
    chat.answers = [status]
    with pytest.raises(ServerFailure, match=f"status {status}") as failed:
        ChatServer(chat.url, "m").ask(ASKED, 7)
    assert len(chat.requests) == 1 and "sk-secret" not in str(failed.value)
    with pytest.raises(ServerFailure):
        ChatServer(chat.url, "m", concurrency=2).ask_all([ASKED] * 200, 7)
    assert len(chat.requests) < 20


def test_a_server_that_is_gone(chat: ChatStub, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AnswerFailure, match="ConnectError"):
        ChatServer("http://127.0.0.1:9/v1", "m", attempts=2).ask(ASKED, 7)
    monkeypatch.setattr(transport, "GIVE_UP", 3)
    chat.answers = [500]
    with pytest.raises(ServerFailure, match="3 requests in a row"):
        ChatServer(chat.url, "m", attempts=1, concurrency=1).ask_all([ASKED] * 9, 7)
    assert len(chat.requests) == 3


def test_answers_keep_their_order_and_the_limit(chat: ChatStub) -> None:
    chat.answers = [lambda body: Raw(body=completion(body["messages"][0]["content"]), slow=0.02)]
    chats = [[{"role": "user", "content": str(n)}] for n in range(20)]
    assert ChatServer(chat.url, "m", concurrency=3).ask_all(chats, 7) == [str(n) for n in range(20)]
    assert 1 < chat.most <= 3


@pytest.mark.parametrize("url", ["", "ftp://x/v1", "http://user:key@x/v1", "http://x/v1?key=1"])
def test_addresses_are_checked(url: str) -> None:
    with pytest.raises(InputError):
        ChatServer(url, "m")
    with pytest.raises(InputError, match="no name"):
        ChatServer("http://x/v1", " ")


# Kept answers -------------------------------------------------------------------------------------


def number(text: str, index: int) -> int:
    if not text.isdecimal():
        raise AnswerFailure("test: no number")
    return int(text)


def chats(*words: str) -> list[list[dict[str, str]]]:
    return [[{"role": "user", "content": word}] for word in words]


def test_only_checked_answers_are_kept(chat: ChatStub, tmp_path: Path) -> None:
    chat.answers = [lambda body: {"a": "1", "b": "one", "c": 400}[body["messages"][0]["content"]]]
    cache = AnswerCache(tmp_path / "deep" / "answers.sqlite")
    asked: Questions[int] = Questions(ChatServer(chat.url, "m"), 7, cache)
    found = asked.ask(chats("a", "b", "a", "c"), number)
    assert found[0] == found[2] == 1 and [isinstance(f, AnswerFailure) for f in found] == [
        False,
        True,
        False,
        True,
    ]
    assert asked.counts == {"answered": 1, "failed": 2, "failed: no number": 1, "failed: status 400": 1}
    assert len(chat.requests) == 3 and len(cache) == 1  # equal questions are asked once
    cache.close()
    again: Questions[int] = Questions(
        ChatServer(chat.url, "m"), 7, AnswerCache(tmp_path / "deep" / "answers.sqlite")
    )
    assert again.ask(chats("a", "b"), number)[0] == 1
    assert len(chat.requests) == 4 and again.counts["cached"] == 1  # the failure is asked again
    other: Questions[int] = Questions(ChatServer(chat.url, "other"), 7, again.cache)
    other.ask(chats("a"), number)
    assert len(chat.requests) == 5  # another model is another question


def test_a_lost_server_costs_few_answers(chat: ChatStub, tmp_path: Path) -> None:
    chat.answers = [*["1"] * 30, 401]
    cache = AnswerCache(tmp_path / "answers.sqlite")
    asked: Questions[int] = Questions(ChatServer(chat.url, "m", concurrency=1), 7, cache)
    with pytest.raises(ServerFailure):
        asked.ask(chats(*map(str, range(40))), number)
    assert len(cache) == 24 and asked.counts["answered"] == 24


def test_an_answer_kept_under_another_check_is_asked_again(chat: ChatStub, tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "answers.sqlite")
    cache.put(digest_of("m", chats("a")[0], 7), "one")
    chat.answers = ["1"]
    asked: Questions[int] = Questions(ChatServer(chat.url, "m"), 7, cache)
    assert asked.ask(chats("a"), number) == [1] and cache.get(digest_of("m", chats("a")[0], 7)) == "1"


def test_the_cache_is_bounded_and_whole(tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "answers.sqlite", limit=3)
    for n in range(6):
        cache.put(str(n), f"text {n}")
    assert len(cache) == 3 and cache.get("2") is None and cache.get("5") == "text 5"
    second = AnswerCache(tmp_path / "answers.sqlite", limit=3)  # another process's connection
    second.put("6", "text 6")
    assert cache.get("6") == "text 6" and len(cache) == 3
    with sqlite3.connect(tmp_path / "answers.sqlite") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    (tmp_path / "no.sqlite").write_text(json.dumps({"not": "a database"}) * 100)
    with pytest.raises(InputError, match="no answer cache"):
        AnswerCache(tmp_path / "no.sqlite")


def test_url_and_model_go_together() -> None:
    assert Questions.opened("judge", None, None, 7, None, 1) is None
    with pytest.raises(InputError, match="--judge-url and --judge-model"):
        Questions.opened("judge", "http://x/v1", None, 7, None, 1)
