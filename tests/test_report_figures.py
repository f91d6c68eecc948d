"""Figures: deterministic files, data beside them, cliques of the rank diagram, and hostile names."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from report_study import STATS, make_study, stays_on_the_page
from wmlab.errors import IncompletePanelError, InputError
from wmlab.report import inputs
from wmlab.report.figures import canvas, cells, lengths, ranks, training
from wmlab.report.inputs import Identity, Loaded

EVIL = "a$b_{c}$<script>-very-long-agent-name"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results") / "demo"
    return make_study(root, agents=("clone-large", "scripted"), n=8)


def load(study: Path, pattern: str) -> list[Loaded]:
    return inputs.load_rows(sorted(str(path) for path in study.glob(pattern)))


def cells_of(study: Path) -> list[Loaded]:
    return inputs.load_cells(sorted(str(path) for path in study.glob("consistency/*/*/*/*/*/cell.json")))


def test_files_are_byte_identical(study: Path, tmp_path: Path) -> None:
    drawings = [cells.crpw_cells(cells_of(study)), cells.crpw_cells(cells_of(study))]
    for name, drawing in zip(("a", "b"), drawings, strict=True):
        canvas.save(drawing, tmp_path / name)
    for suffix in ("pdf", "svg", "csv", "caption.txt"):
        one, other = ((tmp_path / name / f"crpw_cells.{suffix}").read_bytes() for name in ("a", "b"))
        assert one == other
    assert b"CreationDate" not in (tmp_path / "a/crpw_cells.pdf").read_bytes()
    assert b"<dc:date>" not in (tmp_path / "a/crpw_cells.svg").read_bytes()


def test_sizes_are_a_papers() -> None:
    assert ranks.cd_diagram(STATS, "s").figure.get_figwidth() == canvas.COLUMN == 3.25
    assert canvas.PAGE == 6.75


def test_crpw_data_hold_intervals_and_reasons(study: Path) -> None:
    loaded = cells_of(study)
    loaded[0] = Loaded(
        loaded[0].identity,
        loaded[0].path,
        {**loaded[0].value, "CR_pw": None, "CR_pw_ci": None, "reasons": {"CR_pw": "why"}},
    )
    drawing = cells.crpw_cells(loaded)
    assert drawing.data[0]["reason"] == "why" and drawing.data[0]["CR_pw"] is None
    assert drawing.data[1]["lo"] < drawing.data[1]["CR_pw"]
    assert len(drawing.data) == len(loaded) == 14


def test_hostile_and_long_names_are_text(study: Path, tmp_path: Path) -> None:
    renamed = []
    for cell in cells_of(study):
        identity = Identity(
            *(getattr(cell.identity, k) for k in ("domain", "backbone", "method", "seed")), EVIL
        )
        if cell.identity.agent == "scripted":
            renamed.append(Loaded(identity, cell.path, cell.value))
    for draw in (cells.crpw_cells, cells.calibration):
        drawing = draw(renamed)
        canvas.save(drawing, tmp_path)
        with (tmp_path / f"{drawing.name}.csv").open(newline="") as handle:
            assert {row["agent"] for row in csv.DictReader(handle)} == {EVIL}
        assert "<script" not in (tmp_path / f"{drawing.name}.svg").read_text().split("-->", 1)[0]


def test_nothing_is_drawn_outside_the_page(study: Path) -> None:
    curves, episodes = load(study, "models/**/curves.jsonl"), load(study, "rollout/**/*.jsonl")
    drawings = [
        cells.crpw_cells(cells_of(study)),
        cells.calibration(cells_of(study)),
        ranks.cd_diagram(STATS, "s"),
        training.training_curves(curves),
        training.sft_curves(curves),
        lengths.episode_lengths(episodes),
    ]
    for drawing in drawings:
        assert stays_on_the_page(drawing), drawing.name


@pytest.mark.parametrize(
    ("values", "critical", "expected"),
    [
        ([1.4375, 2.4375, 2.625, 3.5], 1.658, [(0, 2), (1, 3)]),  # Table 13 of the paper, n = 8
        ([1.28, 2.69, 2.94, 3.09], 1.1726, [(1, 3)]),  # the paper's suite, n = 16: BehR stands alone
        ([1.0, 2.0, 3.0], 0.5, []),
        ([1.0, 1.5, 2.0], 5.0, [(0, 2)]),
        ([2.0, 2.0], 0.0, [(0, 1)]),
    ],
)
def test_cliques(values: list[float], critical: float, expected: list[tuple[int, int]]) -> None:
    assert ranks.cliques(values, critical) == expected


@pytest.mark.parametrize(
    "change", [{"n_cells": 1}, {"nemenyi": {"reason": "one method only"}}, {"nemenyi": None}]
)
def test_impossible_rank_diagram_says_why(change: dict[str, Any], tmp_path: Path) -> None:
    drawing = ranks.cd_diagram({**STATS, **change}, "stats.json")
    assert drawing.caption.startswith("No critical-difference diagram") and not drawing.data
    canvas.save(drawing, tmp_path)


def test_curves_are_told_apart(study: Path) -> None:
    curves = load(study, "models/**/curves.jsonl")
    grpo, sft = training.training_curves(curves), training.sft_curves(curves)
    assert {row["method"] for row in grpo.data} == {"f1", "em", "behr"}
    assert {row["run"] for row in sft.data} == {"world model wm-small", "agent clone-large"}
    with pytest.raises(InputError, match="neither a GRPO nor an SFT"):
        training.is_grpo(Loaded(Identity("d"), "curves.jsonl", [{"step": 1}]))
    empty = training.training_curves([])
    assert empty.caption == "No GRPO run in this study."


def test_running_mean() -> None:
    assert training.running_mean([1.0, 3.0, 5.0], 2) == [1.0, 2.0, 4.0]


def test_ecdf() -> None:
    assert lengths.ecdf([3, 1, 3, 5]) == ([0, 1, 3, 5], [0.0, 0.25, 0.75, 1.0])


def test_episode_lengths_need_both_conditions(study: Path) -> None:
    with pytest.raises(IncompletePanelError, match="no Real episodes"):
        lengths.episode_lengths(load(study, "rollout/*/*/*/seed*/*/wm.jsonl"))
    with pytest.raises(IncompletePanelError, match="no WM episodes"):
        lengths.episode_lengths(load(study, "rollout/*/real/*/episodes.jsonl"))


def test_w2r_files_do_not_count_as_wm(study: Path) -> None:
    drawing = lengths.episode_lengths(load(study, "rollout/**/*.jsonl"))
    assert sum(row["condition"] == "real" for row in drawing.data) == 2 * 8
    assert sum(row["condition"] == "behr" for row in drawing.data) == 2 * 2 * 8
