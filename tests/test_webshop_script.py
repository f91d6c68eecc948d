"""WebShop's text-only script, and the shop in worker processes."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Any

from acting import scripted
from wmlab.domains.base import Step
from wmlab.domains.panels import load_task
from wmlab.domains.registry import make_domain
from wmlab.domains.webshop.script import candidates, instruction_of, queries
from wmlab.domains.workers import WorkerPool
from wmlab.errors import EnvironmentFailure

ROOT = Path(__file__).resolve().parents[1]
DOMAIN = make_domain("webshop", ROOT / "results" / "cache")


PRODUCT = re.compile(r"click\[b0\w{8}\]")


def test_the_script_reads_the_instruction_and_mostly_succeeds() -> None:
    offered: list[bool] = []

    def among_candidates(action: str, observations: list[str]) -> None:
        found = action in candidates(observations)
        if PRODUCT.fullmatch(action):
            offered.append(found)  # it goes on to others when the best lack something
        else:
            assert found

    ids = DOMAIN.task_ids("test", 1, 40)
    wins = {
        epsilon: sum(
            scripted(DOMAIN, task_id, epsilon, watch=None if epsilon else among_candidates)[-1].success
            for task_id in ids
        )
        for epsilon in (0.0, 0.5)
    }
    assert wins[0.0] >= 34 and wins[0.5] <= 26
    assert sum(offered) > 0.5 * len(offered) > 20
    assert [s.observation for s in scripted(DOMAIN, ids[0], 0.4)] == [
        s.observation for s in scripted(DOMAIN, ids[0], 0.4)
    ]


def test_queries_come_from_the_instruction() -> None:
    text = (
        "WebShop [SEP] Instruction: [SEP] Find me slip resistant, non slip men's loafers & slip-ons with rubber sole "
        "with color: black, and size: 11, and price lower than 50.00 dollars [SEP] Search"
    )
    goal = instruction_of(text)
    assert goal.options == (("color", "black"), ("size", "11")) and goal.price_upper == 50
    assert queries(goal) == [
        "slip resistant non slip men's loafers slip-ons rubber sole",
        "slip resistant non slip men's loafers slip-ons rubber sole black 11",
        "non slip men's loafers slip-ons",
    ]
    assert candidates(["anything", "no page"]) and candidates([text])[0].startswith("search[slip resistant")


def test_candidates_are_what_the_instruction_names_and_what_is_left_of_it() -> None:
    instruction = (
        "Instruction: [SEP] Find me dress shirts with color: royal blue, and size: x-small, and price lower than "
        "80.00 dollars"
    )
    start = f"WebShop [SEP] {instruction} [SEP] Search"
    item = (
        f"{instruction} [SEP] Back to Search [SEP] < Prev [SEP] color [SEP] navy [SEP] royal blue [SEP] size [SEP] small "
        "[SEP] x-small [SEP] dress shirt [SEP] Price: $20.00 [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] "
        "Reviews [SEP] Buy Now"
    )
    clicks = ["back to search", "< prev", "description", "features", "reviews", "buy now"]
    values = ["navy", "royal blue", "small", "x-small"]
    listed = ",\n".join(f"'click[{text}]'" for text in (*clicks, *values))
    page = f"{item}\n\nYour admissible actions of the current situation are: \n[\n{listed},\n]."

    def offered(observations: list[str], actions: list[str]) -> list[str]:
        return [action[6:-1] for action in candidates(observations, actions)]

    assert offered([start, page], ["click[b0drsh0001]"]) == [*clicks, "royal blue", "x-small"]
    assert offered([start, page, page], ["click[b0drsh0001]", "click[royal blue]"]) == [*clicks, "x-small"]
    # What was chosen before another product was opened is not chosen here.
    again = ["click[b0drsh0001]", "click[royal blue]", "click[< prev]", "click[b0drsh0002]"]
    assert offered([start, page, page, start, page], again) == [*clicks, "royal blue", "x-small"]
    # An instruction that names none of the values leaves the choice.
    other = page.replace("color: royal blue, and size: x-small", "color: teal")
    assert offered(
        [start.replace("color: royal blue, and size: x-small", "color: teal"), other], ["click[x]"]
    ) == [
        *clicks,
        *values,
    ]


def test_a_killed_worker_loses_its_own_episodes_only() -> None:
    tasks = [load_task(DOMAIN, f"webshop_{n}") for n in (1, 2)]
    with WorkerPool(DOMAIN.open, 2) as pool:
        assert [first.text for first in pool.reset(tasks)] == [t.initial_observation for t in tasks]  # type: ignore[union-attr]
        victim: Any = pool._workers[1]
        os.kill(victim.process.pid, signal.SIGKILL)
        victim.process.join()
        answers = pool.step({0: "search[lamp]", 1: "search[lamp]"})
        assert isinstance(answers[0], Step) and isinstance(answers[1], EnvironmentFailure)
        assert [type(x).__name__ for x in pool.reset(tasks)] == ["Observation", "Observation"]
