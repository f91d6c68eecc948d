"""The values that metrics.md section 4 and memwm.txt B.4 state, on observations collected now (pytest -s shows the table)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fresh_observations import fresh
from wmlab.metrics.perturb.audit import identity
from wmlab.metrics.perturb.stress import stress, summarise
from wmlab.metrics.ssf import PARSERS, ssf

CACHE = Path(__file__).resolve().parents[1] / "results" / "cache"
OBSERVATIONS = 1_000


def check_values(domain: str, rows: list[dict[str, Any]]) -> str:
    """Assert the values of a domain and return its line of the table."""
    texts = {row["observation"] for row in rows}
    assert all(ssf(domain, text, text) == 1.0 for text in texts)
    audited = identity(rows, domain, len(rows), 0)
    assert audited["identity"] == audited["score"]["min"] == 1.0
    assert audited["coverage"] >= 0.95 and audited["explained"] >= 0.9
    swapped = audited["perturbed"]
    if domain == "scienceworld":
        assert swapped["n"] >= 400 and swapped["mean"] <= 0.01 and swapped["max"] <= 0.25
        assert swapped["n"] >= 0.97 * audited["n"]
    made = stress(rows, per_class=200, seed=0)
    found = summarise(made)
    classes, kinds = found["domains"][domain], found["kinds"][domain]
    judged = [one for one in made if one["change"] == "paraphrase" and one["ssf"] < 1.0]
    assert not judged, [(one["kind"], one["gold"], one["prediction"]) for one in judged[:3]]
    assert classes["paraphrase"]["ssf_min"] == 1.0 and classes["paraphrase"]["n"] >= 50
    assert classes["entity"]["ssf"] < 0.65 and classes["state"]["ssf"] < 0.9
    if domain == "alfworld":
        assert kinds["location_swap"]["ssf_max"] == 0.0 and kinds["location_swap"]["f1"] > 0.9
    if domain == "scienceworld":
        assert kinds["entity_swap"]["ssf"] <= 0.01 and kinds["entity_swap"]["ssf_max"] <= 0.25
    if domain == "webshop":
        ids = [row for row in made if row["kind"] == "id_swap"]
        assert len(ids) >= 20 and {row["ssf"] for row in ids} == {0.45}
        assert kinds["id_swap"]["f1"] >= 0.98 and min(row["f1"] for row in ids) >= 0.98
    shown = ", ".join(f"{name} {entry['ssf']:.3f} (F1 {entry['f1']:.3f})" for name, entry in kinds.items())
    return (
        f"{domain}: {len(rows)} observations, {audited['n']} distinct; identity 1.000, covered "
        f"{audited['coverage']:.4f}, characters {audited['explained']:.4f}; swapped n {swapped['n']}, bare "
        f"{swapped['n_bare']}, mean {swapped['mean']:.4f}, max {swapped['max']:.3f}; {shown}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("domain", PARSERS)
def test_values_on_fresh_observations(domain: str) -> None:
    rows = fresh(domain, OBSERVATIONS, CACHE)
    assert len(rows) >= OBSERVATIONS
    print(f"\n{check_values(domain, rows)}")
