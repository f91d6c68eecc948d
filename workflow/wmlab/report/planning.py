"""Table of planning agents (behr.txt, Tables 6 and 21; memwm.txt, Table 2): success, gain, test, price."""

from __future__ import annotations

from collections.abc import Sequence

from wmlab.metrics.planning import PLANNING_KEYS
from wmlab.report.inputs import Loaded, require
from wmlab.report.labels import method_key, method_label
from wmlab.report.tables import Column, Row, Table, Value, with_marks

NONE_SOLVED = "no task was solved"


def planning(items: Sequence[Loaded]) -> Table:
    """A row per agent, planner and world model; the agent without planning stands at the head of its block."""
    columns = (
        Column("domain", "Domain"),
        Column("agent", "Agent"),
        Column("planner", "Planner"),
        Column("method", "World model"),
        Column("seed", "Seed"),
        Column("n", "n"),
        Column("sr", "SR_Real", 3, "up"),
        Column("difference", "Δ", 3, signed=True),
        Column("wins", "Only planned"),
        Column("losses", "Only plain"),
        Column("p", "McNemar p", p_value=True),
        Column("steps", "Steps (solved)", 1, "down"),
        Column("policy_calls", "Policy calls", 1),
        Column("world_model_calls", "WM calls", 1),
        Column("tokens", "Tokens", 0),
    )
    for item in items:
        require(item.value, PLANNING_KEYS, item.path)
    blocks = sorted({(i.identity.domain, i.identity.agent) for i in items})
    rows = []
    for domain, agent in blocks:
        here = [i for i in items if (i.identity.domain, i.identity.agent) == (domain, agent)]
        here.sort(key=lambda i: (i.value["planner"], method_key(i.identity.method), i.identity.seed))
        rows.append(_plain(here[0]))
        rows += [_planned(item) for item in here]
    errors = sum(item.value["n_error"] for item in items)
    notes = (
        "Episodes in the real environment. Δ: against the same agent without planning, [low, high]: 95 % interval"
        " over resampled tasks; McNemar: exact, two-sided, on the tasks that only one of the two solved.",
        "Calls and tokens are means a step. Oracle: the real environment as the world model. Bold: best of an agent;"
        " underline: second; ties share a mark.",
        *([f"{errors} paired episodes hold an error and count as failures."] if errors else []),
    )
    return with_marks(Table("planning", "Planning with a world model", columns, tuple(rows), notes))


def _plain(item: Loaded) -> Row:
    record, missing = item.value, Value(None, reason="no planning")
    values = {
        "domain": Value(item.identity.domain),
        "agent": Value(item.identity.agent),
        "planner": Value("none"),
        "method": missing,
        "n": Value(record["n"]),
        "sr": Value(float(record["SR_base"]), ci=tuple(record["SR_base_ci"])),
        "steps": Value(record["steps"]["base"]["solved"], reason=NONE_SOLVED),
        **dict.fromkeys(("seed", "difference", "wins", "losses", "p"), missing),
        "policy_calls": Value(1.0),
        "world_model_calls": Value(0.0),
        "tokens": missing,
    }
    return Row(values, (item.identity.domain, item.identity.agent), (item.path,))


def _planned(item: Loaded) -> Row:
    record = item.value
    price = record["cost"]["a_step"]
    none = "no step was planned"
    tokens = [price["policy_tokens"], price["world_model_tokens"]]
    low, high = record["difference_ci"]
    oracle = item.identity.method == "oracle"
    values = {
        "domain": Value(item.identity.domain),
        "agent": Value(item.identity.agent),
        "planner": Value(record["planner"]),
        "method": Value("Real (oracle)" if oracle else method_label(item.identity.method)),
        "seed": Value(None, reason="the environment itself") if oracle else Value(item.identity.seed),
        "n": Value(record["n"]),
        "sr": Value(float(record["SR_plan"]), ci=tuple(record["SR_plan_ci"])),
        "difference": Value(float(record["difference"]), ci=(float(low), float(high))),
        "wins": Value(record["mcnemar"]["plan_only"]),
        "losses": Value(record["mcnemar"]["base_only"]),
        "p": Value(float(record["mcnemar"]["p"])),
        "steps": Value(record["steps"]["plan"]["solved"], reason=NONE_SOLVED),
        "policy_calls": Value(price["policy_calls"], reason=none),
        "world_model_calls": Value(price["world_model_calls"], reason=none),
        "tokens": Value(None if None in tokens else float(sum(tokens)), reason=none),
    }
    return Row(values, (item.identity.domain, item.identity.agent), (item.path,))
