"""Bad input to the commands: one line naming file, row and fix, the contract's exit code, nothing left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tiny_models as tiny
from wmlab.cli.main import main
from wmlab.config.presets import PRESETS
from wmlab.config.recipes import GrpoRecipe
from wmlab.domains.base import Task
from wmlab.domains.panels import write_panel
from wmlab.io.jsonl import read_jsonl
from wmlab.io.tables import write_table
from wmlab.lm.build import save_model

Run = tuple[int, str, str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Run:
        with pytest.raises(SystemExit) as done:
            main(list(arguments))
        printed = capsys.readouterr()
        code = done.value.code
        return (code if isinstance(code, int) else 0), printed.out, printed.err

    return call


def refused(result: Run, *said: str, code: int = 2) -> None:
    """Exit code and a single ``error:`` line that says all of it."""
    got, _, stderr = result
    lines = [line for line in stderr.splitlines() if line.strip()]
    assert got == code, stderr
    assert len(lines) == 1 and lines[0].startswith("error: "), stderr
    for words in said:
        assert words in lines[0]


def trajectories(path: Path, n: int = 3) -> Path:
    write_table(path, "trajectories", [tiny.trajectory(4, i) for i in range(n)])
    return path


def episode(item_id: str, mode: str, success: bool = True, **changed: Any) -> dict[str, Any]:
    row = {
        "item_id": item_id, "mode": mode, "agent_id": "a", "model_id": None if mode == "real" else "m",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": f"first {item_id}"},
                     {"role": "assistant", "content": "Action:\nlook"}, {"role": "user", "content": "x"}],
        "actions": ["look"], "reward": 1.0, "score": 1.0, "success": success, "status": "finished", "n_steps": 1,
        "error": None, "timing": {"seconds": 0.1}, "tokens": {"agent": 0, "world_model": 0},
    }  # fmt: skip
    return {**row, **changed}


def write_rows(path: Path, rows: list[dict[str, Any]], tail: str = "") -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + tail)
    return path


@pytest.fixture
def panel(tmp_path: Path) -> Path:
    tasks = [Task(f"textworld_{n}", "textworld", "g", f"first textworld_{n}") for n in (1, 2)]
    write_panel(tmp_path / "panel.json", "textworld", "test", tasks)
    return tmp_path / "panel.json"


def test_missing_and_corrupt_parquet(run: Any, tmp_path: Path) -> None:
    refused(
        run("data", "decompose", "--trajectories", "no.parquet", "--out", "t.parquet"),
        "no.parquet",
        "not found",
    )
    whole = trajectories(tmp_path / "t.parquet").read_bytes()
    for broken in (b"", b"PAR1 not parquet", whole[: len(whole) // 2]):
        (tmp_path / "broken.parquet").write_bytes(broken)
        refused(
            run("data", "decompose", "--trajectories", "broken.parquet", "--out", "x.parquet"),
            "broken.parquet",
        )
    assert not (tmp_path / "x.parquet").exists()


def test_a_file_of_another_contract(run: Any, tmp_path: Path) -> None:
    trajectories(tmp_path / "t.parquet")
    result = run(
        "predict", "copy", "--train", "t.parquet", "--transitions", "t.parquet", "--out", "x.parquet"
    )
    refused(result, "t.parquet", "missing")


def test_unknown_names(run: Any) -> None:
    refused(
        run("env", "panel", "--domain", "textwrld", "--split", "test", "--out", "p.json"),
        "textwrld",
        "textworld",
    )
    refused(
        run("env", "panel", "--domain", "textworld", "--split", "dev", "--out", "p.json"), "dev", "validation"
    )
    refused(
        run("env", "play", "--domain", "textworld", "--task", "../etc", "--out", "e.jsonl"),
        "not a TextWorld task",
    )
    overlap = (
        "env",
        "panel",
        "--domain",
        "textworld",
        "--split",
        "train",
        "--first-seed",
        "100",
        "--out",
        "p.json",
    )
    refused(run(*overlap), "201")
    assert run("env", "panel", "--domain", "textworld")[0] == 2
    assert run("no-such-group")[0] == 2


def test_recipes(run: Any, tmp_path: Path) -> None:
    trajectories(tmp_path / "t.parquet")
    tiny.tokenizer().save_pretrained(tmp_path / "tok")
    base = (
        "train",
        "sft",
        "--role",
        "world-model",
        "--trajectories",
        "t.parquet",
        "--tokenizer",
        "tok",
        "--out",
        "m",
    )
    sizes = tiny.ARCHITECTURE.model_dump()
    refused(run(*base, "--recipe", json.dumps({"architecture": sizes, "epoch": 3})), "epoch", "epochs")
    refused(run(*base, "--recipe", json.dumps({"architecture": sizes, "epochs": "many"})), "epochs")
    refused(run(*base, "--recipe", "{broken"), "not JSON")
    refused(run(*base, "--recipe", "no.json"), "no.json")
    refused(run(*base[:3], "poet", *base[4:], "--recipe", "{}"), "poet", "world-model")
    assert not (tmp_path / "m").exists()


GRPO = (
    "train",
    "grpo",
    "--model",
    "wm",
    "--transitions",
    "x.parquet",
    "--validation",
    "x.parquet",
    "--out",
    "g",
)


def test_models(run: Any, tmp_path: Path) -> None:
    trajectories(tmp_path / "t.parquet")
    assert run("data", "decompose", "--trajectories", "t.parquet", "--out", "x.parquet")[0] == 0
    states = ("predict", "states", "--transitions", "x.parquet", "--out", "p.parquet", "--model")
    refused(run(*states, "nowhere"), "nowhere", "config.json")
    lm = tiny.tiny_lm()
    save_model(tmp_path / "wm", lm.model, lm.tokenizer)
    weights = tmp_path / "wm" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    refused(run(*states, "wm"), "wm", "cannot be loaded", code=3)
    refused(run(*GRPO, "--recipe", "{}", "--reward", "bher"), "bher", "behr")


def test_jsonl_rows(run: Any, tmp_path: Path) -> None:
    good = {"id": 1, "prediction": "a", "gold": "a"}
    score = (
        "score",
        "states",
        "--domain",
        "textworld",
        "--input",
        "in.jsonl",
        "--out",
        "out.jsonl",
        "--metrics",
        "em",
    )
    write_rows(tmp_path / "in.jsonl", [good], tail='{"id": 2, "predic')
    assert run(*score)[0] == 0  # one torn last line is the mark of a killed writer
    assert [row["id"] for row in read_jsonl(tmp_path / "out.jsonl")] == [1]
    (tmp_path / "in.jsonl").write_text('{"id": 1, "pred\n' + json.dumps(good) + "\n")
    refused(run(*score), "in.jsonl, row 1", "not JSON")
    (tmp_path / "in.jsonl").write_text("[1]\n")
    refused(run(*score), "in.jsonl, row 1", "not a JSON object")


def test_episodes_and_panels(run: Any, panel: Path, tmp_path: Path) -> None:
    real = [episode("textworld_1", "real"), episode("textworld_2", "real", success=False)]
    w2r = [episode("textworld_1", "w2r"), episode("textworld_2", "w2r")]
    command = (
        "eval",
        "consistency",
        "--real",
        "real.jsonl",
        "--w2r",
        "w2r.jsonl",
        "--panel",
        "panel.json",
        "--out",
        "c.json",
    )
    write_rows(tmp_path / "real.jsonl", real, tail='{"item_id": "textworld_3", "mo')
    write_rows(tmp_path / "w2r.jsonl", w2r)
    assert run(*command)[0] == 0
    cell = json.loads((tmp_path / "c.json").read_text())
    assert (cell["CR_pw"], cell["CR"], cell["n"], cell["n_missing"]) == (1.0, 2.0, 2, 0)
    (tmp_path / "c.json").unlink()
    write_rows(tmp_path / "w2r.jsonl", w2r[:1])
    refused(run(*command), "textworld_2", code=4)
    assert not (tmp_path / "c.json").exists()
    assert run(*command, "--allow-incomplete")[0] == 0
    cell = json.loads((tmp_path / "c.json").read_text())
    assert (cell["n"], cell["n_missing"], cell["SR_W2R"]) == (2, 1, 0.5)
    write_rows(tmp_path / "w2r.jsonl", [{k: v for k, v in w2r[0].items() if k != "item_id"}])
    refused(run(*command), "w2r.jsonl", "item_id")
    panel.write_text(panel.read_text().replace("first textworld_2", "another"))
    refused(run(*command), "panel.json", "sha256")


def test_an_upstream_corpus_with_broken_roles(run: Any, tmp_path: Path) -> None:
    turns = [{"role": "system", "content": tiny.FIRST}, {"role": "assistant", "content": "x"}]
    (tmp_path / "corpus.json").write_text(json.dumps([{"id": 3, "messages": turns}]))
    command = ("data", "import", "--corpus", "corpus.json", "--domain", "textworld", "--out", "t.parquet")
    refused(run(*command), "corpus.json", "message 1")
    (tmp_path / "corpus.json").write_text('[{"id": 3, "messages": [')
    refused(run(*command), "corpus.json")
    assert not (tmp_path / "t.parquet").exists()


def test_a_broken_trajectory(run: Any, tmp_path: Path) -> None:
    row = tiny.trajectory(4)
    row["steps"][0]["done"] = True
    write_table(tmp_path / "t.parquet", "trajectories", [tiny.trajectory(4, 1), row])
    refused(run("data", "decompose", "--trajectories", "t.parquet", "--out", "x.parquet"), "t.parquet, row 1")
    assert not (tmp_path / "x.parquet").exists()


def test_an_unfinished_rollout_keeps_its_episodes(run: Any, panel: Path, tmp_path: Path) -> None:
    write_rows(tmp_path / "wm.jsonl", [episode("textworld_1", "wm")])
    result = run("rollout", "replay", "--episodes", "wm.jsonl", "--panel", "panel.json", "--out", "w2r.jsonl")
    refused(result, "wm.jsonl", "textworld_2")
    spec = json.dumps({"agent_id": "a", "kind": "lm"})
    refused(
        run("rollout", "real", "--agent", spec, "--panel", "panel.json", "--out", "r.jsonl"), "--agent-model"
    )
    spec = json.dumps({"agent_id": "a", "kind": "scripted", "epsilom": 0.1})
    refused(
        run("rollout", "real", "--agent", spec, "--panel", "panel.json", "--out", "r.jsonl"),
        "epsilom",
        "epsilon",
    )


def test_grpo_takes_the_presets_of_papers_and_releases(run: Any, tmp_path: Path) -> None:
    def printed(*arguments: str) -> dict[str, Any]:
        code, out, _ = run("train", "grpo", "--print", *arguments)
        assert code == 0
        return dict(json.loads(out[: out.rindex("}") + 1]))

    paper = printed("--preset", "paper")
    assert set(paper) == {"reward", *GrpoRecipe.model_fields}
    assert (paper["reward"], paper["reward_parameters"], paper["steps"]) == (
        "behr",
        {"scale": 1.0},
        "5 epochs",
    )
    assert (paper["temperature"], paper["group"], paper["kl_coefficient"]) == (1.3, 5, 1e-3)
    assert (paper["prompts_per_step"], paper["updates"], paper["clip_high"]) == (32, 1, None)
    facts = printed("--preset", "released-code-webshop")
    assert facts["reward"] == "behr_facts" and facts["reward_parameters"]["facts_weight"] == 0.2
    # Another reward leaves the preset's parameters behind, what is given stays.
    other = printed("--preset", "paper", "--reward", "f1", "--recipe", '{"steps": 7}')
    assert (other["reward"], other["reward_parameters"], other["steps"]) == ("f1", {}, 7)
    for name in PRESETS:
        assert printed("--preset", name)["temperature"] in (1.0, 1.3)
    refused(run("train", "grpo", "--print", "--preset", "papr"), "papr", "did you mean 'paper'")
    refused(run("train", "grpo", "--print"), "--reward missing", "--preset")
    refused(run("train", "grpo", "--preset", "paper"), "--model, --transitions, --validation, --out missing")
    trajectories(tmp_path / "t.parquet")
    assert run("data", "decompose", "--trajectories", "t.parquet", "--out", "x.parquet")[0] == 0
    lm = tiny.tiny_lm()
    save_model(tmp_path / "wm", lm.model, lm.tokenizer)
    given = [*GRPO, "--reward", "f1", "--preset", "paper"]
    refused(run(*given), "9 prompts do not fill a batch of 32")
    small = {
        "prompts_per_step": 4,
        "group": 2,
        "max_new_tokens": 4,
        "heldout_prompts": 2,
        "heldout_samples": 1,
    }
    assert run(*given, "--recipe", json.dumps(small))[0] == 0
    result = json.loads((tmp_path / "g" / "heldout.json").read_text())
    assert (result["n_train"], result["steps"], result["stopped"]) == (
        9,
        2 * 5,
        None,
    )  # 5 epochs of 2 whole batches


def test_grpo_without_a_history_short_enough(run: Any, tmp_path: Path) -> None:
    trajectories(tmp_path / "t.parquet")
    assert run("data", "decompose", "--trajectories", "t.parquet", "--out", "x.parquet")[0] == 0
    lm = tiny.tiny_lm()
    save_model(tmp_path / "wm", lm.model, lm.tokenizer)
    refused(
        run(*GRPO, "--recipe", '{"max_prompt_tokens": 1}', "--reward", "f1"), "x.parquet", "max_prompt_tokens"
    )
    recipe = {"steps": 1, "prompts_per_step": 2, "group": 2, "max_new_tokens": 4}
    recipe["max_prompt_tokens"] = len(lm.encode(tiny.history(0)))
    assert run(*GRPO, "--recipe", json.dumps(recipe), "--reward", "f1")[0] == 0
    result = json.loads((tmp_path / "g" / "heldout.json").read_text())
    assert (result["n_train"], result["n_train_too_long"]) == (3, 6)
