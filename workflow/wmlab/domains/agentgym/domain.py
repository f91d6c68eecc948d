"""A domain whose environments live on an AgentGym server: option ``server`` of any domain that has one.

Options: ``server`` (URL), ``dialect`` (word2world or upstream), ``timeout`` (seconds a request),
``attempts`` (tries a request), ``match`` (observation or instruction), ``tasks`` (a task list, contexts
or panel file whose ids are the tasks of every split).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from wmlab.domains.agentgym.environment import AgentGymEnvironment
from wmlab.domains.agentgym.http import Server
from wmlab.domains.agentgym.protocols import DIALECTS, Dialect, protocol_of
from wmlab.domains.base import Options
from wmlab.domains.conventions import item_id
from wmlab.domains.registry import check_options, make_domain
from wmlab.errors import InputError

OPTIONS = ("server", "dialect", "timeout", "attempts", "match", "tasks")
SERVED = ("textworld", "alfworld", "scienceworld", "webshop")
MATCHES = ("observation", "instruction")
# First index of a split in the server's own numbering (formats.md 7.2, 7.3); elsewhere an index is a position.
_STARTS = {
    ("textworld", "test"): 1,
    ("textworld", "train"): 1,
    ("textworld", "validation"): 1,
    ("alfworld", "test"): 2420,
    ("alfworld", "valid_seen"): 2620,
    ("alfworld", "valid_unseen"): 2807,
}


@dataclass(frozen=True)
class AgentGymDomain:
    """Tasks by the server's numbers; exploring as the domain of that name explores."""

    name: str
    server: Server
    dialect: Dialect
    match: str
    tasks: str
    cache_dir: Path

    def task_ids(self, split: str, first: int, n: int) -> list[str]:
        """Ids from position ``first`` (1-based) of the file ``tasks``, or of the server's numbering."""
        if not self.tasks:
            start = _STARTS.get((self.name, split), 0)
            return [item_id(self.name, start + first - 1 + place) for place in range(n)]
        from wmlab.data.contexts import read_task_ids

        listed = read_task_ids(self.tasks, self.name)
        if first - 1 + n > len(listed):
            fix = f"ask for {len(listed)} or less"
            raise InputError.at(self.tasks, f"tasks {first} to {first - 1 + n} of {len(listed)}", fix)
        return listed[first - 1 : first - 1 + n]

    def open(self, *, every_step: bool = False, expert: bool = False) -> AgentGymEnvironment:
        """One environment of the server. Actions come with every step where the server lists them."""
        return AgentGymEnvironment(self.server, self.name, self.dialect, self.match)

    def stray(self, rng: np.random.Generator, admissible: Sequence[str], seen: Sequence[str]) -> str:
        """As the in-process domain of this name, which sees text alone."""
        return make_domain(self.name, self.cache_dir).stray(rng, admissible, seen)


def make(name: str, cache_dir: Path, options: Options) -> AgentGymDomain:
    """The domain ``name`` on the server that ``options`` name. Raises InputError for a wrong option."""
    check_options(name, options, OPTIONS)
    dialect, match = str(options.get("dialect", "word2world")), str(options.get("match", "observation"))
    for value, allowed, option in ((dialect, DIALECTS, "dialect"), (match, MATCHES, "match")):
        if value not in allowed:
            raise InputError(
                f"domain {name}: {option} {value!r} is not known; choose from {', '.join(allowed)}"
            )
    chosen = cast(Dialect, dialect)
    if name not in SERVED:
        raise InputError(f"domain {name}: AgentGym has no server for it; choose from {', '.join(SERVED)}")
    if protocol_of(name, chosen) is None:
        raise InputError(f"domain {name}: {dialect} has no server for it; give dialect word2world")
    timeout, attempts = options.get("timeout", 60.0), options.get("attempts", 3)
    numbers = isinstance(timeout, int | float) and isinstance(attempts, int)
    if not numbers or isinstance(timeout, bool) or isinstance(attempts, bool):
        raise InputError(f"domain {name}: timeout is seconds and attempts a whole number; give numbers")
    server = Server(str(options["server"]).rstrip("/"), float(timeout), int(attempts))
    return AgentGymDomain(name, server, chosen, match, str(options.get("tasks", "")), cache_dir)
