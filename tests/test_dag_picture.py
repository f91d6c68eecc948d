"""The README's picture: reduced by hand-checked rules, and the one that the rules give today."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from wmlab.errors import InputError
from wmlab.report.dag import embed, picture, reduce_graph

ROOT = Path(__file__).resolve().parents[1]


def test_implied_arrows_go() -> None:
    assert reduce_graph([("a", "b"), ("b", "c"), ("a", "c"), ("a", "d"), ("d", "c")]) == [
        ("a", "b"), ("a", "d"), ("b", "c"), ("d", "c"),
    ]  # fmt: skip


def test_bad_input_is_named() -> None:
    with pytest.raises(InputError, match="no rule graph"):
        picture("hello")
    with pytest.raises(InputError, match="marks"):
        embed("no marks", "x")


def test_the_readme_shows_todays_rules() -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SNAKEMAKE_PROFILE")}
    graph = subprocess.run(
        [sys.executable, "-m", "snakemake", "--profile", "local", "--rulegraph", "mermaid-js", "all"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert embed(text, picture(graph)) == text, "run `make dag`"
