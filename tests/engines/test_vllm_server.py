"""A reference agent behind a real vLLM server, on a CPU: equal scores, its failures typed, its end."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny_models as tiny
import torch
from wmlab.config.recipes import Architecture
from wmlab.errors import InputError
from wmlab.lm.base import Sampling
from wmlab.lm.build import new_model, save_model
from wmlab.lm.transport import AnswerFailure, ServerFailure
from wmlab.lm.tree import Tree
from wmlab.lm.vllm import free_port, vllm_server
from wmlab.rewards.base import RewardInput
from wmlab.rewards.behr import BehaviourConsistency
from wmlab.rewards.opened import open_reference

OPTIONS = ("--dtype", "float32", "--enforce-eager", "--max-model-len", "512", "--max-num-seqs", "8")
GOLD = list(tiny.STATES.values())
# vLLM's CPU attention wants heads of 32.
ARCHITECTURE = Architecture(
    hidden_size=128, layers=2, heads=4, kv_heads=2, intermediate_size=128, max_position=512
)


def items() -> list[RewardInput]:
    actions = list(tiny.STATES)
    return [RewardInput("textworld", tiny.history(n), GOLD[n], actions[n + 1]) for n in range(3)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vllm") / "agent"
    save_model(path, new_model(ARCHITECTURE, tiny.tokenizer(), 3), tiny.tokenizer())
    return path


@pytest.fixture(scope="module", autouse=True)
def small() -> Iterator[None]:
    settings = {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
        "OMP_NUM_THREADS": "2",
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    yield
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[str]:
    taken, *rest = (free_port() for _ in range(3))
    blocker = subprocess.Popen([sys.executable, "-m", "http.server", str(taken), "--bind", "127.0.0.1"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)  # fmt: skip
    time.sleep(1)
    try:
        # The first port is taken: the server starts on the next.
        with vllm_server(
            folder, folder.parent / "log.txt", options=OPTIONS, ports=iter([taken, *rest])
        ) as url:
            assert f":{rest[0]}/" in url
            yield url
    finally:
        blocker.kill()


def test_its_scores_and_actions_are_those_in_process(folder: Path, server: str) -> None:
    near, far = open_reference(folder), open_reference(folder, [server])
    assert not far.lm.fixed  # type: ignore[attr-defined]  # the CPU's model runner has no fixed-token scoring
    states = [["x", GOLD[0], "x"], [GOLD[1], "Nothing happens. 🙂"], ["\n", "-= Pantry =-\nYou see a shelf."]]
    for one, other in zip(near.score(items(), states), far.score(items(), states), strict=True):
        assert [s.mean_logprob for s in other] == pytest.approx([s.mean_logprob for s in one], abs=1e-3)
        assert [s.n_tokens for s in other] == [s.n_tokens for s in one]
    rewards = [
        [record.reward for record in BehaviourConsistency(agent)(items()[:1], [["x", GOLD[0]]])[0]]
        for agent in (near, far)
    ]
    assert rewards[0] == pytest.approx(rewards[1], abs=1e-3) and rewards[0][1] == 1.0
    # Greedy text, against the model itself: our decoding needs a newer transformers than vLLM's environment has.
    model, tokenizer = near.lm.model, near.lm.tokenizer  # type: ignore[attr-defined]
    ids = prompt = tokenizer.encode("Action:\nopen box", add_special_tokens=False)
    for _ in range(6):
        with torch.no_grad():
            ids = [*ids, int(model(torch.tensor([ids])).logits[0, -1].argmax())]
    ((said,),) = far.lm.generate_ids([prompt], Sampling(0.0, 1, 6))
    assert said.text == tokenizer.decode(ids[len(prompt) :], skip_special_tokens=True)


def test_what_it_refuses_is_a_failure_of_one(folder: Path, server: str) -> None:
    lm = open_reference(folder, [server]).lm
    long, short = lm.score_trees([Tree([1] * 600, [[2]], [1]), Tree([1, 2], [[3]], [1])])
    assert isinstance(long[0], AnswerFailure) and "status 400" in str(long[0])
    assert not isinstance(short[0], AnswerFailure) and len(short[0]) == 1
    with pytest.raises(InputError, match="no model 'other'; it lists agent"):
        open_reference(folder, [server], "other")


def test_it_stops_with_its_block_and_with_its_owner(folder: Path, tmp_path: Path) -> None:
    owner = (
        "import sys, time; from pathlib import Path; from wmlab.lm.vllm import vllm_server\n"
        f"with vllm_server(Path(sys.argv[1]), Path(sys.argv[2]), options={OPTIONS!r}) as url:\n"
        "    print(url, flush=True); time.sleep(600)\n"
    )
    for how in (signal.SIGTERM, signal.SIGKILL):
        process = subprocess.Popen(
            [sys.executable, "-c", owner, str(folder), str(tmp_path / f"{how.name}.txt")],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url, (tmp_path / f"{how.name}.txt").read_text()[-2000:]
        process.send_signal(how)
        process.wait(60)
        deadline = time.monotonic() + 60
        while _answers(url):
            assert time.monotonic() < deadline, f"left behind after {how.name}"
            time.sleep(0.5)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url.replace("/v1", "/health"), timeout=2):
            return True
    except OSError:
        return False


def test_a_command_has_its_server_and_its_exit_code(folder: Path, tmp_path: Path) -> None:
    """`wmlab serve run`: scores over the server that a job brings along, which is gone afterwards."""
    rows = [
        {"id": str(n), "domain": "textworld", "history": one.history, "gold": one.gold, "action": one.action}
        for n, one in enumerate(items())
    ]
    rows = [{**row, "candidates": ["x", row["gold"]]} for row in rows]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    scoring = [
        sys.executable, "-m", "wmlab", "score", "rewards", "--reward", "behr", "--reference", str(folder),
        "--input", str(tmp_path / "rows.jsonl"), "--out",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    serving = [
        sys.executable, "-m", "wmlab", "serve", "run", "--model", f"judge={folder}", "--logs", str(tmp_path / "logs"),
        "--options", f"judge={shlex.join(OPTIONS)}", "--",
    ]  # fmt: skip
    both = (
        "import subprocess, sys; print('URL', sys.argv[1], flush=True);"
        " subprocess.run(sys.argv[2:], check=True); sys.exit(7)"
    )
    command = [
        sys.executable,
        "-c",
        both,
        "{judge}",
        *scoring,
        str(tmp_path / "served"),
        "--reference-url",
        "{judge}",
    ]
    ended = subprocess.run([*serving, *command], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 7, ended.stderr[-3000:]
    url = re.search(r"URL (\S+)", ended.stdout)
    assert url is not None and not _answers(url[1]) and "/v1" in url[1]
    assert (tmp_path / "logs" / "judge.log").stat().st_size > 0
    subprocess.run([*scoring, str(tmp_path / "inside")], env=environment, check=True, capture_output=True)
    served, inside = (
        [
            record["reward"]
            for line in (tmp_path / name).read_text().splitlines()
            for record in json.loads(line)["records"]
        ]
        for name in ("served", "inside")
    )
    assert len(served) == 6 and served[1] == 1.0 and served == pytest.approx(inside, abs=1e-3)


def test_one_that_does_not_start_says_why(folder: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(ServerFailure, match=r"(?s)ended with 2; the end of .*--no-such-option"),
        vllm_server(folder, tmp_path / "log.txt", options=["--no-such-option"]),
    ):
        pass
    with (
        pytest.raises(InputError, match="no model there"),
        vllm_server(tmp_path / "nothing", tmp_path / "log.txt"),
    ):
        pass
