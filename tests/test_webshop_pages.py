"""WebShop's search and pages: BM25 against bm25s, every recorded page, round trips."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wmlab.domains.webshop import pages
from wmlab.domains.webshop.analysis import analyse
from wmlab.domains.webshop.catalogue import read_product
from wmlab.domains.webshop.generator import generate
from wmlab.domains.webshop.search import K1, B, IndexBuilder, Searcher, best, lucene_length

ROOT = Path(__file__).resolve().parents[1]


def test_the_analyzer_is_close_to_lucenes() -> None:
    assert analyse("The Men's 6.76 fl-oz L'Eau, t-shirts and x-large") == (
        ["men", "6.76", "fl", "oz", "l'eau", "t", "shirt", "x", "larg"]
    )
    assert analyse("running shoes for the") == ["run", "shoe"]
    assert analyse("price: $1,299.00; size:4x6") == ["price", "1,299.00", "size", "4x6"]


def test_lengths_are_rounded_as_lucene_stores_them() -> None:
    assert [lucene_length(n) for n in (0, 23, 39, 40, 41, 42, 100, 1000)] == [0, 23, 39, 40, 40, 42, 96, 984]


def index_of(folder: Path, texts: list[str], **how: Any) -> Searcher:
    database = sqlite3.connect(":memory:")
    builder = IndexBuilder(folder, **how)
    for text in texts:
        builder.add(text)
    builder.finish(database)
    return Searcher(folder, database)


def test_scores_equal_bm25s_own_and_chunks_change_nothing(tmp_path: Path) -> None:
    import bm25s

    texts = [read_product(draft.product).searchable for draft in generate(400)]
    whole = index_of(tmp_path / "a", texts, exact_lengths=True)
    chunked = index_of(tmp_path / "b", texts, exact_lengths=True, chunk=1000)
    reference = bm25s.BM25(method="lucene", k1=K1, b=B)
    reference.index([analyse(text) for text in texts], show_progress=False)
    for query in ("women's sandals with rubber sole", "black phone case", "non slip rug rug", texts[7]):
        terms = [term for term in analyse(query) if term in reference.vocab_dict]
        ours = whole.scores(query)
        assert ours is not None
        assert ours == pytest.approx(reference.get_scores(terms), rel=1e-5)
        assert whole.hits(query) == chunked.hits(query)
        assert (
            list(whole.hits(query))
            == sorted(range(400), key=lambda d: (-ours[d], d))[: len(whole.hits(query))]
        )
    assert whole.hits("zzz the of") == ()
    assert len(whole.hits("slip")) <= 50


@given(
    st.lists(st.sampled_from([0.0, 0.0, 0.25, 0.5, 1.5, 2.0]), min_size=1, max_size=80), st.integers(1, 60)
)
def test_the_best_are_the_largest_positive_scores(scores: list[float], n: int) -> None:
    wanted = sorted((place for place, value in enumerate(scores) if value > 0), key=lambda p: (-scores[p], p))
    assert list(best(np.array(scores, np.float32), n)) == wanted[:n]


def test_ties_go_to_the_earlier_document(tmp_path: Path) -> None:
    assert index_of(tmp_path, ["red sock", "blue sock", "red sock"]).hits("red sock") == (0, 2, 1)
    assert best(np.array([0, 2, 2, 1, 2], np.float32), 2) == [1, 2]


def test_every_recorded_page_parses_and_renders_equal() -> None:
    path = ROOT.parent / "shared" / "samples" / "webshop.jsonl"
    if not path.exists():
        pytest.skip("the recorded samples are not beside the repository")
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    kinds: Counter[str] = Counter()
    for row in rows:
        reading = pages.read(row["observation"])
        assert reading is not None, row["observation"]
        assert pages.write(reading) == row["observation"]
        kinds[type(reading.page).__name__] += row["real"]
        if row.get("available_actions") and isinstance(reading.page, pages.ItemPage):
            listed = [f"click[{text}]" for text in row["available_actions"]["clickables"]]
            flat = [
                text for name, values in pages.option_groups(reading.page, listed) for text in (name, *values)
            ]
            assert flat == list(reading.page.options)
    assert sum(kinds.values()) == 32 and len(kinds) == 5


TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30).filter(lambda t: "[SEP]" not in t)
LISTINGS = st.lists(st.builds(pages.Listing, TEXT, TEXT, TEXT), max_size=3).map(tuple)
PAGES = st.one_of(
    st.builds(pages.StartPage, TEXT),
    st.builds(pages.ResultsPage, TEXT, st.integers(1, 99), st.integers(0, 50), st.booleans(), LISTINGS),
    st.builds(pages.ItemPage, TEXT, st.lists(TEXT, max_size=4).map(tuple), TEXT, TEXT),
    st.builds(pages.DonePage, TEXT, st.just("{}"), st.just("1.0")),
)


@given(
    PAGES, st.none() | st.lists(TEXT.filter(lambda t: "',\n" not in t), min_size=1).map(tuple), st.booleans()
)
def test_pages_survive_the_round_trip(
    page: pages.Page, admissible: tuple[str, ...] | None, success: bool
) -> None:
    reading = pages.Reading(page, admissible, success)
    assert pages.write(reading) == pages.write(pages.read(pages.write(reading)) or reading)


@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from(["Instruction:", "Back to Search", "< Prev", "x"])).map(" [SEP] ".join)
)
def test_no_text_breaks_the_parser(text: str) -> None:
    reading = pages.read(text)
    assert reading is None or pages.write(reading) == text


def test_chosen_options_print_as_upstreams_template_does() -> None:
    assert pages.chosen_options({"size": "x-large", "color": "a&b's"}) == (
        '{"color": "a\\u0026b\\u0027s", "size": "x-large"}'
    )
