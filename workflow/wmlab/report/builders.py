"""Build the tables of single-step and task-level results (behr.txt, Tables 2, 3, 5, 12, 13, 17, 18).

Each builder takes loaded result files and returns a Table. Rows are means over training seeds, with the sample
standard deviation when a method has several.
"""

from __future__ import annotations

from collections.abc import Sequence

from wmlab.report.complete import check_matrix, check_panels
from wmlab.report.inputs import Loaded, require
from wmlab.report.labels import METHOD_NOTES, method_key, method_label, ordered_methods
from wmlab.report.tables import Column, Row, Table, Value, mean_value, same, with_marks

SUMMARY_KEYS = (
    "n",
    "em",
    "em_predictable",
    "n_predictable",
    "f1",
    "rouge_l",
    "ssf",
    "n_ssf",
    "behr",
    "n_behr",
    "n_error",
)
HELDOUT_KEYS = (
    "reward",
    "before",
    "after",
    "before_ci",
    "after_ci",
    "n",
    "difference_ci",
    "em_before",
    "em_after",
    "steps",
    "stopped",
)

_SHARED = frozenset({"n", "n_error", "fp", "fn", "SR_Real", "mean_steps_Real", "timeout_Real"})
"""Counts, and what the real environment alone decides: printed without ± when the seeds agree."""

_PLACE = (Column("domain", "Domain"), Column("backbone", "Backbone"))
_MARKS = "Bold: best in its block; underline: second; ties at the printed precision share a mark, full ties have none."
_SEEDS = (
    "Means over training seeds {0}; ± is the sample standard deviation (for the other columns in the CSV)."
)


def place_of(items: Sequence[Loaded], title: str) -> tuple[tuple[Column, ...], str]:
    """Domain and backbone as columns when they vary, else as a part of the title."""
    blocks = sorted({item.identity.block for item in items})
    if len(blocks) == 1:
        return (), f"{title} ({', '.join(part for part in blocks[0] if part)})"
    return _PLACE, title


def start_of(item: Loaded) -> dict[str, Value]:
    """Domain and backbone of a row."""
    return {"domain": Value(item.identity.domain), "backbone": Value(item.identity.backbone)}


def _grouped(items: Sequence[Loaded], by_agent: bool) -> list[list[Loaded]]:
    """Seeds of one (block, agent, method) together, in table order."""
    groups: dict[tuple[object, ...], list[Loaded]] = {}
    for item in sorted(
        items, key=lambda i: (i.identity.block, i.identity.agent, method_key(i.identity.method))
    ):
        identity = item.identity
        key = (identity.block, identity.agent if by_agent else "", identity.method)
        groups.setdefault(key, []).append(item)
    return list(groups.values())


def notes_on(items: Sequence[Loaded]) -> list[str]:
    """Footnotes on methods and seeds."""
    notes = [METHOD_NOTES[m] for m in ordered_methods(i.identity.method for i in items) if m in METHOD_NOTES]
    several = {i.identity.seed for i in items if i.identity.method not in {"w2w", "copy"}}
    if len(several) > 1:
        notes.append(_SEEDS.format(", ".join(str(seed) for seed in sorted(several))))
    return notes


def single_step(items: Sequence[Loaded], methods: Sequence[str] = ()) -> Table:
    """Held-out transitions: a row per model, the copy baseline among them (metrics.md §3-§5)."""
    check_matrix("single_step", items, "score", "summary.json", methods)
    place, title = place_of(items, "Single-step prediction of held-out transitions")
    columns = (
        *place,
        Column("method", "Model"),
        Column("n", "n"),
        Column("em", "EM", 3, "up"),
        Column("em_predictable", "EM predictable", 3, "up"),
        Column("f1", "F1", 3, "up"),
        Column("rouge_l", "ROUGE-L", 3, "up"),
        Column("ssf", "SSF", 3, "up"),
        Column("behr", "BehR", 3, "up"),
        Column("n_error", "errors"),
    )
    null = {
        "em_predictable": "no predictable transition was marked",
        "ssf": "no state parser applies to this domain",
        "behr": "behaviour score not computed for this model",
    }
    rows = []
    for group in _grouped(items, by_agent=False):
        for item in group:
            require(item.value, SUMMARY_KEYS, item.path)
        values = {**start_of(group[0]), "method": Value(method_label(group[0].identity.method))}
        for column in columns[len(place) + 1 :]:
            numbers = [item.value[column.key] for item in group]
            if column.digits is None:
                values[column.key] = same(numbers)
            else:
                reasons = [
                    (i.value.get("reasons") or {}).get(column.key) or null.get(column.key) for i in group
                ]
                values[column.key] = mean_value(numbers, reasons)
        rows.append(Row(values, group[0].identity.block, tuple(item.path for item in group)))
    predictable = _span(items, "n_predictable")
    notes = [
        f"EM predictable: over the {predictable} transitions whose result the model can know; "
        f"BehR: exp(-|Δ|), mean over the {_span(items, 'n_behr')} transitions with a next action and a score.",
        *_read_by_models(items),
        "errors: scores that failed; a failed score is left out and counted, never a number.",
        _MARKS,
        *notes_on(items),
    ]
    return with_marks(Table("single_step", title, columns, tuple(rows), tuple(notes)))


