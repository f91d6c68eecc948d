"""``wmlab eval``: task-level consistency of a world model, and the table that gathers its cells."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(help="Consistency of Real, WM and W2R episodes over a frozen panel.", no_args_is_help=True)


@app.command()
def consistency(
    real: Annotated[Path, typer.Option(help="Real episodes: our episodes.jsonl or an upstream folder.")],
    w2r: Annotated[
        Path, typer.Option(help="W2R replays: jsonl, upstream folder, or the WM folder that holds it.")
    ],
    panel: Annotated[Path, typer.Option(help="Frozen task list; its size is the denominator.")],
    out: Annotated[Path, typer.Option(help="Where the cell goes (JSON); - is standard output.")],
    wm: Annotated[Path | None, typer.Option(help="WM episodes: jsonl or upstream folder.")] = None,
    floor: Annotated[Path | None, typer.Option(help="Real-to-Real replay of the Real actions.")] = None,
    allow_incomplete: Annotated[bool, typer.Option(help="Count missing episodes as failures.")] = False,
    allow_content_mismatch: Annotated[
        bool, typer.Option(help="Accept Real episodes that started from another text than the panel's.")
    ] = False,
    domain: Annotated[str | None, typer.Option(help="Identity of the cell; default: the panel's.")] = None,
    backbone: Annotated[str | None, typer.Option(help="Identity: world-model backbone.")] = None,
    method: Annotated[str | None, typer.Option(help="Identity: w2w, behr, f1, em, …")] = None,
    agent: Annotated[str | None, typer.Option(help="Identity; default: the Real episodes' agent.")] = None,
    seed: Annotated[int | None, typer.Option(help="Identity: training seed.")] = None,
    step_cap: Annotated[
        int, typer.Option(min=1, help="Step cap of upstream folders, which do not record it.")
    ] = 50,
    real_step_cap: Annotated[
        int | None, typer.Option(min=1, help="The same for Real, where it differs.")
    ] = None,
    bootstrap_seed: Annotated[int, typer.Option(min=0, help="Seed of the interval of CR.")] = 0,
) -> None:
    """Compute CR, CR_pw, calibration, steps and failure modes of one cell.

    Example: wmlab eval consistency --real real.jsonl --w2r w2r.jsonl --wm wm.jsonl --panel panel.json --out cell.json
    """
    from wmlab.domains.panels import read_panel
    from wmlab.errors import InputError
    from wmlab.io.atomic import write_json
    from wmlab.io.provenance import write_meta
    from wmlab.metrics import consistency as metric
    from wmlab.metrics.episodes import read_episodes

    started = time.time()
    tasks = read_panel(panel)
    ids = [task.task_id for task in tasks]
    sources = {
        "Real": (real, ("real",)),
        "W2R": (w2r, ("w2r",)),
        "WM": (wm, ("wm",)),
        "floor": (floor, ("real", "w2r")),
    }
    runs: dict[str, dict[str, Any]] = {}
    players: dict[str, set[str]] = {}
    for name, (path, modes) in sources.items():
        if path is not None:
            cap = real_step_cap or step_cap if name == "Real" else step_cap
            episodes = read_episodes(path, *modes, step_cap=cap)
            runs[name] = metric.by_task(ids, episodes, str(path))
            players[name] = {episode.agent_id for episode in episodes} - {""}
    played = sorted(set().union(*(found for name, found in players.items() if name != "floor")))
    if len(played) > 1:
        raise InputError(
            f"episodes of {len(played)} agents ({', '.join(played)}) were given; compare one agent's runs"
        )
    mismatched = metric.content_mismatches(tasks, runs["Real"])
    if mismatched and not allow_content_mismatch:
        first = ", ".join(mismatched[: metric.NAMED_IDS])
        raise InputError.at(
            real,
            f"{len(mismatched)} tasks have other content than in {panel} ({first})",
            "give the panel they ran on",
        )
    if not allow_incomplete:
        metric.check_complete(ids, {name: found for name, found in runs.items() if name != "floor"})
    identity = {
        "domain": domain or tasks[0].domain,
        "backbone": backbone,
        "method": method,
        "agent": agent or (played[0] if played else None),
        "seed": seed,
    }
    found = metric.compute_cell(
        ids, runs["Real"], runs["W2R"], runs.get("WM"), runs.get("floor"), seed=bootstrap_seed
    )
    cell = {"schema": 1, **identity, **found, "content_mismatches": mismatched}
    if str(out) == "-":
        print(json.dumps(cell, ensure_ascii=False, allow_nan=False))
        return
    write_json(out, cell)
    inputs = [panel, *(path for path, _ in sources.values() if path not in (None, Path("-")))]
    config = {
        **identity,
        "allow_incomplete": allow_incomplete,
        "step_cap": step_cap,
        "real_step_cap": real_step_cap,
    }
    write_meta(out, config=config, seed=bootstrap_seed, inputs=inputs, started=started)
    if cell["n_missing"]:
        print(
            f"warning: {cell['n_missing']} of {cell['n']} tasks lack an episode: counted as failures",
            file=sys.stderr,
        )
    if cell["n_error"]:
        print(
            f"warning: {cell['n_error']} of {cell['n']} tasks have an errored episode: counted as failures",
            file=sys.stderr,
        )
    shown = "null" if cell["CR_pw"] is None else f"{cell['CR_pw']:.3f}"
    print(
        f"{out}: CR_pw {shown} ({cell['both']}/{cell['both'] + cell['real_only']}), n {cell['n']}, errors {cell['n_error']}"
    )


@app.command()
def cells(
    input: Annotated[list[Path], typer.Option(help="A cell.json; repeat it or list more after it.")],
    out: Annotated[Path, typer.Option(help="cells.parquet; cells.csv is written beside it.")],
    more: Annotated[list[Path] | None, typer.Argument(help="More cell.json files.")] = None,
) -> None:
    """Gather cell.json files into one table, a row a cell.

    Example: wmlab eval cells --input a/cell.json b/cell.json --out cells.parquet
    """
    import csv
    import io

    from wmlab.errors import InputError
    from wmlab.io import schemas
    from wmlab.io.atomic import write_text
    from wmlab.io.provenance import write_meta
    from wmlab.io.tables import write_table
    from wmlab.stats.tasks import read_cell

    started = time.time()
    paths = [*input, *(more or [])]
    names = schemas.CELLS.names
    if out.suffix != ".parquet":
        raise InputError.at(out, "not a .parquet name", "name it cells.parquet; the CSV is written beside it")
    rows: list[dict[str, Any]] = []
    seen: dict[tuple[Any, ...], Path] = {}
    for path in paths:
        cell = read_cell(path)
        lacks = [name for name in names if name not in cell]
        if lacks:
            raise InputError.at(path, f"no {', '.join(lacks)}", "make it again with `wmlab eval consistency`")
        key = tuple(cell[name] for name in ("domain", "backbone", "method", "agent", "seed"))
        if key in seen:
            raise InputError.at(
                path, f"the same cell as {seen[key]} ({'/'.join(map(str, key))})", "give each cell once"
            )
        seen[key] = path
        rows.append(
            {name: cell[name] for name in names} | {"reasons": json.dumps(cell["reasons"], sort_keys=True)}
        )
    rows.sort(key=lambda row: [str(row[name]) for name in names[:4]] + [f"{row['seed']:09d}"])
    write_table(out, "cells", rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(out.with_suffix(".csv"), text.getvalue())
    for path in (out, out.with_suffix(".csv")):
        write_meta(path, config={}, seed=None, inputs=paths, started=started)
    known = [row["CR_pw"] for row in rows if row["CR_pw"] is not None]
    mean = f"mean CR_pw {sum(known) / len(known):.3f}" if known else "CR_pw null everywhere"
    print(f"{out}: {len(rows)} cells, {mean}, {len(rows) - len(known)} without CR_pw")
