"""``wmlab report``: tables, figures and the one-file site of a study."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

app = typer.Typer(help="Tables, figures and the report of a study.", no_args_is_help=True)

Perturb = Annotated[list[str] | None, typer.Option(help="summary.json files of `wmlab eval perturb`.")]
Gains = Annotated[list[str] | None, typer.Option(help="gain.json files of the methods with memory.")]
Stress = Annotated[Path | None, typer.Option(help="summary.json of `wmlab eval stress`.")]


class ListOptions(TyperCommand):
    """Let a repeatable option take several values in a row: ``--scores a b`` is ``--scores a --scores b``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before each further value, then parse as usual."""
        repeatable = {
            name for param in self.params if getattr(param, "multiple", False) for name in param.opts
        }
        expanded: list[str] = []
        current, filled = "", False
        for arg in args:
            if arg.startswith("--"):
                current = arg if arg in repeatable else ""
                filled = False
            elif current and filled:
                expanded.append(current)
            else:
                filled = True
            expanded.append(arg)
        return super().parse_args(ctx, expanded)


@app.command(cls=ListOptions)
def tables(
    out_dir: Annotated[Path, typer.Option(help="Folder for {name}.csv, .md, .tex and .json.")],
    scores: Annotated[
        list[str] | None, typer.Option(help="summary.json files, the copy baseline among them.")
    ] = None,
    cells: Annotated[
        list[str] | None,
        typer.Option(help="cells.parquet and/or cell.json files; only the latter hold intervals."),
    ] = None,
    stats: Annotated[Path | None, typer.Option(help="stats.json of `wmlab stats cells`.")] = None,
    heldout: Annotated[list[str] | None, typer.Option(help="heldout.json files of the GRPO runs.")] = None,
    removals: Annotated[
        list[str] | None, typer.Option(help="removal.json files of the memory-augmented models.")
    ] = None,
    gains: Gains = None,
    plans: Annotated[
        list[str] | None, typer.Option(help="gain.json files of `wmlab stats planning`.")
    ] = None,
    perturb: Perturb = None,
    stress: Stress = None,
    audit: Annotated[Path | None, typer.Option(help="audit.json of `wmlab eval audit`.")] = None,
    methods: Annotated[
        str, typer.Option(help="Methods that the result tables must hold, comma-separated.")
    ] = "",
    only: Annotated[
        str, typer.Option(help="Names of the tables to make, comma-separated; default all.")
    ] = "",
    allow_incomplete: Annotated[
        bool, typer.Option("--allow-incomplete", help="Render although episodes of a panel are missing.")
    ] = False,
) -> None:
    """Make the tables whose inputs are given: CSV, Markdown, booktabs LaTeX and JSON.

    Example: wmlab report tables --scores a/summary.json b/summary.json --cells cells.parquet --out-dir tables
    """
    from wmlab.report.making import make_tables

    started = time.time()
    made = make_tables(
        out_dir,
        scores=scores or [],
        cells=cells or [],
        stats=stats,
        heldout=heldout or [],
        removals=removals or [],
        gains=gains or [],
        plans=plans or [],
        perturb=perturb or [],
        stress=stress,
        audit=audit,
        methods=[name.strip() for name in methods.split(",") if name.strip()],
        only=[name.strip() for name in only.split(",") if name.strip()],
        allow_incomplete=allow_incomplete,
        started=started,
    )
    rows = sum(len(table.rows) for table in made)
    print(f"{out_dir}: {len(made)} tables, {rows} rows ({', '.join(table.name for table in made)})")


@app.command(cls=ListOptions)
def figures(
    out_dir: Annotated[Path, typer.Option(help="Folder for {name}.pdf, .svg, .csv and .caption.txt.")],
    curves: Annotated[list[str] | None, typer.Option(help="curves.jsonl files, SFT and GRPO.")] = None,
    cells: Annotated[
        list[str] | None,
        typer.Option(help="cells.parquet and/or cell.json files; only the latter hold intervals."),
    ] = None,
    stats: Annotated[Path | None, typer.Option(help="stats.json of `wmlab stats cells`.")] = None,
    episodes: Annotated[
        list[str] | None, typer.Option(help="Real episodes.jsonl and wm.jsonl files.")
    ] = None,
    gains: Gains = None,
    perturb: Perturb = None,
    stress: Stress = None,
    only: Annotated[
        str, typer.Option(help="Names of the figures to make, comma-separated; default all.")
    ] = "",
    png: Annotated[bool, typer.Option("--png", help="Write a PNG (200 dpi) too.")] = False,
) -> None:
    """Make the figures whose inputs are given: PDF, SVG and the CSV of the data.

    Example: wmlab report figures --curves a/curves.jsonl --cells cells.parquet --stats stats.json --out-dir figures
    """
    from wmlab.report.making import make_figures

    started = time.time()
    made = make_figures(
        out_dir,
        curves=curves or [],
        cells=cells or [],
        stats=stats,
        episodes=episodes or [],
        gains=gains or [],
        perturb=perturb or [],
        stress=stress,
        only=[name.strip() for name in only.split(",") if name.strip()],
        png=png,
        started=started,
    )
    points = sum(len(drawing.data) for drawing in made)
    print(
        f"{out_dir}: {len(made)} figures, {points} data rows ({', '.join(drawing.name for drawing in made)})"
    )


@app.command(cls=ListOptions)
def site(
    study_dir: Annotated[Path, typer.Option(help="Folder of the study: results/STUDY.")],
    out: Annotated[Path, typer.Option(help="The page; episodes.html is written beside it.")],
    tables: Annotated[Path | None, typer.Option(help="Rendered tables [STUDY/tables].")] = None,
    figures: Annotated[Path | None, typer.Option(help="Rendered figures [STUDY/figures].")] = None,
    cells: Annotated[
        list[Path] | None, typer.Option(help="cells.parquet or cell.json files [STUDY/stats/cells.parquet].")
    ] = None,
    stats: Annotated[Path | None, typer.Option(help="Statistics [STUDY/stats/stats.json].")] = None,
    config: Annotated[
        Path | None, typer.Option(help="Configuration to show [STUDY/config.yaml or .json].")
    ] = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    episodes_per_cell: Annotated[
        int, typer.Option(min=0, help="Episodes shown per agent and method; 0 leaves the viewer out.")
    ] = 3,
) -> None:
    """Write one self-contained HTML report with tables, figures and the provenance of every row.

    Example: wmlab report site --study-dir results/textworld --out results/textworld/report/index.html
    """
    from wmlab.io.provenance import write_meta
    from wmlab.report.site import build, locate

    started = time.time()
    inputs = locate(study_dir, tables, figures, cells or (), stats, config)
    found = build(inputs, out, title, episodes_per_cell)
    used = [*sorted(inputs.tables.glob("*.json")), *sorted(inputs.figures.glob("*.svg")), *inputs.cells]
    used += [path for path in (inputs.stats, inputs.config) if path is not None]
    write_meta(
        out,
        config={"episodes_per_cell": episodes_per_cell, "title": title},
        seed=None,
        inputs=used,
        started=started,
    )
    print(
        f"{out}: {found['tables']} tables, {found['figures']} figures, {found['cells']} cells, "
        f"{found['files']} traced files, {found['episodes']} episodes, {found['bytes'] / 1e6:.2f} MB"
    )
