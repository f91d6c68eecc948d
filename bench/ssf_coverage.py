"""Fact parsers: observations a second of processor time, distinct texts, without the cache.

    python bench/ssf_coverage.py --domain alfworld --observations rows.jsonl [more.jsonl ...]

A row of the files has ``observation`` (one text) or ``steps`` (a list of such rows). Also reported: share of
observations with a fact other than MESSAGE, share of characters outside MESSAGE, identity.
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

from wmlab.metrics.ssf import ssf


def observations(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as rows:
        for line in rows:
            row = json.loads(line)
            yield from (step["observation"] for step in row.get("steps", [row]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--domain", required=True)
    parser.add_argument("--observations", type=Path, required=True, nargs="+")
    given = parser.parse_args()
    texts = [text for path in given.observations for text in observations(path)]
    distinct = sorted(set(texts))
    module = importlib.import_module(f"wmlab.metrics.ssf.{given.domain}")
    parse = getattr(module, "_parse", module.parse)  # behind the cache
    rates = []
    for _ in range(5):
        started = time.process_time()
        for text in texts:
            parse(text)
        middle = time.process_time()
        for text in distinct:
            parse(text)
        rates.append((len(texts) / (middle - started), len(distinct) / (time.process_time() - middle)))
    as_played, once_each = (max(rate) for rate in zip(*rates, strict=True))
    covered = explained = characters = 0
    for text in texts:
        facts = parse(text)
        messages = [fact[8:-1] for fact in facts if fact.startswith("MESSAGE(")]
        covered += len(messages) < len(facts)
        length = len(" ".join(text.split()))
        characters += length
        explained += length - min(length, sum(map(len, messages)))
    worst = min(ssf(given.domain, text, text) for text in distinct)
    print(
        f"{given.domain}: {len(texts)} observations, {len(distinct)} distinct, mean {characters / len(texts):.0f} characters"
    )
    print(f"speed {as_played:,.0f} a second as played, {once_each:,.0f} each distinct text once")
    print(
        f"with a fact {covered / len(texts):.4f}, characters explained {explained / characters:.4f}, identity min {worst}"
    )


if __name__ == "__main__":
    main()