def _read_by_models(items: Sequence[Loaded]) -> list[str]:
    """What SSF covers, where a model read the facts and had none for some text."""
    partly = [item for item in items if 0 < item.value["n_ssf"] < item.value["n"]]
    return (
        [f"SSF: mean over the {_span(items, 'n_ssf')} transitions whose facts a model read."]
        if partly
        else []
    )


def _span(items: Sequence[Loaded], key: str) -> str:
    """A count that all files share, or its range."""
    counts = sorted({int(item.value[key]) for item in items if item.value[key] is not None})
    if not counts:
        return "0"
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _cell_rows(cells: Sequence[Loaded], columns: Sequence[Column]) -> tuple[Row, ...]:
    """A row per (block, agent, method); methods of one agent compete."""
    rows = []
    text = {"domain", "backbone", "agent", "method"}
    for group in _grouped(cells, by_agent=True):
        identity = group[0].identity
        values = {
            **start_of(group[0]),
            "agent": Value(identity.agent),
            "method": Value(method_label(identity.method)),
        }
        for column in columns:
            if column.key in text:
                continue
            numbers = [_number(item, column.key) for item in group]
            reasons = [item.value["reasons"].get(column.key) for item in group]
            if column.key in _SHARED:
                values[column.key] = same(numbers, reasons)
                continue
            value = mean_value(numbers, reasons)
            interval = group[0].value.get("CR_pw_ci") if column.key == "CR_pw" else None
            if len(group) == 1 and interval and value.value is not None:
                value = Value(value.value, ci=(float(interval[0]), float(interval[1])))
            values[column.key] = value
        block = (*identity.block, identity.agent)
        rows.append(Row(values, block, tuple(dict.fromkeys(item.path for item in group))))
    return tuple(rows)


def _number(item: Loaded, key: str) -> float | int | None:
    """A column of the cell; ``step_gap`` is |mean T_WM - mean T_Real| (metrics.md §2)."""
    if key == "step_gap":
        real, world = item.value["mean_steps_Real"], item.value["mean_steps_WM"]
        return None if real is None or world is None else abs(world - real)
    number: float | int | None = item.value[key]
    return number


def task_level(cells: Sequence[Loaded], methods: Sequence[str] = (), allow_incomplete: bool = False) -> Table:
    """Success and consistency per agent and method (metrics.md §2; behr.txt Tables 3 and 12)."""
    check_matrix("task_level", cells, "consistency", "cell.json", methods)
    incomplete = check_panels("task_level", cells, allow_incomplete)
    place, title = place_of(cells, "Task-level functional consistency")
    columns = (
        *place,
        Column("agent", "Agent"),
        Column("method", "Method"),
        Column("n", "n"),
        Column("SR_Real", "SR_Real", 3),
        Column("SR_WM", "SR_WM", 3, spread=False),
        Column("SR_W2R", "SR_W2R", 3, spread=False),
        Column("CR", "CR", 3, spread=False),
        Column("CR_pw", "CR_pw", 3, "up"),
        Column("CR_pw_T", "CR_pw_T", 3, "up"),
        Column("dice", "Dice", 3, "up", spread=False),
        Column("kappa", "κ", 3, "up", spread=False),
        Column("timeout_WM", "Timeout_WM", 3, spread=False),
        Column("n_error", "errors"),
    )
    rows = _cell_rows(cells, columns)
    notes = [
        "SR: success rate over the frozen panel; CR = SR_W2R / SR_Real; CR_pw: share of Real-successful tasks that "
        "stay successful when the actions chosen inside the world model are replayed (primary metric).",
        "CR_pw_T: CR_pw over tasks whose world-model episode ended before the step cap; Timeout_WM: share at the cap.",
        "errors: tasks whose episode failed; they count as failures.",
    ]
    if any(row.values["CR_pw"].ci for row in rows):
        how = sorted({str(c.value["CR_pw_ci_method"]) for c in cells if c.value.get("CR_pw_ci_method")})
        notes.append(
            f"[low, high]: interval over the cell's Real-successful tasks ({'; '.join(how) or '95 %'})."
        )
    notes += [incomplete] if incomplete else []
    notes += [_MARKS.replace("block", "agent's block"), *notes_on(cells)]
    return with_marks(Table("task_level", title, columns, rows, tuple(notes)))


