"""``wmlab score``: metrics of predicted states, rewards, single-step evaluation."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from wmlab.cli.options import (
    Cache,
    Concurrency,
    Encoder,
    EncoderLayer,
    ExtractorKind,
    ExtractorModel,
    ExtractorUrl,
    ReferenceCache,
    ReferenceModel,
    ReferenceUrls,
)

app = typer.Typer(help="Metrics of predicted states, and rewards.", no_args_is_help=True)

Threads = Annotated[int, typer.Option("--threads", min=1, help="CPU threads.")]


@app.command()
def states(
    domain: Annotated[str, typer.Option("--domain", help="Domain, e.g. textworld.")],
    input_: Annotated[
        str, typer.Option("--input", help='JSONL of {"id","prediction","gold"}, - for standard input.')
    ],
    out: Annotated[str, typer.Option("--out", help="JSONL to write, - for standard output.")],
    metrics: Annotated[
        str, typer.Option("--metrics", help="Comma-separated: em, f1, rouge_l, ssf.")
    ] = "em,f1,rouge_l,ssf",
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes; the order of rows stays.")] = 1,
    extractor: ExtractorKind = "rules",
    extractor_url: ExtractorUrl = None,
    extractor_model: ExtractorModel = None,
    cache: Cache = None,
    concurrency: Concurrency = 8,
) -> None:
    """Score predicted observations against the real ones.

    Rows are read, scored and written as a stream: the input may be of any length. A pair that cannot be
    scored gives {"id","error"}, also where a model gave no usable facts.

    Example: wmlab score states --domain textworld --input pairs.jsonl --metrics em,f1,ssf --out scores.jsonl
    """
    from wmlab.io.jsonl import open_lines, writing_lines
    from wmlab.metrics.score import check_metrics, score_stream
    from wmlab.metrics.ssf.extractor import Extractor

    names = list(dict.fromkeys(name.strip() for name in metrics.split(",") if name.strip()))
    check_metrics(domain, names)
    reader = Extractor.opened(domain, extractor, extractor_url, extractor_model, cache, concurrency)
    with open_lines(input_) as lines, writing_lines(out) as write:
        totals = score_stream(domain, lines, names, write, workers=workers, source=input_, extractor=reader)
    if reader is not None:
        counts = ", ".join(f"{name} {n}" for name, n in reader.counts.items()) or "not asked"
        print(f"extractor {reader.model}: {counts}", file=sys.stderr)
    if out != "-":
        means = ", ".join(f"{name} {mean:.4f}" for name, mean in totals.means().items()) or "no scores"
        print(f"{out}: {totals.rows} rows, {totals.failed} failed; {means}")


@app.command()
def rewards(
    reward: Annotated[
        str, typer.Option("--reward", help="Name in the registry: behr, f1, em, ssf, behr_cauchy, …")
    ],
    input_: Annotated[str, typer.Option("--input", help="JSONL rows, - for standard input.")],
    out: Annotated[str, typer.Option("--out", help="JSONL to write, - for standard output.")],
    reference: Annotated[
        Path | None, typer.Option("--reference", help="Reference agent's model folder.")
    ] = None,
    parameters: Annotated[
        str, typer.Option("--parameters", help='JSON of reward parameters, e.g. {"scale": 10}.')
    ] = "{}",
    reference_url: ReferenceUrls = None,
    reference_model: ReferenceModel = None,
    reference_cache: ReferenceCache = None,
    threads: Threads = 1,
) -> None:
    """Reward candidate next observations.

    A row is {"id","domain","history","gold","candidates","action"}; history is in world-model roles and
    ends with the action that led to gold, action is the logged next one.

    Example: wmlab score rewards --reward behr --reference agent --input rows.jsonl --out rewards.jsonl
    """
    from wmlab.errors import InputError
    from wmlab.io.jsonl import read_jsonl, write_jsonl
    from wmlab.rewards.offline import score_rows
    from wmlab.rewards.registry import check_reward, make_reward, needs_reference

    check_reward(reward)
    try:
        chosen = json.loads(parameters)
    except ValueError as error:
        raise InputError(f"--parameters: not JSON ({error}); give an object of numbers") from None
    if not isinstance(chosen, dict) or not all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in chosen.values()
    ):
        raise InputError('--parameters: must be a JSON object of numbers, e.g. {"scale": 10}')
    agent = None
    if needs_reference(reward) and reference is not None:
        import torch

        from wmlab.rewards.opened import open_reference

        torch.set_num_threads(threads)
        agent = open_reference(reference, reference_url or (), reference_model, reference_cache)
    made = make_reward(reward, chosen, (lambda: agent) if agent is not None else None)
    rows = score_rows(read_jsonl(input_), input_, made, agent)
    write_jsonl(out, rows)
    if out != "-":
        flat = [record for row in rows for record in row["records"]]
        good = [record["reward"] for record in flat if record["reward"] is not None]
        mean = f"mean {sum(good) / len(good):.4f}" if good else "no rewards"
        print(f"{out}: {len(flat)} rewards, {len(flat) - len(good)} failed; {mean}")


@app.command()
def predictions(
    predictions: Annotated[Path, typer.Option("--predictions", help="predictions.parquet")],
    transitions: Annotated[Path, typer.Option("--transitions", help="The transitions that were predicted.")],
    reference: Annotated[Path, typer.Option("--reference", help="Reference agent's model folder, for BehR.")],
    out: Annotated[Path, typer.Option("--out", help="scores.parquet to write.")],
    summary: Annotated[Path, typer.Option("--summary", help="summary.json to write.")],
    encoder: Encoder = None,
    encoder_layer: EncoderLayer = None,
    extractor: ExtractorKind = "rules",
    extractor_url: ExtractorUrl = None,
    extractor_model: ExtractorModel = None,
    cache: Cache = None,
    concurrency: Concurrency = 8,
    reference_url: ReferenceUrls = None,
    reference_model: ReferenceModel = None,
    reference_cache: ReferenceCache = None,
    threads: Threads = 1,
) -> None:
    """Score predictions with every single-step metric: EM, F1, ROUGE-L, SSF, BehR, and BERTScore on request.

    Example: wmlab score predictions --predictions p.parquet --transitions t.parquet --reference agent
    --out scores.parquet --summary summary.json
    """
    import torch

    from wmlab.io.atomic import write_json
    from wmlab.io.provenance import write_meta
    from wmlab.io.tables import read_table, write_table
    from wmlab.metrics.bertscore import BertScore
    from wmlab.metrics.evaluate import score_predictions, summarise
    from wmlab.metrics.ssf.extractor import Extractor
    from wmlab.rewards.opened import open_reference, reference_files

    started = time.time()
    torch.set_num_threads(threads)
    truth = read_table(transitions, "transitions")
    agent = open_reference(reference, reference_url or (), reference_model, reference_cache)
    bertscore = BertScore.load(encoder, encoder_layer) if encoder is not None else None
    domain = truth[0]["domain"] if truth else ""
    reader = Extractor.opened(domain, extractor, extractor_url, extractor_model, cache, concurrency)
    rows = score_predictions(
        read_table(predictions, "predictions"), truth, agent, predictions, bertscore, reader
    )
    result = summarise(rows, truth)
    added = {"bertscore": bertscore, "ssf_error": reader}
    write_table(out, "scores", rows, [name for name, by in added.items() if by is not None])
    write_json(summary, result)
    asked: dict[str, object] = {}
    counts: dict[str, object] = {}
    if encoder is not None:
        asked |= {"encoder": encoder.name, "encoder_layer": encoder_layer}
    if reader is not None:
        asked |= {"extractor": reader.kind, "extractor_model": reader.model}
        counts["extractor"] = reader.counts
    inputs = [predictions, transitions, *reference_files(reference)]
    inputs += [] if encoder is None else [encoder / "model.safetensors"]
    for path in (out, summary):
        write_meta(
            path,
            config={"reference": agent.lm.model_id, **asked},
            seed=None,
            inputs=inputs,
            started=started,
            extra={"reference_calls": agent.calls, "prefill_tokens": agent.prefill_tokens, **counts},
        )
    behr = "–" if result["behr"] is None else f"{result['behr']:.3f}"
    print(
        f"{summary}: EM {result['em']:.3f}, predictable EM {result['em_predictable']}, BehR {behr}, n {result['n']}"
    )
