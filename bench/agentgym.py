"""Steps per second of one TextWorld game: in process, through our server and client, through upstream's way.

python bench/agentgym.py --steps 300

Upstream's way is its client's: ``requests.post`` without a session, one call a step, no checks (formats.md 7.6).
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from pathlib import Path

import requests
from wmlab.domains.agentgym.server import AgentGymServer
from wmlab.domains.registry import make_domain

TASK = "textworld_1"
ACTIONS = ("look", "inventory", "examine antique trunk", "go east")


def rate(steps: int, step: Callable[[str], object]) -> float:
    """Steps per second."""
    started = time.perf_counter()
    for place in range(steps):
        step(ACTIONS[place % len(ACTIONS)])
    return steps / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--cache", type=Path, default=Path("results/cache"))
    given = parser.parse_args()
    domain = make_domain("textworld", given.cache)
    server = AgentGymServer(domain, "word2world", "127.0.0.1", 0, workers=1)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
    rates: dict[str, float] = {}
    try:
        here = domain.open(every_step=True)
        here.reset(here.load(TASK))
        rates["in process"] = rate(given.steps, here.step)
        here.close()
        there = make_domain("textworld", given.cache, {"server": server.url}).open()
        there.reset(there.load(TASK))
        rates["our client"] = rate(given.steps, there.step)
        there.close()
        identity = requests.post(f"{server.url}/create", json={}, timeout=60).json()["id"]
        requests.post(f"{server.url}/reset", json={"id": identity, "data_idx": 1}, timeout=60)

        def plain(action: str) -> object:
            return requests.post(
                f"{server.url}/step", json={"id": identity, "action": action}, timeout=60
            ).json()

        rates["like upstream"] = rate(given.steps, plain)
    finally:
        server.shutdown()
        server.server_close()
    for name, value in rates.items():
        print(f"{name:15s} {value:8.1f} steps/s")
    print(f"our client / in process {rates['our client'] / rates['in process']:.2f}")
    print(f"our client / upstream's way {rates['our client'] / rates['like upstream']:.2f}")


if __name__ == "__main__":
    main()
