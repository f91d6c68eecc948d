"""A reference agent behind servers, against a real model over real HTTP: equal scores, and every way to fail."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import tiny_models as tiny
from model_server import ModelServer, serving
from wmlab.errors import InputError, ModelFailure
from wmlab.lm import served, transport
from wmlab.lm.base import Sampling
from wmlab.lm.served import ServedModel
from wmlab.lm.transport import AnswerFailure, ServerFailure
from wmlab.lm.tree import Tree
from wmlab.rewards.base import RewardInput
from wmlab.rewards.behr import BehaviourConsistency
from wmlab.rewards.reference import ReferenceAgent

GOLD = list(tiny.STATES.values())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(transport, "BACKOFF_S", 0.001)
    monkeypatch.setattr(served, "HEALTH_EVERY_S", 0.0)
    monkeypatch.delenv(transport.KEY_VARIABLE, raising=False)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    yield


def reached(*servers: ModelServer, **options: Any) -> ServedModel:
    settings = {"timeout": 5.0, "attempts": 2, "concurrency": 2, **options}
    return ServedModel([server.url for server in servers], "agent", tiny.tokenizer(), "tiny", 512, **settings)


def items() -> list[RewardInput]:
    actions = list(tiny.STATES)
    return [RewardInput("textworld", tiny.history(n), GOLD[n], actions[n + 1]) for n in range(3)]


STATES: Sequence[Sequence[str]] = [
    ["You open the box.", GOLD[0], "You open the box."],
    [GOLD[1], "Nothing happens. 🙂"],
    ["-= Pantry =-\nYou see a shelf.", "\n"],
]


@pytest.mark.parametrize("fixed", [True, False])
def test_servers_score_as_the_model_in_process_does(fixed: bool, capsys: pytest.CaptureFixture[str]) -> None:
    lm = tiny.tiny_lm(3)
    with serving(lm, fixed=fixed) as one, serving(lm, fixed=fixed) as two:
        far = ReferenceAgent(reached(one, two))
        assert ("no fixed-token scoring" in capsys.readouterr().err) is not fixed
        near = ReferenceAgent(lm)
        found, wanted = far.score(items(), STATES), near.score(items(), STATES)
        for group, here in zip(found, wanted, strict=True):
            assert [s.n_tokens for s in group] == [s.n_tokens for s in here]
            assert [s.mean_logprob for s in group] == pytest.approx([s.mean_logprob for s in here], abs=1e-5)
        # Equal states are asked once, and both servers had a share.
        route = "generate" if fixed else "completions"
        asked = [len(server.posts(route)) - fixed for server in (one, two)]
        assert sum(asked) == 6 == far.calls and all(asked)
        assert far.prefill_tokens > near.prefill_tokens
        far.score(items(), STATES)
        assert far.calls == 6  # remembered
        # Only the action's tokens are asked for.
        if fixed:
            rows = [
                len(body["sampling_params"]["prompt_logprob_token_ids"]) for body in one.posts("generate")[1:]
            ]
            assert set(rows) <= {score.n_tokens for group in wanted for score in group}


def test_greedy_actions_are_the_models_own() -> None:
    lm = tiny.tiny_lm(3)
    with serving(lm) as server:
        assert ReferenceAgent(reached(server)).act(items()[:1], [["x", GOLD[0]]]) == ReferenceAgent(lm).act(
            items()[:1], [["x", GOLD[0]]]
        )
        server.fault = lambda number, path: 400
        with pytest.raises(AnswerFailure, match="status 400"):
            reached_again = ReferenceAgent(_open_without_check(server))
            reached_again.lm.generate_ids([[1, 2]], Sampling(0.0, 1, 2))


def _open_without_check(server: ModelServer) -> ServedModel:
    fault, server.fault = server.fault, None
    made = reached(server)
    server.fault = fault
    return made


@pytest.mark.parametrize("fixed", [True, False])
def test_every_third_question_fails_once_and_is_asked_again(fixed: bool) -> None:
    with serving(tiny.tiny_lm(3), fixed=fixed) as server:

        def third_question(number: int, path: str) -> int | None:
            """By question, not by number: two threads interleave, and a second attempt must not fail too."""
            asked = [body for _, body, _ in server.requests[: number + 1]]
            firsts = [at for at, body in enumerate(asked) if asked.index(body) == at]
            return 500 if firsts[-1] == number and len(firsts) % 3 == 1 else None

        lm = _with_fault(server, third_question)
        found = ReferenceAgent(lm).score(items(), STATES)
        assert all(score.error is None for group in found for score in group)
        assert len(server.requests) == 6 + 2  # six questions, the first and the fourth twice


def _with_fault(server: ModelServer, fault: Any, **options: Any) -> ServedModel:
    made = reached(server, **options)
    server.fault = fault
    server.requests.clear()
    return made


def test_all_fail() -> None:
    with serving(tiny.tiny_lm(3)) as server:
        reference = ReferenceAgent(_with_fault(server, lambda number, path: 500, attempts=1, concurrency=1))
        many = [f"state {n}" for n in range(20)]
        with pytest.raises(ServerFailure, match=r"no server is left \(.*status 500\)"):
            reference.score(items()[:1], [many])
        assert len(server.requests) <= transport.GIVE_UP + 1 and not reference._cache
        # It is back: the same question is answered, nothing of the failure was kept.
        server.fault = None
        assert all(score.error is None for score in reference.score(items()[:1], [many])[0])


def test_one_of_two_dies_and_comes_back(capsys: pytest.CaptureFixture[str]) -> None:
    lm = tiny.tiny_lm(3)
    with serving(lm) as one, serving(lm) as two:
        made = reached(one, two, attempts=1)
        reference = ReferenceAgent(made)
        before = len(two.requests)
        two.healthy = False
        two.fault = lambda number, path: 503 if number >= before + 3 else None
        many = [f"state {n}" for n in range(40)]
        found = reference.score(items()[:1], [many])[0]
        assert all(score.error is None for score in found)  # the other one answers what this one leaves
        assert len(two.requests) - before < 3 + 2 * transport.GIVE_UP
        two.healthy, two.fault = True, None
        reference.score(items()[1:2], [many])
        assert "it answers again" in capsys.readouterr().err


def test_a_server_that_hangs_costs_its_timeout() -> None:
    with serving(tiny.tiny_lm(3)) as server:
        made = reached(server, timeout=0.2, attempts=1)
        server.hang = 1.0
        found = ReferenceAgent(made).score(items()[:1], [["a"]])[0][0]
        assert found.mean_logprob is None and "timeout" in str(found.error)


def _shifted(answer: dict[str, Any]) -> dict[str, Any]:
    rows = answer["choices"][0]["prompt_logprobs"]
    answer["choices"][0]["prompt_logprobs"] = [None, None, *rows[1:-1]]
    return answer


def _infinite(answer: dict[str, Any]) -> dict[str, Any]:
    for row in answer["choices"][0]["prompt_logprobs"][1:]:
        for entry in row.values():
            entry["logprob"] = math.inf
    return answer


@pytest.mark.parametrize(
    ("fixed", "change", "said"),
    [
        (
            False,
            lambda a: {"choices": [{**a["choices"][0], "prompt_logprobs": None}]},
            "no log-probabilities",
        ),
        (False, lambda a: {"choices": []}, "no log-probabilities"),
        (False, _shifted, "of other tokens than were sent|no log-probabilities"),
        (
            False,
            lambda a: {"choices": [{"prompt_logprobs": a["choices"][0]["prompt_logprobs"][:-1]}]},
            "tokens instead",
        ),
        (False, _infinite, "no log-probability"),
        (True, lambda a: {**a, "prompt_token_id_logprobs": None}, "no scores"),
        (True, lambda a: {**a, "prompt_token_id_logprobs": "!!"}, "no scores"),
        (True, lambda a: {**a, "prompt_token_id_logprobs": a["prompt_token_id_logprobs"][:40]}, "no scores"),
    ],
)
def test_an_answer_that_is_no_score_is_a_failure_and_not_kept(fixed: bool, change: Any, said: str) -> None:
    with serving(tiny.tiny_lm(3), fixed=fixed) as server:
        reference = ReferenceAgent(_with_fault(server, lambda number, path: change))
        record = BehaviourConsistency(reference)(items()[:1], [["You open the box."]])[0][0]
        assert record.reward is None and record.status == "failed" and not reference._cache
        import re

        assert re.search(said, str(record.error))
        server.fault = None
        assert BehaviourConsistency(reference)(items()[:1], [["You open the box."]])[0][0].reward is not None


def test_fixed_scores_of_another_length_are_refused() -> None:
    with serving(tiny.tiny_lm(3)) as server:
        made = reached(server)
        right = made.score_trees([Tree([1, 2], [[3, 4]], [2])])[0][0]
        assert isinstance(right, list) and len(right) == 2
        kept = server._answer("/inference/v1/generate", {
            "token_ids": [1, 2, 3], "sampling_params": {"prompt_logprob_token_ids": [[3]], "prompt_logprob_start": 1},
        })  # fmt: skip
        server.fault = lambda number, path: lambda answer: kept
        wrong = made.score_trees([Tree([1, 2], [[3, 4]], [2])])[0][0]
        assert isinstance(wrong, AnswerFailure) and "(1, 1) scores instead of (2, 1)" in str(wrong)


def test_a_wrong_name_a_refused_key_and_no_server_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(transport.KEY_VARIABLE, "sk-secret")
    with serving(tiny.tiny_lm(3), name="other") as server:
        with pytest.raises(InputError, match="no model 'agent'; it lists other"):
            reached(server)
        server.fault = lambda number, path: 401
        with pytest.raises(ServerFailure, match="status 401") as failed:
            reached(server)
        assert "sk-secret" not in str(failed.value) and server.requests[0][2] == "Bearer sk-secret"
        gone = server.url
    with pytest.raises(ServerFailure, match="no server answers"):
        ServedModel([gone], "agent", tiny.tokenizer(), "tiny", 512, attempts=1, timeout=1.0)
    with pytest.raises(InputError, match="no server given"):
        ServedModel([], "agent", tiny.tokenizer(), "tiny", 512)


def test_a_prompt_leaves_room_for_the_token_that_a_server_must_generate() -> None:
    with serving(tiny.tiny_lm(3)) as server:
        assert reached(server).max_context == 511


# Opened from a folder ---------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Any) -> Any:
    from wmlab.lm.build import save_model

    save_model(tmp_path / "agent", tiny.tiny_lm(3).model, tiny.tokenizer())
    return tmp_path / "agent"


def test_the_command_asks_servers_and_keeps_scores(folder: Any, tmp_path: Any) -> None:
    import json

    from typer.testing import CliRunner
    from wmlab.cli.score import app
    from wmlab.io.jsonl import read_jsonl, write_jsonl

    row = {"id": 1, "domain": "textworld", "history": tiny.history(0), "gold": GOLD[0], "action": "take key"}
    write_jsonl(tmp_path / "rows.jsonl", [{**row, "candidates": ["x", GOLD[0], "You open the box."]}])
    given = [
        "rewards",
        "--reward",
        "behr",
        "--reference",
        str(folder),
        "--input",
        str(tmp_path / "rows.jsonl"),
    ]

    def rewards(*more: str) -> list[float]:
        done = CliRunner().invoke(app, [*given, *more, "--out", str(tmp_path / "out.jsonl")])
        assert done.exit_code == 0, done.exception
        return [record["reward"] for record in read_jsonl(tmp_path / "out.jsonl")[0]["records"]]

    here = rewards()
    with serving(tiny.tiny_lm(3)) as server:
        # Without weights in the folder it is the server's name that the scores are kept under.
        served_by = ("--reference-url", server.url, "--reference-cache", str(tmp_path / "kept.sqlite"))
        assert rewards(*served_by) == pytest.approx(here, abs=1e-5)
        asked = len(server.posts("generate"))
        assert rewards(*served_by) == pytest.approx(here, abs=1e-5)
        assert len(server.posts("generate")) == asked + 1  # one question: whether it takes ids
    # The same weights in process: the same scores are known.
    again = rewards("--reference-cache", str(tmp_path / "kept.sqlite"))
    assert again == pytest.approx(here, abs=1e-5)
    (folder / "model.safetensors").unlink()
    with serving(tiny.tiny_lm(3)) as server:
        other = ("--reference-url", server.url, "--reference-cache", str(tmp_path / "kept.sqlite"))
        assert rewards(*other) == pytest.approx(here, abs=1e-5)
        assert len(server.posts("generate")) > 1  # other content: nothing of it is known
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    done = CliRunner().invoke(app, [*given, "--reference-url", "http://127.0.0.1:9/v1", "--out", "-"])
    assert isinstance(done.exception, InputError) and "max_position_embeddings" in str(done.exception)
    done = CliRunner().invoke(app, [*given, "--reference-model", "m", "--out", "-"])
    assert isinstance(done.exception, InputError) and "--reference-url" in str(done.exception)


def test_grpo_stops_when_its_reference_is_gone_and_resumes(folder: Any, tmp_path: Any) -> None:
    """The run ends with the reason; with the server back, its checkpoint goes on to what an undisturbed run gives."""
    import json

    from wmlab.data.decompose import transitions
    from wmlab.io.tables import write_table
    from wmlab.lm.build import save_model
    from wmlab.training.grpo_stage import run_grpo

    save_model(tmp_path / "wm", tiny.tiny_lm(1).model, tiny.tokenizer())
    rows = list(transitions([tiny.trajectory(4, number) for number in range(3)], "t"))
    write_table(tmp_path / "t.parquet", "transitions", rows)
    recipe = json.dumps({
        "steps": 4, "prompts_per_step": 2, "group": 3, "max_new_tokens": 8, "validation_prompts": 2,
        "validation_every": 4, "heldout_prompts": 2, "heldout_samples": 1, "warmup_steps": 1, "checkpoint_every": 1,
        "max_failed": 0.0,
    })  # fmt: skip

    def run(server: ModelServer, out: str) -> None:
        run_grpo(
            tmp_path / "wm", tmp_path / "t.parquet", "behr", recipe, tmp_path / out, tmp_path / "t.parquet",
            folder, 1, 0, tmp_path / f"ck_{out}", reference_urls=[server.url],
        )  # fmt: skip

    with serving(tiny.tiny_lm(3)) as server:
        run(server, "whole")
        total = len(server.posts("generate"))
        server.requests.clear()
        server.fault = lambda number, path: 500 if number > total * 0.7 else None
        with pytest.raises(ModelFailure, match=r"status 500|no server is left"):
            run(server, "broken")
        assert not (tmp_path / "broken" / "model.safetensors").exists()
        server.fault = None
        before = len(server.posts("generate"))
        run(server, "broken")
        assert len(server.posts("generate")) - before < total  # from the checkpoint, not from the start
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "broken"))
    assert one == other
