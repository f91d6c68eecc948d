"""AgentGym: the client against our server over a real socket, both dialects, and against hostile servers."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_domains import ToyDomain, ToyEnvironment
from wmlab.domains.agentgym import http
from wmlab.domains.agentgym.environment import AgentGymEnvironment
from wmlab.domains.agentgym.http import Server
from wmlab.domains.agentgym.server import MAX_BODY_BYTES, AgentGymServer
from wmlab.domains.base import Domain, Task
from wmlab.domains.conventions import (
    item_number,
    split_page_actions,
    split_reset_actions,
    with_page_actions,
    with_reset_actions,
)
from wmlab.domains.panels import build_panel
from wmlab.domains.registry import make_domain
from wmlab.domains.workers import WorkerPool
from wmlab.errors import EnvironmentFailure, InputError

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / "results" / "cache"
NAMES = ("textworld", "alfworld", "scienceworld", "webshop")
DIALECTS = [(name, "word2world") for name in NAMES] + [(name, "upstream") for name in NAMES[1:]]


@contextmanager
def serving(domain: Domain, dialect: str = "word2world", **bounds: Any) -> Iterator[AgentGymServer]:
    server = AgentGymServer(domain, dialect, "127.0.0.1", 0, **({"workers": 1} | bounds))  # type: ignore[arg-type]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def toys() -> Iterator[Callable[[str, str], str]]:
    """URL of a toy server of (domain, dialect), kept for the module."""
    open_: dict[tuple[str, str], Any] = {}

    def url(name: str, dialect: str = "word2world") -> str:
        if (name, dialect) not in open_:
            context = serving(ToyDomain(name), dialect)
            open_[name, dialect] = (context, context.__enter__())
        return str(open_[name, dialect][1].url)

    yield url
    for context, _ in open_.values():
        context.__exit__(None, None, None)


def ask(url: str, path: str, body: Any = None, raw: bytes | None = None) -> tuple[int, Any]:
    data = raw if raw is not None else None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def remote(name: str, url: str, **options: Any) -> Any:
    return make_domain(name, CACHE, {"server": url, "timeout": 10, **options})


def actions_of(name: str, needed: int) -> list[str]:
    return (
        [*["search[a mug]"] * needed, "click[buy now]"]
        if name == "webshop"
        else ["wait", *["press"] * needed]
    )


@pytest.mark.parametrize(("name", "dialect"), DIALECTS)
def test_the_client_shows_what_the_environment_shows(
    toys: Callable[[str, str], str], name: str, dialect: str
) -> None:
    domain = remote(name, toys(name, dialect), dialect=dialect)
    there, here = domain.open(every_step=True), ToyEnvironment(name)
    prefix = "sciworld" if name == "scienceworld" else name
    for number in (4, 5):
        task, own = there.load(f"{prefix}_{number}"), here.load(f"{name}_{number}")
        bare = dialect == "upstream" and name == "webshop"
        assert task.goal == own.goal
        assert task.initial_observation == (
            split_page_actions(own.initial_observation)[0] if bare else own.initial_observation
        )
        first, wanted = there.reset(task), here.reset(own)
        assert first.admissible == wanted.admissible
        for action in actions_of(name, number % 3 + 1):
            step, want = there.step(action), here.step(action)
            assert step.observation == (split_page_actions(want.observation)[0] if bare else want.observation)
            assert (step.done, step.success) == (want.done, want.success)
            assert step.reward == pytest.approx(want.reward)
            assert step.admissible == want.admissible
        assert step.success and step.observation.endswith(" [SUCCESS]")
        with pytest.raises(EnvironmentFailure, match="after the end"):
            there.step("press")
    there.close()
    there.close()


def test_a_partial_purchase_ends_without_success(toys: Callable[[str, str], str]) -> None:
    environment = remote("webshop", toys("webshop", "word2world")).open()
    environment.reset(environment.load("webshop_5"))
    step = environment.step("click[buy now]")
    assert (step.reward, step.done, step.success) == (0.5, True, False)
    assert "[SUCCESS]" not in step.observation and "admissible" not in step.observation
    environment.close()


def test_textworld_over_http_equals_textworld_here() -> None:
    """The real engine behind a real socket: texts, rewards, hashes, stray actions, worker processes."""
    here = make_domain("textworld", CACHE)
    with serving(here) as server:
        there = remote("textworld", server.url, timeout=120)  # a worker imports the engine first
        (task,) = build_panel(there, ["textworld_1"], 1)
        environment = here.open(every_step=True, expert=True)
        own = environment.load("textworld_1")
        assert task.sha256 == own.sha256
        environment.reset(own)
        rng = [np.random.default_rng(1) for _ in range(2)]
        assert there.stray(rng[0], ("look",), ("take key",)) == here.stray(rng[1], ("look",), ("take key",))
        actions = ["save", "", "take\x00 everything\n", *environment.expert()]
        with WorkerPool(there.open, 1) as pool:
            (first,) = pool.reset([task])
            assert first.text == own.initial_observation  # type: ignore[union-attr]
            for action in actions:
                step, want = pool.step({0: action})[0], environment.step(action)
                assert replace(step, reward=0.0) == replace(want, reward=0.0)  # type: ignore[type-var]
                assert step.reward == want.reward  # type: ignore[union-attr]
        assert step.success  # type: ignore[union-attr]
        environment.close()
        assert server.sessions.ids() == []  # the workers closed theirs


def test_a_fork_replays_and_goes_its_own_way(toys: Callable[[str, str], str]) -> None:
    environment = remote("alfworld", toys("alfworld", "word2world")).open()
    environment.reset(environment.load("alfworld_5"))
    environment.step("press")
    twin = environment.fork()
    assert twin.step("press").observation == "Pressed 2 of 3 (você: press)."
    assert environment.step("wait").observation == "Pressed 1 of 3 (você: wait)."
    assert environment.expert() == [] and environment.privileged is None and environment.task_type == "toy"
    for one in (twin, environment):
        one.close()
    with pytest.raises(EnvironmentFailure, match="fork before reset"):
        environment.fork()


def test_the_instruction_guard(toys: Callable[[str, str], str]) -> None:
    url = toys("webshop", "word2world")
    environment = remote("webshop", url).open()
    task = environment.load("webshop_5")
    with pytest.raises(EnvironmentFailure, match="the server's instruction is 'press 3 times in world 5"):
        environment.reset(replace(task, goal="Find me a mug"))
    with pytest.raises(EnvironmentFailure, match="after the end"):
        environment.step("search[x]")
    with pytest.raises(EnvironmentFailure, match="first observation is not"):
        environment.reset(replace(task, initial_observation=split_page_actions(task.initial_observation)[0]))
    environment.close()
    relaxed = remote("webshop", url, match="instruction").open()
    relaxed.reset(replace(task, initial_observation="of another dialect"))
    relaxed.close()


@pytest.mark.parametrize("identity", ["webshop_../../x", "webshop_-1", "webshop_01", "5", "webshop_", "webshop_9" * 9, "alfworld_1", "x" * 10**7, "webshop_1\n"])  # fmt: skip
def test_ids_that_are_no_ids(identity: str) -> None:
    environment = AgentGymEnvironment(Server("http://127.0.0.1:9", 1), "webshop", "word2world")
    with pytest.raises(InputError, match="not one of webshop") as caught:
        environment.load(identity)
    assert len(str(caught.value)) < 500 and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "options", "named"),
    [
        ("textworld", {"server": "http://h:1", "dialect": "upstream"}, "upstream has no server"),
        ("textworld", {"server": "http://h:1", "dialect": "x"}, "dialect 'x'"),
        ("textworld", {"server": "http://h:1", "match": "x"}, "match 'x'"),
        ("textworld", {"server": "http://h:1", "timeout": "x"}, "timeout is seconds"),
        ("textworld", {"server": "http://h:1", "timeout": 0}, "above 0"),
        ("textworld", {"server": "http://h:1", "attempts": 0}, "at least 1"),
        ("textworld", {"server": "http://h:1", "folder": "x"}, "option 'folder'"),
        ("nowhere", {"server": "http://h:1"}, "AgentGym has no server for it"),
        *[("webshop", {"server": url}, "server") for url in ("", "h:1", "ftp://h", "http://", "http://h:x", "http://u:p@h", "http://h:0", "http://h?x")],
    ],
)  # fmt: skip
def test_wrong_options_are_input_errors(name: str, options: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        make_domain(name, CACHE, options)


def test_task_ids_by_the_servers_numbering_or_a_list(tmp_path: Path) -> None:
    assert remote("alfworld", "http://h:1").task_ids("test", 1, 2) == ["alfworld_2420", "alfworld_2421"]
    assert remote("textworld", "http://h:1").task_ids("train", 201, 1) == ["textworld_201"]
    assert remote("scienceworld", "http://h:1").task_ids("test", 1, 2) == ["sciworld_0", "sciworld_1"]
    listed = tmp_path / "webshop_test.json"
    listed.write_text(json.dumps([{"item_id": f"webshop_{n}", "conversations": None} for n in (7, 3)]))
    domain = remote("webshop", "http://h:1", tasks=str(listed))
    assert domain.task_ids("test", 1, 2) == ["webshop_7", "webshop_3"]
    with pytest.raises(InputError, match="of 2"):
        domain.task_ids("test", 2, 2)


# --- hostile servers -------------------------------------------------------------------------------------------


@contextmanager
def hostile(*replies: bytes | float | None) -> Iterator[tuple[str, list[bytes]]]:
    """A server that answers request i with replies[i] (the last one from then on).

    Bytes are sent as they are; None closes at once; a number sends a byte of a header every that many seconds.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    seen: list[bytes] = []
    stopped = threading.Event()

    def talk(connection: socket.socket, reply: bytes | float | None) -> None:
        with connection:
            try:
                request = connection.recv(65536)
                length = re.search(rb"Content-Length: (\d+)", request)
                while length and len(request.partition(b"\r\n\r\n")[2]) < int(length[1]):
                    request += connection.recv(65536)
                seen.append(request)
                if isinstance(reply, bytes):
                    connection.sendall(reply)
                elif isinstance(reply, float):
                    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                    while not stopped.wait(reply):
                        connection.sendall(b"x")
            except OSError:
                return

    def run() -> None:
        count = 0
        while not stopped.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            reply = replies[min(count, len(replies) - 1)]
            count += 1
            threading.Thread(target=talk, args=(connection, reply), daemon=True).start()

    threading.Thread(target=run, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", seen
    finally:
        stopped.set()
        listener.close()


def reply(
    value: Any, status: str = "200 OK", kind: str = "application/json", length: int | None = None
) -> bytes:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body) if length is None else length}"
    return head.encode() + b"\r\n\r\n" + body


