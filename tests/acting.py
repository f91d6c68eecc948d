"""Playing a domain's script in its real environment, as the tests of the domains do it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from wmlab.agents.base import Turn
from wmlab.agents.scripted import ScriptedAgent
from wmlab.agents.scripts import script_of
from wmlab.domains.base import Domain, Step


def scripted(
    domain: Domain,
    task_id: str,
    epsilon: float = 0.0,
    *,
    harmless: bool = False,
    cap: int = 50,
    watch: Callable[[str, list[str]], None] | None = None,
) -> list[Step]:
    """Steps of one episode; ``watch`` sees each action with the observations it was chosen from."""
    environment = domain.open()
    agent = ScriptedAgent(domain.name, epsilon=epsilon, harmless=harmless)
    observations = [environment.reset(environment.load(task_id)).text]
    messages = [
        {"role": "system", "content": agent.system_prompt},
        {"role": "user", "content": observations[0]},
    ]
    steps: list[Step] = []
    while len(steps) < cap and not (steps and steps[-1].done):
        decision = agent.act([Turn("t", messages)])[0]
        if watch is not None:
            watch(decision.action, observations)
        steps.append(environment.step(decision.action))
        observations.append(steps[-1].observation)
        messages += [
            {"role": "assistant", "content": decision.output},
            {"role": "user", "content": steps[-1].observation},
        ]
    environment.close()
    return steps


def check_script_survives(domain: str, first: str, answers: Sequence[str]) -> None:
    """A script reads any text, always has something to do, and its candidates are distinct."""
    module = script_of(domain)
    script = module.Script(first)
    rng = np.random.default_rng(0)
    for answer in answers:
        planned = script.next()
        assert planned is None or planned[1]
        script.read(answer)
        script.skip()
        assert script.wander(rng, False)
    found = module.candidates([first, *answers])
    assert len(set(found)) == len(found)
