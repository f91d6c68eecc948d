"""``wmlab memory``: build a bank, retrieve from it, show it, and tell what a model loses without it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from wmlab.cli.options import MemoryPanels

app = typer.Typer(help="World memory: banks of hints for a world model.", no_args_is_help=True)

Domain = Annotated[str, typer.Option("--domain", help="Domain, e.g. alfworld or webshop.")]
Bank = Annotated[Path, typer.Option("--bank", help="memory_{domain}.jsonl")]
Transitions = Annotated[Path, typer.Option("--transitions", help="transitions.parquet")]
Tokenizer = Annotated[
    Path | None, typer.Option("--tokenizer", help="Folder; without it 4 characters are a token.")
]


@app.command()
def build(
    domain: Domain,
    transitions: Transitions,
    out: Annotated[Path, typer.Option("--out", help="memory_{domain}.jsonl to write.")],
    predictions: Annotated[
        Path | None,
        typer.Option("--predictions", help="The supervised model's predictions; WebShop needs none."),
    ] = None,
    exclude_panel: MemoryPanels = None,
    min_support: Annotated[
        int, typer.Option("--min-support", min=1, help="Hard transitions behind a rule, at least.")
    ] = 2,
    keep_sources: Annotated[
        int, typer.Option("--keep-sources", min=1, help="Transition ids an entry names.")
    ] = 32,
    curator_url: Annotated[
        str | None, typer.Option("--curator-url", help="OpenAI-compatible server, …/v1; default: rules.")
    ] = None,
    curator_model: Annotated[
        str | None, typer.Option("--curator-model", help="Model to ask there; the key: OPENAI_API_KEY.")
    ] = None,
) -> None:
    """Build a domain's memory from training transitions and the model's errors on them.

    Example: wmlab memory build --domain alfworld --transitions transitions.parquet
    --predictions baseline.parquet --exclude-panel test.json --out memory_alfworld.jsonl
    """
    from wmlab.errors import InputError
    from wmlab.io.provenance import write_meta
    from wmlab.io.tables import read_rows
    from wmlab.memory.bank import write_bank
    from wmlab.memory.build import Build, BuildSettings
    from wmlab.memory.curate import Curator, RuleCurator
    from wmlab.memory.guard import held_out
    from wmlab.memory.llm import LLMCurator
    from wmlab.memory.store import PredictionIndex

    started = time.time()
    if (curator_url is None) != (curator_model is None):
        raise InputError("memory build: --curator-url and --curator-model go together; give both")
    asked = LLMCurator(curator_url, curator_model) if curator_url and curator_model else None
    curator: Curator = asked if asked is not None else RuleCurator()
    panels = exclude_panel or []
    settings = BuildSettings(min_support=min_support, keep_sources=keep_sources)
    making = Build(domain, curator, settings, held_out(panels))
    rows = read_rows(transitions, "transitions")
    if predictions is None:
        n = write_bank(out, making.entries(rows, None, transitions))
    else:
        with PredictionIndex(read_rows(predictions, "predictions"), predictions) as index:
            n = write_bank(out, making.entries(rows, index.get, transitions))
    config = {
        "domain": domain,
        "curator": curator.name,
        "min_support": min_support,
        "keep_sources": keep_sources,
    }
    counts = dict(sorted(making.report.items()))
    extra = {"report": counts, **({"curator": dict(sorted(asked.counts.items()))} if asked else {})}
    inputs = [transitions, *([predictions] if predictions else []), *panels]
    write_meta(out, config=config, seed=None, inputs=inputs, started=started, extra=extra)
    print(
        f"{out}: {n} entries from {counts.get('transitions', 0)} transitions, "
        f"{counts.get('held_out', 0)} of held-out tasks left out"
    )


@app.command()
def retrieve(
    domain: Domain,
    bank: Bank,
    transitions: Transitions,
    out: Annotated[
        str, typer.Option("--out", help="JSONL: a block and a record per transition; - for stdout.")
    ],
    budget: Annotated[int, typer.Option("--budget", min=0, help="Tokens a block may take.")] = 512,
    tokenizer: Tokenizer = None,
    exclude_panel: MemoryPanels = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first transitions.")] = None,
) -> None:
    """Retrieve the memory block of every transition, and say how it was found.

    Example: wmlab memory retrieve --domain alfworld --bank memory_alfworld.jsonl
    --transitions transitions.parquet --exclude-panel test.json --out blocks.jsonl
    """
    from itertools import islice

    from wmlab.io.jsonl import STREAM, write_jsonl
    from wmlab.io.provenance import write_meta
    from wmlab.io.tables import read_rows
    from wmlab.lm.tokenizer import load_tokenizer
    from wmlab.memory.bank import read_bank
    from wmlab.memory.guard import held_out
    from wmlab.memory.retrieve import Retriever, coverage, estimated_tokens, retrievals, tokens_of

    started = time.time()
    panels = exclude_panel or []
    counting = estimated_tokens if tokenizer is None else tokens_of(load_tokenizer(tokenizer))
    entries, excluded = read_bank(bank, domain), held_out(panels)
    retriever = Retriever(
        domain, entries, budget=budget, count_tokens=counting, excluded=excluded, source=bank
    )
    rows = islice(read_rows(transitions, "transitions"), limit)
    found = list(retrievals(retriever, rows, transitions))
    write_jsonl(
        out,
        ({"transition_id": name, "block": one.block, **one.record()} for name, one in found),
    )
    if out == STREAM:
        return
    told = coverage([one for _, one in found])
    inputs = [bank, transitions, *panels]
    write_meta(
        out,
        config={"domain": domain, "budget": budget},
        seed=None,
        inputs=inputs,
        started=started,
        extra={"coverage": told},
    )
    print(
        f"{out}: {told['prompts']} prompts, {told['with_block']} with a block "
        f"({told['keyed']} keyed, {told['bm25']} by BM25, {told['none']} without a match)"
    )


@app.command()
def show(
    domain: Domain,
    bank: Bank,
    key: Annotated[
        list[str] | None, typer.Option("--key", help="field=value the entries must have; repeatable.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Entries shown.")] = 10,
) -> None:
    """Show a bank's entries, best supported first.

    Example: wmlab memory show --domain alfworld --bank memory_alfworld.jsonl --key schema=open
    """
    from wmlab.errors import InputError
    from wmlab.memory.bank import read_bank
    from wmlab.memory.prompt import render_entry
    from wmlab.memory.retrieve import find

    wanted = {}
    for pair in key or []:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InputError(f"--key {pair!r}: not field=value; give one like schema=open")
        wanted[name] = value
    found = find(read_bank(bank, domain), wanted)
    for entry in found[:limit]:
        print(f"{entry.id} ({entry.kind}, support {entry.support})\n{render_entry(domain, entry)}\n")
    print(f"{bank}: {len(found)} entries match, {min(len(found), limit)} shown")


@app.command()
def removal(
    predictions: Annotated[Path, typer.Option("--predictions", help="predictions.parquet with memory.")],
    without: Annotated[Path, typer.Option("--without", help="The same model's, without memory.")],
    records: Annotated[Path, typer.Option("--records", help="How each prompt's memory was found.")],
    transitions: Transitions,
    out: Annotated[Path, typer.Option("--out", help="removal.json to write.")],
    shares: Annotated[
        str, typer.Option("--shares", help="Shares of tasks without memory, with commas.")
    ] = "0,0.25,0.5,0.75,1",
    seed: Annotated[int, typer.Option("--seed", help="Seed of the tasks and of the resampling.")] = 0,
) -> None:
    """Tell what a model loses when its memory is taken away, from all tasks or from some.

    Example: wmlab memory removal --predictions predictions.parquet --without without.parquet
    --records records.jsonl --transitions transitions.parquet --out removal.json
    """
    from wmlab.errors import InputError
    from wmlab.io.atomic import write_json
    from wmlab.io.jsonl import read_jsonl
    from wmlab.io.provenance import write_meta
    from wmlab.io.tables import read_table
    from wmlab.memory.removal import removed

    started = time.time()
    try:
        wanted = [float(share) for share in shares.split(",")]
    except ValueError:
        raise InputError(f"--shares {shares!r}: not numbers with commas; give e.g. 0,0.5,1") from None
    found = removed(
        read_table(predictions, "predictions"),
        read_table(without, "predictions"),
        read_jsonl(records),
        read_table(transitions, "transitions"),
        wanted,
        seed,
        predictions,
    )
    write_json(out, found)
    inputs = [predictions, without, records, transitions]
    write_meta(out, config={"shares": wanted}, seed=seed, inputs=inputs, started=started)
    ssf = found["metrics"]["ssf"]
    low, high = ssf["difference_ci"]
    print(
        f"{out}: SSF {ssf['with']:.3f} with memory, {ssf['without']:.3f} without,"
        f" difference {ssf['difference']:.3f} [{low:.3f}, {high:.3f}]"
    )


@app.command()
def gain(
    removal: Annotated[list[Path], typer.Option("--removal", help="removal.json of each training seed.")],
    transitions: Transitions,
    out: Annotated[Path, typer.Option("--out", help="gain.json to write.")],
    plain: Annotated[
        list[Path] | None,
        typer.Option("--plain", help="predictions.parquet of each seed of the method without memory."),
    ] = None,
    plain_method: Annotated[
        str | None, typer.Option("--plain-method", help="Name of the method without memory.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the resampling.")] = 0,
) -> None:
    """Tell what memory gives a method over its training seeds: blocks kept or removed, memory or none.

    Example: wmlab memory gain --removal seed0/removal.json --removal seed1/removal.json
    --plain w2w/predictions.parquet --plain-method w2w --transitions transitions.parquet --out gain.json
    """
    from wmlab.errors import InputError
    from wmlab.io.atomic import write_json
    from wmlab.io.provenance import write_meta
    from wmlab.io.tables import read_table
    from wmlab.memory.gain import gain as gained
    from wmlab.memory.gain import plain_tasks
    from wmlab.memory.removal import REMOVAL_KEYS
    from wmlab.report.inputs import read_object, require

    started = time.time()
    if bool(plain) != (plain_method is not None):
        raise InputError("memory gain: --plain and --plain-method go together; give both or none")
    removals = [(str(path), read_object(path)) for path in removal]
    for path, found in removals:
        require(found, REMOVAL_KEYS, path)
    gold = {row["transition_id"]: row for row in read_table(transitions, "transitions")}
    others = [(str(path), plain_tasks(read_table(path, "predictions"), gold, path)) for path in plain or []]
    told = gained(removals, others, plain_method, seed)
    write_json(out, told)
    inputs = [*removal, *(plain or []), transitions]
    write_meta(out, config={"plain_method": plain_method}, seed=seed, inputs=inputs, started=started)
    for against, name in (("vs_removed", "the same without blocks"), ("vs_plain", plain_method)):
        if told[against] is not None:
            low, high = told[against]["ci"]
            print(f"{out}: SSF {told[against]['difference']:+.3f} [{low:+.3f}, {high:+.3f}] against {name}")
