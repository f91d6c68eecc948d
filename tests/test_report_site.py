"""The report site and its commands: self-contained, escaped, traced, and honest about what is missing."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from report_study import STATS, make_study
from typer.testing import CliRunner
from wmlab.cli.report import app
from wmlab.errors import InputError
from wmlab.report import site, summary, svg, trace, viewer
from wmlab.report.inputs import Identity

EVIL = "clone-<script>alert(1)</script>&\"'"


class Page(HTMLParser):
    """Collects tags, ids and links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.hrefs: list[str] = []
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "id" and value is not None:
                self.ids.append(value)
            if name in {"href", "xlink:href", "src"} and value is not None:
                self.hrefs.append(value)


def run(*args: str) -> str:
    result = CliRunner().invoke(app, list(args), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output.strip().splitlines()[-1]


def render_all(study: Path) -> str:
    def found(pattern: str) -> list[str]:
        return sorted(str(path) for path in study.glob(pattern))

    cells = [str(study / "stats/cells.parquet"), *found("consistency/*/*/*/*/*/cell.json")]
    stats = str(study / "stats/stats.json")
    scores, heldout = found("score/**/summary.json"), found("models/**/heldout.json")
    # One option followed by several values, as a Snakemake rule writes it.
    inputs = ["--scores", *scores, "--cells", *cells, "--stats", stats, "--heldout", *heldout]
    run("tables", *inputs, "--out-dir", str(study / "tables"))
    curves = found("models/**/curves.jsonl")
    episodes = found("rollout/*/real/*/episodes.jsonl") + found("rollout/*/*/*/seed*/*/wm.jsonl")
    inputs = ["--curves", *curves, "--cells", *cells, "--stats", stats, "--episodes", *episodes]
    run("figures", *inputs, "--out-dir", str(study / "figures"))
    return run("site", "--study-dir", str(study), "--out", str(study / "report/index.html"))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_study(tmp_path_factory.mktemp("results") / "demo", agents=("scripted", "weak"), n=8)
    # An agent id from a configuration is text like any other: put a hostile one into files and folders.
    for path in sorted(root.rglob("weak"), reverse=True):
        path.rename(path.with_name("weak-<b>&"))
    for path in root.rglob("*.json*"):
        text = path.read_text()
        path.write_text(
            text.replace('"weak"', json.dumps(EVIL)).replace("-= Kitchen =-", "<script>alert(2)</script>")
        )
    from wmlab.io.schemas import CELLS
    from wmlab.io.tables import write_table

    cells = [json.loads(path.read_text()) for path in root.glob("consistency/**/cell.json")]
    write_table(
        root / "stats/cells.parquet", "cells", [{name: cell[name] for name in CELLS.names} for cell in cells]
    )
    (root / "config.yaml").write_text("study: demo # <script>\n")
    last = render_all(root)
    assert "8 tables, 6 figures, 14 cells" in last and last.startswith(str(root))
    return root


@pytest.fixture(scope="module")
def index(study: Path) -> Page:
    return Page((study / "report/index.html").read_text())


def test_no_script_and_no_network(study: Path, index: Page) -> None:
    for page in (index, Page((study / "report/episodes.html").read_text())):
        assert not {"script", "iframe", "img", "link", "object"} & page.tags
        assert not [name for name in page.attributes if name.startswith("on")]
        assert not [href for href in page.hrefs if re.match(r"\w+:|//", href)]


def test_hostile_text_is_shown_as_text(study: Path) -> None:
    text = (study / "report/index.html").read_text()
    assert "clone-&lt;script&gt;alert(1)&lt;/script&gt;&amp;" in text
    assert "<script" not in text
    episodes = (study / "report/episodes.html").read_text()
    assert "<script" not in episodes and "&lt;script&gt;alert(2)" in episodes


def test_every_link_in_the_page_resolves(study: Path, index: Page) -> None:
    assert len(index.ids) == len(set(index.ids))
    ids = set(index.ids)
    for href in index.hrefs:
        if href.startswith("#"):
            assert href[1:] in ids
        else:
            assert (study / "report" / href).is_file()


def test_every_table_row_is_traced(study: Path) -> None:
    text = (study / "report/index.html").read_text()
    rows = re.findall(r'<td class="sources">(.*?)</td>', text, flags=re.DOTALL)
    assert len(rows) > 20 and all('href="#src-' in row for row in rows)
    target = "consistency/textworld/wm-small/behr/seed1/scripted/cell.json"
    entry = text.split(f'id="{trace.anchor_of(target)}"', 1)[1].split("</details>", 1)[0]
    assert "SHA-256" in entry and "Seed</dt><dd>1<" in entry and "panels/textworld/test.json" in entry


def test_size_sections_and_limits(study: Path) -> None:
    size = (study / "report/index.html").stat().st_size + (study / "report/episodes.html").stat().st_size
    assert size < 3_000_000
    text = (study / "report/index.html").read_text()
    for section in ("headlines", "design", "power", "tables", "figures", "filter", "provenance"):
        assert f'<section id="{section}">' in text
    assert "study: demo # &lt;script&gt;" in text
    assert str(study.parent) not in re.sub(r"<td.*?</td>", "", text, flags=re.DOTALL)


def test_meta_beside_each_result(study: Path) -> None:
    for name in ("tables/task_level", "figures/crpw_cells", "report/index.html"):
        meta = json.loads((study / f"{name}.meta.json").read_text())
        assert meta["inputs"] and meta["duration_s"] >= 0


def test_two_builds_are_equal(study: Path, tmp_path: Path) -> None:
    inputs = site.locate(study)
    for name in ("a", "b"):
        site.build(inputs, tmp_path / name / "index.html")
    for page in ("index.html", "episodes.html"):
        assert (tmp_path / "a" / page).read_bytes() == (tmp_path / "b" / page).read_bytes()


def test_a_study_without_optional_parts(tmp_path: Path) -> None:
    root = make_study(tmp_path / "demo", agents=("scripted",), n=4)
    cells = sorted(str(p) for p in root.glob("consistency/**/cell.json"))
    last = run("tables", "--cells", *cells, "--only", "task_level", "--out-dir", str(root / "tables"))
    assert last.endswith("1 tables, 4 rows (task_level)")
    for part in ("stats", "filter", "rollout"):
        (root / part).rename(tmp_path / part)
    run("site", "--study-dir", str(root), "--out", str(tmp_path / "index.html"), "--title", "Small")
    text = (tmp_path / "index.html").read_text()
    assert "No figure was made" in text and "Not made in this study: single_step" in text
    assert "no test was made" in text and not (tmp_path / "episodes.html").exists()


def test_locate_names_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such study folder"):
        site.locate(tmp_path / "nowhere")
    with pytest.raises(InputError, match="wmlab report tables"):
        site.locate(tmp_path)


def test_tables_command_lists_missing_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"2 input files are missing: .*summary.json, .*cell.json"):
        CliRunner().invoke(
            app,
            [
                "tables",
                "--scores",
                "a/b/c/seed0/summary.json",
                "--cells",
                "x/cell.json",
                "--out-dir",
                str(tmp_path),
            ],
            catch_exceptions=False,
        )
    with pytest.raises(InputError, match="did you mean 'task_level'"):
        CliRunner().invoke(
            app, ["tables", "--only", "task_levels", "--out-dir", str(tmp_path)], catch_exceptions=False
        )
    assert not list(tmp_path.iterdir())


