"""``wmlab data``: corpora, decomposition into transitions, the difficulty filter, the verl export."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Corpora, transitions, difficulty filter and verl export.", no_args_is_help=True)

Out = Annotated[Path, typer.Option("--out", help="File to write.")]
Domain = Annotated[str, typer.Option("--domain", help="Domain, e.g. textworld or webshop.")]


@app.command("import")
def import_(
    corpus: Annotated[Path, typer.Option("--corpus", help="Word2World JSON array.")],
    domain: Domain,
    out: Out,
    split: Annotated[str, typer.Option("--split", help="Split written to each row.")] = "train",
    report: Annotated[Path | None, typer.Option("--report", help="JSON counts of what was changed.")] = None,
) -> None:
    """Read an upstream corpus into trajectories.

    Example: wmlab data import --corpus textworld_train.json --domain textworld --out trajectories.parquet
    """
    from wmlab.data.corpora import ImportReport, import_corpus
    from wmlab.io.atomic import write_json
    from wmlab.io.provenance import write_meta
    from wmlab.io.tables import write_rows

    started = time.time()
    counts = ImportReport()
    n = write_rows(out, "trajectories", import_corpus(corpus, domain, split, counts))
    config = {"domain": domain, "split": split}
    write_meta(
        out, config=config, seed=None, inputs=[corpus], started=started, extra={"import": counts.as_dict()}
    )
    if report is not None:
        write_json(report, counts.as_dict())
    cut = sum(counts.trajectories_cut.values())
    dropped = sum(counts.trajectories_dropped.values())
    print(f"{out}: {n} trajectories, {counts.steps_out} steps ({cut} cut, {dropped} dropped)")


@app.command("export")
def export(
    trajectories: Annotated[Path, typer.Option("--trajectories", help="trajectories.parquet")],
    out: Out,
) -> None:
    """Write trajectories as an upstream corpus (one JSON array).

    Example: wmlab data export --trajectories trajectories.parquet --out corpus.json
    """
    from wmlab.data.corpora import export_corpus
    from wmlab.io.provenance import write_meta
    from wmlab.io.tables import read_rows

    started = time.time()
    n = export_corpus(out, read_rows(trajectories, "trajectories"), trajectories)
    write_meta(out, config={}, seed=None, inputs=[trajectories], started=started)
    print(f"{out}: {n} trajectories")


@app.command("decompose")
def decompose(
    trajectories: Annotated[Path, typer.Option("--trajectories", help="trajectories.parquet")],
    out: Out,
) -> None:
    """Cut trajectories into transitions, one row a step.

    Example: wmlab data decompose --trajectories trajectories.parquet --out transitions.parquet
    """
    from wmlab.data.decompose import transitions
    from wmlab.io.provenance import write_meta
    from wmlab.io.tables import read_rows, write_rows

    started = time.time()
    rows = transitions(read_rows(trajectories, "trajectories"), trajectories)
    n = write_rows(out, "transitions", rows)
    write_meta(out, config={}, seed=None, inputs=[trajectories], started=started)
    print(f"{out}: {n} transitions")


@app.command("filter")
def filter_(
    transitions: Annotated[Path, typer.Option("--transitions", help="transitions.parquet")],
    predictions: Annotated[Path, typer.Option("--predictions", help="Greedy predictions of the SFT model.")],
    domain: Domain,
    out: Out,
    report: Annotated[Path, typer.Option("--report", help="JSON report per action type.")],
    budget: Annotated[int | None, typer.Option("--budget", min=0, help="Transitions to keep.")] = None,
    order: Annotated[
        str, typer.Option("--order", help="hardest or random, within an action type.")
    ] = "hardest",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the random order.")] = 0,
    exclude_panel: Annotated[
        list[Path] | None, typer.Option("--exclude-panel", help="Panel whose tasks are held out; repeatable.")
    ] = None,
    sampled: Annotated[
        bool, typer.Option("--sampled", help="The predictions are a draw; count the other transitions.")
    ] = False,
) -> None:
    """Keep the transitions that are worth training on.

    Example: wmlab data filter --transitions transitions.parquet --predictions baseline.parquet
    --domain textworld --budget 6000 --exclude-panel test.json --out hard.parquet --report report.json
    """
    from typing import cast

    from wmlab.data import filter as difficulty
    from wmlab.io.atomic import write_json
    from wmlab.io.provenance import write_meta
    from wmlab.io.tables import read_rows, write_rows

    started = time.time()
    panels = exclude_panel or []
    baseline = difficulty.predictions_by_id(read_rows(predictions, "predictions"), predictions)
    selection = difficulty.select(
        read_rows(transitions, "transitions"),
        baseline,
        domain=domain,
        budget=budget,
        order=cast(difficulty.Order, order),
        seed=seed,
        excluded=difficulty.panel_hashes(panels),
        source=transitions,
        sampled=sampled,
    )
    n = write_rows(out, "transitions", difficulty.keep(read_rows(transitions, "transitions"), selection.kept))
    write_json(report, selection.report)
    config = {"domain": domain, "budget": budget, "order": order}
    write_meta(out, config=config, seed=seed, inputs=[transitions, predictions, *panels], started=started)
    print(f"{out}: kept {n} of {selection.report['n_in']} transitions; reasons in {report}")


@app.command("verl")
def verl(
    transitions: Annotated[Path, typer.Option("--transitions", help="transitions.parquet")],
    out: Out,
    include_terminal: Annotated[
        bool, typer.Option("--include-terminal", help="Keep rows without a next action.")
    ] = False,
) -> None:
    """Write transitions as verl training rows.

    Example: wmlab data verl --transitions hard.parquet --out grpo_train.parquet
    """
    from wmlab.data.verl import write_verl
    from wmlab.io.provenance import write_meta
    from wmlab.io.tables import read_rows

    started = time.time()
    rows = read_rows(transitions, "transitions")
    counts = write_verl(out, rows, source=transitions, include_terminal=include_terminal)
    config = {"include_terminal": include_terminal}
    write_meta(
        out, config=config, seed=None, inputs=[transitions], started=started, extra={"rows": dict(counts)}
    )
    left_out = counts["without_next_action"]
    print(f"{out}: {counts['written']} rows ({left_out} without a next action left out)")


@app.command()
def collect(
    panel: Annotated[Path, typer.Option("--panel", help="panel.json: the games to play.")],
    out: Out,
    recipe: Annotated[
        str, typer.Option("--recipe", help="JSON, or a JSON file: noise, lengths, counts.")
    ] = "{}",
    demonstrations: Annotated[
        Path | None, typer.Option("--demonstrations", help="Also play expert demonstrations into this file.")
    ] = None,
    cache: Annotated[Path, typer.Option("--cache", help="Folder of generated games.")] = Path(
        "results/cache"
    ),
    workers: Annotated[int, typer.Option("--workers", min=1, help="Environment processes.")] = 2,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the behaviour.")] = 0,
) -> None:
    """Play the panel's games in the real environment: expert, exploring and noisy behaviour.

    Example: wmlab data collect --panel train.json --out trajectories.parquet --demonstrations demos.parquet
    """
    from wmlab.config.recipes import CollectRecipe, load_recipe
    from wmlab.data.collect import collect as play
    from wmlab.data.collect import demonstrate
    from wmlab.domains.panels import panel_domain, panel_split, read_panel
    from wmlab.io.provenance import write_meta
    from wmlab.io.tables import write_table

    started = time.time()
    settings = load_recipe(CollectRecipe, recipe)
    tasks = read_panel(panel)
    backend = panel_domain(panel, cache)
    rows = play(backend, tasks, panel_split(panel), settings, workers, seed)
    write_table(out, "trajectories", rows)
    config = settings.model_dump(mode="json")
    write_meta(out, config=config, seed=seed, inputs=[panel], started=started)
    if demonstrations is not None:
        shown = demonstrate(backend, tasks, settings, workers, seed)
        write_table(demonstrations, "demonstrations", shown)
        write_meta(demonstrations, config=config, seed=seed, inputs=[panel], started=started)
    won = sum(row["success"] for row in rows)
    lost = sum(row["steps"][-1]["done"] and not row["success"] for row in rows)
    print(
        f"{out}: {len(rows)} trajectories, {sum(len(r['steps']) for r in rows)} steps, {won} won, {lost} lost"
    )
