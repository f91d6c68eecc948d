"""Tables of world memory (memwm.txt, Table 1 and Figures 4 and 6).

``state_fidelity`` is the paper's Table 1; ``memory_gain`` contrasts a method with memory with itself without blocks
and with the method that never had memory, over all training seeds; ``memory`` has a row per model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wmlab.memory.removal import REMOVAL_KEYS
from wmlab.report.builders import SUMMARY_KEYS, notes_on, place_of, start_of
from wmlab.report.complete import check_matrix
from wmlab.report.inputs import Loaded, require
from wmlab.report.labels import method_key, method_label
from wmlab.report.tables import Column, Row, Table, Value, mean_value, with_marks

GAIN_KEYS = ("n", "n_tasks", "n_seeds", "memory", "removed", "vs_removed", "plain", "vs_plain", "removal")


def state_fidelity(items: Sequence[Loaded], methods: Sequence[str] = ()) -> Table:
    """SSF of every model, a column per domain, best within a backbone (memwm.txt, Table 1)."""
    check_matrix("state_fidelity", items, "score", "summary.json", methods)
    for item in items:
        require(item.value, SUMMARY_KEYS, item.path)
    domains = sorted({item.identity.domain for item in items})
    backbones = sorted({item.identity.backbone for item in items})
    several = len(backbones) > 1
    rows = []
    for backbone in backbones:
        here = [item for item in items if item.identity.backbone == backbone]
        for method in sorted({item.identity.method for item in here}, key=method_key):
            own = [item for item in here if item.identity.method == method]
            values = {"backbone": Value(backbone), "method": Value(method_label(method))}
            for domain in domains:
                found = [item.value for item in own if item.identity.domain == domain]
                reasons = [(one.get("reasons") or {}).get("ssf") for one in found]
                values[domain] = mean_value([one["ssf"] for one in found], reasons or ["not in this domain"])
            rows.append(Row(values, (backbone,), tuple(item.path for item in own)))
    columns = (
        *([Column("backbone", "Backbone")] if several else []),
        Column("method", "Model"),
        *(Column(domain, domain, 3, "up") for domain in domains),
    )
    title = "Structured State Fidelity of the predicted states"
    notes = [
        "Held-out transitions; models with memory are asked with their blocks. Bold: best of a backbone's models;"
        " underline: second; ties at the printed precision share a mark.",
        *notes_on(items),
    ]
    name = "" if several else f" ({backbones[0]})"
    return with_marks(Table("state_fidelity", title + name, columns, tuple(rows), tuple(notes)))


def memory_gain(items: Sequence[Loaded]) -> Table:
    """A row per method with memory: with blocks, the same without, and its counterpart that never had any."""
    place, title = place_of(items, "What world memory gives: SSF over all training seeds")
    columns = (
        *place,
        Column("method", "Method"),
        Column("n", "n"),
        Column("tasks", "Tasks"),
        Column("seeds", "Seeds"),
        Column("memory", "With blocks", 3),
        Column("removed", "Blocks removed", 3),
        Column("vs_removed", "Difference", 3, signed=True),
        Column("against", "Without memory"),
        Column("plain", "SSF", 3),
        Column("vs_plain", "Difference", 3, signed=True),
    )
    rows = []
    for item in sorted(items, key=lambda i: (i.identity.block, method_key(i.identity.method))):
        require(item.value, GAIN_KEYS, item.path)
        record = item.value
        none = "the study has no method without memory to compare with"
        against = record["plain_method"]
        values = {
            **start_of(item),
            "method": Value(method_label(item.identity.method)),
            "n": Value(record["n"]),
            "tasks": Value(record["n_tasks"]),
            "seeds": Value(record["n_seeds"]),
            "memory": _spread(record["memory"]),
            "removed": _spread(record["removed"]),
            "vs_removed": _difference(record["vs_removed"]),
            "against": Value(method_label(against)) if against else Value(None, reason=none),
            "plain": _spread(record["plain"]) if against else Value(None, reason=none),
            "vs_plain": _difference(record["vs_plain"]) if against else Value(None, reason=none),
        }
        rows.append(Row(values, item.identity.block, (item.path,)))
    notes = (
        "Means over training seeds; ± is their sample standard deviation. [low, high]: 95 % interval of the difference"
        " over resampled tasks and training seeds; with one seed over tasks alone.",
        *(
            [
                "Mem-SFT has had further steps of training than W2W; without that difference: compare with W2W+."
            ]
            if any(_unequal(item) for item in items)
            else []
        ),
        *notes_on(items),
    )
    return Table("memory_gain", title, columns, tuple(rows), notes)


def _unequal(item: Loaded) -> bool:
    return (item.identity.method, item.value["plain_method"]) == ("mem_sft", "w2w")


def _spread(entry: Mapping[str, Any]) -> Value:
    return Value(float(entry["mean"]), sd=entry["sd"])


def _difference(entry: Mapping[str, Any]) -> Value:
    low, high = entry["ci"]
    return Value(float(entry["difference"]), ci=(float(low), float(high)))


def memory(items: Sequence[Loaded]) -> Table:
    """A row per model: how its memory was found, SSF with it and without, and at each share of tasks without it."""
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
