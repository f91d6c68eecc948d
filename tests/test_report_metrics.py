"""Tables and figures that judge the metrics: numbers, blocks, what is missing, files, the page."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from perturbed import transitions
from report_study import stays_on_the_page
from typer.testing import CliRunner
from wmlab.cli.report import app
from wmlab.config.evaluation import Audits
from wmlab.config.load import load_study
from wmlab.config.plan import Plan
from wmlab.errors import IncompletePanelError, InputError
from wmlab.metrics.perturb import stress
from wmlab.metrics.perturb.audit import audit
from wmlab.report import contents, metric_tables, render, site
from wmlab.report.figures import canvas, metrics
from wmlab.report.tables import Table

ROOT = Path(__file__).resolve().parents[1]
MEANS: dict[str, dict[str, float | None]] = {
    "oracle": {"behr": 1.0, "multi_action_behr": 1.0, "acs": 1.0, "f1": 1.0, "em": 1.0, "ssf": None},
    "drop_irrelevant": {"behr": 0.8, "multi_action_behr": 0.7, "acs": 0.9, "f1": 0.6, "em": 0.0, "ssf": None},
    "drop_target": {"behr": 0.1, "multi_action_behr": 0.3, "acs": 0.2, "f1": 0.9, "em": 0.0, "ssf": None},
}


def contrast(metric: str) -> dict[str, Any]:
    left, right = MEANS["drop_irrelevant"][metric], MEANS["drop_target"][metric]
    assert left is not None and right is not None
    entry = {
        "drop_irrelevant": left,
        "drop_target": right,
        "difference": left - right,
        "dense": metric != "em",
    }
    return {**entry, "ci95": [left - right - 0.1, left - right + 0.1], "di_above_dt": left > right}


def study(domain: str) -> dict[str, Any]:
    found = {metric: contrast(metric) for metric in ("behr", "multi_action_behr", "acs", "f1", "em")}
    base = {"schema": 1, "domains": [domain], "n": 40, "n_failed": 2, "reference": "clone <b>"}
    return {**base, "means": MEANS, "contrast": found}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("metrics")
    rows = [row for domain in ("alfworld", "cookingworld") for row in transitions(domain)]
    tested = {**stress.summarise(stress.stress(rows, per_class=8)), "per_class": 8}
    values = {
        "alfworld": study("alfworld"),
        "webshop": study("webshop"),
        "stress": tested,
        "audit": audit(rows, {}, n=40, per_class=8, seed=0),
    }
    paths = {name: folder / f"{name}.json" for name in values}
    for name, value in values.items():
        paths[name].write_text(json.dumps(value))
    return paths


def read(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text())
    return value


def column(table: Table, key: str) -> list[Any]:
    return [row.values[key].value for row in table.rows]


def test_table_1_says_which_metric_ranks_the_contrast(files: dict[str, Path]) -> None:
    table = metric_tables.perturb_contrast(metric_tables.load_perturbations([str(files["webshop"])]))
    assert column(table, "metric") == ["BehR", "Multi-action BehR", "ACS", "Word F1", "EM"]
    assert column(table, "above") == ["yes", "yes", "yes", "no", "no"]
    assert column(table, "dense") == ["yes", "yes", "yes", "yes", "no"]
    assert table.rows[0].values["difference"].ci == pytest.approx((0.6, 0.8))
    assert "clone &lt;b&gt;" in render.to_markdown(table) and "<b>" not in render.to_markdown(table)
    assert r"\toprule" in render.to_latex(table)


def test_tables_15_and_16_leave_out_what_no_domain_measured(files: dict[str, Path]) -> None:
    items = metric_tables.load_perturbations([str(files[name]) for name in ("webshop", "alfworld")])
    every = metric_tables.perturb_metrics(items)
    assert [c.key for c in every.columns] == ["domain", "perturbation", "behr", "acs", "f1", "em"]
    assert column(every, "domain") == ["alfworld"] * 3 + ["webshop"] * 3  # a block a domain
    assert column(every, "perturbation")[:3] == ["Oracle", "Drop Irrelevant", "Drop Target"]
    rewards = metric_tables.perturb_rewards(items)
    assert [c.key for c in rewards.columns][2:] == ["behr", "multi_action_behr", "acs"]
    assert column(rewards, "multi_action_behr")[:3] == [1.0, 0.7, 0.3]


def test_a_study_without_samples_is_said_so(files: dict[str, Path], tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text(json.dumps({**read(files["webshop"]), "contrast": {}, "n": 0}))
    items = metric_tables.load_perturbations([str(empty)])
    assert metric_tables.perturb_contrast(items).impossible == "no sample was scored by every metric"
    with pytest.raises(IncompletePanelError, match="no sample was scored"):
        metrics.perturb_contrast(items)
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(InputError, match=r"keys .* are missing"):
        metric_tables.load_perturbations([str(tmp_path / "bad.json")])


def test_the_stress_test_as_tables(files: dict[str, Path]) -> None:
    summary = read(files["stress"])
    table = metric_tables.ssf_stress(summary, "s")
    assert column(table, "domain") == ["all"] * 4 + ["alfworld"] * 4 + ["cookingworld"] * 4
    assert table.rows[0].values["change"].value == "Paraphrase, layout"
    assert table.rows[0].values["ssf"].value == 1.0 and column(table, "em") == [0.0] * 12
    kinds = metric_tables.ssf_stress_kinds(summary, "s")
    assert "Location swap" in column(kinds, "kind")
    one = {**summary, "domains": {"alfworld": summary["domains"]["alfworld"]}}
    assert column(metric_tables.ssf_stress(one, "s"), "domain") == ["alfworld"] * 4
    transfer = metric_tables.ssf_transfer(read(files["audit"]), "a")
    assert column(transfer, "kind")[0] == "Paraphrase" and column(transfer, "n") == [8, 4, 4, 4, 4, 4]


def test_the_audit_as_a_table(files: dict[str, Path]) -> None:
    found = read(files["audit"])
    table = metric_tables.ssf_audit(found, "a")
    assert column(table, "domain") == ["alfworld", "cookingworld"] and column(table, "identity") == [1.0, 1.0]
    swapped = found["identity"]["alfworld"]["perturbed"]
    assert table.rows[0].values["perturbed_n"].value == swapped["n"]
    assert table.rows[0].values["perturbed_n_bare"].value == swapped["n_bare"]
    bare = {"n": 0, "n_bare": 40, "mean": None, "min": None, "max": None, "f1": None}
    found["identity"]["alfworld"]["perturbed"] = bare
    null = metric_tables.ssf_audit(found, "a").rows[0].values["perturbed_mean"]
    assert null.value is None and null.reason == "no observation names anything"


def test_weights_and_agreement_as_tables() -> None:
    weights = {
        "n": 9,
        "models": ["sft", "behr"],
        "means": {"paper": {"sft": 0.5, "behr": 0.6}, "random ±20 %": {"sft": 0.51, "behr": 0.6}},
        "range": {"sft": [0.49, 0.53], "behr": [0.58, 0.62]},
        "margins": {"paper": {"sft": 0.1}, "random ±20 %": {"sft": 0.09}},
        "random_draws_with_the_papers_sign": {"sft": 1.0},
    }
    table = metric_tables.ssf_weights({"webshop_weights": weights}, "a")
    assert column(table, "margin") == [0.1, None, 0.09, None]
    assert column(table, "kept") == [None, None, 1.0, None]
    assert table.rows[2].values["ssf"].ci == (0.49, 0.53) and table.rows[0].values["ssf"].ci is None
    entry = {"pearson": 0.8, "spearman": 0.7, "auroc": 0.9, "auprc": None, "spearman_ci95": [0.5, 0.8]}
    worse = {**entry, "pearson": 0.2, "auprc": None}
    judged = {
        "n": 20,
        "n_faithful": 12,
        "em": {**worse, "reason": "auprc: one side is constant"},
        "ssf": {**entry, "reason": "auprc: one side is constant"},
    }
    agreed = metric_tables.ssf_agreement({"agreement": {"n_unjudged": 3, "tables": {"all": judged}}}, "a")
    assert column(agreed, "metric") == ["EM", "SSF"] and column(agreed, "n") == [20, 20]
    assert agreed.marks == {(0, "pearson"): "second", (1, "pearson"): "best"}
    assert agreed.rows[0].values["auprc"].reason == "auprc: one side is constant"
    assert agreed.rows[0].values["spearman"].ci == (0.5, 0.8)
    assert "left out: 3" in " ".join(agreed.footnotes)


def test_figures_hold_their_data_and_stay_on_the_page(files: dict[str, Path]) -> None:
    items = metric_tables.load_perturbations([str(files[name]) for name in ("webshop", "alfworld")])
    one = metrics.perturb_contrast(items[:1])
    two = metrics.perturb_contrast(items)
    summary = read(files["stress"])
    stressed = metrics.ssf_stress(summary, "s")
    assert one.figure.get_figwidth() == canvas.COLUMN and two.figure.get_figwidth() == canvas.PAGE
    assert len(two.data) == 2 * 5 and two.data[0]["difference"] == pytest.approx(0.7)
    assert {row["panel"] for row in stressed.data} == {"all domains", "alfworld", "cookingworld"}
    assert all(row["em"] == 0.0 for row in stressed.data) and len(stressed.data) == 12
    for drawing in (one, two, stressed):
        assert stays_on_the_page(drawing), drawing.name


def test_commands_and_page(files: dict[str, Path], tmp_path: Path) -> None:
    def run(*arguments: object) -> str:
        result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output.strip().splitlines()[-1]

    given = ["--perturb", files["alfworld"], files["webshop"], "--stress", files["stress"]]
    root = tmp_path / "demo"
    last = run("tables", *given, "--audit", files["audit"], "--out-dir", root / "tables")
    assert last.endswith(
        "(perturb_contrast, perturb_metrics, perturb_rewards, ssf_stress, ssf_stress_kinds, ssf_audit, ssf_transfer)"
    )
    assert "2 figures, 22 data rows" in run("figures", *given, "--out-dir", root / "figures")
    with (root / "figures" / "perturb_contrast.csv").open(newline="") as handle:
        assert [row["metric"] for row in csv.DictReader(handle)][:2] == ["behr", "multi_action_behr"]
    meta = json.loads((root / "tables" / "ssf_stress.meta.json").read_text())
    assert [Path(path).name for path in meta["inputs"]] == ["stress.json"]
    run("site", "--study-dir", root, "--out", root / "report" / "index.html")
    page = (root / "report" / "index.html").read_text()
    for name in ("table-perturb_contrast", "table-ssf_audit", "figure-ssf_stress", "figure-perturb_contrast"):
        assert f'id="{name}"' in page
    assert "clone &lt;b&gt;" in page
    assert list(site.load_tables(root / "tables")) == [
        name for name in contents.TABLES if (root / "tables" / f"{name}.json").is_file()
    ]


def test_the_plan_asks_for_the_tables_that_have_data(tmp_path: Path) -> None:
    plan = Plan(load_study([ROOT / "studies" / "smoke.yaml"], base=ROOT / "config.yaml"))
    assert plan.audit_tables("ssf") == ["ssf_stress", "ssf_stress_kinds", "ssf_audit"]
    assert plan.audit_tables("perturb") == list(contents.PERTURB_TABLES)
    assert (plan.audit_figures("perturb"), plan.audit_figures("ssf")) == (
        ["perturb_contrast"],
        ["ssf_stress"],
    )
    sizes = plan.config.audits
    assert (sizes.perturbed_samples, sizes.stress_examples, sizes.observations) == (40, 50, 100)
    assert Audits() == Audits(perturbed_samples=100, stress_examples=50, observations=100)
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text("audits: {annotation: {sheet: judged.csv, key: key.csv}}\n")
    whole = Plan(load_study([ROOT / "studies" / "all_domains.yaml", overlay], base=ROOT / "config.yaml"))
    assert whole.audit_tables("ssf") == list(contents.SSF_TABLES)
    assert whole.annotation() == {"sheet": "judged.csv", "key": "key.csv"}
