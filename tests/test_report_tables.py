"""Tables: completeness, marks, nulls, escaping, seeds, and the golden values of the paper's Table 13."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_study import STATS, make_study
from wmlab.errors import IncompletePanelError, InputError
from wmlab.report import builders, complete, inputs, render, suite
from wmlab.report.inputs import Identity, Loaded
from wmlab.report.tables import Column, Row, Table, Value, mean_value, printed, same, with_marks


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_study(tmp_path_factory.mktemp("results") / "demo", n=12)


def paths(study: Path, pattern: str) -> list[str]:
    return sorted(str(path) for path in study.glob(pattern))


def cells_of(study: Path) -> list[Loaded]:
    return inputs.load_cells(paths(study, "consistency/*/*/*/*/*/cell.json"))


def scores_of(study: Path) -> list[Loaded]:
    return inputs.load_objects(paths(study, "score/*/*/*/*/summary.json"), builders.SUMMARY_KEYS)


def small(values: list[Any], direction: Any = "up", digits: int = 3) -> Table:
    column = Column("x", "X", digits, direction)
    rows = tuple(Row({"x": v if isinstance(v, Value) else Value(v)}, ("b",), ("f",)) for v in values)
    return with_marks(Table("t", "T", (column,), rows))


@pytest.mark.parametrize(
    ("values", "direction", "marks"),
    [
        ([0.1, 0.3, 0.2], "up", ["", "best", "second"]),
        ([0.1, 0.3, 0.2], "down", ["best", "", "second"]),
        ([0.5, 0.5, 0.2, 0.2, 0.1], "up", ["best", "best", "second", "second", ""]),
        ([0.50001, 0.49999, 0.2], "up", ["best", "best", "second"]),  # equal as printed
        ([0.5, None, 0.2], "up", ["best", "", "second"]),
        ([0.5, None], "up", ["", ""]),
        ([0.5, 0.5], "up", ["", ""]),
        ([0.1, 0.2], None, ["", ""]),
    ],
)
def test_marks(values: list[Any], direction: Any, marks: list[str]) -> None:
    table = small(values, direction)
    assert [table.marks.get((i, "x"), "") for i in range(len(values))] == marks


def test_marks_stay_in_their_block() -> None:
    rows = tuple(Row({"x": Value(v)}, (b,), ()) for v, b in [(0.9, "a"), (0.8, "a"), (0.1, "b"), (0.2, "b")])
    table = with_marks(Table("t", "T", (Column("x", "X", 2, "up"),), rows))
    assert [table.marks[i, "x"] for i in range(4)] == ["best", "second", "second", "best"]


def test_mean_over_seeds() -> None:
    assert mean_value([0.5]) == Value(0.5)
    value = mean_value([0.4, 0.6])
    assert value.value == pytest.approx(0.5) and value.sd == pytest.approx(0.1414214)
    null = mean_value([0.4, None], [None, "SR_Real = 0"])
    assert null.value is None and null.reason == "SR_Real = 0 (null for 1 of 2 seeds)"
    assert same([3, 3]) == Value(3)
    assert same([3, 4]).value == 3.5


def test_printed_numbers() -> None:
    rate, gain = Column("x", "X", 3), Column("x", "X", 3, signed=True)
    assert printed(rate, -0.0001) == "0.000" and printed(gain, 0.0) == "0.000"
    assert printed(gain, 0.05) == "+0.050"
    p = Column("p", "p", 4, p_value=True)
    assert [printed(p, x) for x in (0, 0.0001, 0.0156)] == ["0", "1.00e-04", "0.0156"]
    with pytest.raises(ValueError, match="never prints"):
        printed(rate, float("nan"))


def test_null_is_a_dash_with_its_reason() -> None:
    table = small([Value(None, reason="SR_Real = 0"), Value(0.5), Value(None, reason="SR_Real = 0")])
    text = render.to_markdown(table)
    assert text.count("| –<sup>a</sup> |") == 2
    assert text.count("a: SR\\_Real = 0") == 1
    assert r"--\textsuperscript{a} \\" in render.to_latex(table)
    row = next(csv.DictReader(io.StringIO(render.to_csv(table))))
    assert row["x"] == "" and row["reasons"] == "x: SR_Real = 0"


def test_single_step_has_copy_and_seed_spread(study: Path) -> None:
    table = builders.single_step(scores_of(study))
    names = [row.values["method"].value for row in table.rows]
    assert names == ["Copy", "W2W", "F1", "EM (SurR)", "BehR"]
    assert table.rows[0].values["em"].sd is None and table.rows[-1].values["em"].sd is not None
    assert len(table.rows[-1].sources) == 2
    assert table.rows[0].values["ssf"].value is None
    assert "1100" in " ".join(table.footnotes)


def test_task_level_interval_only_for_a_single_seed(study: Path) -> None:
    table = builders.task_level(cells_of(study))
    first, last = table.rows[0], table.rows[3]
    assert first.values["method"].value == "W2W" and first.values["CR_pw"].ci is not None
    assert last.values["method"].value == "BehR" and last.values["CR_pw"].ci is None
    assert last.values["CR_pw"].sd is not None
    assert last.values["SR_Real"].sd is None  # the real environment has no training seed
    assert {row.block[-1] for row in table.rows} == {
        "clone-large",
        "clone-small",
        "scripted",
        "scripted-noisy-30",
    }


def test_cells_from_parquet_and_json_agree(study: Path) -> None:
    both = inputs.load_cells(
        [str(study / "stats/cells.parquet"), *paths(study, "consistency/*/*/*/*/*/cell.json")]
    )
    assert [c.identity for c in both] == [c.identity for c in cells_of(study)]
    assert all(c.path.endswith("cell.json") for c in both)
    only = inputs.load_cells([str(study / "stats/cells.parquet")])
    assert builders.task_level(only).rows[0].values["CR_pw"].ci is None


def test_cells_that_disagree_are_refused(study: Path, tmp_path: Path) -> None:
    source = json.loads(Path(cells_of(study)[0].path).read_text())
    source["both"] += 1
    changed = tmp_path / "cell.json"
    changed.write_text(json.dumps(source))
    with pytest.raises(InputError, match="both differs"):
        inputs.load_cells([str(study / "stats/cells.parquet"), str(changed)])


def test_missing_cell_names_the_file(study: Path) -> None:
    cells = [
        c
        for c in cells_of(study)
        if (c.identity.method, c.identity.seed, c.identity.agent) != ("f1", 1, "scripted")
    ]
    with pytest.raises(IncompletePanelError, match="consistency/textworld/wm-small/f1/seed1/scripted/cell"):
        builders.task_level(cells)


def test_a_demanded_method_must_be_there(study: Path) -> None:
    with pytest.raises(IncompletePanelError, match="score/textworld/wm-small/behr_facts/seed0/summary"):
        builders.single_step(scores_of(study), ["behr_facts"])
    with pytest.raises(IncompletePanelError, match=r"no cell\.json was given"):
        builders.task_level([])


def test_incomplete_panel_refused_unless_allowed(study: Path) -> None:
    cells = cells_of(study)
    cells[0] = Loaded(cells[0].identity, cells[0].path, {**cells[0].value, "n_missing": 3})
    with pytest.raises(IncompletePanelError, match=r"3 of 12.*--allow-incomplete"):
        builders.task_level(cells)
    table = builders.task_level(cells, allow_incomplete=True)
    assert any(note.startswith("Incomplete:") for note in table.footnotes)


def test_grpo_methods_share_their_seeds() -> None:
    found = [
        Identity("d", "b", "w2w", 0, "a"),
        Identity("d", "b", "behr", 0, "a"),
        Identity("d", "b", "behr", 1, "a"),
    ]
    found += [Identity("d", "b", "f1", 0, "a")]
    missing = set(complete.expected_identities(found)) - set(found)
    assert missing == {Identity("d", "b", "f1", 1, "a")}


def test_calibration_step_gap_and_floor(study: Path) -> None:
    cells = cells_of(study)
    row = builders.calibration(cells).rows[0]
    assert row.values["step_gap"].value == pytest.approx(2.75)
    floor = builders.real_floor(cells)
    assert [r.values["agent"].value for r in floor.rows] == [
        "clone-large",
        "clone-small",
        "scripted",
        "scripted-noisy-30",
    ]


def test_grpo_objective_difference(study: Path) -> None:
    runs = inputs.load_objects(paths(study, "models/*/*/*/*/heldout.json"), builders.HELDOUT_KEYS)
    table = builders.grpo_objective(runs)
    assert len(table.rows) == 6
    for row, run in zip(table.rows[:2], [r for r in runs if r.identity.method == "f1"], strict=True):
        assert row.values["difference"].value == pytest.approx(run.value["after"] - run.value["before"])
        assert row.values["difference"].ci == tuple(run.value["difference_ci"])
    ended = replace(
        runs[0], value={**runs[0].value, "steps": 12, "stopped": "entropy 0.01 under entropy_floor 0.1"}
    )
    notes = builders.grpo_objective([ended, *runs[1:]]).footnotes
    assert [note for note in notes if "ended after step 12 (entropy 0.01 under" in note]
    assert not [note for note in table.footnotes if "ended after" in note]


def test_sign_and_bootstrap_tables_of_the_paper() -> None:
    sign = suite.sign_tests(STATS, "stats.json")
    assert [r.values["wins"].value for r in sign.rows] == [5, 6, 7]
    assert [r.values["p"].value for r in sign.rows] == [0.0625, 0.03125, 0.015625]
    assert sign.rows[2].values["p_holm"].value == 0.046875
    boot = suite.bootstrap(STATS, "stats.json")
    assert boot.rows[0].values["difference"].value == 0.0455
    assert boot.rows[0].values["difference"].ci == (0.014, 0.086)
    text = render.to_markdown(boot)
    assert "+0.0455 \\[+0.0140, +0.0860\\]" in text and "1.00e-04" in text


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"n_cells": 1}, "1 complete cell, at least 2"),
        ({"n_cells": 0, "sign": None}, "0 complete cells"),
        ({"sign": {"reason": "all methods but one were dropped"}}, "all methods but one"),
        ({"sign": "not enough cells"}, "not enough cells"),
    ],
)
def test_impossible_test_says_why(change: dict[str, Any], reason: str) -> None:
    table = suite.sign_tests({**STATS, **change}, "stats.json")
    assert table.impossible is not None and reason in table.impossible and not table.rows
    for text in (render.to_markdown(table), render.to_latex(table), render.to_csv(table)):
        assert "ot possible" in text


def test_smallest_sign_p_matches_the_golden_values() -> None:
    assert suite.smallest_sign_p(5) == 0.0625
    assert suite.smallest_sign_p(7) == pytest.approx(0.0156, abs=5e-5)
    assert suite.smallest_sign_p(0) == 1.0
    assert suite.cells_needed() == 6


def test_dropped_cells_are_listed() -> None:
    dropped = [{"cell": "textworld/wm-small/weak", "reason": "SR_Real = 0"}]
    note = suite.dropped_note({"dropped": dropped})
    assert note == "Left out of the tests (1): textworld/wm-small/weak (SR_Real = 0)."


EVIL = "<script>alert('x')</script> & $a_b$ | \\x {y} #1 50%\nnext"


def test_text_is_escaped_in_every_format() -> None:
    table = Table(
        "t_1", f"Title {EVIL}", (Column("agent", "Agent"),), (Row({"agent": Value(EVIL)}),), (EVIL,)
    )
    markdown = render.to_markdown(table)
    assert "<script" not in markdown and "\\| \\\\x" in markdown and markdown.count("\nnext") == 0
    latex = render.to_latex(table)
    assert r"\$a\_b\$" in latex and r"50\%" in latex and r"\#1" in latex and r"\textless{}script" in latex
    row = next(csv.DictReader(io.StringIO(render.to_csv(table))))
    assert row["agent"] == EVIL
    assert render.to_object(table)["rows"][0]["cells"][0]["text"] == EVIL


def test_latex_is_booktabs_with_subscripts(study: Path) -> None:
    text = render.to_latex(builders.task_level(cells_of(study)))
    for part in (
        r"\toprule",
        r"\midrule",
        r"\bottomrule",
        r"CR\textsubscript{pw} $\uparrow$",
        r"CR\textsubscript{pw}\textsuperscript{T}",
    ):
        assert part in text
    assert text.count("{") == text.count("}")
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {line.count("&") for line in body} == {12}


def test_csv_holds_raw_numbers_and_sources(study: Path) -> None:
    table = builders.task_level(cells_of(study))
    rows = list(csv.DictReader(io.StringIO(render.to_csv(table))))
    assert float(rows[0]["SR_Real"]) == pytest.approx(cells_of(study)[0].value["SR_Real"], abs=1e-9)
    assert rows[0]["CR_pw_lo"] and rows[-1]["CR_pw_sd"]
    assert rows[0]["sources"].endswith("/w2w/seed0/clone-large/cell.json")


@pytest.mark.parametrize(
    ("path", "identity"),
    [
        ("results/s/models/textworld/wm-s/behr/seed3/curves.jsonl", Identity("textworld", "wm-s", "behr", 3)),
        (
            "results/s/rollout/textworld/wm-s/behr/seed3/cl/wm.jsonl",
            Identity("textworld", "wm-s", "behr", 3, "cl"),
        ),
        ("results/s/rollout/textworld/real/cl/episodes.jsonl", Identity("textworld", agent="cl")),
        ("results/s/models/textworld/agents/cl/curves.jsonl", Identity("textworld", agent="cl")),
    ],
)
def test_identity_from_the_result_tree(path: str, identity: Identity) -> None:
    assert inputs.identity_of(path) == identity


def test_identity_given_by_hand(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text("{}")
    assert inputs.split_argument(f"d/b/m/seed2={file}") == (Identity("d", "b", "m", 2), str(file))
    with pytest.raises(InputError, match="seedS"):
        inputs.split_argument(str(file))


def test_missing_keys_and_duplicates_are_named(tmp_path: Path) -> None:
    file = tmp_path / "summary.json"
    file.write_text('{"n": 1}')
    with pytest.raises(InputError, match=r"summary.json: keys \['em'"):
        inputs.load_objects([f"d/b/m/seed0={file}"], builders.SUMMARY_KEYS)
    other = tmp_path / "x" / "summary.json"
    other.parent.mkdir()
    other.write_text('{"n": 1}')
    with pytest.raises(InputError, match="same study cell"):
        inputs.load_objects([f"d/b/m/seed0={file}", f"d/b/m/seed0={other}"], ["n"])
