"""The web shop at the size of the official files: memory and time of the build, search latency, one episode.

The official 1.18M products are not on any package index, so files of their format and number are written
first: the bundled generator's products, again and again, with new ids and with descriptions of ``--words``
words from a vocabulary of half a million (a word's frequency is the inverse of its rank); an attribute
entry for each product, an instruction for one in ten.

python bench/webshop_large.py --products 1180000 --folder large
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import numpy as np
from wmlab.domains.play import check_backend
from wmlab.domains.registry import make_domain
from wmlab.domains.webshop.domain import WebShopDomain
from wmlab.domains.webshop.generator import ATTRIBUTES, PRODUCTS, generate
from wmlab.domains.webshop.script import instruction_of, keywords
from wmlab.domains.webshop.shop import ensure_shop, open_shop

VOCABULARY = 500_000
DRAFTS = 20_000
SAMPLE_S = 0.05


def descriptions(n: int, words: int, seed: int = 1) -> Iterator[str]:
    """``n`` texts; the k-th commonest word is met in proportion to 1 / k."""
    rng = np.random.default_rng(seed)
    for start in range(0, n, 2000):
        ranks = np.exp(rng.random((min(2000, n - start), words)) * np.log(VOCABULARY))
        for row in ranks.astype(int).tolist():
            yield " ".join(f"w{rank:x}" for rank in row)


def write_files(folder: Path, n: int, words: int) -> None:
    """products.json and attributes.json in the official format, one product at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    drafts = cycle(generate(min(n, DRAFTS)))
    texts = descriptions(n, words)
    with (
        (folder / PRODUCTS).open("w", encoding="utf-8") as products,
        (folder / ATTRIBUTES).open("w", encoding="utf-8") as attributes,
    ):
        products.write("[")
        attributes.write("{")
        for number, (draft, text) in enumerate(zip(drafts, texts, strict=False)):
            asin, comma = f"B{number:09d}", "," if number else ""
            row = {**draft.product, "asin": asin}
            row["full_description"] = f"{row['full_description']} {text}"
            entry = draft.attributes
            if number % 10:
                entry = {"attributes": entry["attributes"]}
            products.write(f"{comma}\n{json.dumps(row)}")
            attributes.write(f'{comma}\n"{asin}": {json.dumps(entry)}')
        products.write("\n]\n")
        attributes.write("\n}\n")


def build_only(folder: str) -> None:
    """Build the shop into ``folder``/cache; print seconds and peak memory as JSON (a process of its own)."""
    peak = {"RssAnon": 0, "VmRSS": 0}
    over = threading.Event()

    def sample() -> None:
        while not over.wait(SAMPLE_S):
            status = Path("/proc/self/status").read_text(encoding="ascii")
            for name in peak:
                peak[name] = max(peak[name], int(status.split(f"{name}:")[1].split()[0]))

    watcher = threading.Thread(target=sample, daemon=True)
    watcher.start()
    started = time.perf_counter()
    domain = large(Path(folder))
    ensure_shop(domain.cache_dir, domain.settings)
    seconds = time.perf_counter() - started
    over.set()
    cpu = resource.getrusage(resource.RUSAGE_SELF)
    found = {"seconds": seconds, "cpu_seconds": cpu.ru_utime + cpu.ru_stime}
    print(json.dumps({**found, **{name: kb / 1024 for name, kb in peak.items()}}))


def large(folder: Path) -> WebShopDomain:
    """The domain over the written files."""
    options = {"products": str(folder / PRODUCTS), "attributes": str(folder / ATTRIBUTES)}
    domain = make_domain("webshop", folder / "cache", options)
    assert isinstance(domain, WebShopDomain)
    return domain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--products", type=int, default=1_180_000)
    parser.add_argument(
        "--folder", type=Path, required=True, help="kept: files and index, about 5 GB at full size"
    )
    parser.add_argument("--words", type=int, default=110, help="words of a description")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--build-only", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.build_only:
        build_only(str(given.folder))
        return
    if not (given.folder / ATTRIBUTES).exists():
        write_files(given.folder, given.products, given.words)
    megabytes = (given.folder / PRODUCTS).stat().st_size / 2**20
    print(f"{given.products:,} products, {megabytes:,.0f} MB of JSON", flush=True)
    again = [sys.executable, __file__, "--folder", str(given.folder), "--build-only"]
    built = json.loads(subprocess.run(again, check=True, capture_output=True, text=True).stdout)
    print(
        f"build: {built['seconds']:,.0f} s ({built['cpu_seconds']:,.0f} s CPU), peak resident "
        f"{built['VmRSS']:,.0f} MB, of it {built['RssAnon']:,.0f} MB not file pages",
        flush=True,
    )
    domain = large(given.folder)
    shop = open_shop(str(domain.cache_dir), domain.settings)
    goals = [
        instruction_of(f"Instruction: [SEP] {shop.goal(i).instruction} [SEP] ") for i in range(given.queries)
    ]
    queries = dict.fromkeys(" ".join(keywords(goal.base)) for goal in goals)
    queries |= dict.fromkeys(shop.product(i * 7919 % shop.n_products).title for i in range(given.queries))
    shop.hits("warm up")
    times = []
    for query in queries:
        started = time.perf_counter()
        shop.hits(query)
        times.append(time.perf_counter() - started)
    p50, p95 = np.percentile(times, [50, 95]) * 1000
    print(f"search: p50 {p50:.1f} ms, p95 {p95:.1f} ms over {len(times)} queries; {shop.n_goals:,} goals")
    print(f"check: {check_backend(domain, 5)}")


if __name__ == "__main__":
    main()