def calibration(
    cells: Sequence[Loaded], methods: Sequence[str] = (), allow_incomplete: bool = False
) -> Table:
    """The world model as a stand-in for the environment (behr.txt Tables 5, 14, 17 and 18)."""
    check_matrix("calibration", cells, "consistency", "cell.json", methods)
    incomplete = check_panels("calibration", cells, allow_incomplete)
    place, title = place_of(cells, "Calibration of the world model as a surrogate environment")
    columns = (
        *place,
        Column("agent", "Agent"),
        Column("method", "Method"),
        Column("n", "n"),
        Column("SR_Real", "SR_Real", 3),
        Column("SR_WM", "SR_WM", 3, spread=False),
        Column("fp", "FP", None, "down", spread=False),
        Column("fn", "FN", None, "down", spread=False),
        Column("calibration_agreement", "Agree", 3, "up"),
        Column("mean_steps_Real", "Steps_Real", 1),
        Column("mean_steps_WM", "Steps_WM", 1, spread=False),
        Column("step_gap", "Step gap", 1, "down", spread=False),
        Column("timeout_Real", "Timeout_Real", 3),
        Column("timeout_WM", "Timeout_WM", 3, spread=False),
        Column("step_agreement", "Step agree", 3, "up"),
        Column("n_error", "errors"),
    )
    rows = _cell_rows(cells, columns)
    notes = [
        "FP: tasks won in the world model only; FN: won in the real environment only; Agree: share with equal outcome.",
        "Step gap: absolute difference of the mean episode lengths; Step agree: share of aligned steps with the same "
        "action in the world model and the real environment.",
        "errors: tasks whose episode failed; they count as failures.",
        *([incomplete] if incomplete else []),
        _MARKS.replace("block", "agent's block"),
        *notes_on(cells),
    ]
    return with_marks(Table("calibration", title, columns, rows, tuple(notes)))


def real_floor(cells: Sequence[Loaded]) -> Table:
    """Real→Real replay: how often the real environment reproduces itself (metrics.md §1)."""
    check_matrix("real_floor", cells, "consistency", "cell.json")
    columns = (
        Column("domain", "Domain"),
        Column("agent", "Agent"),
        Column("n", "n"),
        Column("SR_Real", "SR_Real", 3),
        Column("real_floor", "Real→Real", 3),
    )
    rows = []
    first: dict[tuple[str, str], Loaded] = {}
    for cell in cells:
        first.setdefault((cell.identity.domain, cell.identity.agent), cell)
    for (domain, agent), cell in sorted(first.items()):
        reason = cell.value["reasons"].get("real_floor", "no replay of the real episodes was made")
        values = {
            "domain": Value(domain),
            "agent": Value(agent),
            "n": Value(cell.value["n"]),
            "SR_Real": mean_value([cell.value["SR_Real"]]),
            "real_floor": mean_value([cell.value["real_floor"]], [reason]),
        }
        rows.append(Row(values, (domain,), (cell.path,)))
    notes = (
        "Real→Real: CR_pw of the real environment with itself, from replaying each real episode's actions in a fresh "
        "environment; no world model can be asked for more.",
    )
    return Table("real_floor", "Replay floor of the real environment", columns, tuple(rows), notes)


def grpo_objective(items: Sequence[Loaded]) -> Table:
    """Each GRPO run's own reward on held-out transitions, before and after training."""
    check_matrix("grpo_objective", items, "models", "heldout.json")
    place, title = place_of(items, "GRPO: held-out mean of the trained reward, before and after")
    columns = (
        *place,
        Column("method", "Method"),
        Column("reward", "Reward"),
        Column("seed", "Seed"),
        Column("n", "n"),
        Column("before", "Before", 4),
        Column("after", "After", 4),
        Column("difference", "Difference", 4, signed=True),
        Column("em_before", "EM before", 3),
        Column("em_after", "EM after", 3),
    )
    rows = []
    for item in sorted(
        items, key=lambda i: (i.identity.block, method_key(i.identity.method), i.identity.seed)
    ):
        require(item.value, HELDOUT_KEYS, item.path)
        record = item.value
        values = {
            **start_of(item),
            "method": Value(method_label(item.identity.method)),
            "reward": Value(str(record["reward"])),
            "seed": Value(item.identity.seed),
            "n": Value(record["n"]),
            "before": _interval(record["before"], record["before_ci"]),
            "after": _interval(record["after"], record["after_ci"]),
            "em_before": mean_value([record["em_before"]]),
            "em_after": mean_value([record["em_after"]]),
        }
        before, after = record["before"], record["after"]
        gain = None if before is None or after is None else after - before
        values["difference"] = _interval(gain, record["difference_ci"])
        rows.append(Row(values, (*item.identity.block, item.identity.method), (item.path,)))
    notes = (
        "Each row is on its own reward's scale; rewards of different methods are not comparable.",
        "[low, high]: 95 % interval over held-out transitions (paired for the difference).",
        *(
            f"{item.identity.domain}, {method_label(item.identity.method)}, seed {item.identity.seed}: ended after "
            f"step {item.value['steps']} ({item.value['stopped']})."
            for item in items
            if item.value["stopped"]
        ),
    )
    return Table("grpo_objective", title, columns, tuple(rows), notes)


def _interval(number: float | None, bounds: Sequence[float] | None) -> Value:
    if number is None:
        return Value(None, reason="the reward could not be scored")
    return Value(float(number), ci=(float(bounds[0]), float(bounds[1])) if bounds else None)
