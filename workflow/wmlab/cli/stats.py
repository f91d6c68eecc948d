"""``wmlab stats``: tests over cells, McNemar's test on paired tasks, rank correlation over agents."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(help="Paired tests of world models over cells and tasks.", no_args_is_help=True)

STREAM = Path("-")


def _names(text: str) -> list[str]:
    """A comma-separated list without blanks."""
    return [name.strip() for name in text.split(",") if name.strip()]


@app.command()
def cells(
    input: Annotated[
        Path, typer.Option(help="cells.csv (wide or long) or cells.parquet; - is standard input.")
    ],
    methods: Annotated[
        str, typer.Option(help="Methods to compare, comma-separated, as the table spells them.")
    ],
    target: Annotated[str, typer.Option(help="The method that is tested against each other one.")],
    out: Annotated[Path, typer.Option(help="Where the statistics go (JSON); - is standard output.")],
    metric: Annotated[str, typer.Option(help="Value column of a long table; higher is better.")] = "CR_pw",
    seed: Annotated[int, typer.Option(min=0, help="Seed of every bootstrap.")] = 0,
    resamples: Annotated[int, typer.Option(min=1, help="Bootstrap resamples.")] = 10_000,
    alpha: Annotated[float, typer.Option(help="Level of intervals and of Nemenyi's test.")] = 0.05,
    seeds: Annotated[str, typer.Option(help="Training seeds: mean (average first) or separate.")] = "mean",
    cell_columns: Annotated[str, typer.Option(help="Columns that name a cell, comma-separated.")] = "",
    method_column: Annotated[
        str, typer.Option(help="Column of a long table that names the method.")
    ] = "method",
    tasks: Annotated[
        list[Path] | None, typer.Option(help="cell.json files: adds the two-level bootstrap.")
    ] = None,
    more: Annotated[list[Path] | None, typer.Argument(help="More cell.json files after --tasks.")] = None,
) -> None:
    """Sign, Friedman, Nemenyi, paired bootstrap, Holm and effect sizes over cells.

    Example: wmlab stats cells --input cells.csv --methods w2w,f1,em,behr --target behr --out stats.json
    """
    from wmlab.errors import InputError
    from wmlab.io.atomic import write_json
    from wmlab.io.provenance import write_meta
    from wmlab.stats.cells import load_cells
    from wmlab.stats.report import cells_report
    from wmlab.stats.tasks import load_tasks

    started = time.time()
    if more and not tasks:
        raise InputError(f"unexpected argument {more[0]}; cell.json files follow --tasks")
    chosen = _names(methods)
    table = load_cells(
        input,
        chosen,
        metric=metric,
        cell_columns=_names(cell_columns),
        seeds=seeds,
        method_column=method_column,
    )
    files = [*(tasks or []), *(more or [])]
    loaded = load_tasks(files, metric) if files else None
    report = cells_report(table, target, seed=seed, resamples=resamples, alpha=alpha, tasks=loaded)
    if out == STREAM:
        print(json.dumps(report, ensure_ascii=False, allow_nan=False))
        return
    write_json(out, report)
    config = {
        "methods": chosen,
        "target": target,
        "metric": metric,
        "resamples": resamples,
        "alpha": alpha,
        "seeds": seeds,
    }
    inputs = [path for path in (input, *files) if path != STREAM]
    write_meta(out, config=config, seed=seed, inputs=inputs, started=started)
    wins = ", ".join(
        f"{name} {found['wins']}-{found['losses']}-{found['ties']} p={found['p']:.3g}"
        for name, found in report["sign"].items()
    )
    chi = report["friedman"]
    left = f", {report['n_dropped']} dropped" if report["n_dropped"] else ""
    print(
        f"{out}: {report['n_cells']} cells{left}, Friedman {chi['statistic']:.2f} p={chi['p']:.3g}, "
        f"{target} wins-losses-ties against {wins}"
    )


def _finish(
    out: Path | None, result: dict[str, Any], headline: str, inputs: list[Path], started: float
) -> None:
    """Write a small result to a file with its headline, or print it as one JSON line."""
    from wmlab.io.atomic import write_json
    from wmlab.io.provenance import write_meta

    if out is None or out == STREAM:
        print(json.dumps(result, ensure_ascii=False, allow_nan=False))
        return
    write_json(out, result)
    files = [path for path in inputs if path != STREAM]
    write_meta(out, config={}, seed=result.get("seed"), inputs=files, started=started)
    print(f"{out}: {headline}")


@app.command()
def mcnemar(
    input: Annotated[Path | None, typer.Option(help="CSV, a row a task; - is standard input.")] = None,
    a: Annotated[
        str | None, typer.Option(help="Column with the first method's successes (0/1, true/false).")
    ] = None,
    b: Annotated[str | None, typer.Option(help="Column with the second method's successes.")] = None,
    counts: Annotated[
        tuple[int, int] | None, typer.Option(help="Discordant counts: first only, second only.")
    ] = None,
    method: Annotated[str, typer.Option(help="Test that gives 'p': exact, corrected or plain.")] = "exact",
    out: Annotated[Path | None, typer.Option(help="JSON file; without it the result is printed.")] = None,
) -> None:
    """McNemar's test on paired task successes: exact binomial, corrected and plain chi-square.

    Example: wmlab stats mcnemar --counts 10 3
    """
    from wmlab.errors import InputError
    from wmlab.stats import mcnemar as test

    started = time.time()
    n: int | None = None
    if counts is not None and input is None:
        first, second = counts
    elif counts is None and input is not None and a is not None and b is not None:
        left, right = _outcomes(input, a, b)
        n = len(left)
        first, second = test.discordant(left, right)
    else:
        raise InputError("give either --counts B C, or --input pairs.csv with --a COL and --b COL")
    chosen = test.mcnemar(first, second, method)
    results = {name: asdict(test.mcnemar(first, second, name)) for name in test.METHODS}
    result = {
        "schema": 1,
        "b": first,
        "c": second,
        "n": n,
        "method": method,
        "p": chosen.p,
        **{name: {"statistic": found["statistic"], "p": found["p"]} for name, found in results.items()},
    }
    headline = f"McNemar ({method}) b={first} c={second} p={chosen.p:.4g}"
    _finish(out, result, headline, [input] if input else [], started)


def _outcomes(path: Path, a: str, b: str) -> tuple[list[bool], list[bool]]:
    """Two success columns of a CSV. Raises InputError for an unknown column or a value that is no truth."""
    from wmlab.errors import InputError
    from wmlab.stats.cells import near, read_rows

    truth = {"1": True, "true": True, "1.0": True, "0": False, "false": False, "0.0": False}
    rows = read_rows(path)
    sides: list[list[bool]] = []
    for column in (a, b):
        if column not in rows[0]:
            raise InputError.at(path, f"no column '{column}'", near(column, list(rows[0])))
        values = [str(row[column]).strip().casefold() for row in rows]
        wrong = next((place for place, value in enumerate(values) if value not in truth), None)
        if wrong is not None:
            fix = "write 0 or 1; a missing episode is a failure, 0"
            raise InputError.at(path, f"column '{column}' holds {rows[wrong][column]!r}", fix, wrong + 2)
        sides.append([truth[value] for value in values])
    return sides[0], sides[1]


@app.command()
def spearman(
    input: Annotated[Path, typer.Option(help="CSV, a row an agent; - is standard input.")],
    x: Annotated[str, typer.Option(help="First column, e.g. SR_Real.")],
    y: Annotated[str, typer.Option(help="Second column, e.g. SR_WM.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the bootstrap over agents.")] = 0,
    resamples: Annotated[int, typer.Option(min=1, help="Bootstrap resamples.")] = 10_000,
    out: Annotated[Path | None, typer.Option(help="JSON file; without it the result is printed.")] = None,
) -> None:
    """Tie-aware Spearman correlation of two columns with a bootstrap interval over agents.

    Example: wmlab stats spearman --input agents.csv --x SR_Real --y SR_WM
    """
    from wmlab.errors import InputError
    from wmlab.stats.cells import near, number, read_rows
    from wmlab.stats.correlation import spearman as correlate

    started = time.time()
    rows = read_rows(input)
    sides: list[list[float]] = []
    for column in (x, y):
        if column not in rows[0]:
            raise InputError.at(input, f"no column '{column}'", near(column, list(rows[0])))
        values = []
        for place, row in enumerate(rows, start=2):
            value = number(row[column], input, place, column)
            if value is None:
                raise InputError.at(
                    input, f"column '{column}' is empty", "fill it or remove the agent", place
                )
            values.append(value)
        sides.append(values)
    found = correlate(sides[0], sides[1], seed=seed, resamples=resamples)
    shown = "null" if found.rho is None else f"{found.rho:.3f}"
    result = {"schema": 1, "x": x, "y": y, **asdict(found)}
    _finish(out, result, f"Spearman rho {shown} over {found.n} agents", [input], started)


@app.command()
def planning(
    real: Annotated[Path, typer.Option(help="Real episodes of the agent without planning.")],
    plan: Annotated[Path, typer.Option(help="Episodes of `wmlab rollout plan`.")],
    panel: Annotated[Path, typer.Option(help="Frozen task list.")],
    out: Annotated[Path, typer.Option(help="Where the comparison goes (JSON).")],
    planner: Annotated[str, typer.Option(help="Name of the planner in tables.")],
    limit: Annotated[int | None, typer.Option(min=1, help="Only the panel's first tasks.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the interval.")] = 0,
) -> None:
    """Compare an agent that plans with itself without planning, task by task.

    Example: wmlab stats planning --real real.jsonl --plan plan.jsonl --panel panel.json --planner lookahead
    --out gain.json
    """
    import time

    from wmlab.domains.panels import read_panel
    from wmlab.io.atomic import write_json
    from wmlab.io.provenance import write_meta
    from wmlab.metrics.episodes import read_episodes
    from wmlab.metrics.planning import planning_gain

    started = time.time()
    tasks = [task.task_id for task in read_panel(panel)][:limit]
    planned = read_episodes(plan, "real")
    found = planning_gain(tasks, read_episodes(real, "real"), planned, plan, seed)
    model = planned[0].model_id if planned else None
    write_json(out, {"schema": 1, "planner": planner, "world_model": model, **found})
    write_meta(
        out,
        config={"planner": planner, "limit": limit},
        seed=seed,
        inputs=[real, plan, panel],
        started=started,
    )
    print(f"{out}: SR {found['SR_plan']:.3f}, without planning {found['SR_base']:.3f}, n = {found['n']}")
