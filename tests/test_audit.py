"""Audits of the extractors and agreement with annotators: hand values, reference implementations, CSV files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from perturbed import transition, transitions
from scipy import stats
from wmlab.errors import InputError
from wmlab.metrics.perturb.agreement import (
    KEY,
    SHEET,
    agreement,
    auroc,
    average_precision,
    csv_text,
    draw_sheet,
    pearson,
    stratum,
)
from wmlab.metrics.perturb.audit import audit, identity, transfer, weights
from wmlab.metrics.ssf import PARSERS

SEARCH = (
    "Back to Search [SEP] Page 1 (Total results: 50) [SEP] Next > [SEP] B09AAAAAA1 [SEP] Blue mug [SEP] $10.0 [SEP] "
    "B09AAAAAA2 [SEP] Red mug [SEP] $20.0 [SEP] B09AAAAAA3 [SEP] Green mug [SEP] $5.5"
)


@pytest.mark.parametrize("domain", PARSERS)
def test_identity_is_one_and_swaps_leave_little(domain: str) -> None:
    found = identity(transitions(domain), domain, 1000, 0)
    assert found["identity"] == 1.0
    assert (found["score"]["mean"], found["score"]["min"], found["score"]["max"]) == (1.0, 1.0, 1.0)
    assert found["coverage"] >= 0.95 and found["explained"] >= 0.9
    swapped = found["perturbed"]
    assert swapped["n"] + swapped["n_bare"] == found["n"]
    # Start, detail and closing pages of WebShop have no product, price or count.
    assert swapped["n"] >= (0.4 if domain == "webshop" else 0.9) * found["n"]
    assert swapped["mean"] < {"textworld": 0.25, "webshop": 0.75}.get(domain, 0.01)
    if domain == "scienceworld":
        assert swapped["max"] <= 0.25


def test_explained_characters_by_hand() -> None:
    known, unknown = "You arrive at bed 1. On the bed 1, you see a cd 1.", "Colourless ideas sleep."
    found = identity([transition("alfworld", 0, f"{known}  {unknown}")], "alfworld", 10, 0)
    # One space joins the two; the words of the message are all that no fact explains, but for the full stop.
    assert found["coverage"] == 1.0
    assert found["explained"] == pytest.approx(1 - 22 / (len(known) + 1 + len(unknown)))
    nothing = identity([transition("alfworld", 0, unknown)], "alfworld", 10, 0)
    assert nothing["coverage"] == 0.0
    assert nothing["perturbed"] == {"n": 0, "n_bare": 1, "mean": None, "min": None, "max": None, "f1": None}


def predicted(model: str, texts: list[str]) -> list[dict[str, Any]]:
    return [
        {"transition_id": f"webshop_{i}/step_000", "model_id": model, "prediction": t, "n_tokens": 1, "finish_reason": "stop"}
        for i, t in enumerate(texts)
    ]  # fmt: skip


def test_weight_schemes_by_hand() -> None:
    rows = [transition("webshop", 0, SEARCH)]
    wrong_ids = SEARCH.replace("B09AAAAAA", "B09AAAAAB")
    wrong_page = SEARCH.replace("Page 1 (Total results: 50)", "Page 2 (Total results: 40)")
    found = weights(rows, {"ids": predicted("ids", [wrong_ids]), "page": predicted("page", [wrong_page])})
    assert found["n"] == 1 and found["models"] == ["ids", "page"]
    assert found["means"]["paper"] == {"ids": pytest.approx(0.45), "page": pytest.approx(0.8)}
    # Nine fields: of them ids, titles and prices are lost, or page number and total.
    assert found["means"]["uniform"] == {"ids": pytest.approx(6 / 9), "page": pytest.approx(7 / 9)}
    assert found["margins"]["paper"] == {"ids": pytest.approx(0.35)}
    assert len(found["means"]) == 6  # the paper's weights and five others
    low, high = found["range"]["ids"]
    assert low <= found["means"]["random ±20 %"]["ids"] <= high and 0.3 < low < high < 0.6
    assert found["random_draws_with_the_papers_sign"] == {"ids": 1.0}
    with pytest.raises(InputError, match="no WebShop transition"):
        weights(rows, {})


def test_transfer_and_the_whole_audit() -> None:
    rows = [*transitions("cookingworld"), transition("webshop", 0, SEARCH)]
    table = transfer(rows, per_class=10, seed=0)
    assert table is not None
    assert (table["paraphrase"]["em"], table["paraphrase"]["ssf"]) == (0.0, 1.0)
    assert all(
        found["ssf"] < 1.0 and found["em"] == 0.0 for name, found in table.items() if name != "paraphrase"
    )
    assert transfer(rows[-1:], per_class=10, seed=0) is None
    result = audit(rows, {"m": predicted("m", [SEARCH])}, n=50, per_class=5, seed=0)
    assert set(result["identity"]) == {"cookingworld", "webshop"} and result["webshop_weights"]["n"] == 1
    with pytest.raises(InputError, match="SSF parser"):
        audit([], {}, n=1, per_class=1, seed=0)


# Agreement ----------------------------------------------------------------------------------------


def test_ranking_statistics_by_hand() -> None:
    scores = np.array([0.9, 0.8, 0.7, 0.6])
    positive = np.array([True, False, True, False])
    assert auroc(scores, positive) == 0.75  # three of four pairs in order
    assert average_precision(scores, positive) == pytest.approx((1 / 1 + 2 / 3) / 2)
    tied = np.array([0.5, 0.5, 0.5, 0.5])
    assert auroc(tied, positive) == 0.5 and average_precision(tied, positive) == 0.5
    assert auroc(scores, np.ones(4, bool)) is None and average_precision(scores, np.zeros(4, bool)) is None
    assert pearson(scores, np.array([1.0, 0.0, 1.0, 0.0])) == pytest.approx(0.4472135955)
    assert pearson(scores, np.ones(4)) is None


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=40))
def test_ranking_statistics_agree_with_brute_force(pairs: list[tuple[int, bool]]) -> None:
    scores = np.array([score / 5 for score, _ in pairs])
    positive = np.array([label for _, label in pairs])
    found, area = auroc(scores, positive), average_precision(scores, positive)
    if positive.all() or not positive.any():
        assert found is None and area is None
        return
    wins = [(p > q) + (p == q) / 2 for p in scores[positive] for q in scores[~positive]]
    assert found == pytest.approx(np.mean(wins))
    reference = stats.mannwhitneyu(scores[positive], scores[~positive]).statistic
    assert found == pytest.approx(reference / (positive.sum() * (~positive).sum()))
    assert area is not None and positive.mean() / positive.size <= area <= 1.0 + 1e-12
    truth = positive.astype(float)
    if np.ptp(scores) > 0:
        assert pearson(scores, truth) == pytest.approx(stats.pearsonr(scores, truth).statistic)


def sheet_of(tmp_path: Path) -> tuple[Path, Path, list[dict[str, Any]], list[dict[str, Any]]]:
    rows = [
        transition("alfworld", i, f"You arrive at bed {i}. On the bed {i}, you see a cd 1, and a pen {i}.")
        for i in range(12)
    ]
    texts = [row["observation"] for row in rows]
    wrong = [
        text if i % 3 == 0 else text.replace("cd 1", "cd 2") if i % 3 == 1 else "Nothing happens."
        for i, text in enumerate(texts)
    ]
    predictions = [
        {"transition_id": row["transition_id"], "model_id": "m/secret", "prediction": text, "n_tokens": 1, "finish_reason": "stop"}
        for row, text in zip(rows, wrong, strict=True)
    ]  # fmt: skip
    shown, hidden = draw_sheet(rows, predictions, n=9, seed=0)
    sheet, key = tmp_path / "sheet.csv", tmp_path / "key.csv"
    sheet.write_text(csv_text(shown, SHEET))
    key.write_text(csv_text(hidden, KEY))
    return sheet, key, shown, hidden


def test_the_sheet_is_blind_and_stratified(tmp_path: Path) -> None:
    sheet, _, shown, hidden = sheet_of(tmp_path)
    assert len(shown) == len(hidden) == 9
    assert "secret" not in sheet.read_text() and "ssf" not in sheet.read_text().splitlines()[0]
    assert {row["faithful"] for row in shown} == {""}
    strata = [stratum(row["ssf"]) for row in hidden]
    assert {stratum_: strata.count(stratum_) for stratum_ in set(strata)} == {0: 3, 2: 3, 5: 3}
    assert [stratum(x) for x in (0.0, 0.19, 0.2, 0.99, 1.0)] == [0, 0, 1, 4, 5]
    with pytest.raises(InputError, match="no prediction fits"):
        draw_sheet([], [], n=3, seed=0)


def judge(path: Path, values: dict[str, str]) -> None:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    path.write_text(csv_text([{**row, "faithful": values.get(row["item_id"], "")} for row in rows], SHEET))


def test_agreement_of_a_judged_sheet(tmp_path: Path) -> None:
    sheet, key, _, hidden = sheet_of(tmp_path)
    judge(sheet, {row["item_id"]: str(int(row["ssf"] == 1.0)) for row in hidden[:-1]})
    found = agreement(sheet, key)
    assert found["n_unjudged"] == 1
    table = found["tables"]["all"]
    assert table == found["tables"]["alfworld"] and table["n"] == 8
    assert table["ssf"]["auroc"] == table["ssf"]["auprc"] == 1.0
    scores = [row["ssf"] for row in hidden[:-1]]
    truth = [float(score == 1.0) for score in scores]
    assert table["ssf"]["pearson"] == pytest.approx(stats.pearsonr(scores, truth).statistic)
    assert table["ssf"]["spearman"] == pytest.approx(stats.spearmanr(scores, truth).statistic)
    judge(sheet, {row["item_id"]: "1" for row in hidden})
    one_sided = agreement(sheet, key)["tables"]["all"]["ssf"]
    assert one_sided["auroc"] is None and "constant" in one_sided["reason"]


@pytest.mark.parametrize("value", ["yes", "2", "nan"])
def test_a_wrong_judgement_names_its_row(tmp_path: Path, value: str) -> None:
    sheet, key, shown, _ = sheet_of(tmp_path)
    judge(sheet, {shown[1]["item_id"]: value})
    with pytest.raises(InputError, match=r"sheet\.csv, row 2: faithful"):
        agreement(sheet, key)


def test_wrong_files_are_one_line(tmp_path: Path) -> None:
    sheet, key, _, _ = sheet_of(tmp_path)
    with pytest.raises(InputError, match="no item is judged"):
        agreement(sheet, key)
    with pytest.raises(InputError, match="file not found"):
        agreement(tmp_path / "none.csv", key)
    (tmp_path / "bare.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"columns .* are missing"):
        agreement(tmp_path / "bare.csv", key)
    (tmp_path / "other.csv").write_text("item_id,faithful\nitem_9999,1\n")
    with pytest.raises(InputError, match="row 1: item 'item_9999' is not in"):
        agreement(tmp_path / "other.csv", key)


def test_audit_and_sheet_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from wmlab.cli.main import main
    from wmlab.io.tables import write_table

    write_table(tmp_path / "t.parquet", "transitions", [transition("webshop", 0, SEARCH)])
    write_table(tmp_path / "p.parquet", "predictions", predicted("m", [SEARCH.replace("Red", "Old")]))
    files = ["--transitions", str(tmp_path / "t.parquet"), "--predictions", str(tmp_path / "p.parquet")]

    def run(*arguments: object) -> object:
        with pytest.raises(SystemExit) as done:
            main(["eval", *map(str, arguments)])
        return done.value.code

    sheet, key, out = tmp_path / "sheet.csv", tmp_path / "key.csv", tmp_path / "audit.json"
    assert run("sheet", *files, "--out", sheet, "--key", key) in (0, None)
    assert not (tmp_path / "sheet.csv.meta.json").exists() and (tmp_path / "key.csv.meta.json").exists()
    judge(sheet, {"item_0001": "0.5"})
    assert run("audit", *files, "--sheet", sheet, "--key", key, "--out", out) in (0, None)
    result = json.loads(out.read_text())
    assert result["identity"]["webshop"]["identity"] == 1.0
    assert result["agreement"]["tables"]["all"]["n"] == 1 and result["transfer"] is None
    assert run("audit", *files, "--sheet", sheet, "--out", out) == 2
    assert "give both" in capsys.readouterr().err
