"""ScienceWorld steps: ours against the stock ``env.step``, same actions in turn, answers compared.

python bench/scienceworld_steps.py --cache /tmp/cache

Both play the frozen gold path of each task to warm up (JVMs compile what runs often), then again for the
clock. ``ratio`` is of wall time, ``cpu ratio`` of the two JVMs' processor time, which a busy machine
distorts less. ``equal`` counts answers with the same bytes, ``same words`` also those in another order: the
stock JVM orders objects by identity hash, which differs from load to load.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from pathlib import Path
from typing import Any

from wmlab.domains.java import java_executable
from wmlab.domains.scienceworld.environment import ScienceWorldEnvironment
from wmlab.domains.scienceworld.tasks import parse

TASKS = (
    "boil_3",
    "use-thermometer_5",
    "power-component_15",
    "chemistry-mix_24",
    "test-conductivity_675",
    "find-plant_225",
    "find-animal_226",
    "lifespan-longest-lived_93",
)
COLUMNS = ("steps", "ours", "stock", "ours cpu", "stock cpu", "equal", "same words")


def bag(text: str) -> list[str]:
    return sorted(re.findall(r"[\w-]+", text))


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def gold(cache: Path, task_id: str, steps: int) -> list[str]:
    expert = ScienceWorldEnvironment(cache, expert=True)
    expert.load(task_id)
    actions = expert.expert()[:steps]
    expert.close()
    return actions


def start(stock: Any, task_id: str) -> None:
    name, variation = parse(task_id)
    stock.load(name, variation, "")
    stock.step("look around")


def warm(stock: Any, ours: ScienceWorldEnvironment, paths: dict[str, list[str]], passes: int) -> None:
    """Ours plays ten times as often: about as much processor time as the stock gets."""
    for _ in range(passes):
        for task_id, actions in paths.items():
            task = ours.load(task_id)
            for _ in range(10):
                ours.reset(task)
                for action in actions:
                    ours.step(action)
            start(stock, task_id)
            for action in actions:
                stock.step(action)


def play(stock: Any, ours: ScienceWorldEnvironment, task_id: str, actions: list[str]) -> dict[str, float]:
    totals = dict.fromkeys(COLUMNS, 0.0)
    ours.reset(ours.load(task_id))
    start(stock, task_id)
    ours_pid, stock_pid = ours._world._lease.jvm.process.pid, stock._gateway.java_process.pid
    for action in actions:
        c0, t0 = cpu_seconds(ours_pid), time.perf_counter()
        answer = ours.step(action).observation.removesuffix(" [SUCCESS]")
        t1, c1 = time.perf_counter(), cpu_seconds(ours_pid)
        c2, t2 = cpu_seconds(stock_pid), time.perf_counter()
        theirs = stock.step(action)[0]
        t3, c3 = time.perf_counter(), cpu_seconds(stock_pid)
        totals["steps"] += 1
        totals["ours"] += t1 - t0
        totals["stock"] += t3 - t2
        totals["ours cpu"] += c1 - c0
        totals["stock cpu"] += c3 - c2
        totals["equal"] += answer == theirs
        totals["same words"] += bag(answer) == bag(theirs)
    return totals


def row(name: str, totals: dict[str, float]) -> None:
    n = totals["steps"]
    stock, ours = 1e3 * totals["stock"] / n, 1e3 * totals["ours"] / n
    print(
        f"{name:40} {n:5.0f} {stock:9.1f} {ours:8.1f} {stock / ours:6.1f} "
        f"{totals['stock cpu'] / max(totals['ours cpu'], 0.01):9.1f} {totals['equal'] / n:6.3f} "
        f"{totals['same words'] / n:10.3f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("results/cache"))
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--warm", type=int, default=1, help="warm-up passes")
    parser.add_argument("--repeat", type=int, default=2, help="timed passes")
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    arguments = parser.parse_args()
    os.environ["PATH"] = str(Path(java_executable()).parent) + os.pathsep + os.environ["PATH"]
    from scienceworld import ScienceWorldEnv

    stock = ScienceWorldEnv(envStepLimit=1000)
    ours = ScienceWorldEnvironment(arguments.cache)
    ids = [f"scienceworld_{task}" for task in arguments.tasks]
    paths = {task_id: gold(arguments.cache, task_id, arguments.steps) for task_id in ids}
    warm(stock, ours, paths, arguments.warm)
    overall = dict.fromkeys(COLUMNS, 0.0)
    print(f"{'task':40} {'steps':>5} {'stock ms':>9} {'ours ms':>8} {'ratio':>6} {'cpu ratio':>9} ", end="")
    print(f"{'equal':>6} {'same words':>10}")
    for task_id, actions in paths.items():
        totals = dict.fromkeys(COLUMNS, 0.0)
        for _ in range(arguments.repeat):
            played = play(stock, ours, task_id, actions)
            totals = {name: totals[name] + played[name] for name in COLUMNS}
        row(task_id, totals)
        overall = {name: overall[name] + totals[name] for name in COLUMNS}
    row("all", overall)
    pages = int(Path(f"/proc/{stock._gateway.java_process.pid}/statm").read_text().split()[1])
    resident = ours._world._lease.jvm.resident_mb()
    print(f"JVM resident: stock {pages * 4096 / 1e6:.0f} MB, ours {resident:.0f} MB")
    stock.close()
    ours.close()


if __name__ == "__main__":
    main()
