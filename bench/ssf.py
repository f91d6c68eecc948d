"""SSF parsers in observations a second on one core, and ``wmlab score states`` in pairs a second.

Texts are the recorded observations of tests/data, or those of a JSONL file with a key ``observation``, with
their numbers drawn anew so that no two are equal: the parsers' caches give nothing. Times are CPU time of
this process for the parsers and wall time for the stream; ``loop`` is the time of an empty loop of this
interpreter meanwhile (about 12 ns on an idle machine; more means that others take the core).

python bench/ssf.py --texts 20000 --pairs 100000 --workers 2
python bench/ssf.py --domain webshop --memory 1000000
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import time
from collections.abc import Iterator
from pathlib import Path

from wmlab.metrics.score import score_stream
from wmlab.metrics.ssf import PARSERS, facts

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"
_NUMBER = re.compile(r"\d+")


def loop_ns(n: int = 500_000) -> float:
    started = time.process_time()
    for _ in range(n):
        pass
    return (time.process_time() - started) / n * 1e9


def cpu() -> float:
    """CPU seconds of this process and of its workers that ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def recorded(path: Path) -> list[str]:
    return [json.loads(line)["observation"] for line in path.open(encoding="utf-8")]


def distinct(texts: list[str], n: int, seed: int) -> list[str]:
    """``n`` different texts: numbers drawn anew with as many digits; where that repeats, white space at the end."""
    rng = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < n:
        text = texts[len(found) % len(texts)]
        drawn = _NUMBER.sub(lambda m: str(rng.randrange(10 ** min(len(m[0]), 9))).zfill(len(m[0])), text)
        if drawn in found:
            drawn += f"{len(found):016b}".replace("0", " ").replace("1", "\t")
        found[drawn] = None
    return list(found)


def parsing(domain: str, texts: list[str]) -> None:
    facts(domain, texts[0])
    before = loop_ns()
    started = time.process_time()
    covered = sum(any(not fact.startswith("MESSAGE(") for fact in facts(domain, text)) for text in texts)
    seconds = time.process_time() - started
    mean = sum(map(len, texts)) / len(texts)
    print(
        f"{domain}: {len(texts) / seconds:,.0f} observations/s/core, {mean:.0f} characters each, "
        f"covered {covered / len(texts):.3f}, loop {before:.0f} to {loop_ns():.0f} ns"
    )


def pairs(texts: list[str], n: int, equal: float, seed: int = 0) -> Iterator[bytes]:
    """Gold pages and predictions of them: a share equal, the others with two words changed, one in ten another page."""
    rng = random.Random(seed)
    for number in range(n):
        gold = texts[number % len(texts)]
        prediction, kind = gold, rng.random()
        if kind > equal + 0.9 * (1 - equal):
            prediction = texts[rng.randrange(len(texts))]
        elif kind > equal:
            words = gold.split(" ")
            for _ in range(2):
                words[rng.randrange(len(words))] = f"word{number}"
            prediction = " ".join(words)
        row = {"id": number, "prediction": prediction, "gold": gold}
        yield json.dumps(row, ensure_ascii=False).encode() + b"\n"


def streaming(domain: str, lines: list[bytes], workers: int, metrics: list[str]) -> None:
    size = 0

    def write(block: bytes) -> None:
        nonlocal size
        size += len(block)

    # Starting the workers is not counted: a long stream starts them once.
    started = time.perf_counter()
    score_stream(domain, lines[:100], metrics, write, workers=workers)
    start = time.perf_counter() - started if workers > 1 else 0.0
    before, started = cpu(), time.perf_counter()
    score_stream(domain, lines, metrics, write, workers=workers)
    seconds = time.perf_counter() - started - start
    used = (cpu() - before) / len(lines) * 1e6
    print(
        f"{domain}: {len(lines) / seconds:,.0f} pairs/s with {workers} worker(s), {used:.0f} us of CPU a pair in all, "
        f"metrics {','.join(metrics)}, loop {loop_ns():.0f} ns"
    )


def memory(domain: str, texts: list[str], n: int, equal: float, workers: int, metrics: list[str]) -> None:
    """Peak memory of a stream of ``n`` pairs, made on the way, beside that of its first hundredth."""

    def peak() -> tuple[float, float]:
        return tuple(  # type: ignore[return-value]
            resource.getrusage(who).ru_maxrss / 1024
            for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )

    made = pairs(texts, n, equal)
    for share in (n // 100, n - n // 100):
        score_stream(
            domain, (line for line, _ in zip(made, range(share), strict=False)), metrics, len, workers=workers
        )
        parent, worker = peak()
        print(f"{domain}: peak {parent:.0f} MB, largest worker {worker:.0f} MB after {share:,} pairs")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--domain", choices=sorted(PARSERS), help="only this one")
    parser.add_argument("--input", type=Path, help="JSONL with observations, with --domain")
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=60_000)
    parser.add_argument("--equal", type=float, default=0.5, help="share of pairs whose prediction is gold")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", type=int, metavar="PAIRS", help="peak memory of so long a stream instead")
    parser.add_argument("--metrics", default="em,f1,rouge_l,ssf")
    given = parser.parse_args()
    for domain in [given.domain] if given.domain else sorted(PARSERS):
        path = given.input if given.input is not None else DATA / f"{domain}_observations.jsonl"
        if not path.exists():
            print(f"{domain}: no recorded observations at {path}")
            continue
        texts = distinct(recorded(path), given.texts, 0)
        if given.memory:
            memory(domain, texts, given.memory, given.equal, given.workers, given.metrics.split(","))
            continue
        parsing(domain, texts)
        if domain == (given.domain or "webshop"):
            lines = list(pairs(distinct(recorded(path), given.pairs, 1), given.pairs, given.equal))
            for workers in sorted({1, given.workers}):
                streaming(domain, lines, workers, given.metrics.split(","))


if __name__ == "__main__":
    main()