CREATED = reply({"id": 0, "games": []})
STARTED = reply(
    {
        "id": 0,
        "observation": "Press it!\n\n-= Room =-",
        "available_actions": ["press"],
        "done": False,
        "reward": 0.0,
    }
)
HTML = reply(b"<html><body>502 from a proxy\n</body></html>", kind="text/html")


@pytest.mark.parametrize(
    ("answer", "named", "requests"),
    [
        (HTML, "the answer is text/html, not JSON", 1),
        (reply({"error": "no such game"}), "the server says: no such game", 1),
        (reply({"id": 0}), "no list of texts 'available_actions'", 1),
        (reply({"observation": 3, "available_actions": []}), "no text 'observation'", 1),
        (reply([1]), "answered a list where an object belongs", 1),
        (reply(b"{torn"), "not JSON", 1),
        (reply(b"\xff\xfe"), "not JSON", 1),
        (reply(b"[" * 100_000), "not JSON", 1),
        (reply({"x": "y" * (5 << 20)}), "larger than", 1),
        (reply({"detail": "boom"}, "500 Internal Server Error"), "status 500", 1),
        (reply({"detail": "where"}, "404 Not Found"), "no such route", 1),
        (reply(b"", "302 Found"), "status 302", 1),
        (reply({}, "503 Service Unavailable"), "status 503", 2),
        (reply(HTML, "502 Bad Gateway"), "status 502", 2),
        (reply({"id": 0}, length=999), "broke|early", 2),
        (b"SSH-2.0-OpenSSH_9\r\n", "broke", 2),
        (None, "the connection broke", 2),
        (30.0, "no answer within 0.5 s", 1),
        (0.05, "no answer within 0.5 s", 1),
    ],
)  # fmt: skip
def test_a_hostile_answer_to_reset_is_a_typed_failure(
    answer: Any, named: str, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "BACKOFF_S", 0.01)
    with hostile(CREATED, answer) as (url, seen):
        environment = remote("textworld", url, timeout=0.5, attempts=2).open()
        started = time.monotonic()
        with pytest.raises(EnvironmentFailure, match=named) as caught:
            environment.load("textworld_1")
        assert time.monotonic() - started < 3
        assert len(str(caught.value)) < 500 and "\n" not in str(caught.value)
        assert len(seen) == 1 + requests
        environment.close()


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (None, "the connection broke"),
        (HTML, "not JSON"),
        (reply({}, "502 Bad Gateway"), "status 502"),
        (reply({"error": "gone"}), "the server says: gone"),
        (reply({"observation": "x", "score": "3", "max_score": 3, "done": True, "available_actions": []}), "no number 'score'"),
        (reply(b'{"observation": "x", "score": NaN, "max_score": 3, "done": true, "available_actions": []}'), "no number 'score'"),
        (reply({"observation": "x", "score": 3, "max_score": 3, "done": 1, "available_actions": []}), "no true or false 'done'"),
        (0.05, "no answer within"),
    ],
)  # fmt: skip
def test_a_step_is_never_sent_twice(answer: Any, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BACKOFF_S", 0.01)
    with hostile(CREATED, STARTED, answer) as (url, seen):
        environment = remote("textworld", url, timeout=0.5, attempts=5).open()
        environment.reset(
            Task("textworld_1", "textworld", "Press it!", "Press it!\n\n-= Room =-\nAVAILABLE ACTIONS: press")
        )
        with pytest.raises(EnvironmentFailure, match=named):
            environment.step("press")
        assert len(seen) == 3
        with pytest.raises(EnvironmentFailure, match="call reset first"):
            environment.step("press")
        environment.close()


def test_a_busy_server_is_asked_again_even_for_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BACKOFF_S", 0.01)
    won = reply({"observation": "x", "score": 3, "max_score": 3, "done": True, "available_actions": []})
    with hostile(CREATED, STARTED, reply({}, "503 Busy"), won) as (url, seen):
        environment = remote("textworld", url).open()
        environment.load("textworld_1")
        assert environment.step("press").success and len(seen) == 4
        environment.close()


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "BACKOFF_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    with pytest.raises(EnvironmentFailure, match=r"no connection .*\(3 attempts\)"):
        remote("alfworld", f"http://127.0.0.1:{port}").open().load("alfworld_1")


def test_a_server_without_close_is_no_failure() -> None:
    with hostile(reply(7), reply(["x [SEP] Instruction: [SEP] g [SEP]", None]), reply({"has_search_bar": True, "clickables": []}), reply({}, "405 No")) as (url, seen):  # fmt: skip
        environment = remote("webshop", url, dialect="upstream").open()
        assert environment.load("webshop_3").goal == "g"
        environment.close()
        assert b'"env_idx": 7' in seen[1] and seen[3].startswith(b"POST /close")


# --- the server ------------------------------------------------------------------------------------------------


def test_the_servers_routes_answer_as_upstreams_do(toys: Callable[[str, str], str]) -> None:
    shop = toys("webshop", "word2world")
    identity = ask(shop, "/create", {})[1]
    assert isinstance(identity, int) and identity in ask(shop, "/list_envs")[1]
    page = "WebShop [SEP] Instruction: [SEP] press 1 times in world 3. [SEP] Search"
    assert ask(shop, "/reset", {"env_idx": identity, "session_id": 3}) == (200, [page, None])
    assert ask(shop, f"/observation?env_idx={identity}") == (200, page)
    assert ask(shop, f"/instruction_text?env_idx={identity}")[1] == "Instruction: press 1 times in world 3."
    actions = {"has_search_bar": True, "clickables": ["search"]}
    assert ask(shop, f"/available_actions?env_idx={identity}") == (200, actions)
    answer = ask(shop, "/step", {"env_idx": identity, "action": "search[x]"})[1]
    assert answer == {"state": "Results [SEP] search[x]", "reward": 0.0, "done": False, "info": None}
    sold = ask(shop, "/step", {"env_idx": identity, "action": "click[buy now]"})[1]
    assert (sold["reward"], sold["done"]) == (1.0, True) and sold["state"].endswith("1.0")
    assert ask(shop, f"/available_actions?env_idx={identity}")[1] == {
        "has_search_bar": False,
        "clickables": [],
    }
    assert ask(shop, "/step", {"env_idx": identity, "action": "search[x]"})[0] == 500
    assert ask(shop, "/close", {"env_idx": identity}) == (200, True)
    assert ask(shop, "/close", {"env_idx": identity})[0] == 500
    assert ask(toys("webshop", "upstream"), "/close", {"env_idx": 0})[0] == 404

    science = toys("scienceworld", "word2world")
    one = ask(science, "/create", {})[1]["id"]
    first = ask(science, "/reset", {"id": one, "data_idx": 1})[1]
    assert first["task_description"] == "Task Description:\nYour task is to press 2 times in world 1."
    assert first["observation"].startswith("This room is called the hall.")
    assert {"task_name", "var_num", "reward", "score", "deleted", "done"} < set(first)
    assert ask(science, f"/task_description?id={one}")[1] == first["task_description"]
    assert ask(science, "/step", {"id": one, "action": "press"})[1]["score"] == 50
    assert ask(science, "/step", {"id": one, "action": "press"})[1] == {
        "observation": "Pressed 2 of 2 (você: press).", "reward": 50.0, "score": 100.0, "done": True
    }  # fmt: skip
    assert "has finished" in ask(science, "/step", {"id": one, "action": "press"})[1]["error"]

    home = toys("alfworld", "word2world")
    two = ask(home, "/create", {})[1]["id"]
    assert "reset it first" in ask(home, "/step", {"id": two, "action": "press"})[1]["error"]
    started = ask(home, "/reset", {"id": two, "game": 0, "world_type": "Text"})[1]
    assert "AVAILABLE" not in started["observation"] and started["available_actions"] == ["press", "wait"]
    assert "world_type" in ask(home, "/reset", {"id": two, "game": 0, "world_type": "Embody"})[1]["error"]
    assert ask(home, f"/detail?id={two}")[1] == started
    assert ask(home, "/step", {"id": two, "action": "press"})[1]["reward"] == 1.0


def test_hostile_requests_are_refused_and_the_server_lives(toys: Callable[[str, str], str]) -> None:
    url = toys("textworld", "word2world")
    identity = ask(url, "/create", {"games_dir": "/etc", "max_steps": 50})[1]["id"]
    for body in ({"id": identity, "data_idx": "../../etc/passwd"}, {"id": identity, "data_idx": -1}, {"id": identity, "data_idx": True}, {"id": [], "data_idx": 1}, {"data_idx": 1}, {"id": identity, "data_idx": 10**12}):  # fmt: skip
        assert ask(url, "/reset", body)[0] == 422
    replay = {
        "id": identity,
        "data_idx": 1,
        "game_path": "data/textworld/games",
    }  # as upstream's replay script
    assert ask(url, "/reset", replay)[1]["done"] is False
    refused = ask(url, "/reset", {"id": identity, "data_idx": 1, "game_path": "/etc/passwd"})
    assert refused == (200, {"error": "game_path is not accepted; give data_idx"})
    assert "no such task" in ask(url, "/reset", {"id": identity, "data_idx": 99})[1]["error"]
    assert ask(url, "/step", {"id": identity, "action": 3})[0] == 422
    assert ask(url, "/step", raw=b"x" * (MAX_BODY_BYTES + 1))[0] == 413
    assert ask(url, "/step", raw=b"{torn")[0] == 422
    assert ask(url, "/step", raw=b"[" * 50_000)[0] == 422
    assert ask(url, "/step", [1])[0] == 422
    assert ask(url, "/" + "x" * 2_000)[0] == 414
    assert ask(url, "/../../etc/passwd")[0] == 404
    assert ask(url, "/step")[0] == 405
    assert "not valid" in ask(url, "/observation?id=12345")[1]["error"]
    with socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1]))) as connection:
        connection.sendall(b"POST /step HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 411")
    with socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1]))) as connection:
        connection.sendall(b"POST /step HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")  # and leaves
    assert ask(url, "/")[1] == "This is environment TextWorld."
    assert ask(url, "/close", {"id": identity}) == (200, {"closed": True})


