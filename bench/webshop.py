"""The web shop: page steps a second, search latency at 50,000 products, memory of the build against bm25s's own.

The stock engine needs Java and is on no package index, so the comparison is with bm25s as it is used
elsewhere: the same corpus, tokens in memory, ``bm25s.BM25.index`` and ``retrieve``.

python bench/webshop.py --products 50000
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from wmlab.domains.registry import make_domain
from wmlab.domains.webshop.analysis import analyse
from wmlab.domains.webshop.build import Sources, build
from wmlab.domains.webshop.catalogue import read_product
from wmlab.domains.webshop.generator import ATTRIBUTES, PRODUCTS, write_catalogue
from wmlab.domains.webshop.script import instruction_of, keywords
from wmlab.domains.webshop.search import HITS, K1, B
from wmlab.domains.webshop.settings import Settings
from wmlab.domains.webshop.shop import Shop


def peak_mb() -> float:
    """Most resident memory of this process since it was started (VmHWM), in megabytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def build_ours(folder: str) -> tuple[float, float]:
    """(seconds, peak megabytes) of building the whole shop from its files."""
    path = Path(folder)
    started = time.perf_counter()
    build(path / "shop", Sources(path / PRODUCTS, path / ATTRIBUTES), human_goals=False, seed=42)
    return time.perf_counter() - started, peak_mb()


def build_bm25s(folder: str, queries: list[str]) -> tuple[float, float, list[float]]:
    """The same of bm25s's own index, with the seconds of each query."""
    import bm25s

    started = time.perf_counter()
    rows = json.loads((Path(folder) / PRODUCTS).read_text(encoding="utf-8"))
    tokens = [analyse(read_product(row).searchable) for row in rows]
    index = bm25s.BM25(method="lucene", k1=K1, b=B)
    index.index(tokens, show_progress=False)
    seconds = time.perf_counter() - started
    ask: Callable[[str], Any] = lambda q: index.retrieve([analyse(q)], k=HITS, show_progress=False)  # noqa: E731
    return seconds, peak_mb(), timed(ask, queries)


def timed(ask: Callable[[str], Any], queries: list[str]) -> list[float]:
    seconds = []
    for query in queries:
        started = time.perf_counter()
        ask(query)
        seconds.append(time.perf_counter() - started)
    return seconds


def steps_per_second(cache: str, n_steps: int) -> float:
    """Steps of an exploring agent on the bundled catalogue, over CPU seconds inside ``step``."""
    domain = make_domain("webshop", cache)
    environment = domain.open()
    rng = np.random.default_rng(0)
    environment.reset(environment.load("webshop_0"))
    environment.step("search[warm up]")
    tasks = [environment.load(task_id) for task_id in domain.task_ids("test", 1, 200)]
    seconds, steps = 0.0, 0
    while steps < n_steps:
        admissible = environment.reset(tasks[int(rng.integers(len(tasks)))]).admissible or ()
        for _ in range(30):
            action = domain.stray(rng, admissible, admissible)
            started = time.process_time()
            step = environment.step(action)
            seconds += time.process_time() - started
            steps += 1
            if step.done:
                break
            admissible = step.admissible or ()
    return steps / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--products", type=int, default=50_000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--steps", type=int, default=20_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(f"bundled catalogue: {steps_per_second(folder, given.steps):,.0f} page steps per CPU second")
        write_catalogue(Path(folder), given.products)
        (Path(folder) / "shop").mkdir()
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            seconds, megabytes = pool.submit(build_ours, folder).result()
        print(f"build, {given.products:,} products: ours {seconds:.1f} s, peak {megabytes:,.0f} MB")
        shop = Shop(Path(folder) / "shop", Settings(size=given.products))
        bases = [
            instruction_of(f"Instruction: [SEP] {shop.goal(i).instruction} [SEP] ")
            for i in range(given.queries)
        ]
        words = [" ".join(keywords(goal.base)) for goal in bases]
        titles = [shop.product(i * 7 % shop.n_products).title for i in range(given.queries)]
        queries = [query for pair in zip(words, titles, strict=True) for query in pair]
        shop.hits("warm up")
        ours = timed(shop.hits, list(dict.fromkeys(queries)))
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            seconds, megabytes, theirs = pool.submit(build_bm25s, folder, queries).result()
        print(f"build of bm25s's own index: {seconds:.1f} s, peak {megabytes:,.0f} MB")
        for name, times in (("ours", ours), ("bm25s", theirs)):
            p50, p90 = np.percentile(times, [50, 90]) * 1000
            print(f"search {name}: p50 {p50:.2f} ms, p90 {p90:.2f} ms over {len(times)} queries")


if __name__ == "__main__":
    main()
