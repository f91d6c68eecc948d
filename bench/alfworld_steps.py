"""Household games: ours against alfworld's stock engine, same random walk, every text compared.

The stock engine is ``textworld.envs.pddl.PddlEnv`` behind alfworld's name demangler, with admissible
commands. Both do the same: load and reset, then per step the answer, the admissible commands and won.

python bench/alfworld_steps.py --games 6 --steps 25 [--official FILE_OR_FOLDER] [--dialect put]
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from typing import Any

from wmlab.domains.alfworld import wheel
from wmlab.domains.alfworld.domain import AlfworldDomain
from wmlab.domains.alfworld.world import read_game

# What alfworld's own migration to the move dialect changed (its put dialect is this undone).
PUT_DIALECT = (
    ("You arrive at {r.name}.", "You arrive at {lend.name}."),
    ("move {o} to {r}", "put {o} in/on {r}"),
    ("You move the {o.name} to the {r.name}.", "You put the {o.name} in/on the {r.name}."),
)


def stock_engine(problem: str, task: str, dialect: str) -> Any:
    """The stock engine with a game loaded, before reset."""
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    from textworld.core import EnvInfos
    from textworld.envs.pddl import PddlEnv

    domain, grammar = wheel.text("data", "alfred.pddl"), wheel.text("data", "alfred.twl2")
    if dialect == "put":
        for new, old in PUT_DIALECT:
            grammar = grammar.replace(new, old)
        grammar = grammar[: grammar.index("action help")]
        domain = domain[: domain.index("(:action help")] + ")"
    engine = AlfredDemangler(PddlEnv(EnvInfos(won=True, admissible_commands=True)))
    engine.load(
        {
            "pddl_domain": domain,
            "grammar": grammar.replace("UNKNOWN GOAL.", task),
            "pddl_problem": problem,
        }
    )
    return engine


def compare_game(problem: str, task: str, dialect: str, steps: int, seed: int) -> dict[str, float]:
    """Walk both engines; AssertionError at the first difference. Seconds of each side, and steps walked."""
    rng = random.Random(seed)
    clock = time.perf_counter
    started = clock()
    engine = stock_engine(problem, task, dialect)
    state = engine.reset()
    loaded = clock()
    world = read_game(problem, task, dialect).start()
    ours = world.opening(), world.commands()
    result = {"stock_start": loaded - started, "ours_start": clock() - loaded, "stock": 0.0, "ours": 0.0}
    assert ours == (state.feedback, list(state["admissible_commands"]))
    done = 0
    while done < steps and not world.won():
        commands = ours[1]
        busy = [c for c in commands if c.split()[0] not in ("go", "look", "inventory", "help", "examine")]
        command = (
            rng.choice(busy) if busy and rng.random() < 0.6 else rng.choice([*commands, "put x in/on y"])
        )
        started = clock()
        state, _, _ = engine.step(command)
        stepped = clock()
        ours = world.act(command), world.commands()
        won = world.won()
        result["ours"] += clock() - stepped
        result["stock"] += stepped - started
        assert (*ours, won) == (state.feedback, list(state["admissible_commands"]), state["won"]), command
        done += 1
    return {**result, "steps": done}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=6)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--first", type=int, default=1, help="first position in the test split")
    parser.add_argument("--official", default="", help="official games; generated ones when left out")
    parser.add_argument("--dialect", default="move", choices=wheel.DIALECTS)
    parser.add_argument("--cache", type=Path, default=Path("results/cache"))
    options = parser.parse_args()
    source = AlfworldDomain(options.cache, options.official).source()
    total: dict[str, float] = {}
    for number, task_id in enumerate(source.task_ids("test", options.first, options.games)):
        record = source.record(task_id)
        row = compare_game(record.problem, record.task, options.dialect, options.steps, number)
        total = {key: total.get(key, 0.0) + value for key, value in row.items()}
    games, steps = options.games, total["steps"]
    print(
        f"{games} games, {steps:.0f} steps, dialect {options.dialect}: every text, list and outcome is equal"
    )
    print(f"{'':10}{'load+reset':>12}{'steps/s':>10}")
    for side in ("stock", "ours"):
        print(f"{side:10}{total[f'{side}_start'] / games:>10.3f} s{steps / total[side]:>10.1f}")
    starts, rates = total["stock_start"] / total["ours_start"], total["stock"] / total["ours"]
    print(f"{'ratio':10}{starts:>12.1f}{rates:>10.1f}")


if __name__ == "__main__":
    main()
