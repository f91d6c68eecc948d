"""``wmlab eval`` and ``wmlab stats`` as a user runs them: files in, files out, exit codes, last line."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from wmlab.cli import eval as eval_cli
from wmlab.cli import stats as stats_cli
from wmlab.domains.base import Task
from wmlab.errors import WmlabError
from wmlab.io import schemas
from wmlab.io.tables import read_table
from wmlab.metrics.episodes import Episode, write_episodes_jsonl, write_upstream

N = 6


def call(app: Any, *arguments: object, code: int = 0) -> str:
    """Run a command; give its output, or the one-line message of the WmlabError it raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, WmlabError):
        assert result.exception.exit_code == code, result.exception
        assert "\n" not in str(result.exception)
        return str(result.exception)
    assert result.exit_code == code, result.output
    return str(result.stdout)


def episodes(outcomes: str, mode: str, agent: str = "scripted") -> list[Episode]:
    found = []
    for place, letter in enumerate(outcomes):
        if letter == ".":
            continue
        found.append(
            Episode(
                item_id=f"textworld_{place}",
                mode=mode,
                agent_id=agent,
                model_id=None if mode == "real" else "m",
                messages=(
                    {"role": "system", "content": "Play."},
                    {"role": "user", "content": f"Room {place}."},
                    {"role": "assistant", "content": "Action:\nlook"},
                    {"role": "user", "content": "A room."},
                ),
                actions=("look",),
                reward=float(letter == "1"),
                score=None,
                success=letter == "1",
                status={"t": "step_cap", "e": "error"}.get(letter, "finished"),
                n_steps=1,
                error="boom" if letter == "e" else None,
            )
        )
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tasks = [Task(f"textworld_{i}", "textworld", "Win.", f"Room {i}.") for i in range(N)]
    entries = [vars(task) | {"sha256": task.sha256} for task in tasks]
    data = {"schema": 1, "domain": "textworld", "split": "test", "tasks": entries}
    (tmp_path / "panel.json").write_text(json.dumps(data), encoding="utf-8")
    for name, outcomes, mode in (
        ("real", "111100", "real"),
        ("w2r", "110010", "w2r"),
        ("wm", "1t1t0e", "wm"),
        ("floor", "111000", "real"),
    ):
        write_episodes_jsonl(tmp_path / f"{name}.jsonl", episodes(outcomes, mode))
    return tmp_path


def consistency(folder: Path, *more: object, code: int = 0, **changes: str) -> str:
    names = {"real": "real.jsonl", "w2r": "w2r.jsonl"} | changes
    options = [part for name, value in names.items() for part in (f"--{name}", folder / value)]
    return call(
        eval_cli.app,
        "consistency",
        *options,
        "--panel",
        folder / "panel.json",
        "--out",
        folder / "cell.json",
        *more,
        code=code,
    )


def cell_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "cell.json").read_text(encoding="utf-8"))
    return found


def test_consistency_writes_the_cell(folder: Path) -> None:
    output = consistency(
        folder, "--backbone", "tiny", "--method", "behr", "--seed", 1, wm="wm.jsonl", floor="floor.jsonl"
    )
    cell = cell_of(folder)
    assert (cell["domain"], cell["backbone"], cell["method"], cell["agent"], cell["seed"]) == (
        "textworld",
        "tiny",
        "behr",
        "scripted",
        1,
    )
    assert (cell["CR_pw"], cell["CR"], cell["SR_Real"], cell["SR_W2R"]) == (
        0.5,
        0.75,
        pytest.approx(4 / 6),
        0.5,
    )
    assert (cell["n"], cell["n_error"], cell["n_missing"], cell["real_floor"]) == (6, 1, 0, 0.75)
    assert output.strip().splitlines()[-1].endswith("cell.json: CR_pw 0.500 (2/4), n 6, errors 1")
    meta = json.loads((folder / "cell.json.meta.json").read_text(encoding="utf-8"))
    assert len(meta["inputs"]) == 5


def test_the_cell_can_go_to_standard_output(folder: Path) -> None:
    names = ("--real", folder / "real.jsonl", "--w2r", folder / "w2r.jsonl", "--panel", folder / "panel.json")
    assert json.loads(call(eval_cli.app, "consistency", *names, "--out", "-"))["CR_pw"] == 0.5


def test_an_incomplete_panel_ends_with_4_unless_allowed(folder: Path) -> None:
    write_episodes_jsonl(folder / "w2r.jsonl", episodes("1.0.10", "w2r"))
    message = consistency(folder, code=4)
    assert "W2R lacks 2 of 6 (textworld_1, textworld_3)" in message and not (folder / "cell.json").exists()
    consistency(folder, "--allow-incomplete")
    cell = cell_of(folder)
    assert (cell["n"], cell["n_missing"], cell["CR_pw"]) == (6, 2, 0.25)