def test_power_says_when_no_result_could_be_significant() -> None:
    lines = " ".join(summary.sample_size([], {**STATS, "n_cells": 4}))
    assert "is 0.125, so no result, however clear, can reach p ≤ 0.05; 6 untied cells are needed" in lines
    lines = " ".join(summary.sample_size([], STATS))
    assert "at most 2 of them tie" in lines and "0.058 over cells" in lines and "0.190 on one panel" in lines


def test_a_headline_names_the_domain_of_its_exact_match() -> None:
    """What is compared is of one domain: the method that is tested first, the others in the note."""
    rows = [
        ("textworld", "W2W", "0.6"),
        ("textworld", "BehR", "0.7"),
        ("webshop", "BehR", "0.2"),
        ("webshop", "F1", "0.1"),
    ]

    def table(*keys: str) -> dict[str, object]:
        shown = [row[-len(keys) :] for row in rows if len(keys) == 3 or row[0] == "webshop"]
        return {
            "columns": [{"key": key} for key in keys],
            "rows": [{"cells": [{"text": text} for text in row]} for row in shown],
        }

    apart = {"single_step": table("domain", "method", "em")}
    cards = summary.headlines([], {"target": "behr", "n_cells": 0}, apart)
    assert [(card["label"], card["value"], card["note"]) for card in cards] == [
        ("Single-step EM, textworld, BehR", "0.7", "W2W 0.6"),
        ("Single-step EM, webshop, BehR", "0.2", "F1 0.1"),
    ]
    last = summary.headlines([], None, {"single_step": table("method", "em")})
    assert [(card["label"], card["value"]) for card in last] == [("Single-step EM, F1", "0.1")]


