"""Reading tables of cells, pairing them with task outcomes, and the report over them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wmlab.errors import InputError
from wmlab.stats.cells import load_cells, near
from wmlab.stats.report import cells_report
from wmlab.stats.tasks import load_tasks

WIDE = "cell,w2w,behr\nx,0.5,0.7\ny,0.4,0.4\nz,0.3,0.6\n"
LONG = """domain,backbone,method,agent,seed,CR_pw,reasons
d,b,w2w,p,0,0.50,{}
d,b,behr,p,0,0.60,{}
d,b,behr,p,1,0.80,{}
d,b,w2w,q,0,0.20,{}
d,b,behr,q,0,0.40,{}
d,b,behr,q,1,,"{""CR_pw"": ""SR_Real is 0""}"
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_wide(tmp_path: Path) -> None:
    table = load_cells(write(tmp_path / "cells.csv", WIDE), ["w2w", "behr"])
    assert (table.layout, table.metric, table.seeds) == ("wide", None, None)
    assert [cell.name for cell in table.cells] == ["x", "y", "z"]
    assert dict(table.cells[0].values) == {"w2w": 0.5, "behr": 0.7}
    bare = load_cells(write(tmp_path / "bare.csv", "\ufeffA,B\n1,2\n1,2\n"), ["A", "B"])
    assert [cell.name for cell in bare.cells] == ["row 2", "row 3"]
    same = load_cells(write(tmp_path / "same.csv", "d,A,B\nt,1,2\nt,1,2\n"), ["A", "B"])
    assert len({cell.name for cell in same.cells}) == 2


def test_long_averages_over_seeds_and_shares_the_only_seed(tmp_path: Path) -> None:
    path = write(tmp_path / "cells.csv", LONG)
    table = load_cells(path, ["w2w", "behr"])
    assert table.cells[0].values["behr"] == pytest.approx(0.7) and table.cells[0].missing is None
    assert table.cells[1].missing == "behr: seed 1: SR_Real is 0"
    split = load_cells(path, ["w2w", "behr"], seeds="separate")
    assert [cell.name for cell in split.cells] == ["d/b/p/seed0", "d/b/p/seed1", "d/b/q/seed0", "d/b/q/seed1"]
    assert [cell.values["w2w"] for cell in split.cells] == [0.5, 0.5, 0.2, 0.2]
    assert [cell.values["behr"] for cell in split.cells] == [0.6, 0.8, 0.4, None]
    assert split.cells[1].key == {"domain": "d", "backbone": "b", "agent": "p", "seed": "1"}


def test_uneven_seeds_are_named(tmp_path: Path) -> None:
    more = LONG + "d,b,f1,p,0,0.1,{}\nd,b,f1,p,1,0.1,{}\nd,b,f1,q,0,0.1,{}\n"
    table = load_cells(write(tmp_path / "cells.csv", more), ["w2w", "behr", "f1"])
    assert table.uneven_seeds == ("d/b/q",)
    split = load_cells(tmp_path / "cells.csv", ["w2w", "f1", "behr"], seeds="separate")
    assert split.cells[3].missing == "f1: not in the table; behr: seed 1: SR_Real is 0"


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        (WIDE, {"methods": ["w2w", "BehR"]}, "no column for method 'BehR'; did you mean 'behr'"),
        (LONG, {"methods": ["w2w", "Behr"]}, "no rows of method 'Behr'; did you mean 'behr'"),
        (LONG, {"metric": "CR_pwT"}, "no column 'CR_pwT'; did you mean 'CR_pw'"),
        (LONG, {"cell_columns": ["agents"]}, "did you mean 'agent'"),
        (LONG, {"cell_columns": ["domain"]}, r"row 5: a second value of method 'w2w' in one cell"),
        (LONG, {"seeds": "all"}, "--seeds all"),
        (WIDE, {"methods": ["w2w"]}, "at least two"),
        (WIDE, {"methods": ["w2w", "w2w"]}, "at least two"),
        (WIDE.replace("0.7", "nan"), {}, r"row 2: column 'behr' is nan"),
        (WIDE.replace("0.7", "inf"), {}, r"row 2: column 'behr' is inf"),
        (WIDE.replace("0.7", "high"), {}, "holds 'high'"),
        (WIDE.replace("0.7", "0.7,1"), {}, r"row 2: 4 fields, the header has 3"),
        (LONG.replace(",1,0.80", ",one,0.80"), {}, "seed"),
        (LONG.replace(",1,0.80", ",,0.80"), {}, "seed"),
        ("", {}, "empty"),
        ("w2w,behr\n", {}, "no rows"),
        ("w2w,w2w\n1,2\n", {}, "one name"),
        ("method,CR_pw\nw2w,1\nbehr,1\n", {}, "--cell-columns"),
    ],
)
def test_bad_tables(tmp_path: Path, text: str, options: dict[str, Any], problem: str) -> None:
    path = write(tmp_path / "cells.csv", text)
    with pytest.raises(InputError, match=problem) as caught:
        load_cells(path, **({"methods": ["w2w", "behr"]} | options))
    assert "\n" not in str(caught.value)