def test_upstream_folders_give_the_same_cell(folder: Path) -> None:
    consistency(folder, wm="wm.jsonl")
    ours = cell_of(folder)
    wm = episodes("1t1t0e", "wm")
    write_upstream(folder / "up_real", episodes("111100", "real"))
    write_upstream(folder / "up_wm", wm)
    write_upstream(folder / "up_wm", episodes("110010", "w2r"), wm=wm)
    consistency(folder, real="up_real", wm="up_wm", w2r="up_wm")
    assert cell_of(folder) == ours


@pytest.mark.parametrize(
    ("name", "given", "problem"),
    [
        ("w2r", episodes("1100101", "w2r"), "1 item ids are not in the panel (textworld_6)"),
        ("w2r", episodes("110010", "w2r", agent="other"), "episodes of 2 agents (other, scripted)"),
        ("w2r", episodes("110010", "wm"), "mode is 'wm', 'w2r' was expected"),
    ],
)
def test_inputs_that_do_not_belong_together_end_with_2(
    folder: Path, name: str, given: list[Episode], problem: str
) -> None:
    write_episodes_jsonl(folder / f"{name}.jsonl", given)
    assert problem in consistency(folder, code=2)


def test_other_content_than_the_panels_ends_with_2(folder: Path) -> None:
    text = (folder / "real.jsonl").read_text(encoding="utf-8").replace("Room 3.", "Cellar.")
    (folder / "real.jsonl").write_text(text, encoding="utf-8")
    assert "1 tasks have other content" in consistency(folder, code=2)
    consistency(folder, "--allow-content-mismatch")
    assert cell_of(folder)["content_mismatches"] == ["textworld_3"]


def test_cells_gathers_and_stats_reads_both_forms(folder: Path) -> None:
    files = []
    for method, seed, w2r in (("w2w", 0, "100000"), ("behr", 0, "111000"), ("behr", 1, "111100")):
        write_episodes_jsonl(folder / "w2r.jsonl", episodes(w2r, "w2r"))
        consistency(folder, "--backbone", "tiny", "--method", method, "--seed", seed, wm="wm.jsonl")
        files.append((folder / "cell.json").rename(folder / f"{method}{seed}.json"))
    output = call(eval_cli.app, "cells", "--input", *files, "--out", folder / "cells.parquet")
    assert "3 cells, mean CR_pw 0.667" in output.strip().splitlines()[-1]
    rows = read_table(folder / "cells.parquet", "cells")
    assert [(row["method"], row["seed"], row["CR_pw"]) for row in rows] == [
        ("behr", 0, 0.75),
        ("behr", 1, 1.0),
        ("w2w", 0, 0.25),
    ]
    with (folder / "cells.csv").open(encoding="utf-8") as handle:
        assert next(csv.reader(handle)) == schemas.CELLS.names
    reports = []
    for name in ("cells.parquet", "cells.csv"):
        call(
            stats_cli.app, "cells", "--input", folder / name, "--methods", "w2w,behr", "--target", "behr",
            "--resamples", 200, "--out", folder / "stats.json", "--tasks", *files,
        )  # fmt: skip
        reports.append(json.loads((folder / "stats.json").read_text(encoding="utf-8")))
    assert reports[0] == reports[1]
    assert reports[0]["means"] == {"w2w": 0.25, "behr": 0.875}
    assert reports[0]["two_level"]["w2w"]["mean_difference"] == pytest.approx(0.625)
    assert "the same cell as" in call(
        eval_cli.app, "cells", "--input", files[0], "--input", files[0], "--out", folder / "x.parquet", code=2
    )
    assert "not a .parquet name" in call(
        eval_cli.app, "cells", "--input", files[0], "--out", folder / "x.csv", code=2
    )


def test_a_cell_without_identity_or_columns_is_refused(folder: Path) -> None:
    consistency(folder)
    message = call(
        eval_cli.app, "cells", "--input", folder / "cell.json", "--out", folder / "c.parquet", code=2
    )
    assert "no backbone, method, seed" in message and "--backbone --method --seed" in message
    cell = cell_of(folder) | {"backbone": "b", "method": "m", "seed": 0}
    del cell["CR"]
    (folder / "cell.json").write_text(json.dumps(cell), encoding="utf-8")
    assert "no CR;" in call(
        eval_cli.app, "cells", "--input", folder / "cell.json", "--out", folder / "c.parquet", code=2
    )


