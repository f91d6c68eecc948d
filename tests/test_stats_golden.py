"""The golden values of metrics.md section 6, from bundled numbers and from the library's CSV where it is."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest
from wmlab.stats.bootstrap import bootstrap_cells
from wmlab.stats.cells import load_cells
from wmlab.stats.friedman import friedman, friedman_from_rank_sums, nemenyi_difference
from wmlab.stats.mcnemar import mcnemar
from wmlab.stats.report import cells_report
from wmlab.stats.sign import sign_counts, sign_test

METHODS = ("W2W", "F1", "SurR", "BehR")
# CR_pw^T of the BehR paper's Table 13: four agents on each of two backbones.
TABLE_13 = np.array(
    [
        [0.714, 0.692, 0.471, 0.824],
        [0.882, 0.875, 0.6, 1.0],
        [1.0, 1.0, 1.0, 1.0],
        [0.898, 0.903, 0.846, 0.906],
        [0.769, 0.769, 0.562, 0.769],
        [0.889, 0.75, 0.75, 1.0],
        [1.0, 1.0, 0.926, 1.0],
        [0.845, 0.846, 0.859, 0.862],
    ]
)
BEHR = TABLE_13[:, 3]


@pytest.fixture
def table_13_csv() -> Path:
    path = Path(__file__).resolve().parents[2] / "shared" / "paper_numbers" / "behr_table13.csv"
    path = (
        Path(os.environ["WMLAB_LIBRARY"]) / "paper_numbers" / path.name
        if "WMLAB_LIBRARY" in os.environ
        else path
    )
    if not path.exists():
        pytest.skip(
            "the project library (../shared/paper_numbers) is not beside this repository; WMLAB_LIBRARY may name it"
        )
    return path


@pytest.mark.parametrize(
    ("wins", "losses", "ties", "p"),
    [(13, 0, 3, 2.44e-4), (5, 0, 3, 0.0625), (7, 0, 1, 0.0156), (0, 0, 4, 1.0), (3, 3, 0, 1.0)],
)
def test_sign(wins: int, losses: int, ties: int, p: float) -> None:
    assert sign_counts(wins, losses, ties).p == pytest.approx(p, rel=2e-3)


def test_friedman_from_the_papers_rank_sums() -> None:
    found = friedman_from_rank_sums([49.5, 47, 43, 20.5], 16, 144)
    assert found.statistic == pytest.approx(23.32, abs=5e-3) and found.p == pytest.approx(3.5e-5, rel=0.01)
    assert found.statistic_uncorrected == pytest.approx(19.82, abs=5e-3)
    assert found.iman_davenport_f == pytest.approx(14.17, abs=5e-3)
    assert [round(rank, 2) for rank in found.mean_ranks] == [3.09, 2.94, 2.69, 1.28]


def test_friedman_on_table_13() -> None:
    found = friedman(TABLE_13)
    assert found.mean_ranks == (2.4375, 2.625, 3.5, 1.4375)
    assert found.statistic == pytest.approx(13.52, abs=5e-3) and found.p == pytest.approx(0.0036, abs=5e-5)
    assert found.statistic_uncorrected == pytest.approx(10.3125) and found.p_uncorrected == pytest.approx(
        0.0161, abs=5e-5
    )
    assert found.tie_sum == 114


def test_nemenyi_critical_differences() -> None:
    assert nemenyi_difference(4, 16) == pytest.approx(1.1726, abs=5e-5)
    assert nemenyi_difference(4, 8) == pytest.approx(1.658, abs=5e-4)


@pytest.mark.parametrize(
    ("other", "mean", "low", "high", "p"),
    [(0, 0.0455, 0.014, 0.086, 0.0007), (1, 0.0658, 0.016, 0.129, 0.0007), (2, 0.168, 0.071, 0.273, 0.0)],
)
def test_bootstrap_over_cells(other: int, mean: float, low: float, high: float, p: float) -> None:
    found = bootstrap_cells(BEHR - TABLE_13[:, other], seed=0)
    assert found.mean_difference == pytest.approx(mean, abs=5e-4)
    assert found.ci == (pytest.approx(low, abs=6e-4), pytest.approx(high, abs=6e-4))
    assert found.p_plain == pytest.approx(p, abs=1e-9) and found.p == (found.r + 1) / 10_001


@pytest.mark.parametrize(("method", "p"), [("exact", 0.0923), ("corrected", 0.0961), ("plain", 0.0522)])
def test_mcnemar(method: str, p: float) -> None:
    assert mcnemar(10, 3, method).p == pytest.approx(p, abs=5e-5)
    assert mcnemar(3, 10, method).p == mcnemar(10, 3, method).p
    assert mcnemar(0, 0, method).p == 1.0


def test_the_librarys_csv_holds_the_bundled_numbers(table_13_csv: Path) -> None:
    with table_13_csv.open(encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    found = np.array([float(row["cr_pw_T"]) for row in rows]).reshape(8, 4)
    assert [row["method"] for row in rows[:4]] == list(METHODS)
    assert np.array_equal(found, TABLE_13)


def test_the_librarys_long_table_gives_the_papers_numbers(table_13_csv: Path) -> None:
    table = load_cells(table_13_csv, METHODS, metric="cr_pw_T", cell_columns=("base_wm", "agent"))
    report = cells_report(table, "BehR", seed=0)
    assert report["n_cells"] == 8 and report["friedman"]["statistic"] == pytest.approx(13.5246, abs=5e-5)
    assert {m: report["sign"][m]["p"] for m in METHODS[:3]} == {"W2W": 0.0625, "F1": 0.0625, "SurR": 0.015625}
    separated = {(p["a"], p["b"]) for p in report["nemenyi"]["pairs"] if p["separated"]}
    assert separated == {("SurR", "BehR")}
    assert report["bootstrap"]["SurR"]["ci"] == [
        pytest.approx(0.0713, abs=1e-4),
        pytest.approx(0.2733, abs=1e-4),
    ]


def test_signs_of_table_13() -> None:
    assert [sign_test(BEHR, TABLE_13[:, j]).p for j in range(3)] == [0.0625, 0.0625, 0.015625]
