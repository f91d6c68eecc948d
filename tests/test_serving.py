"""A command and its servers: what is told to whom, and what happens when a server does not start.

With a real vLLM server: tests/engines.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import tiny_models as tiny
from typer.testing import CliRunner
from wmlab.cli.serve import app
from wmlab.config.load import check_study, load_study
from wmlab.config.plan import Plan
from wmlab.errors import InputError
from wmlab.lm.build import save_model
from wmlab.lm.serving import run_beside
from wmlab.lm.transport import ServerFailure

ROOT = Path(__file__).resolve().parents[1]


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["run", *arguments])


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--model", "judge", "--logs", "l", "--", "true"], "--model 'judge': write NAME=VALUE"),
        (["--model", "a b=x", "--logs", "l", "--", "true"], "write NAME=VALUE"),
        (["--model", "j=x", "--model", "j=y", "--logs", "l", "--", "true"], "'j' is given twice"),
        (["--model", "judge=x", "--options", "juge=-x", "--logs", "l", "--", "true"], "did you mean 'judge'"),
        (
            ["--model", "judge=x", "--gpus", "comand=0", "--logs", "l", "--", "true"],
            "--gpus: 'comand' is no server",
        ),
        (["--model", "judge=nowhere", "--logs", "l", "--", "true"], "no model there"),
    ],
)
def test_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert isinstance(done.exception, InputError) and problem in str(done.exception), done.exception


def test_no_server_no_command(tmp_path: Path) -> None:
    lm = tiny.tiny_lm()
    save_model(tmp_path / "m", lm.model, lm.tokenizer)
    touch = [sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')"]
    done = run("--model", f"judge={tmp_path / 'm'}", "--logs", str(tmp_path / "logs"), "--", *touch)
    assert isinstance(done.exception, ServerFailure) and "No module named 'vllm'" in str(done.exception)
    assert not (tmp_path / "ran").exists() and (tmp_path / "logs" / "judge.log").is_file()
    with pytest.raises(InputError, match="no command"):
        run_beside([], [], tmp_path)
    ended = run_beside(
        [],
        [sys.executable, "-c", "import os, sys; sys.exit(os.environ['CUDA_VISIBLE_DEVICES'] != '2')"],
        tmp_path,
        gpus="2",
    )
    assert ended == 0


def test_the_reference_agent_of_a_study_behind_servers() -> None:
    base = load_study(base=ROOT / "config.yaml").model_dump(exclude_none=True)

    def plan(**chosen: Any) -> Plan:
        return Plan(check_study({**base, "serving": {"reference": chosen}}, ["config.yaml"]))

    assert Plan(load_study(base=ROOT / "config.yaml")).reference_options() == {
        "reference-url": [], "reference-model": None, "reference-cache": None,
    }  # fmt: skip
    there = plan(urls=["http://a/v1", "http://b/v1"], model="judge", cache=True)
    assert there.reference_server("f", "l") == []
    assert there.reference_options() == {
        "reference-url": ["http://a/v1", "http://b/v1"],
        "reference-model": "judge",
        "reference-cache": "results/cache/reference.sqlite",
    }
    brought = plan(
        engine="vllm", options="--dtype float32", gpus="0", job_gpus="1,2", python="/opt/vllm/bin/python"
    )
    assert brought.reference_options()["reference-url"] == ["{reference}"]
    assert brought.reference_server("f", "l") == [
        "python", "-m", "wmlab", "serve", "run", "--model", "reference=f", "--logs", "l",
        "--options", "reference=--dtype float32", "--gpus", "reference=0", "--gpus", "command=1,2",
        "--python", "/opt/vllm/bin/python", "--",
    ]  # fmt: skip
    assert brought.asks_reference("behr") and not brought.asks_reference("f1")
    for wrong, said in (
        ({"urls": ["http://a/v1"], "engine": "vllm"}, "give one of them"),
        ({"gpus": "0"}, "give `engine`"),
        ({"model": "x"}, "`model` is a name at `urls`"),
    ):
        with pytest.raises(InputError, match=said):
            plan(**wrong)
