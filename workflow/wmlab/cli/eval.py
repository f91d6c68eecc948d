"""``wmlab eval``: task-level consistency of a world model, its cells, and studies of the metrics themselves."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from wmlab.cli.options import (
    Cache,
    Concurrency,
    Encoder,
    EncoderLayer,
    ReferenceCache,
    ReferenceModel,
    ReferenceUrls,
)

app = typer.Typer(
    help="Consistency with Real over a frozen panel; perturbation studies and audits of the metrics.",
    no_args_is_help=True,
)


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


Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of every draw.")]
TransitionFiles = Annotated[
    list[Path], typer.Option("--transitions", help="transitions.parquet; repeat it for more domains.")
]
Predictions = Annotated[
    list[Path] | None,
    typer.Option("--predictions", help="predictions.parquet of a model; repeat it for more models."),
]


@app.command()
def perturb(
    transitions: Annotated[Path, typer.Option("--transitions", help="transitions.parquet to draw from.")],
    reference: Annotated[Path, typer.Option("--reference", help="Reference agent's model folder.")],
    out: Annotated[Path, typer.Option("--out", help="perturbations.parquet to write, a row a text.")],
    summary: Annotated[Path, typer.Option("--summary", help="summary.json to write.")],
    samples: Annotated[int, typer.Option("--samples", min=1, help="Shared samples.")] = 100,
    encoder: Encoder = None,
    encoder_layer: EncoderLayer = None,
    judge_url: Annotated[
        str | None, typer.Option("--judge-url", help="OpenAI-compatible server, …/v1, of an LLM judge.")
    ] = None,
    judge_model: Annotated[
        str | None, typer.Option("--judge-model", help="Model to ask there; the key: OPENAI_API_KEY.")
    ] = None,
    cache: Cache = None,
    concurrency: Concurrency = 8,
    reference_url: ReferenceUrls = None,
    reference_model: ReferenceModel = None,
    reference_cache: ReferenceCache = None,
    seed: Seed = 0,
    threads: Annotated[int, typer.Option("--threads", min=1, help="CPU threads.")] = 1,
) -> None:
    """Score seven decision-critical perturbations of real observations with every metric.

    Example: wmlab eval perturb --transitions test.parquet --reference agent --out p.parquet --summary p.json
    """
    import torch

    from wmlab.io.atomic import write_json
    from wmlab.io.provenance import write_meta
    from wmlab.io.tables import read_table, write_table
    from wmlab.lm.answers import Questions
    from wmlab.metrics.bertscore import BertScore
    from wmlab.metrics.judge import MAX_TOKENS, Judge
    from wmlab.metrics.perturb import study
    from wmlab.rewards.opened import open_reference, reference_files

    started = time.time()
    torch.set_num_threads(threads)
    drawn, skipped = study.draw_samples(read_table(transitions, "transitions"), samples, seed)
    agent = open_reference(reference, reference_url or (), reference_model, reference_cache)
    asked: Questions[float] | None = Questions.opened(
        "judge", judge_url, judge_model, MAX_TOKENS, cache, concurrency
    )
    by_model: dict[str, study.ByModel] = {}
    if encoder is not None:
        by_model["bertscore"] = BertScore.load(encoder, encoder_layer)
    if asked is not None:
        by_model["judge"] = Judge(asked)
    rows = study.score_samples(drawn, agent, by_model)
    found = study.summarise(rows, seed)
    result = {**found, "n_asked": samples, "skipped": skipped, "reference": agent.lm.model_id, "seed": seed}
    write_table(out, "perturbations", rows, by_model)
    write_json(summary, result)
    config: dict[str, Any] = {"reference": agent.lm.model_id, "samples": samples}
    inputs = [transitions, *reference_files(reference)]
    extra: dict[str, Any] = {"reference_calls": agent.calls, "prefill_tokens": agent.prefill_tokens}
    if encoder is not None:
        config |= {"encoder": encoder.name, "encoder_layer": encoder_layer}
        inputs.append(encoder / "model.safetensors")
    if asked is not None:
        config["judge"] = judge_model
        extra["judge"] = dict(sorted(asked.counts.items()))
    for path in (out, summary):
        write_meta(path, config=config, seed=seed, inputs=inputs, started=started, extra=extra)
    if len(drawn) < samples:
        print(f"warning: {len(drawn)} samples instead of {samples} ({skipped})", file=sys.stderr)
    shown = found["contrast"].get("behr")
    line = f"BehR DI {shown['drop_irrelevant']:.3f}, DT {shown['drop_target']:.3f}" if shown else "no BehR"
    print(f"{summary}: {line}, n {result['n']}, failed {result['n_failed']}")


@app.command()
def stress(
    transitions: TransitionFiles,
    out: Annotated[Path, typer.Option("--out", help="stress.parquet to write, a row an example.")],
    summary: Annotated[Path, typer.Option("--summary", help="summary.json to write.")],
    per_class: Annotated[int, typer.Option("--per-class", min=1, help="Examples a class and domain.")] = 50,
    seed: Seed = 0,
) -> None:
    """Score synthetic predictions of known meaning: EM, word F1 and SSF by class of change and domain.

    Example: wmlab eval stress --transitions alfworld.parquet --transitions webshop.parquet --out s.parquet
    --summary s.json
    """
    from wmlab.io.atomic import write_json
    from wmlab.io.provenance import write_meta
    from wmlab.io.tables import read_table, write_table
    from wmlab.metrics.perturb import stress as test

    started = time.time()
    given = [row for path in transitions for row in read_table(path, "transitions")]
    rows = test.stress(given, per_class=per_class, seed=seed)
    result = {**test.summarise(rows), "per_class": per_class, "seed": seed}
    write_table(out, "stress", rows)
    write_json(summary, result)
    for path in (out, summary):
        write_meta(path, config={"per_class": per_class}, seed=seed, inputs=transitions, started=started)
    means = ", ".join(f"{name} {found['ssf']:.3f}" for name, found in result["classes"].items())
    print(f"{summary}: {len(rows)} examples, mean SSF {means}")


@app.command()
def audit(
    transitions: TransitionFiles,
    out: Annotated[Path, typer.Option("--out", help="audit.json to write.")],
    predictions: Predictions = None,
    sheet: Annotated[Path | None, typer.Option(help="Judged annotation sheet (CSV), with --key.")] = None,
    key: Annotated[Path | None, typer.Option(help="The sheet's key (CSV).")] = None,
    observations: Annotated[
        int, typer.Option("--observations", min=1, help="At most so many a domain.")
    ] = 1000,
    per_class: Annotated[int, typer.Option("--per-class", min=1, help="Examples a class (transfer).")] = 50,
    seed: Seed = 0,
) -> None:
    """Audit the SSF extractors: identity, field weights, transfer, agreement with annotators.

    The order of models on WebShop is checked for --predictions, the last one against the others; agreement
    needs a sheet that `wmlab eval sheet` made and somebody judged.

    Example: wmlab eval audit --transitions webshop.parquet --predictions sft.parquet --predictions behr.parquet
    --out audit.json
    """
    from wmlab.errors import InputError
    from wmlab.io.atomic import write_json
    from wmlab.io.provenance import write_meta
    from wmlab.io.tables import read_table
    from wmlab.metrics.perturb import audit as metric
    from wmlab.metrics.perturb.agreement import agreement

    started = time.time()
    if (sheet is None) != (key is None):
        raise InputError("--sheet and --key: one is missing; give both, as `wmlab eval sheet` made them")
    given = [row for path in transitions for row in read_table(path, "transitions")]
    models: dict[str, list[dict[str, Any]]] = {}
    for path in predictions or []:
        rows = read_table(path, "predictions")
        name = rows[0]["model_id"] if rows else str(path)
        if name in models:
            raise InputError.at(path, f"the model {name} was given before", "give each model once")
        models[name] = rows
    result = metric.audit(given, models, n=observations, per_class=per_class, seed=seed)
    if sheet is not None and key is not None:
        result["agreement"] = agreement(sheet, key, seed=seed)
    write_json(out, result)
    inputs = [*transitions, *(predictions or []), *(path for path in (sheet, key) if path is not None)]
    config = {"observations": observations, "per_class": per_class}
    write_meta(out, config=config, seed=seed, inputs=inputs, started=started)
    shown = ", ".join(f"{name} {found['identity']:.3f}" for name, found in result["identity"].items())
    print(f"{out}: identity {shown}")


@app.command()
def sheet(
    transitions: TransitionFiles,
    predictions: Annotated[
        list[Path], typer.Option("--predictions", help="predictions.parquet; repeatable.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Sheet for the annotator (CSV).")],
    key: Annotated[Path, typer.Option("--key", help="Key with models and scores (CSV); keep it back.")],
    pairs: Annotated[int, typer.Option("--pairs", min=1, help="At most so many pairs a domain.")] = 100,
    seed: Seed = 0,
) -> None:
    """Make a blinded annotation sheet, stratified by SSF, and its key.

    Example: wmlab eval sheet --transitions test.parquet --predictions p.parquet --out sheet.csv --key key.csv
    """
    from wmlab.io.atomic import write_text
    from wmlab.io.provenance import write_meta
    from wmlab.io.tables import read_table
    from wmlab.metrics.perturb.agreement import KEY, SHEET, csv_text, draw_sheet

    started = time.time()
    golds = [row for path in transitions for row in read_table(path, "transitions")]
    predicted = [row for path in predictions for row in read_table(path, "predictions")]
    shown, hidden = draw_sheet(golds, predicted, n=pairs, seed=seed)
    write_text(out, csv_text(shown, SHEET))
    write_text(key, csv_text(hidden, KEY))
    # The sheet's record would name the predictions: it stands beside the key only.
    write_meta(key, config={"pairs": pairs}, seed=seed, inputs=[*transitions, *predictions], started=started)
    print(f"{out}: {len(shown)} pairs to judge, key {key}")
