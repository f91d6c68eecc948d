"""The difficulty filter: which transitions a reward model trains on (metrics.md section 7).

Difficulty is the token F1 of the supervised model's greedy prediction. WebShop keeps transitions with
F1 < 0.35 whose expert action is valid. The other domains split a budget over action types, proportionally
to sqrt(pool x hardness), hardness = 1 - mean F1 of the type. Every transition left out is counted with its
reason, per action type.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from wmlab.data.decompose import history_is_whole, split_system, without_admissible
from wmlab.domains.conventions import SEARCH_BAR
from wmlab.errors import InputError
from wmlab.metrics.text import token_f1

WEBSHOP_MAX_F1 = 0.35
DEFAULT_BUDGET = 6_000  # the paper's TextWorld yield
Order = Literal["hardest", "random"]
REASONS = ("terminal", "held_out", "invalid_action", "duplicate", "too_easy", "over_budget")
_WEBSHOP_ACTION = re.compile(r"(search|click)\[(.*)\]\s*", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True)
class Rule:
    """How a domain's transitions are chosen: ``max_f1`` keeps the hard ones, None splits a budget over types.

    ``valid`` says whether an expert action makes sense in the state it is taken in.
    """

    max_f1: float | None = None
    valid: Callable[[str, Sequence[str] | None], bool] | None = None

    @property
    def name(self) -> str:
        """Its name in the report."""
        return "sqrt_pool_hardness" if self.max_f1 is None else f"f1_below_{self.max_f1:g}"


@dataclass(frozen=True)
class Candidate:
    """What selection needs to know of a transition."""

    transition_id: str
    action_type: str
    f1: float


@lru_cache(maxsize=4096)
def content_hash(initial_observation: str) -> str:
    """SHA-256 of what a task shows at reset, without privileged block and action list."""
    shown, _ = split_system(initial_observation)
    return hashlib.sha256(without_admissible(shown).encode("utf-8", "surrogatepass")).hexdigest()


def panel_hashes(paths: Iterable[str | Path]) -> set[str]:
    """Content hashes of the tasks of panel files. InputError naming the file and task."""
    hashes: set[str] = set()
    for path in paths:
        try:
            panel = json.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError.at(path, "file not found", "check the path") from None
        except (ValueError, OSError) as error:
            raise InputError.at(path, f"not a JSON panel ({error})", "make it with wmlab env panel") from None
        tasks = panel.get("tasks") if isinstance(panel, dict) else None
        if not isinstance(tasks, list):
            raise InputError.at(path, "no list of tasks", "make it with wmlab env panel")
        for row, task in enumerate(tasks):
            shown = task.get("initial_observation") if isinstance(task, dict) else None
            if not isinstance(shown, str):
                raise InputError.at(
                    path, "a task has no initial_observation", "make it with wmlab env panel", row
                )
            hashes.add(content_hash(shown))
    return hashes


def webshop_action_is_valid(action: str, admissible: Sequence[str] | None) -> bool:
    """Parsable, with an argument, and admissible in the state it is taken in.

    ``click[x]`` must be listed (case-insensitively); ``search[...]`` needs a search bar. Without a list
    only the form is checked.
    """
    match = _WEBSHOP_ACTION.fullmatch(action.strip())
    if match is None or not match.group(2).strip():
        return False
    if admissible is None:
        return True
    listed = {item.strip().casefold() for item in admissible}
    if match.group(1).casefold() == "search":
        return SEARCH_BAR in listed
    return f"click[{match.group(2).strip().casefold()}]" in listed


_BUDGET = Rule()
RULES: dict[str, Rule] = {
    "textworld": _BUDGET,
    "alfworld": _BUDGET,
    "scienceworld": _BUDGET,
    "cookingworld": _BUDGET,
    "stabletoolbench": _BUDGET,
    "webshop": Rule(WEBSHOP_MAX_F1, webshop_action_is_valid),
}
"""The rule of each domain (metrics.md 7). ScienceWorld's and ALFWorld's experts only act as their engines allow."""


def rule_of(domain: str) -> Rule:
    """The rule of a domain. Raises InputError for an unknown one."""
    if domain not in RULES:
        raise InputError(f"domain {domain!r}: no difficulty rule; choose from {', '.join(RULES)}")
    return RULES[domain]


def apportion(pools: Mapping[str, int], weights: Mapping[str, float], budget: int) -> dict[str, int]:
    """Split ``budget`` over types proportionally to ``weights``, no type above its pool.

    A type whose share reaches its pool gets the pool and the rest is split anew; then largest remainder,
    ties to the smaller name. When every remaining weight is 0 the pools' square roots are the weights.
    The result sums to min(budget, sum of pools) and does not depend on the order of the mappings.
    """
    if budget < 0:
        raise InputError(f"budget {budget} is negative; give the number of transitions to keep")
    given = dict.fromkeys(pools, 0)
    active = sorted(name for name, pool in pools.items() if pool > 0)
    left = min(budget, sum(pools[name] for name in active))
    while active and left > 0:
        total = math.fsum(weights[name] for name in active)
        if total > 0:
            shares = {name: left * (weights[name] / total) for name in active}
        else:
            roots = math.fsum(math.sqrt(pools[name]) for name in active)
            shares = {name: left * math.sqrt(pools[name]) / roots for name in active}
        full = [name for name in active if shares[name] >= pools[name]]
        if full:
            for name in full:
                given[name] = pools[name]
            left -= sum(pools[name] for name in full)
            active = [name for name in active if name not in full]
            continue
        for name in active:
            given[name] = math.floor(shares[name])
        short = left - sum(given[name] for name in active)
        by_remainder = sorted(active, key=lambda name: (given[name] - shares[name], name))
        for name in by_remainder[:short]:
            given[name] += 1
        break
    return given


def _chosen(candidates: Sequence[Candidate], n: int, order: Order, seed: int, name: str) -> list[str]:
    """Ids of ``n`` candidates: lowest F1 first, or a seeded draw; independent of the input order."""
    if order == "hardest":
        ranked = sorted(candidates, key=lambda one: (one.f1, one.transition_id))
        return [one.transition_id for one in ranked[:n]]
    ids = sorted(one.transition_id for one in candidates)
    drawn = np.random.default_rng([seed, zlib.crc32(name.encode())]).permutation(len(ids))
    return [ids[index] for index in drawn[:n]]


def _pair_key(row: Mapping[str, Any]) -> bytes:
    turns = [(message["role"], message["content"]) for message in row["history"]]
    text = json.dumps([turns, row["action"]], ensure_ascii=True)
    return hashlib.sha256(text.encode()).digest()


@dataclass(frozen=True)
class Selection:
    """Ids to keep and the report of everything else."""

    kept: frozenset[str]
    report: dict[str, Any]


def _collect(
    rows: Iterable[Mapping[str, Any]],
    predictions: Mapping[str, str],
    domain: str,
    excluded: set[str],
    source: object,
    sampled: bool = False,
) -> tuple[list[Candidate], dict[str, Counter[str]], int]:
    """Eligible candidates, drop reasons per action type, and the number of rows."""
    rule = rule_of(domain)
    candidates: list[Candidate] = []
    dropped: dict[str, Counter[str]] = defaultdict(Counter)
    ids: set[str] = set()
    pairs: set[bytes] = set()
    total = 0
    for number, row in enumerate(rows):
        total += 1
        identity, kind = row["transition_id"], row["action_type"]
        if any(row[name] is None for name in ("transition_id", "action", "action_type", "observation")):
            raise InputError.at(source, "a field is null", "decompose the trajectories again", number)
        if not history_is_whole(row["history"]):
            raise InputError.at(
                source, "history is empty or holds a null", "decompose the trajectories again", number
            )
        if row["domain"] != domain:
            raise InputError.at(
                source, f"domain {row['domain']!r}, not {domain!r}", "give one domain", number
            )
        if identity in ids:
            raise InputError.at(
                source, f"transition_id {identity!r} is repeated", "merge without repeats", number
            )
        ids.add(identity)
        if identity not in predictions and sampled:
            dropped[kind]["not_sampled"] += 1
            continue
        if identity not in predictions:
            raise InputError.at(source, f"no prediction for {identity!r}", "predict the whole file", number)
        pair = _pair_key(row)
        if row["next_action"] is None:
            reason = "terminal"
        elif content_hash(row["history"][0]["content"]) in excluded:
            reason = "held_out"
        elif rule.valid is not None and not rule.valid(row["action"], row["admissible"]):
            reason = "invalid_action"
        elif pair in pairs:
            reason = "duplicate"
        else:
            pairs.add(pair)
            candidates.append(Candidate(identity, kind, token_f1(predictions[identity], row["observation"])))
            continue
        dropped[kind][reason] += 1
    return candidates, dropped, total


def select(
    rows: Iterable[Mapping[str, Any]],
    predictions: Mapping[str, str],
    *,
    domain: str,
    budget: int | None = None,
    order: Order = "hardest",
    max_f1: float | None = None,
    seed: int = 0,
    excluded: set[str] | None = None,
    source: object = "transitions",
    sampled: bool = False,
) -> Selection:
    """Choose transitions for reward training and say what was left out and why.

    ``predictions`` maps transition_id to the greedy baseline prediction; ``excluded`` holds content hashes
    of held-out tasks. Without ``budget`` WebShop keeps all hard ones and other domains DEFAULT_BUDGET.
    ``max_f1`` is another bound than the domain's: WebShop's 0.35 leaves a good model next to nothing.
    ``sampled`` says that the predictions are a draw: the other transitions are counted as ``not_sampled``.
    Raises InputError for a transition without a prediction otherwise, a repeated id or another domain.
    """
    if order not in ("hardest", "random"):
        raise InputError(f"order {order!r} unknown; use hardest or random")
    rule = rule_of(domain) if max_f1 is None else replace(rule_of(domain), max_f1=max_f1)
    candidates, dropped, total = _collect(rows, predictions, domain, excluded or set(), source, sampled)
    pool_of: dict[str, list[Candidate]] = defaultdict(list)
    for one in candidates:
        pool_of[one.action_type].append(one)
    hardness = {name: 1.0 - math.fsum(one.f1 for one in pool) / len(pool) for name, pool in pool_of.items()}
    open_to = dict(pool_of)
    if rule.max_f1 is not None:
        open_to = {name: [one for one in pool if one.f1 < rule.max_f1] for name, pool in pool_of.items()}
        for name, pool in pool_of.items():
            if easy := len(pool) - len(open_to[name]):
                dropped[name]["too_easy"] += easy
    sizes = {name: len(pool) for name, pool in open_to.items()}
    if rule.max_f1 is not None:
        budgets = _hardest_budgets(open_to, budget, order, seed)
    else:
        weights = {name: math.sqrt(size * max(hardness[name], 0.0)) for name, size in sizes.items()}
        budgets = apportion(sizes, weights, DEFAULT_BUDGET if budget is None else budget)
    kept: set[str] = set()
    for name, pool in open_to.items():
        kept.update(_chosen(pool, budgets[name], order, seed, name))
        if over := sizes[name] - budgets[name]:
            dropped[name]["over_budget"] += over
    types = sorted(set(pool_of) | set(dropped))
    report = {
        "schema": 1,
        "domain": domain,
        "rule": rule.name,
        "order": order,
        "seed": seed,
        "budget": budget if budget is not None or rule.max_f1 is not None else DEFAULT_BUDGET,
        "n_in": total,
        "n_kept": len(kept),
        "dropped": {reason: sum(dropped[name][reason] for name in types) for reason in REASONS},
        "action_types": {
            name: {
                "pool": len(pool_of.get(name, ())),
                "hardness": hardness.get(name),
                "budget": budgets.get(name, 0),
                "kept": budgets.get(name, 0),
                "dropped": {reason: dropped[name][reason] for reason in REASONS if dropped[name][reason]},
            }
            for name in types
        },
    }
    return Selection(frozenset(kept), report)


def _hardest_budgets(
    pools: Mapping[str, Sequence[Candidate]], budget: int | None, order: Order, seed: int
) -> dict[str, int]:
    """All hard transitions, or the ``budget`` hardest (or randomly drawn) of them over all types."""
    sizes = {name: len(pool) for name, pool in pools.items()}
    if budget is None or budget >= sum(sizes.values()):
        return sizes
    if budget < 0:
        raise InputError(f"budget {budget} is negative; give the number of transitions to keep")
    everyone = [one for pool in pools.values() for one in pool]
    type_of = {one.transition_id: one.action_type for one in everyone}
    counts = Counter(type_of[identity] for identity in _chosen(everyone, budget, order, seed, "webshop"))
    return {name: counts[name] for name in pools}


def predictions_by_id(rows: Iterable[Mapping[str, Any]], source: object) -> dict[str, str]:
    """Map transition_id to prediction; InputError for a null or a repeated id."""
    found: dict[str, str] = {}
    for number, row in enumerate(rows):
        identity, prediction = row["transition_id"], row["prediction"]
        if identity is None or prediction is None:
            raise InputError.at(source, "transition_id or prediction is null", "predict again", number)
        if identity in found:
            raise InputError.at(
                source, f"two predictions for {identity!r}", "give one model's greedy run", number
            )
        found[identity] = prediction
    return found


def keep(rows: Iterable[dict[str, Any]], kept: frozenset[str]) -> Iterator[dict[str, Any]]:
    """The chosen rows, in file order."""
    return (row for row in rows if row["transition_id"] in kept)