def test_unreadable_tables(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not found"):
        load_cells(tmp_path / "no.csv", ["A", "B"])
    with pytest.raises(InputError, match="Parquet"):
        load_cells(write(tmp_path / "bad.parquet", "x"), ["A", "B"])
    with pytest.raises(InputError, match="cannot be read"):
        (tmp_path / "latin.csv").write_bytes(b"A,B\n\xff,1\n")
        load_cells(tmp_path / "latin.csv", ["A", "B"])
    assert near("x", []) == "choose from nothing"


def test_report_of_a_wide_table(tmp_path: Path) -> None:
    path = write(tmp_path / "cells.csv", WIDE + "v,,0.9\n")
    table = load_cells(path, ["w2w", "behr"])
    report = cells_report(table, "behr", seed=7, resamples=500)
    json.dumps(report, allow_nan=False)
    assert (report["n_cells"], report["n_cells_given"], report["n_dropped"]) == (3, 4, 1)
    assert report["dropped"] == [{"cell": "v", "reason": "w2w: no value"}]
    assert report["sign"]["w2w"] == {"wins": 2, "losses": 0, "ties": 1, "p": 0.5}
    assert report["mean_ranks"] == {"w2w": pytest.approx(11 / 6), "behr": pytest.approx(7 / 6)}
    assert report["bootstrap"]["w2w"]["mean_difference"] == pytest.approx(1 / 6)
    assert report["bootstrap"]["w2w"]["seed"] == report["seed"] == 7
    assert report["holm"]["sign"] == {"w2w": 0.5} and report["two_level"] is None
    assert cells_report(table, "behr", seed=7, resamples=500) == report


def test_report_edges(tmp_path: Path) -> None:
    one = load_cells(write(tmp_path / "one.csv", "A,B,C\n0.1,0.2,0.3\n"), ["A", "B", "C"])
    report = cells_report(one, "C", resamples=20)
    assert report["effects"]["A"]["minimum_detectable_difference"] is None and report["sign"]["A"]["p"] == 1.0
    tied = load_cells(write(tmp_path / "tied.csv", "A,B\n0.1,0.1\n0.3,0.3\n"), ["A", "B"])
    report = cells_report(tied, "A", resamples=20)
    assert (report["friedman"]["statistic"], report["friedman"]["p"]) == (0.0, 1.0)
    assert report["bootstrap"]["B"]["ci"] == [0.0, 0.0] and report["sign"]["B"]["p"] == 1.0
    json.dumps(report, allow_nan=False)
    with pytest.raises(InputError, match="target 'a' is not one of the methods; did you mean 'A'"):
        cells_report(tied, "a")
    with pytest.raises(InputError, match="alpha"):
        cells_report(tied, "A", alpha=0)
    none = load_cells(write(tmp_path / "none.csv", "A,B\n,0.1\n0.3,\n"), ["A", "B"])
    with pytest.raises(InputError, match="no cell has a value for every method"):
        cells_report(none, "A")


def cell_file(path: Path, agent: str, method: str, seed: int, w2r: str, real: str = "11110") -> Path:
    tasks = [
        {"item_id": f"t{i}", "real": real[i] == "1", "w2r": w2r[i] == "1", "wm": True, "timeout": i == 0}
        for i in range(len(real))
    ]
    identity = {"domain": "d", "backbone": "b", "agent": agent, "method": method, "seed": seed}
    path.write_text(json.dumps(identity | {"tasks": tasks}), encoding="utf-8")
    return path


def test_two_level_report_uses_the_seeds_of_the_table(tmp_path: Path) -> None:
    rows = ["domain,backbone,agent,method,seed,CR_pw"]
    files = []
    for agent, method, seed, w2r in (
        ("p", "w2w", 0, "10000"),
        ("p", "behr", 0, "11100"),
        ("p", "behr", 1, "11110"),
        ("q", "w2w", 0, "11000"),
        ("q", "behr", 0, "11000"),
        ("q", "behr", 1, "01110"),
    ):
        value = w2r[:4].count("1") / 4
        rows.append(f"d,b,{agent},{method},{seed},{value}")
        files.append(cell_file(tmp_path / f"{agent}{method}{seed}.json", agent, method, seed, w2r))
    path = write(tmp_path / "cells.csv", "\n".join(rows) + "\n")
    table = load_cells(path, ["w2w", "behr"])
    report = cells_report(table, "behr", resamples=400, tasks=load_tasks(files, "CR_pw"))
    found = report["two_level"]["w2w"]
    assert found["mean_difference"] == pytest.approx((0.875 - 0.25 + 0.625 - 0.5) / 2)
    assert found["mean_difference"] == pytest.approx(report["bootstrap"]["w2w"]["mean_difference"])
    assert report["run_to_run"]["behr"] == {"n_cells": 2, "sd": pytest.approx(np.sqrt(0.03125))}
    assert report["run_to_run"]["w2w"] == {"n_cells": 0, "sd": None}
    split = load_cells(path, ["w2w", "behr"], seeds="separate")
    assert cells_report(split, "behr", resamples=50, tasks=load_tasks(files, "CR_pw"))["n_cells"] == 4
    with pytest.raises(InputError, match=r"no cell.json of d/b/q/behr seed 1"):
        cells_report(table, "behr", resamples=50, tasks=load_tasks(files[:-1], "CR_pw"))
    with pytest.raises(InputError, match="the task outcomes say"):
        cell_file(files[0], "p", "w2w", 0, "11110")
        cells_report(table, "behr", resamples=50, tasks=load_tasks(files, "CR_pw"))
    with pytest.raises(InputError, match="different panels"):
        cell_file(files[0], "p", "w2w", 0, "1000", real="1111")
        cells_report(table, "behr", resamples=50, tasks=load_tasks(files, "CR_pw"))
    wide = load_cells(write(tmp_path / "wide.csv", "cell,w2w,behr\nx,0.5,0.7\n"), ["w2w", "behr"])
    with pytest.raises(InputError, match="needs domain, backbone and agent"):
        cells_report(wide, "behr", resamples=50, tasks=load_tasks(files, "CR_pw"))


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("CR_pw", 3 / 4),
        ("CR_pw_T", 2 / 3),
        ("CR", 1.0),
        ("SR_W2R", 4 / 5),
        ("SR_WM", 1.0),
        ("agreement", 3 / 5),
    ],
)
def test_rates_over_tasks(tmp_path: Path, metric: str, value: float) -> None:
    path = cell_file(tmp_path / "cell.json", "p", "behr", 0, "11101")
    ((_, ratio),) = load_tasks([path], metric)[("d", "b", "p", "behr")].values()
    assert ratio.top.sum() / ratio.bottom.sum() == pytest.approx(value)


def test_bad_cell_files(tmp_path: Path) -> None:
    path = tmp_path / "cell.json"
    cell_file(path, "p", "behr", 0, "11101")
    with pytest.raises(InputError, match="is not a rate over tasks"):
        load_tasks([path], "kappa")
    with pytest.raises(InputError, match="second file of d/b/p/behr seed 0"):
        load_tasks([path, path], "CR_pw")
    for changes, problem in (
        ({"seed": None}, "no seed; run .* with --seed"),
        ({"agent": None}, "no agent"),
        ({"tasks": []}, "no 'tasks'"),
        ({"tasks": [{"item_id": "t", "real": 1, "w2r": True}]}, "no 'real'"),
    ):
        good = json.loads(cell_file(path, "p", "behr", 0, "11101").read_text(encoding="utf-8"))
        write(path, json.dumps(good | changes))
        with pytest.raises(InputError, match=problem):
            load_tasks([path], "CR_pw")
    for text in ("[]", "{"):
        with pytest.raises(InputError, match=r"cell.json"):
            load_tasks([write(path, text)], "CR_pw")
