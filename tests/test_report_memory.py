"""Tables and figures of world memory: values, marks, what is missing said, nothing off the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from report_study import stays_on_the_page
from wmlab.errors import IncompletePanelError, InputError
from wmlab.report import memory
from wmlab.report.figures import memory as figures
from wmlab.report.inputs import Identity, Loaded, identity_of
from wmlab.report.making import make_figures, make_tables

SSF = {"copy": [0.2], "w2w": [0.4], "behr": [0.6, 0.8], "mem_sft": [0.7, 0.7]}


def summary(ssf: float | None) -> dict[str, Any]:
    numbers = dict.fromkeys(("em", "em_predictable", "f1", "rouge_l", "behr"), 0.5)
    counts = dict.fromkeys(("n", "n_predictable", "n_ssf", "n_behr", "n_error"), 9)
    return {**numbers, **counts, "ssf": ssf}


def summaries(domains: tuple[str, ...] = ("alfworld", "webshop")) -> list[Loaded]:
    return [
        Loaded(Identity(domain, "tiny", method, seed), f"{domain}/{method}/{seed}", summary(value))
        for domain in domains
        for method, values in SSF.items()
        for seed, value in enumerate(values)
    ]


def gains(domain: str = "webshop", method: str = "mem_sft", plain: bool = True, seeds: int = 3) -> Loaded:
    def spread(mean: float) -> dict[str, Any]:
        values = [mean + 0.01 * at for at in range(seeds)]
        return {"mean": mean + 0.005 * (seeds - 1), "sd": 0.01 if seeds > 1 else None, "seeds": values}

    value = {
        "n": 200, "n_tasks": 24, "n_seeds": seeds, "seed": 0, "with_block": 0.5,
        "memory": spread(0.7), "removed": spread(0.6),
        "vs_removed": {"difference": 0.1, "ci": [0.05, 0.15]},
        "plain_method": "w2w" if plain else None, "plain": spread(0.65) if plain else None,
        "vs_plain": {"difference": 0.05, "ci": [-0.01, 0.11]} if plain else None,
        "removal": [{"share": share, **spread(0.7 - 0.1 * share)} for share in (0.0, 0.5, 1.0)],
    }  # fmt: skip
    return Loaded(Identity(domain, "tiny", method), f"memory/{domain}/tiny/{method}/gain.json", value)


def test_state_fidelity_is_a_row_a_model_and_a_column_a_domain() -> None:
    table = memory.state_fidelity(summaries())
    assert [column.key for column in table.columns] == ["method", "alfworld", "webshop"]
    assert [row.values["method"].value for row in table.rows] == ["Copy", "W2W", "BehR", "Mem-SFT"]
    behr = table.rows[2].values["webshop"]
    assert behr.value == pytest.approx(0.7) and behr.sd == pytest.approx(0.1 * 2**0.5)
    # BehR and Mem-SFT print the same number: both are best, W2W is second.
    assert [table.marks.get((row, "webshop")) for row in range(4)] == [None, "second", "best", "best"]
    assert table.rows[2].sources == ("alfworld/behr/0", "alfworld/behr/1", "webshop/behr/0", "webshop/behr/1")


def test_state_fidelity_needs_the_whole_matrix_and_says_why_a_value_is_missing() -> None:
    with pytest.raises(IncompletePanelError, match="webshop/tiny/behr/seed1"):
        memory.state_fidelity([item for item in summaries() if item.path != "webshop/behr/1"])
    items = summaries(("webshop",))
    items[0] = Loaded(items[0].identity, items[0].path, {**summary(None), "reasons": {"ssf": "no facts"}})
    assert memory.state_fidelity(items).rows[0].values["webshop"].reason == "no facts"


def test_memory_gain_has_both_contrasts_and_their_intervals() -> None:
    row, alone = memory.memory_gain([gains(), gains(method="mem_behr", plain=False)]).rows
    assert row.values["memory"].value == pytest.approx(0.71) and row.values["memory"].sd == 0.01
    assert row.values["vs_removed"].ci == (0.05, 0.15) and row.values["vs_plain"].value == 0.05
    assert row.values["against"].value == "W2W"
    assert any("compare with W2W+" in note for note in memory.memory_gain([gains()]).footnotes)
    assert not any(
        "compare with W2W+" in note for note in memory.memory_gain([gains(method="mem_behr")]).footnotes
    )
    assert alone.values["vs_plain"].value is None and "no method without memory" in str(
        alone.values["vs_plain"].reason
    )
    with pytest.raises(InputError, match=r"keys \['vs_plain'\] are missing"):
        short = gains()
        memory.memory_gain(
            [Loaded(short.identity, "g", {k: v for k, v in short.value.items() if k != "vs_plain"})]
        )


@pytest.mark.parametrize("n", [1, 3, 5])
def test_figures_stay_on_the_page_and_keep_their_data(n: int) -> None:
    names = ("alfworld", "cookingworld", "scienceworld", "textworld", "webshop")[:n]
    items = [
        gains(domain, plain=domain != "webshop", seeds=1 if domain == "textworld" else 3) for domain in names
    ]
    removal, dropout = figures.memory_removal(items), figures.memory_dropout(items)
    assert stays_on_the_page(removal) and stays_on_the_page(dropout)
    shown = [row for row in removal.data if row["domain"] == "alfworld" and row["blocks"] == "removed"]
    assert [row["ssf"] for row in shown] == pytest.approx([0.6, 0.61, 0.62])
    assert {row["method"] for row in removal.data if row["blocks"] == "plain"} <= {"w2w"}
    half = next(row for row in dropout.data if row["domain"] == "alfworld" and row["share"] == 0.5)
    assert (half["lo"], half["ssf"], half["hi"]) == pytest.approx((0.65, 0.66, 0.67))


def test_a_gain_is_known_by_its_place() -> None:
    assert identity_of("results/s/memory/webshop/tiny/mem_sft/gain.json") == Identity(
        "webshop", "tiny", "mem_sft"
    )
    assert identity_of("results/s/memory/webshop/tiny/mem_sft/seed2/removal.json").seed == 2


def test_they_are_made_from_files(tmp_path: Path) -> None:
    from wmlab.io.atomic import write_json

    path = tmp_path / "memory/webshop/tiny/mem_sft/gain.json"
    path.parent.mkdir(parents=True)
    write_json(path, gains().value)
    nothing: dict[str, Any] = {
        "cells": [],
        "stats": None,
        "perturb": [],
        "stress": None,
        "only": [],
        "started": 0.0,
    }
    tables = make_tables(
        tmp_path / "t", scores=[], plans=[], heldout=[], removals=[], gains=[str(path)], audit=None, methods=[],
        allow_incomplete=False, **nothing,
    )  # fmt: skip
    drawn = make_figures(tmp_path / "f", curves=[], episodes=[], gains=[str(path)], png=False, **nothing)
    assert [table.name for table in tables] == ["memory_gain"]
    assert [drawing.name for drawing in drawn] == ["memory_removal", "memory_dropout"]
    assert "0.710 ± 0.010" in (tmp_path / "t/memory_gain.md").read_text()
    assert (
        (tmp_path / "f/memory_removal.csv").read_text().splitlines()[0].startswith("domain,backbone,method")
    )
