"""World memory: retrievals a second by key and by BM25, and building from many transitions in bounded memory.

    python bench/memory.py [--entries 20000] [--prompts 20000] [--transitions 1000000] [--rank-bm25]

Data are generated: ALFWorld's action forms over numbered things, histories of 5 to 25 steps. ``keyed`` counts
whole retrievals (key from the history, look-up, block within the budget, matches), each prompt a new object:
once with 20 prompts a task, once with a task of its own for every prompt.
With ``--rank-bm25``, and that package installed, the speed of its BM25Okapi is printed beside bm25s.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wmlab.memory.bank import Entry, entry_id, write_bank
from wmlab.memory.build import Build
from wmlab.memory.keys import Query, chain, fields_of
from wmlab.memory.retrieve import Retriever

THINGS = ["apple", "mug", "plate", "knife", "book", "pen", "cloth", "bowl", "egg", "potato", "tomato", "pan"]
PLACES = [
    "fridge",
    "cabinet",
    "drawer",
    "shelf",
    "countertop",
    "microwave",
    "sinkbasin",
    "desk",
    "bed",
    "sofa",
    "toilet",
    "garbagecan",
]


def history(rng: random.Random, steps: int) -> list[dict[str, str]]:
    seen = ", ".join(f"a {place} {number}" for place in rng.sample(PLACES, 6) for number in (1, 2))
    task = f"{rng.choice(['heat', 'cool', 'clean', 'put'])} some {rng.choice(THINGS)} and put it in {rng.choice(PLACES)}"
    first = f"You are in the middle of a room. Looking quickly around you, you see {seen}.\n\nYour task is to: {task}."
    messages = [{"role": "system", "content": first}]
    for step in range(steps):
        place = f"{rng.choice(PLACES)} {rng.randint(1, 9)}"
        thing = f"{rng.choice(THINGS)} {rng.randint(1, 3)}"
        form = rng.choice(["go to {p}", "open {p}", "take {t} from {p}", "put {t} in/on {p}", "close {p}"])
        messages.append({"role": "user", "content": form.format(p=place, t=thing)})
        if step + 1 < steps:
            messages.append(
                {"role": "assistant", "content": f"You arrive at {place}. On the {place}, you see a {thing}."}
            )
    return messages


def rows(n: int, seed: int) -> Iterator[dict[str, Any]]:
    rng = random.Random(seed)
    for at in range(n):
        told = history(rng, rng.randint(1, 5))
        thing = f"{rng.choice(THINGS)} {rng.randint(1, 3)}"
        yield {
            "transition_id": f"t{at}", "domain": "alfworld", "history": told, "action": told[-1]["content"],
            "observation": f"You open the fridge 1. The fridge 1 is open. In it, you see a {thing}.",
        }  # fmt: skip


def bank(n: int) -> list[Entry]:
    rng = random.Random(0)
    found: dict[str, Entry] = {}
    while len(found) < n:
        told = history(rng, rng.randint(1, 8))
        for kind, key in chain("alfworld", fields_of("alfworld", told, told[-1]["content"])):
            name = entry_id("alfworld", kind, key)
            hint = "in such a case expect STATE(object, open) 9/10"
            found[name] = Entry(name, kind, key, hint, hint, {"task_hashes": []}, 10, ("a",))
    return list(found.values())[:n]


def speed(entries: list[Entry], n: int) -> None:
    rng = random.Random(1)
    for n_tasks in (max(1, n // 20), n):
        starts = [history(rng, 1)[0]["content"] for _ in range(n_tasks)]
        prompts = []
        for at in range(n):
            told = history(rng, rng.randint(5, 25))
            fresh = starts[at % n_tasks].encode().decode()  # as read from a file: a string of its own
            prompts.append([{"role": "system", "content": fresh}, *told[1:]])
        retriever = Retriever("alfworld", entries)
        rates, keyed = [], 0
        for _ in range(3):
            started = time.process_time()
            keyed = sum(retriever.retrieve(prompt).how == "keyed" for prompt in prompts)
            rates.append(n / (time.process_time() - started))
        print(
            f"keyed, {n_tasks} tasks: first pass {rates[0]:,.0f}, best of 3 {max(rates):,.0f} a second; "
            f"{len(entries)} entries, {keyed} of {n} found"
        )


def nearest(entries: list[Entry], n: int, compare: bool) -> None:
    rng = random.Random(2)
    retriever = Retriever("alfworld", entries)
    texts = [f"{rng.choice(THINGS)} {rng.choice(PLACES)} kitchen" for _ in range(n)]
    told = history(rng, 1)
    retriever._nearest(Query((), texts[0]), told)
    started = time.process_time()
    for text in texts:
        retriever._nearest(Query((), text), told)
    print(f"bm25s: {n / (time.process_time() - started):,.0f} look-ups a second")
    if not compare:
        return
    try:
        from rank_bm25 import BM25Okapi
    except ImportError:
        print("rank_bm25: not installed, not compared")
        return
    other = BM25Okapi([retriever._document(one).split() for one in retriever.entries])
    started = time.process_time()
    for text in texts[: n // 100]:
        other.get_scores(text.split())
    print(f"rank_bm25: {(n // 100) / (time.process_time() - started):,.0f} look-ups a second")


def building(n: int) -> None:
    wrong = "You open the fridge 1. The fridge 1 is open. In it, you see nothing."
    making = Build("alfworld")
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        made = write_bank(Path(folder) / "bank.jsonl", making.entries(rows(n, 3), lambda _: wrong, "rows"))
        size = (Path(folder) / "bank.jsonl").stat().st_size / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    took = time.process_time() - started
    print(
        f"build: {n:,} transitions in {took:.0f} s, {made} entries ({size:.0f} MB), peak memory {peak:.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--entries", type=int, default=20_000)
    parser.add_argument("--prompts", type=int, default=20_000)
    parser.add_argument("--transitions", type=int, default=1_000_000)
    parser.add_argument("--rank-bm25", action="store_true")
    given = parser.parse_args()
    building(given.transitions)
    entries = bank(given.entries)
    speed(entries, given.prompts)
    nearest(entries, 2_000, given.rank_bm25)


if __name__ == "__main__":
    main()
