"""``wmlab predict``: next states from a world model, or copied from the training data."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wmlab.cli.options import Memory, MemoryPanels, MemoryRecipeText

if TYPE_CHECKING:
    from wmlab.lm.hf import HFModel
    from wmlab.memory.context import WorldMemory

app = typer.Typer(help="Next states from a world model or by copying.", no_args_is_help=True)

Transitions = Annotated[Path, typer.Option("--transitions", help="transitions.parquet to predict.")]
Out = Annotated[Path, typer.Option("--out", help="predictions.parquet to write.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Predict a seeded draw of this many.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the draw.")]


@app.command()
def states(
    model: Annotated[Path, typer.Option("--model", help="World model folder.")],
    transitions: Transitions,
    out: Out,
    limit: Limit = None,
    seed: Seed = 0,
    threads: Annotated[int, typer.Option("--threads", min=1, help="CPU threads.")] = 1,
    model_id: Annotated[
        str | None, typer.Option("--model-id", help="Name in the rows; default: the folders' names.")
    ] = None,
    memory: Memory = None,
    memory_recipe: MemoryRecipeText = "{}",
    exclude_panel: MemoryPanels = None,
    records: Annotated[
        Path | None, typer.Option("--records", help="JSONL: how each prompt's memory was found.")
    ] = None,
    without: Annotated[
        Path | None, typer.Option("--without", help="Predict without the memory too, into this file.")
    ] = None,
    online: Annotated[
        Path | None,
        typer.Option("--online", help="Remember what earlier tasks executed, in this second bank."),
    ] = None,
) -> None:
    """Predict next observations greedily.

    Example: wmlab predict states --model wm --transitions transitions.parquet --out predictions.parquet
    """
    import torch

    from wmlab.io.jsonl import write_jsonl
    from wmlab.io.provenance import write_meta
    from wmlab.io.tables import read_table, write_table
    from wmlab.lm.hf import HFModel
    from wmlab.memory.context import open_memory
    from wmlab.memory.guard import held_out
    from wmlab.metrics.predict import choose, predict_states

    started = time.time()
    torch.set_num_threads(threads)
    rows = choose(read_table(transitions, "transitions"), limit, seed)
    lm = HFModel.load(model, model_id or "/".join(model.parts[-2:]))
    panels = exclude_panel or []
    world = open_memory(memory, memory_recipe, rows, transitions, lm.tokenizer, held_out(panels))
    if online is not None:
        found = _online(world, lm, rows, online, transitions)
    else:
        found = predict_states(lm, rows, memory=world)
    write_table(out, "predictions", found)
    inputs = [transitions, model / "model.safetensors", *([memory] if memory else []), *panels]
    shown = memory_recipe if memory else None
    config = {"limit": limit, "model_id": lm.model_id, "memory": shown, "online": online is not None}
    for path in (out, *([online] if online else [])):
        write_meta(path, config=config, seed=seed, inputs=inputs, started=started)
    if records is not None and world is not None:
        told = ((row["transition_id"], world.retrieve(row["history"], row["task_id"])) for row in rows)
        write_jsonl(records, ({"transition_id": name, **one.record()} for name, one in told))
        write_meta(records, config=config, seed=seed, inputs=inputs, started=started)
    if without is not None:
        write_table(without, "predictions", predict_states(lm, rows))
        write_meta(without, config={**config, "memory": None}, seed=seed, inputs=inputs, started=started)
    cut = sum(row["finish_reason"] == "length" for row in found)
    print(f"{out}: {len(found)} predictions, {cut} cut at the length limit")


def _online(
    memory: WorldMemory | None, lm: HFModel, rows: list[dict[str, Any]], bank: Path, source: Path
) -> list[dict[str, Any]]:
    """Predictions with a memory that grows from task to task; writes the bank of what was executed."""
    from wmlab.errors import InputError
    from wmlab.memory.bank import Entry, write_bank
    from wmlab.memory.online import predict_online
    from wmlab.metrics.predict import predict_states

    if memory is None:
        raise InputError("predict states: --online adds to a memory; give --memory")
    found: list[dict[str, Any]] = []
    executed: list[Entry] = []
    steps = predict_online(
        memory, rows, lambda some, current: predict_states(lm, some, memory=current), source
    )
    for predictions, entries in steps:
        found += predictions
        executed = entries
    write_bank(bank, executed)
    return found


@app.command()
def copy(
    train: Annotated[Path, typer.Option("--train", help="transitions.parquet of the training split.")],
    transitions: Transitions,
    out: Out,
    limit: Limit = None,
    seed: Seed = 0,
) -> None:
    """Predict by copying the most similar training transition: the baseline that learning has to beat.

    Example: wmlab predict copy --train train.parquet --transitions test.parquet --out copy.parquet
    """
    from wmlab.io.provenance import write_meta
    from wmlab.io.tables import read_table, write_table
    from wmlab.metrics.predict import choose, predict_copy

    started = time.time()
    rows = choose(read_table(transitions, "transitions"), limit, seed)
    found = predict_copy(read_table(train, "transitions"), rows)
    write_table(out, "predictions", found)
    write_meta(out, config={"limit": limit}, seed=seed, inputs=[train, transitions], started=started)
    print(f"{out}: {len(found)} predictions")
