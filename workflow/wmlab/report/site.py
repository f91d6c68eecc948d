"""Write the study's report: one ``index.html`` and, beside it, ``episodes.html``. No scripts, no network.

Both are made from files only. Text from models, agents and files is escaped by the template engine; figures are
inlined after a check that they hold nothing active.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wmlab import __version__
from wmlab.errors import InputError
from wmlab.io.atomic import write_text
from wmlab.report import summary, svg, trace, viewer
from wmlab.report.contents import FIGURES, TABLES
from wmlab.report.inputs import Loaded, load_cells, read_object
from wmlab.report.labels import method_label

_CONFIGS = ("config.yaml", "config.yml", "config.json")


@dataclass(frozen=True)
class Inputs:
    """Where the parts of a report are; None where the study has no such file."""

    study: Path
    tables: Path
    figures: Path
    cells: tuple[Path, ...]
    stats: Path | None
    config: Path | None


def locate(
    study: Path,
    tables: Path | None = None,
    figures: Path | None = None,
    cells: Sequence[Path] = (),
    stats: Path | None = None,
    config: Path | None = None,
) -> Inputs:
    """Fill what was not given from the result tree. Raises InputError when the study or its tables are missing."""
    if not study.is_dir():
        raise InputError.at(study, "no such study folder", "give results/STUDY")
    folder = tables or study / "tables"
    if not list(folder.glob("*.json")):
        raise InputError.at(folder, "no rendered tables", "run `wmlab report tables` first")
    default_cells = study / "stats" / "cells.parquet"
    found_cells = tuple(cells) or ((default_cells,) if default_cells.is_file() else ())
    default_stats = study / "stats" / "stats.json"
    default_config = next((study / name for name in _CONFIGS if (study / name).is_file()), None)
    return Inputs(
        study=study,
        tables=folder,
        figures=figures or study / "figures",
        cells=found_cells,
        stats=stats or (default_stats if default_stats.is_file() else None),
        config=config or default_config,
    )


def load_tables(folder: Path) -> dict[str, dict[str, Any]]:
    """Rendered tables by name, known ones first. Raises InputError for a JSON file that is not a table."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        if path.name.endswith(trace.SUFFIX):
            continue
        value = read_object(path)
        if not {"name", "title", "columns", "rows", "footnotes"} <= set(value):
            raise InputError.at(path, "not a rendered table", "move it away or make the tables again")
        found[str(value["name"])] = value
    return {name: found[name] for name in _ordered(list(found), TABLES)}


def _ordered(names: Sequence[str], order: Sequence[str]) -> list[str]:
    return [*(n for n in order if n in names), *sorted(n for n in names if n not in order)]


def load_figures(folder: Path) -> list[dict[str, Any]]:
    """Inline SVGs with captions and the names of the files beside them."""
    paths = {path.stem: path for path in folder.glob("*.svg")} if folder.is_dir() else {}
    figures = []
    for name in _ordered(list(paths), FIGURES):
        caption = folder / f"{name}.caption.txt"
        meta = folder / f"{name}{trace.SUFFIX}"
        inputs = list(read_object(meta).get("inputs", {})) if meta.is_file() else []
        figures.append(
            {
                "name": name,
                "svg": svg.inline(paths[name], f"fig-{name}"),
                "caption": caption.read_text(encoding="utf-8").strip() if caption.is_file() else name,
                "sources": inputs,
            }
        )
    return figures


def filter_reports(study: Path) -> list[dict[str, Any]]:
    """Data filter reports as plain lines and tables, whatever their keys."""
    reports = []
    for path in sorted(study.glob("filter/*/*/report.json")):
        value = read_object(path)
        flat = [(key, _plain(item)) for key, item in value.items() if not isinstance(item, dict | list)]
        nested = [(key, *_grid(item)) for key, item in value.items() if isinstance(item, dict) and item]
        listed = [
            (key, ", ".join(map(str, item))) for key, item in value.items() if isinstance(item, list) and item
        ]
        reports.append({"path": str(path), "flat": flat + listed, "nested": nested})
    return reports


def _grid(section: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """An object of objects as a table, an object of values as two columns."""
    columns = list(dict.fromkeys(k for item in section.values() if isinstance(item, dict) for k in item))
    if not columns:
        return ["", "value"], [[key, _plain(item)] for key, item in section.items()]
    rows = []
    for key, item in section.items():
        fields = item if isinstance(item, dict) else {columns[0]: item}
        rows.append([key, *(_plain(fields.get(column, "")) for column in columns)])
    return ["", *columns], rows


def _plain(value: Any) -> str:
    """A value of a report as text; an object inside a cell becomes ``name value`` pairs."""
    if value is None:
        return "–"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def build(inputs: Inputs, out: Path, title: str | None = None, per_cell: int = 3) -> dict[str, Any]:
    """Write ``out`` and ``episodes.html`` beside it; return the headline counts."""
    tables = load_tables(inputs.tables)
    figures = load_figures(inputs.figures)
    cells: list[Loaded] = load_cells([str(path) for path in inputs.cells])
    stats = read_object(inputs.stats) if inputs.stats is not None else None
    reports = filter_reports(inputs.study)
    sources = [source for table in tables.values() for row in table["rows"] for source in row["sources"]]
    sources += [source for figure in figures for source in figure["sources"]]
    sources += [report["path"] for report in reports]
    sources += [str(path) for path in (*inputs.cells, inputs.stats) if path is not None]
    entries = trace.collect(inputs.study, sources)

    def link(source: str) -> trace.Entry:
        return entries[trace.below(source, inputs.study)]

    name = inputs.study.resolve().name
    environment = _environment()
    common = {"title": title or f"Study {name}", "study": name, "version": __version__, "label": method_label}
    chosen, left_out = viewer.gather(inputs.study, per_cell) if per_cell else ([], 0)
    episodes_page = out.with_name("episodes.html")
    page = environment.get_template("index.html.j2").render(
        **common,
        cards=summary.headlines(cells, stats, tables),
        design=summary.design(cells),
        power=summary.sample_size(cells, stats),
        config=inputs.config.read_text(encoding="utf-8") if inputs.config else None,
        tables=list(tables.values()),
        not_made=[known for known in TABLES if known not in tables],
        figures=figures,
        reports=reports,
        stages=trace.by_stage(entries),
        link=link,
        episodes=len(chosen),
        episodes_page=episodes_page.name,
    )
    write_text(out, page)
    if chosen:
        text = environment.get_template("episodes.html.j2").render(
            **common, groups=viewer.groups(chosen), left_out=left_out, index=out.name
        )
        write_text(episodes_page, text)
    return {
        "tables": len(tables),
        "figures": len(figures),
        "cells": len(cells),
        "files": len(entries),
        "episodes": len(chosen),
        "bytes": len(page.encode()),
    }


def _environment() -> Any:
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("wmlab", "resources/report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Only the stylesheet and checked SVG are inserted as they are.
    environment.globals["trusted"] = Markup
    environment.globals["css"] = Markup(environment.get_template("style.css").render())
    return environment