def test_headline_says_when_the_interval_holds_zero() -> None:
    boot = {**STATS["bootstrap"]["w2w"], "ci": [-0.02, 0.1]}
    cards = summary.headlines([], {**STATS, "bootstrap": {"w2w": boot}}, {})
    assert any("includes 0: no difference shown" in card["note"] for card in cards)
    assert any("95 % interval over tasks and cells" in card["note"] for card in cards)
    few = summary.headlines([], {**STATS, "n_cells": 4}, {})
    assert any("excludes 0; only 4 cells" in card["note"] for card in few)


@pytest.mark.parametrize(
    "body",
    [
        "<script>x</script>",
        '<rect onload="x()"/>',
        '<a xlink:href="https://example.org">x</a>',
        "<foreignObject></foreignObject>",
        '<use href="other.svg#x"/>',
    ],
)
def test_active_svg_is_refused(body: str, tmp_path: Path) -> None:
    path = tmp_path / "x.svg"
    path.write_text(f'<svg width="10pt" viewBox="0 0 1 1">{body}</svg>')
    with pytest.raises(InputError, match="active content"):
        svg.inline(path, "f")


def test_svg_ids_are_prefixed(tmp_path: Path) -> None:
    path = tmp_path / "x.svg"
    path.write_text(
        '<?xml version="1.0"?><svg width="10pt" height="5pt"><g id="a"/><use xlink:href="#a" clip-path="url(#c)"/></svg>'
    )
    text = svg.inline(path, "f")
    assert 'id="f-a"' in text and 'href="#f-a"' in text and "url(#f-c)" in text and "height=" not in text


def test_paths_below_the_study(tmp_path: Path) -> None:
    study = tmp_path / "demo"
    study.mkdir()
    assert trace.below(str(study / "a/b.json"), study) == "a/b.json"
    assert trace.below("/elsewhere/results/demo/a/b.json", study) == "a/b.json"
    assert trace.below("/home/someone/secret/x.json", study) == "…/x.json"
    assert trace.anchor_of("a/b_c") != trace.anchor_of("a/b-c")


def episode(actions: list[str], seen: list[str], **changes: object) -> dict[str, object]:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": seen[0]}]
    for action, state in zip(actions, seen[1:], strict=True):
        messages += [{"role": "assistant", "content": action}, {"role": "user", "content": state}]
    base = {"item_id": "t", "actions": actions, "messages": messages, "success": False, "status": "finished"}
    return {**base, "n_steps": len(actions), "error": None, **changes}


def test_alignment_marks_both_divergences() -> None:
    real = episode(["look", "go east", "take x"], ["o", "1", "2", "3 [SUCCESS]"], success=True)
    wm = episode(["Look", "go  east", "drop x"], ["o", "1", "wrong", "3"])
    w2r = episode(["Look", "go  east", "drop x"], ["o", "1", "2", "3"])
    aligned = viewer.align(Identity("d", "b", "m", 0, "a"), "lost on replay", real, wm, w2r)
    assert [line.step for line in aligned.lines if line.agent_parts] == [3]
    assert [line.step for line in aligned.lines if line.state_parts] == [2]
    assert aligned.outcomes[0] == "success, ended after 3 steps"


def test_steps_of_an_episode_without_its_last_observation() -> None:
    whole = episode(["a", "b"], ["o", "1", "2"])
    cut = {**whole, "messages": list(whole["messages"])[:-1]}  # type: ignore[call-overload]
    assert viewer.steps_of(cut) == ("o", [("a", "1"), ("b", None)])
    assert viewer.steps_of(whole) == ("o", [("a", "1"), ("b", "2")])


def test_choice_takes_one_of_each_kind() -> None:
    def runs(outcomes: str) -> dict[str, dict[str, bool]]:
        return {str(i): {"success": mark == "1"} for i, mark in enumerate(outcomes)}

    chosen = viewer.choose(runs("11100"), runs("11110"), runs("11000"), 3)
    assert chosen == [("2", "lost on replay"), ("3", "won in the world model only"), ("0", "preserved")]
    assert viewer.choose(runs("1"), runs("1"), {}, 3) == []
