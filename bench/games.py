"""Game generation: ours against TextWorld's own, same seeds, same process, bytes compared.

python bench/games.py --seeds 3001 3002 3003
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from textworld import GameOptions
from textworld.challenges.tw_simple import simple
from textworld.generator import compile_game
from wmlab.domains.textworld.games import SETTINGS, generate


def stock(seed: int, path: Path) -> None:
    options = GameOptions()
    options.seeds, options.path = seed, str(path)
    compile_game(simple.make(SETTINGS, options), options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[3001, 3002, 3003, 3004])
    seeds = parser.parse_args().seeds
    with tempfile.TemporaryDirectory() as folder:
        stock(seeds[0], Path(folder) / "warm.z8")
        generate(seeds[0], Path(folder) / "warm2.z8")
        seconds = {"stock": 0.0, "ours": 0.0}
        for seed in seeds:
            for name, make in (("stock", stock), ("ours", generate)):
                started = time.perf_counter()
                make(seed, Path(folder) / f"{name}_{seed}.z8")
                seconds[name] += time.perf_counter() - started
            same = (Path(folder) / f"stock_{seed}.z8").read_bytes() == (
                Path(folder) / f"ours_{seed}.z8"
            ).read_bytes()
            print(f"seed {seed}: equal bytes {same}")
    for name, total in seconds.items():
        print(f"{name}: {total / len(seeds):.2f} s a game")
    print(f"ratio {seconds['stock'] / seconds['ours']:.2f}")


if __name__ == "__main__":
    main()
