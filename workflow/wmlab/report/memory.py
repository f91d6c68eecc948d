"""The table of world memory: what each memory-augmented model gains from its blocks (memwm.txt, Figures 4 and 6).

A row per model: the same weights asked with blocks and without, on the same transitions.
"""

from __future__ import annotations

from collections.abc import Sequence

from wmlab.report.builders import place_of, start_of
from wmlab.report.inputs import Loaded, require
from wmlab.report.labels import method_key, method_label
from wmlab.report.tables import Column, Row, Table, Value

REMOVAL_KEYS = ("n", "n_tasks", "n_with_block", "mean_tokens", "metrics", "found", "levels", "removal")


def memory(items: Sequence[Loaded]) -> Table:
    """SSF with memory and without, how often it was found, and SSF at each share of tasks without it."""
    place, title = place_of(items, "World memory: SSF with its blocks and without")
    shares = sorted({one["share"] for item in items for one in item.value["removal"]})
    columns = (
        *place,
        Column("method", "Method"),
        Column("seed", "Seed"),
        Column("n", "n"),
        Column("keyed", "Keyed"),
        Column("bm25", "BM25"),
        Column("tokens", "Tokens", 1),
        Column("with", "SSF", 3),
        Column("without", "SSF without", 3),
        Column("difference", "Difference", 3, signed=True),
        *(Column(f"share_{share}", f"{100 * share:.0f} % removed", 3) for share in shares),
    )
    rows = []
    for item in sorted(
        items, key=lambda i: (i.identity.block, method_key(i.identity.method), i.identity.seed)
    ):
        require(item.value, REMOVAL_KEYS, item.path)
        record, ssf = item.value, item.value["metrics"]["ssf"]
        values = {
            **start_of(item),
            "method": Value(method_label(item.identity.method)),
            "seed": Value(item.identity.seed),
            "n": Value(record["n"]),
            "keyed": Value(record["found"].get("keyed", {"n": 0})["n"]),
            "bm25": Value(record["found"].get("bm25", {"n": 0})["n"]),
            "tokens": Value(record["mean_tokens"]),
            "with": Value(ssf["with"]),
            "without": Value(ssf["without"]),
            "difference": Value(ssf["difference"], ci=tuple(ssf["difference_ci"])),
            **{f"share_{one['share']}": Value(one["ssf"]) for one in record["removal"]},
        }
        rows.append(Row(values, (*item.identity.block, item.identity.method), (item.path,)))
    notes = (
        "Keyed, BM25: prompts whose memory was found by key, and by the last resort; tokens: mean length of a block.",
        "[low, high]: 95 % interval of the difference over resampled tasks. Removed: share of tasks without memory.",
    )
    return Table("memory", title, columns, tuple(rows), notes)
