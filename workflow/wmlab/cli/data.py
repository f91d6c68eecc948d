"""``wmlab data``: corpora, decomposition into transitions, the difficulty filter, the verl export."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from wmlab.cli.options import MemoryRecipeText

app = typer.Typer(help="Corpora, transitions, difficulty filter and verl export.", no_args_is_help=True)

Out = Annotated[Path, typer.Option("--out", help="File to write.")]
Domain = Annotated[str, typer.Option("--domain", help="Domain, e.g. textworld or webshop.")]


Options = Annotated[
    str, typer.Option("--options", help="JSON object of the domain's settings, kept in the panel.")
]
Format = Annotated[
    str, typer.Option("--format", help="Upstream's kind: corpus, init_contexts, task_list or episodes.")
]


@app.command("import")
def import_(
    corpus: Annotated[
        Path,
        typer.Option("--corpus", help="Upstream file (corpus, task list) or folder (contexts, episodes)."),
    ],
    domain: Domain,
    out: Out,
    format: Format = "corpus",
    split: Annotated[
        str | None, typer.Option("--split", help="Split written down; default train, for panels test.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Corpus: JSON counts of what was changed.")
    ] = None,
    mode: Annotated[str, typer.Option("--mode", help="Episodes: real, wm or w2r.")] = "real",
    step_cap: Annotated[
        int, typer.Option("--step-cap", min=1, help="Episodes: the cap they ran under; tells timeouts apart.")
    ] = 50,
    options: Options = "{}",
    cache: Annotated[Path, typer.Option("--cache", help="Task list: folder of generated games.")] = Path(
        "results/cache"
    ),
    workers: Annotated[int, typer.Option("--workers", min=1, help="Task list: environment processes.")] = 2,
) -> None:
    """Read upstream data: a corpus into trajectories, contexts or a task list into a panel, episodes into JSONL.

    Example: wmlab data import --corpus textworld_train.json --domain textworld --out trajectories.parquet
    """
    from wmlab.data import exchange
    from wmlab.domains.registry import parse_options

    kind = exchange.check_format(format)
    if kind == "corpus":
        print(exchange.import_corpus_file(corpus, domain, split or "train", out, report))
    elif kind == "episodes":
        print(exchange.import_episodes(corpus, mode, step_cap, out))
    elif kind == "init_contexts":
        print(exchange.import_contexts(corpus, domain, split or "test", parse_options(options), out))
    else:
        settings = parse_options(options)
        print(exchange.import_task_list(corpus, domain, split or "test", settings, out, cache, workers))


@app.command("export")
def export(
    out: Annotated[Path, typer.Option("--out", help="File (corpus, task list) or folder to write.")],
    trajectories: Annotated[
        Path | None, typer.Option("--trajectories", help="trajectories.parquet, for a corpus.")
    ] = None,
    format: Format = "corpus",
    panel: Annotated[
        Path | None, typer.Option("--panel", help="panel.json, for init_contexts or task_list.")
    ] = None,
    episodes: Annotated[
        Path | None, typer.Option("--episodes", help="episodes.jsonl of one mode, for episodes.")
    ] = None,
    wm: Annotated[Path | None, typer.Option("--wm", help="WM episodes that the W2R episodes replay.")] = None,
) -> None:
    """Write our data in upstream's layouts.

    Example: wmlab data export --trajectories trajectories.parquet --out corpus.json
    """
    from wmlab.data import exchange
    from wmlab.errors import InputError

    kind = exchange.check_format(format)
    needs = {"corpus": "trajectories", "episodes": "episodes"}.get(kind, "panel")
    given = {"trajectories": trajectories, "panel": panel, "episodes": episodes}[needs]
    if given is None:
        raise InputError(f"data export: --format {kind} needs --{needs}; give it")
    if kind == "corpus":
        print(exchange.export_trajectories(given, out))
    elif kind == "init_contexts":
        print(exchange.export_contexts(given, out))
    elif kind == "task_list":
        print(exchange.export_task_list(given, out))
    else:
        print(exchange.export_episodes(given, wm, out))


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
    max_f1: Annotated[
        float | None,
        typer.Option(
            "--max-f1",
            min=0,
            max=1,
            help="Keep only lower token F1; default: the domain's rule (WebShop .35).",
        ),
    ] = None,
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
        max_f1=max_f1,
        seed=seed,
        excluded=difficulty.panel_hashes(panels),
        source=transitions,
        sampled=sampled,
    )
    n = write_rows(out, "transitions", difficulty.keep(read_rows(transitions, "transitions"), selection.kept))
    write_json(report, selection.report)
    config = {"domain": domain, "budget": budget, "order": order, "max_f1": max_f1}
    write_meta(out, config=config, seed=seed, inputs=[transitions, predictions, *panels], started=started)
    print(f"{out}: kept {n} of {selection.report['n_in']} transitions; reasons in {report}")


@app.command("verl")
def verl(
    transitions: Annotated[Path, typer.Option("--transitions", help="transitions.parquet")],
    out: Out,
    include_terminal: Annotated[
        bool, typer.Option("--include-terminal", help="Keep rows without a next action.")
    ] = False,
    memory: Annotated[
        Path | None, typer.Option("--memory", help="Bank whose blocks the prompts are shown.")
    ] = None,
    memory_recipe: MemoryRecipeText = "{}",
    tokenizer: Annotated[
        Path | None, typer.Option("--tokenizer", help="Folder; without it 4 characters are a token.")
    ] = None,
) -> None:
    """Write transitions as verl training rows.

    Example: wmlab data verl --transitions hard.parquet --out grpo_train.parquet
    """
    from itertools import islice

    from wmlab.data.verl import write_verl
    from wmlab.io.provenance import write_meta
    from wmlab.io.tables import read_rows
    from wmlab.lm.tokenizer import load_tokenizer
    from wmlab.memory.context import open_memory

    started = time.time()
    first = list(islice(read_rows(transitions, "transitions"), 1))
    counting = load_tokenizer(tokenizer) if tokenizer is not None else None
    world = open_memory(memory, memory_recipe, first, transitions, counting)
    rows = read_rows(transitions, "transitions")
    counts = write_verl(out, rows, source=transitions, include_terminal=include_terminal, memory=world)
    config = {"include_terminal": include_terminal, "memory": memory_recipe if memory else None}
    inputs = [transitions, *([memory] if memory else [])]
    write_meta(out, config=config, seed=None, inputs=inputs, started=started, extra={"rows": dict(counts)})
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
