"""A made-up study with the files, names and keys of the data contracts, for the report tests only."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

from wmlab.io.atomic import write_json
from wmlab.io.jsonl import write_jsonl
from wmlab.io.provenance import write_meta
from wmlab.io.schemas import CELLS
from wmlab.io.tables import write_table
from wmlab.report.figures.canvas import Drawing, style

AGENTS = ("clone-large", "clone-small", "scripted", "scripted-noisy-30")
SEEDS = {"w2w": (0,), "f1": (0, 1), "em": (0, 1), "behr": (0, 1)}
SKILL = {"clone-large": 0.7, "clone-small": 0.35, "scripted": 0.98, "scripted-noisy-30": 0.6}
GAIN = {"copy": -0.3, "w2w": 0.0, "f1": 0.03, "em": 0.01, "behr": 0.08}


def stays_on_the_page(drawing: Drawing) -> bool:
    """Whether nothing of a figure is drawn outside its page (a hundredth of an inch is allowed)."""
    with style(drawing.name):
        drawing.figure.draw_without_rendering()
        box = drawing.figure.get_tightbbox()
        width, height = drawing.figure.get_size_inches()
    return bool(min(box.x0, box.y0) >= -0.01 and box.x1 <= width + 0.01 and box.y1 <= height + 0.01)


def _meta(path: Path, root: Path, seed: int | None = None, inputs: tuple[Path, ...] = ()) -> None:
    config = {"study": root.name, "stage": path.parent.relative_to(root).parts[0]}
    write_meta(path, config=config, seed=seed, inputs=inputs, started=time.time() - 2)


def episode(
    rng: random.Random, item: str, mode: str, agent: str, model: str | None, win: bool
) -> dict[str, Any]:
    """One episode whose text depends on the mode after some steps, so that the runs diverge."""
    n = 50 if not win and rng.random() < 0.4 else rng.randint(6, 22)
    split = rng.randint(2, 5)
    messages = [{"role": "system", "content": "You are in a text game. <b>Goal</b>: cook."}]
    messages.append({"role": "user", "content": f"-= Kitchen =- {item}"})
    actions = []
    for step in range(n):
        action = f"go east {step}" if step < split or mode == "real" else f"open fridge {step}"
        actions.append(action)
        messages.append({"role": "assistant", "content": f"Thought: x\nAction:\n{action}"})
        place = "Kitchen" if step < split or mode == "real" else "Pantry"
        messages.append({"role": "user", "content": f"-= {place} =- step {step} & more"})
    if win:
        messages[-1]["content"] += " [SUCCESS]"
    return {
        "item_id": item,
        "mode": mode,
        "agent_id": agent,
        "model_id": model,
        "messages": messages,
        "actions": actions,
        "reward": float(win),
        "score": float(win),
        "success": win,
        "status": "step_cap" if n == 50 else "finished",
        "n_steps": n,
        "error": None,
        "timing": {"seconds": 0.5},
        "tokens": {"agent": 10 * n, "world_model": 20 * n},
    }


def cell(
    identity: tuple[str, str, str, str, int], real: list[bool], wm: list[bool], w2r: list[bool]
) -> dict[str, Any]:
    """A cell of the contract from per-task outcomes."""
    n = len(real)
    both = sum(a and b for a, b in zip(real, w2r, strict=True))
    row: dict[str, Any] = dict.fromkeys(CELLS.names)
    row |= dict(zip(("domain", "backbone", "method", "agent", "seed"), identity, strict=True))
    row |= {"n": n, "n_error": 0, "n_missing": 0, "both": both, "real_only": sum(real) - both}
    row |= {"w2r_only": sum(w2r) - both, "neither": n - sum(real) - sum(w2r) + both}
    row["fp"] = sum(b and not a for a, b in zip(real, wm, strict=True))
    row["fn"] = sum(a and not b for a, b in zip(real, wm, strict=True))
    row |= {"SR_Real": sum(real) / n, "SR_WM": sum(wm) / n, "SR_W2R": sum(w2r) / n}
    rate = both / sum(real) if any(real) else None
    row |= {"CR": sum(w2r) / sum(real) if any(real) else None, "CR_pw": rate, "CR_pw_T": rate}
    row |= {"dice": 2 * both / max(sum(real) + sum(w2r), 1), "kappa": 0.5, "agreement": 0.8}
    row |= {"calibration_agreement": 1 - (row["fp"] + row["fn"]) / n, "step_agreement": 0.7}
    row |= {"mean_steps_Real": 14.5, "mean_steps_WM": 17.25, "mean_steps_W2R": 16.0}
    row |= {"timeout_Real": 0.0, "timeout_WM": 0.1, "real_floor": 1.0}
    reasons = {} if any(real) else dict.fromkeys(("CR", "CR_pw", "CR_pw_T"), "SR_Real = 0")
    row["reasons"] = json.dumps(reasons)
    half = 0.12
    row["CR_pw_ci"] = None if rate is None else [max(0.0, rate - half), min(1.0, rate + half)]
    row["tasks"] = [
        {
            "item_id": f"textworld_{i}",
            "real": r,
            "wm": m,
            "w2r": v,
            "t_real": 12,
            "t_wm": 14,
            "timeout": False,
        }
        for i, (r, m, v) in enumerate(zip(real, wm, w2r, strict=True))
    ]
    return row


def grpo_curve(rng: random.Random, method: str, steps: int = 60) -> list[dict[str, Any]]:
    """Curve rows of the contract."""
    return [
        {
            "step": step,
            "reward": 0.5 + GAIN[method] * 4 * (1 - 0.97**step) + rng.gauss(0, 0.03),
            "reward_std": 0.1,
            "kl": 0.0004 * step + abs(rng.gauss(0, 0.002)),
            "entropy": 0.4 * 0.99**step + abs(rng.gauss(0, 0.01)),
            "length": 30.0,
            "em_validation": 0.6 + GAIN[method] * step / steps if step % 10 == 0 else None,
            "prefill_tokens": 21_000 * step if method == "behr" else 0,
            "reference_calls": 6 * step,
            "masked": 0,
            "loss": 0.01,
            "grad_norm": 0.5,
            "seconds": 2.0,
        }
        for step in range(1, steps + 1)
    ]


def sft_curve(rng: random.Random, start: float, steps: int = 200) -> list[dict[str, Any]]:
    """Curve rows of the contract."""
    rows = []
    for step in range(1, steps + 1):
        loss = 0.05 + start * 0.97**step
        check = step % 40 == 0
        rows.append(
            {
                "step": step,
                "epoch": step / 100,
                "loss": loss + abs(rng.gauss(0, 0.02)),
                "lr": 3e-4,
                "tokens": 2048 * step,
                "tokens_per_s": 9000.0,
                "val_loss": loss + 0.03 if check else None,
                "val_em": 1 - loss / start if check else None,
            }
        )
    return rows


def _comparison(wins: int, ties: int, difference: float, low: float, high: float) -> dict[str, Any]:
    p = min(1.0, 2 * 0.5**wins)
    boot = {"mean_difference": difference, "ci": [low, high], "level": 0.95, "r": 0, "resamples": 10_000}
    boot |= {"seed": 0, "undefined": 0, "p": 1 / 10_001, "p_plain": 0.0}
    return {
        "sign": {"wins": wins, "losses": 0, "ties": ties, "p": p},
        "bootstrap": boot,
        "effects": {
            "mean_difference": difference,
            "sd_difference": 0.05,
            "cliffs_delta": 0.4,
            "rank_biserial": 1.0,
            "minimum_detectable_difference": 0.058,
            "power": 0.8,
        },
        "two_level": {
            **boot,
            "n_tasks": 320,
            "smallest_panel": 40,
            "minimum_detectable_difference_tasks": 0.19,
        },
    }


_PAIRS = {
    "w2w": _comparison(5, 3, 0.0455, 0.014, 0.086),
    "f1": _comparison(6, 2, 0.0658, 0.016, 0.129),
    "em": _comparison(7, 1, 0.168, 0.071, 0.273),
}
STATS: dict[str, Any] = {
    "schema": 1,
    "metric": "CR_pw",
    "target": "behr",
    "methods": ["w2w", "f1", "em", "behr"],
    "layout": "long",
    "seeds": "mean",
    "seed": 0,
    "resamples": 10_000,
    "alpha": 0.05,
    "n_cells": 8,
    "n_dropped": 0,
    "dropped": [],
    "means": {"w2w": 0.87, "f1": 0.85, "em": 0.75, "behr": 0.92},
    "mean_ranks": {"w2w": 2.4375, "f1": 2.625, "em": 3.5, "behr": 1.4375},
    "friedman": {"statistic": 13.52, "p": 0.0036, "statistic_uncorrected": 10.31, "p_uncorrected": 0.0161},
    "nemenyi": {"cd": 1.658, "q": 2.569, "alpha": 0.05, "pairs": []},
    **{
        test: {m: pair[test] for m, pair in _PAIRS.items()}
        for test in ("sign", "bootstrap", "effects", "two_level")
    },
    "run_to_run": {"w2w": {"n_cells": 0, "sd": None}, "behr": {"n_cells": 4, "sd": 0.03}},
    "holm": {
        "sign": {"w2w": 0.0625, "f1": 0.0625, "em": 0.046875},
        "bootstrap": dict.fromkeys(("w2w", "f1", "em"), 3 / 10_001),
    },
}
"""Keys of ``wmlab stats cells``; values of behr.txt Tables 13 and 20 where the paper has them."""


def make_study(
    root: Path, *, agents: tuple[str, ...] = AGENTS, backbones: tuple[str, ...] = ("wm-small",), n: int = 40
) -> Path:
    """Write a whole results/{study} tree below ``root`` and return it."""
    domain = "textworld"
    rng = random.Random(7)
    cells: list[dict[str, Any]] = []
    tasks = [
        {"task_id": f"textworld_{i}", "goal": "g", "initial_observation": "o", "sha256": "0"}
        for i in range(n)
    ]
    panel = {"schema": 1, "domain": domain, "split": "test", "tasks": tasks}
    write_json(root / "panels" / domain / "test.json", panel)
    _meta(root / "panels" / domain / "test.json", root)
    outcomes = {}
    for agent in agents:
        real = [rng.random() < SKILL.get(agent, 0.5) for _ in range(n)]
        outcomes[agent] = real
        path = root / "rollout" / domain / "real" / agent / "episodes.jsonl"
        write_jsonl(
            path, [episode(rng, f"textworld_{i}", "real", agent, None, w) for i, w in enumerate(real)]
        )
        _meta(path, root)
    for agent in [a for a in agents if a.startswith("clone")]:
        write_jsonl(root / "models" / domain / "agents" / agent / "curves.jsonl", sft_curve(rng, 2.0))
    for backbone in backbones:
        base = (domain, backbone)
        write_jsonl(root.joinpath("models", *base, "sft", "seed0", "curves.jsonl"), sft_curve(rng, 3.0))
        kinds = {
            "go": {"pool": 900, "hardness": 0.2, "budget": 100, "kept": 100, "dropped": {"over_budget": 800}},
            "open": {"pool": 20, "hardness": None, "budget": 20, "kept": 20, "dropped": {}},
        }
        report = {"schema": 1, "rule": "sqrt_pool_hardness", "n_in": 920, "n_kept": 120}
        report |= {"dropped": {"duplicate": 0, "over_budget": 800}, "action_types": kinds}
        write_json(root.joinpath("filter", *base, "report.json"), report)
        for method, seeds in {"copy": (0,), **SEEDS}.items():
            for seed in seeds:
                place = (*base, method, f"seed{seed}")
                gain = GAIN[method] + rng.gauss(0, 0.01)
                summary = {
                    "model_id": f"{method}-{seed}",
                    "n": 1200,
                    "em": 0.6 + gain,
                    "em_predictable": 0.7 + gain,
                    "n_predictable": 900,
                    "f1": 0.8 + gain,
                    "rouge_l": 0.82 + gain,
                    "ssf": None,
                    "behr": 0.7 + gain,
                    "n_ssf": 0,
                    "n_behr": 1100,
                    "n_error": 0,
                }
                path = root.joinpath("score", *place, "summary.json")
                write_json(path, summary)
                _meta(path, root, seed)
                if method == "copy":
                    continue
                if method != "w2w":
                    write_jsonl(root.joinpath("models", *place, "curves.jsonl"), grpo_curve(rng, method))
                    heldout = {
                        "reward": method,
                        "before": 0.61,
                        "after": 0.61 + gain,
                        "before_ci": [0.58, 0.64],
                        "after_ci": [0.58 + gain, 0.64 + gain],
                        "n": 300,
                        "difference_ci": [gain - 0.02, gain + 0.02],
                        "steps": 70,
                        "stopped": None,
                        "em_before": 0.55,
                        "em_after": 0.56,
                    }
                    write_json(root.joinpath("models", *place, "heldout.json"), heldout)
                    _meta(root.joinpath("models", *place, "heldout.json"), root, seed)
                for agent in agents:
                    real = outcomes[agent]
                    w2r = [r and rng.random() < 0.8 + gain for r in real]
                    wm = [v or rng.random() < 0.15 for v in w2r]
                    row = cell((domain, backbone, method, agent, seed), real, wm, w2r)
                    path = root.joinpath("consistency", *place, agent, "cell.json")
                    write_json(path, row)
                    _meta(path, root, seed, (root / "panels" / domain / "test.json",))
                    cells.append({name: row[name] for name in CELLS.names})
                    for mode, wins in (("wm", wm), ("w2r", w2r)):
                        episodes = [
                            episode(rng, f"textworld_{i}", mode, agent, f"{method}-{seed}", w)
                            for i, w in enumerate(wins)
                        ]
                        write_jsonl(root.joinpath("rollout", *place, agent, f"{mode}.jsonl"), episodes)
    write_table(root / "stats" / "cells.parquet", "cells", cells)
    write_json(root / "stats" / "stats.json", STATS)
    _meta(root / "stats" / "stats.json", root, 0)
    return root