def test_environments_are_bounded_and_idle_ones_expire() -> None:
    with serving(ToyDomain("alfworld"), environments=2, idle_s=0.6) as server:
        one, _two = (ask(server.url, "/create", {})[1]["id"] for _ in range(2))
        assert "2 environments are in use" in ask(server.url, "/create", {})[1]["error"]
        ask(server.url, "/reset", {"id": one, "game": 0})
        deadline = time.monotonic() + 20
        while server.sessions.ids() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert server.sessions.ids() == []
        assert "not valid" in ask(server.url, "/step", {"id": one, "action": "press"})[1]["error"]
        assert ask(server.url, "/create", {})[1]["id"] not in (one, _two)
    with serving(ToyDomain("webshop"), environments=1) as server:
        assert [ask(server.url, "/create", {})[0] for _ in range(2)] == [200, 503]


def test_a_failing_or_dying_worker_fails_its_episode_only() -> None:
    with serving(ToyDomain("alfworld"), workers=2) as server:
        domain = remote("alfworld", server.url)
        one, two = domain.open(), domain.open()
        for environment in (one, two):
            environment.reset(environment.load("alfworld_5"))
        with pytest.raises(EnvironmentFailure, match="the toy broke"):
            one.step("fail")
        one.reset(one.load("alfworld_5"))
        with pytest.raises(EnvironmentFailure, match="died"):
            one.step("die")
        assert two.step("press").observation.startswith("Pressed 1")
        one.reset(one.load("alfworld_4"))
        assert one.step("press").observation.startswith("Pressed 1 of 2")
        busy = threading.Thread(
            target=ask, args=(server.url, "/step", {"id": 0, "action": "hang"}), daemon=True
        )
        busy.start()
        time.sleep(0.3)
        assert "at work" in ask(server.url, "/step", {"id": 0, "action": "press"})[1]["error"]
        assert two.step("wait").observation.startswith("Pressed 1")
        two.close()
        started = time.monotonic()
    assert time.monotonic() - started < 20  # the hanging worker does not hold the shutdown


