"""Task-level consistency of a world model over a frozen panel (metrics.md section 2; formats.md 6.5-6.8).

The denominator is the panel. A missing or errored episode is a failure that is also counted; nothing
shrinks n. A rate without a denominator is null with a reason, never infinity or NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import NormalDist, fmean, median
from typing import Any

import numpy as np

from wmlab.domains.base import Task
from wmlab.errors import IncompletePanelError, InputError
from wmlab.io import schemas
from wmlab.metrics.episodes import Episode

IDENTITY = ("domain", "backbone", "method", "agent", "seed")
LOOP_LENGTH = 5  # the same action this often in a row at the end of an episode is an invalid loop
RESAMPLES = 2_000
NAMED_IDS = 5  # how many task ids an error message lists

Runs = dict[str, Episode]


@dataclass(frozen=True)
class Confusion:
    """Real against a second outcome: both, first only, second only, neither (a, b, c, d)."""

    a: int
    b: int
    c: int
    d: int

    @classmethod
    def of(cls, first: Sequence[bool], second: Sequence[bool]) -> Confusion:
        """Count the four outcomes of paired successes, both of shape (n,)."""
        pairs = list(zip(first, second, strict=True))
        return cls(
            *(pairs.count(kind) for kind in ((True, True), (True, False), (False, True), (False, False)))
        )

    @property
    def n(self) -> int:
        return self.a + self.b + self.c + self.d

    def rates(self) -> tuple[dict[str, float | None], dict[str, str]]:
        """SR_Real, SR_W2R, CR, CR_pw, dice, kappa, agreement, and why a null one is null."""
        a, b, c, d, n = self.a, self.b, self.c, self.d, self.n
        chance = ((a + b) * (a + c) + (c + d) * (b + d)) / n**2
        observed = (a + d) / n
        rates: dict[str, float | None] = {
            "SR_Real": (a + b) / n,
            "SR_W2R": (a + c) / n,
            "agreement": observed,
        }
        rates["CR"] = (a + c) / (a + b) if a + b else None
        rates["CR_pw"] = a / (a + b) if a + b else None
        rates["dice"] = 2 * a / (2 * a + b + c) if a + b + c else None
        rates["kappa"] = (observed - chance) / (1 - chance) if chance < 1 else None
        why = {
            "CR": "SR_Real is 0: no task was solved in the real environment",
            "CR_pw": "SR_Real is 0: no task was solved in the real environment",
            "dice": "no task was solved in the real environment or on replay",
            "kappa": "all tasks have one outcome on both sides, so chance agreement is 1",
        }
        return rates, {name: why[name] for name, value in rates.items() if value is None}


def wilson(successes: int, n: int, level: float = 0.95) -> list[float] | None:
    """Wilson score interval of a proportion, [low, high]; None when n is 0."""
    if n == 0:
        return None
    z = NormalDist().inv_cdf(0.5 + level / 2)
    centre = (successes + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * math.sqrt(successes * (n - successes) / n + z * z / 4)
    return [max(0.0, centre - half), min(1.0, centre + half)]


def ratio_interval(
    top: Sequence[bool], bottom: Sequence[bool], seed: int, resamples: int = RESAMPLES
) -> list[float] | None:
    """Percentile 95 % bootstrap interval over tasks of sum(top) / sum(bottom); None when it has no denominator.

    Resamples whose denominator is 0 are left out: the ratio does not exist there.
    """
    joint = Confusion.of(top, bottom)
    if joint.a + joint.c == 0:
        return None
    rng = np.random.default_rng(seed)
    counts = np.array([joint.a, joint.b, joint.c, joint.d])
    draws = rng.multinomial(joint.n, counts / joint.n, size=resamples)
    over, under = draws[:, 0] + draws[:, 1], draws[:, 0] + draws[:, 2]
    low, high = np.percentile(over[under > 0] / under[under > 0], [2.5, 97.5])
    return [float(low), float(high)]


def normalise_action(action: str) -> str:
    """Strip, collapse whitespace, fold case: two actions are one when these are equal."""
    return " ".join(action.split()).casefold()


def first_divergence(left: Sequence[str], right: Sequence[str]) -> int | None:
    """0-based step at which two action sequences part (a missing step parts them too); None when equal."""
    for step, (one, other) in enumerate(zip(left, right, strict=False)):
        if normalise_action(one) != normalise_action(other):
            return step
    return None if len(left) == len(right) else min(len(left), len(right))


def failure_mode(episode: Episode | None) -> str | None:
    """Why an episode is not a success: missing, error, invalid_loop, timeout or finished_without_success.

    The first of these that holds, so the modes add up to the failures; None for a success.
    """
    if episode is None:
        return "missing"
    if episode.status == "error":
        return "error"
    if episode.success:
        return None
    tail = [normalise_action(action) for action in episode.actions[-LOOP_LENGTH:]]
    if len(tail) == LOOP_LENGTH and len(set(tail)) == 1:
        return "invalid_loop"
    return "timeout" if episode.status == "step_cap" else "finished_without_success"


FAILURE_MODES = ("finished_without_success", "timeout", "invalid_loop", "error", "missing")


def by_task(panel: Sequence[str], episodes: Sequence[Episode], source: str) -> Runs:
    """Episodes by item_id. Raises InputError for a duplicate or for a task outside the panel."""
    runs: Runs = {}
    for episode in episodes:
        if episode.item_id in runs:
            raise InputError.at(
                source, f"item_id '{episode.item_id}' is there twice", "keep one episode a task"
            )
        runs[episode.item_id] = episode
    unknown = sorted(set(runs) - set(panel))
    if unknown:
        named = ", ".join(unknown[:NAMED_IDS])
        raise InputError.at(
            source, f"{len(unknown)} item ids are not in the panel ({named})", "give the panel they ran on"
        )
    return runs


def content_mismatches(tasks: Sequence[Task], real: Runs) -> list[str]:
    """Ids of tasks whose Real episode was played on other content than the panel's.

    The hash that the rollout recorded decides; without one, what the agent was shown before its first
    action must hold the panel's initial observation (whitespace aside). No record, no verdict.
    """
    found = []
    for task in tasks:
        episode = real.get(task.task_id)
        if episode is None or episode.status == "error":
            continue
        if episode.task_sha256 is not None:
            same = episode.task_sha256 == task.sha256
        else:
            shown = [m["content"] for m in takewhile(lambda m: m["role"] != "assistant", episode.messages)]
            same = not shown or " ".join(task.initial_observation.split()) in " ".join(
                " ".join(shown).split()
            )
        if not same:
            found.append(task.task_id)
    return found


def check_complete(panel: Sequence[str], conditions: Mapping[str, Runs]) -> None:
    """Raise IncompletePanelError, naming how many and the first ids, when a condition lacks a task."""
    problems = []
    for name, runs in conditions.items():
        missing = [task for task in panel if task not in runs]
        if missing:
            more = ", …" if len(missing) > NAMED_IDS else ""
            problems.append(
                f"{name} lacks {len(missing)} of {len(panel)} ({', '.join(missing[:NAMED_IDS])}{more})"
            )
    if problems:
        fix = "run the missing episodes or pass --allow-incomplete to count them as failures"
        raise IncompletePanelError(f"incomplete panel: {'; '.join(problems)}; {fix}")


def _condition(panel: Sequence[str], runs: Runs) -> dict[str, Any]:
    """Counts, steps, timeouts and failure modes of one condition."""
    modes = [failure_mode(runs.get(task)) for task in panel]
    steps = [e.n_steps for e in runs.values() if e.status != "error"]
    capped = sum(e.status == "step_cap" for e in runs.values())
    won = modes.count(None)
    return {
        "n": len(panel),
        "n_success": won,
        "SR": won / len(panel),
        "SR_ci": wilson(won, len(panel)),
        "n_error": modes.count("error"),
        "n_missing": modes.count("missing"),
        "mean_steps": fmean(steps) if steps else None,  # over episodes that did not error
        "n_timeout": capped,
        "timeout_rate": capped / len(panel),
        "failure_modes": {mode: modes.count(mode) for mode in FAILURE_MODES},
    }


def _step_wise(panel: Sequence[str], real: Runs, wm: Runs) -> dict[str, Any]:
    """Action agreement by step index over min(length) pairs, and where the two runs part."""
    equal, pairs, per_task, divergences, identical = 0, 0, [], [], 0
    for task in panel:
        if task not in real or task not in wm:
            continue
        left, right = real[task].actions, wm[task].actions
        hits = [normalise_action(x) == normalise_action(y) for x, y in zip(left, right, strict=False)]
        equal, pairs = equal + sum(hits), pairs + len(hits)
        if hits:
            per_task.append(fmean(hits))
        parted = first_divergence(left, right)
        identical += parted is None
        if parted is not None:
            divergences.append(parted)
    return {
        "agreement": equal / pairs if pairs else None,  # over all pairs of all tasks
        "agreement_by_task": fmean(per_task) if per_task else None,
        "n_pairs": pairs,
        "n_tasks": len(per_task),
        "n_identical": identical,
        "n_diverged": len(divergences),
        "mean_first_divergence": fmean(divergences) if divergences else None,  # 0-based step
        "median_first_divergence": float(median(divergences)) if divergences else None,
    }


def _calibration(reference: Sequence[bool], wm: Sequence[bool]) -> dict[str, Any]:
    """Surrogate success against a reference: FP = surrogate only, FN = reference only."""
    joint = Confusion.of(reference, wm)
    counts = {"tp": joint.a, "fn": joint.b, "fp": joint.c, "tn": joint.d}
    return {**counts, "agreement": (joint.a + joint.d) / joint.n}


def _outcome(runs: Runs, task: str) -> bool:
    return task in runs and runs[task].succeeded


def _steps(runs: Runs, task: str) -> int | None:
    return runs[task].n_steps if task in runs else None


def compute_cell(
    panel: Sequence[str],
    real: Runs,
    w2r: Runs,
    wm: Runs | None = None,
    floor: Runs | None = None,
    *,
    seed: int = 0,
) -> dict[str, Any]:
    """Every statistic of metrics.md section 2 for one world model and one agent on one panel.

    ``panel`` holds the task ids (n >= 1); the runs are keyed by task id (see ``by_task``). Returns the
    columns of ``schemas.CELLS`` without its identity, plus JSON-only detail: intervals, conditions,
    calibration, step-wise agreement, floor and the ``tasks`` list that the two-level bootstrap needs.
    ``seed`` drives the bootstrap interval of CR; it is in the output.
    """
    if not panel:
        raise InputError("the panel has no tasks; make it again with a limit above 0")
    n = len(panel)
    given = {"Real": real, "W2R": w2r} | ({"WM": wm} if wm is not None else {})
    conditions = {name: _condition(panel, runs) for name, runs in given.items()}
    won_real, won_w2r = [_outcome(real, t) for t in panel], [_outcome(w2r, t) for t in panel]
    joint = Confusion.of(won_real, won_w2r)
    rates, reasons = joint.rates()
    cell: dict[str, Any] = {name: None for name in schemas.CELLS.names if name not in (*IDENTITY, "reasons")}
    cell |= rates
    cell |= {"n": n, "both": joint.a, "real_only": joint.b, "w2r_only": joint.c, "neither": joint.d}
    cell["n_error"] = sum(any(t in r and r[t].status == "error" for r in given.values()) for t in panel)
    cell["n_missing"] = sum(any(t not in r for r in given.values()) for t in panel)
    for name, found in conditions.items():
        cell[f"SR_{name}"], cell[f"mean_steps_{name}"] = found["SR"], found["mean_steps"]
        if found["mean_steps"] is None:
            reasons[f"mean_steps_{name}"] = "every episode is missing or errored"
    cell["timeout_Real"] = conditions["Real"]["timeout_rate"]
    detail: dict[str, Any] = {
        "CR_pw_ci": wilson(joint.a, joint.a + joint.b),
        "CR_pw_ci_method": "Wilson, 95 %",
        "CR_ci": ratio_interval(won_w2r, won_real, seed),
        "CR_ci_method": f"percentile bootstrap over tasks, 95 %, {RESAMPLES} resamples",
        "bootstrap_seed": seed,
        "timeout_W2R": conditions["W2R"]["timeout_rate"],
        "conditions": conditions,
    }
    if wm is not None:
        _add_world_model(panel, cell, detail, reasons, real, w2r, wm)
    else:
        wm_only = (
            "SR_WM",
            "CR_pw_T",
            "calibration_agreement",
            "step_agreement",
            "mean_steps_WM",
            "timeout_WM",
            "fp",
            "fn",
        )
        reasons |= dict.fromkeys(wm_only, "no WM episodes were given")
    if floor is not None:
        detail["floor"] = _floor(panel, real, floor)
        cell["real_floor"] = detail["floor"]["reproduced"]
        if cell["real_floor"] is None:
            reasons["real_floor"] = "no task was solved in the real environment"
    else:
        reasons["real_floor"] = "no Real-to-Real replay was given"
    tasks = [_task_row(task, real, w2r, wm) for task in panel]
    return {**cell, **detail, "reasons": reasons, "tasks": tasks}


def _add_world_model(
    panel: Sequence[str],
    cell: dict[str, Any],
    detail: dict[str, Any],
    reasons: dict[str, str],
    real: Runs,
    w2r: Runs,
    wm: Runs,
) -> None:
    """Fill what needs the WM episodes: CR_pw_T, calibration, steps, timeouts, step-wise agreement."""
    ended = [task for task in panel if task not in wm or wm[task].status != "step_cap"]
    untimed = Confusion.of([_outcome(real, t) for t in ended], [_outcome(w2r, t) for t in ended])
    solved = untimed.a + untimed.b
    cell["CR_pw_T"] = untimed.a / solved if solved else None
    if not solved:
        reasons["CR_pw_T"] = "no task that was solved in Real has a WM trajectory that ended before the cap"
    detail["CR_pw_T_ci"] = wilson(untimed.a, solved)
    detail["n_CR_pw_T"] = solved
    cell["timeout_WM"] = detail["conditions"]["WM"]["timeout_rate"]
    won_wm = [_outcome(wm, t) for t in panel]
    calibration = _calibration([_outcome(real, t) for t in panel], won_wm)
    cell["fp"], cell["fn"] = calibration["fp"], calibration["fn"]
    cell["calibration_agreement"] = calibration["agreement"]
    detail["calibration"] = calibration
    detail["calibration_w2r"] = _calibration([_outcome(w2r, t) for t in panel], won_wm)
    steps = (cell["mean_steps_WM"], cell["mean_steps_Real"])
    detail["step_gap"] = None if None in steps else abs(steps[0] - steps[1])
    detail["step_wise"] = _step_wise(panel, real, wm)
    cell["step_agreement"] = detail["step_wise"]["agreement"]
    if cell["step_agreement"] is None:
        reasons["step_agreement"] = "no task has an action in both Real and WM"


def _floor(panel: Sequence[str], real: Runs, floor: Runs) -> dict[str, Any]:
    """How far the real environment agrees with itself when the same actions are replayed."""
    joint = Confusion.of([_outcome(real, t) for t in panel], [_outcome(floor, t) for t in panel])
    solved = joint.a + joint.b
    return {
        "n": joint.n,
        "n_missing": sum(task not in floor for task in panel),
        "n_error": sum(task in floor and floor[task].status == "error" for task in panel),
        "n_real_success": solved,
        "reproduced": joint.a / solved if solved else None,
        "reproduced_ci": wilson(joint.a, solved),
        "agreement": (joint.a + joint.d) / joint.n,
    }


def _task_row(task: str, real: Runs, w2r: Runs, wm: Runs | None) -> dict[str, Any]:
    """One task: successes, steps, whether the WM trajectory hit the cap, what went wrong."""
    given = {"real": real, "w2r": w2r} | ({"wm": wm} if wm is not None else {})
    modes = {name: failure_mode(runs.get(task)) for name, runs in given.items()}
    return {
        "item_id": task,
        "real": _outcome(real, task),
        "wm": None if wm is None else _outcome(wm, task),
        "w2r": _outcome(w2r, task),
        "t_real": _steps(real, task),
        "t_wm": None if wm is None else _steps(wm, task),
        "t_w2r": _steps(w2r, task),
        "timeout": None if wm is None else task in wm and wm[task].status == "step_cap",
        "divergence": first_divergence(real[task].actions, wm[task].actions)
        if wm is not None and task in real and task in wm
        else None,
        "failures": {name: mode for name, mode in modes.items() if mode is not None},
    }