WIDE = "cell,A,B,C,D\n" + "".join(f"c{i},{i / 20},{i / 20},{i / 30},{i / 10}\n" for i in range(8))


def test_stats_cells_on_the_contracts_wide_table(tmp_path: Path) -> None:
    (tmp_path / "cells.csv").write_text(WIDE, encoding="utf-8")
    arguments = ("cells", "--input", tmp_path / "cells.csv", "--methods", "A,B,C,D", "--target", "D", "--out")
    output = call(stats_cli.app, *arguments, tmp_path / "stats.json")
    assert "8 cells, Friedman" in output and "A 7-0-1 p=0.0156" in output.strip().splitlines()[-1]
    report = json.loads((tmp_path / "stats.json").read_text(encoding="utf-8"))
    assert json.loads((tmp_path / "stats.json.meta.json").read_text(encoding="utf-8"))["seed"] == 0
    assert json.loads(call(stats_cli.app, *arguments, "-")) == report
    assert set(report) == {
        "schema", "metric", "target", "methods", "layout", "seeds", "seed", "generator", "resamples", "alpha",
        "n_cells", "n_cells_given", "n_dropped", "dropped", "uneven_seeds", "cells", "means", "mean_ranks", "sign",
        "friedman", "nemenyi", "bootstrap", "holm", "effects", "run_to_run", "two_level",
    }  # fmt: skip


def test_stats_cells_bad_input_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "cells.csv").write_text(WIDE, encoding="utf-8")
    common = ("cells", "--input", tmp_path / "cells.csv", "--out", tmp_path / "stats.json")
    assert "did you mean 'D'" in call(stats_cli.app, *common, "--methods", "A,d", "--target", "A", code=2)
    assert "target 'E'" in call(stats_cli.app, *common, "--methods", "A,D", "--target", "E", code=2)
    stray = (*common, "--methods", "A,D", "--target", "D", tmp_path / "cell.json")
    assert "unexpected argument" in call(stats_cli.app, *stray, code=2)
    assert not (tmp_path / "stats.json").exists()


def test_mcnemar(tmp_path: Path) -> None:
    result = json.loads(call(stats_cli.app, "mcnemar", "--counts", 10, 3))
    assert (result["b"], result["c"], round(result["p"], 4)) == (10, 3, 0.0923)
    assert (round(result["corrected"]["p"], 4), round(result["plain"]["p"], 4)) == (0.0961, 0.0522)
    path = tmp_path / "pairs.csv"
    path.write_text("id,x,y\n1,1,0\n2,true,False\n3,0,1.0\n4,1,1\n", encoding="utf-8")
    output = call(
        stats_cli.app,
        "mcnemar",
        "--input",
        path,
        "--a",
        "x",
        "--b",
        "y",
        "--method",
        "plain",
        "--out",
        tmp_path / "m.json",
    )
    assert "b=2 c=1" in output
    saved = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))
    assert (saved["n"], saved["p"]) == (4, saved["plain"]["p"])


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "either --counts"),
        (("--counts", 1, 2, "--input", "x.csv"), "either --counts"),
        (("--input", "x.csv", "--a", "x"), "either --counts"),
        (("--counts", 1, 2, "--method", "mid"), "choose one of exact"),
        (("--input", "pairs.csv", "--a", "x", "--b", "Z"), "no column 'Z'"),
        (("--input", "pairs.csv", "--a", "x", "--b", "y"), "row 3: column 'y' holds ''"),
    ],
)
def test_mcnemar_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[object, ...], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.csv").write_text("x,y\n1,0\n1,\n", encoding="utf-8")
    assert problem in call(stats_cli.app, "mcnemar", *arguments, code=2)


def test_spearman(tmp_path: Path) -> None:
    path = tmp_path / "agents.csv"
    path.write_text("agent,SR_Real,SR_WM\na,0.1,0.2\nb,0.4,0.5\nc,0.9,0.6\n", encoding="utf-8")
    arguments = ("spearman", "--input", path, "--x", "SR_Real", "--y", "SR_WM", "--resamples", 100)
    assert json.loads(call(stats_cli.app, *arguments))["rho"] == 1.0
    output = call(stats_cli.app, *arguments, "--out", tmp_path / "rho.json")
    assert output.strip().endswith("rho.json: Spearman rho 1.000 over 3 agents")
    path.write_text("agent,SR_Real,SR_WM\na,0.1,\n", encoding="utf-8")
    assert "row 2: column 'SR_WM' is empty" in call(stats_cli.app, *arguments, code=2)
    assert "did you mean 'SR_WM'" in call(stats_cli.app, *arguments[:5], "--y", "SR_W", code=2)
