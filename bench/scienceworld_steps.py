"""ScienceWorld steps: ours against the stock ``env.step``, same actions in turn, answers compared.

python bench/scienceworld_steps.py --cache /tmp/cache

``ratio`` is of wall time, ``cpu ratio`` of the two JVMs' processor time (of use on a busy machine). Both play the frozen gold path of each task once to warm up, then again for the clock. ``equal`` counts
answers with the same bytes, ``same lines`` those that differ only in the order of lines, numbered options
and objects: the stock JVM orders them by identity hash, which differs from load to load.
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
COLUMNS = ("steps", "ours", "stock", "ours cpu", "stock cpu", "equal", "same lines")


def bag(text: str) -> list[str]:
    return sorted(re.findall(r"[\w-]+", text))


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def play(
    stock: Any, ours: ScienceWorldEnvironment, task_id: str, steps: int, totals: dict[str, float]
) -> None:
    expert = ScienceWorldEnvironment(ours.cache_dir, expert=True)
    task = expert.load(task_id)
    actions = expert.expert()[:steps]
    expert.close()
    for timed in (False, True):
        ours.reset(task)
        name, variation = parse(task_id)
        stock.load(name, variation, "")
        stock.step("look around")
        for action in actions:
            t0, c0 = time.perf_counter(), cpu_seconds(ours._world._lease.jvm.process.pid)
            answer = ours.step(action).observation.removesuffix(" [SUCCESS]")
            t1, c1 = time.perf_counter(), cpu_seconds(ours._world._lease.jvm.process.pid)
            t2, c2 = time.perf_counter(), cpu_seconds(stock._gateway.java_process.pid)
            theirs = stock.step(action)[0]
            t3, c3 = time.perf_counter(), cpu_seconds(stock._gateway.java_process.pid)
            if timed:
                totals["steps"] += 1
                totals["ours"] += t1 - t0
                totals["stock"] += t3 - t2
                totals["ours cpu"] += c1 - c0
                totals["stock cpu"] += c3 - c2
                totals["equal"] += answer == theirs
                totals["same lines"] += bag(answer) == bag(theirs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("results/cache"))
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS))
    arguments = parser.parse_args()
    os.environ["PATH"] = str(Path(java_executable()).parent) + os.pathsep + os.environ["PATH"]
    from scienceworld import ScienceWorldEnv

    stock = ScienceWorldEnv(envStepLimit=1000)
    ours = ScienceWorldEnvironment(arguments.cache)
    overall: dict[str, float] = dict.fromkeys(COLUMNS, 0.0)
    print(
        f"{'task':32} {'steps':>5} {'stock ms':>9} {'ours ms':>8} {'ratio':>6} {'cpu ratio':>9} {'equal':>6} {'same lines':>10}"
    )
    for task in arguments.tasks:
        totals = dict.fromkeys(overall, 0.0)
        play(stock, ours, f"scienceworld_{task}", arguments.steps, totals)
        row(task, totals)
        overall = {name: overall[name] + totals[name] for name in overall}
    row("all", overall)
    stock_mb = int(Path(f"/proc/{stock._gateway.java_process.pid}/statm").read_text().split()[1]) * 4096 / 1e6
    print(f"JVM resident: stock {stock_mb:.0f} MB, ours {ours._world._lease.jvm.resident_mb():.0f} MB")
    stock.close()
    ours.close()


def row(name: str, totals: dict[str, float]) -> None:
    n = totals["steps"]
    stock, ours = 1e3 * totals["stock"] / n, 1e3 * totals["ours"] / n
    print(
        f"{name:32} {n:5.0f} {stock:9.1f} {ours:8.1f} {stock / ours:6.1f} "
        f"{totals['stock cpu'] / max(totals['ours cpu'], 0.01):9.1f} {totals['equal'] / n:6.3f} {totals['same lines'] / n:10.3f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