def test_a_killed_worker_costs_the_client_nothing_but_time() -> None:
    """kill -9 between two requests: both episodes of the worker are played again, and answer as if undisturbed."""
    domain = make_domain("webshop", CACHE)
    actions = ["search[shoes]", "click[next >]", "click[< prev]", "click[back to search]"]

    def play(kill: bool) -> tuple[list[list[str]], int]:
        with serving(domain, environments=4) as server:
            environments = [remote("webshop", server.url, timeout=60).open() for _ in range(2)]
            shown = [[e.reset(e.load(f"webshop_{n}")).text] for n, e in enumerate(environments, start=3)]
            for turn, action in enumerate(actions):
                if kill and turn == 2:
                    worker = server.sessions._pools[0]._workers[0]
                    assert worker is not None
                    os.kill(worker.process.pid or 0, signal.SIGKILL)
                    worker.process.join(10)
                for texts, environment in zip(shown, environments, strict=True):
                    texts.append(environment.step(action).observation)
            for environment in environments:
                environment.close()
            return shown, server.sessions.retries

    undisturbed, none = play(kill=False)
    disturbed, again = play(kill=True)
    assert disturbed == undisturbed and (none, again) == (0, 2)
    assert len({tuple(texts) for texts in disturbed}) == 2


def test_the_command_serves_and_stops_without_leaving_processes() -> None:
    command = [sys.executable, "-m", "wmlab", "env", "serve", "--domain", "textworld", "--protocol", "agentgym", "--port", "0", "--workers", "1", "--cache", str(CACHE)]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT / "workflow")})  # fmt: skip
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split(": serving")[0]
        environment = remote("textworld", url, timeout=60).open()
        assert environment.load("textworld_1").task_id == "textworld_1"
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert process.stdout.read().strip().endswith("stopped")
        psutil.wait_procs(children, timeout=5)
        assert not [child for child in children if child.is_running() and child.status() != "zombie"]
    finally:
        process.kill()
        process.wait()


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
ACTIONS = st.lists(st.text("abc ']", min_size=1, max_size=8), max_size=4)


@settings(max_examples=150, deadline=None)
@given(TEXT, ACTIONS, st.sampled_from(["textworld", "alfworld"]))
def test_blocks_of_actions_come_off_as_they_went_on(text: str, actions: list[str], name: str) -> None:
    assert split_page_actions(with_page_actions(text, actions)) == (text, actions)
    assert split_reset_actions(name, with_reset_actions(name, text, actions)) == (text, actions)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(NAMES), st.integers(0, 999_999_999))
def test_item_ids_round_trip(name: str, number: int) -> None:
    from wmlab.domains.conventions import item_id

    assert item_number(name, item_id(name, number)) == item_number(name, f"{name}_{number}") == number
