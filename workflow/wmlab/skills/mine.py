"""Corrective rules from failing trajectories (memwm.txt, Appendix C.4.2, Algorithm 4).

At every step of a trajectory the flags of the state are computed, and whether the action taken in it was a
misstep (``outcome``). A flag becomes a rule when missteps recur under it in enough failing trajectories, and at
least as often as in failing trajectories at large (its *lift*). Advice is the trigger's; what is mined is which
advice is needed, for which verb, how often, and what successful trajectories did in such a state. A rule for one
verb stands beside the general one only where it leads to something else.

Sums do not depend on the order of trajectories. Of a rule's failing trajectories those with the smallest
digests are named.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wmlab.data.decompose import action_type
from wmlab.errors import InputError
from wmlab.memory.bank import Entry, Key, entry_id
from wmlab.memory.curate import MOST, ranked
from wmlab.memory.guard import task_hash
from wmlab.memory.prompt import inert
from wmlab.skills.bank import GUIDANCE
from wmlab.skills.outcome import kind_of_action, misstep
from wmlab.skills.record import check_trajectory
from wmlab.skills.state import State, decisions
from wmlab.skills.triggers import Trigger, flags, triggers

LEAST_SHARE = 0.3
"""Share of good steps that one kind of action needs before it is recommended."""


@dataclass(frozen=True, slots=True)
class MineSettings:
    """Failing trajectories behind a rule, how its misstep rate compares, trajectory ids it names."""

    min_support: int = 3
    min_lift: float = 1.0
    keep_sources: int = 32

    def __post_init__(self) -> None:
        if self.min_support < 1 or self.keep_sources < 1 or not self.min_lift >= 0.0:
            raise InputError("skill mine: min_support and keep_sources at least 1, min_lift at least 0")


@dataclass(slots=True)
class _Sum:
    """What was counted under one key; ``support`` counts failing trajectories with a misstep."""

    steps: int = 0
    missteps: int = 0
    support: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    tasks: set[str] = field(default_factory=set)
    sources: list[tuple[int, str]] = field(default_factory=list)
    """A heap of (minus digest, id): the ids with the smallest digests."""

    def name(self, identity: str, most: int) -> None:
        """Keep a failing trajectory's id if its digest is among the smallest."""
        item = (-int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8], "big"), identity)
        if len(self.sources) < most:
            heapq.heappush(self.sources, item)
        else:
            heapq.heappushpop(self.sources, item)


class Miner:
    """Takes trajectories one at a time; ``rules`` gives the entries. ``report`` counts what was read."""

    def __init__(
        self, domain: str, settings: MineSettings | None = None, excluded: frozenset[str] = frozenset()
    ) -> None:
        self.domain = domain
        self.settings = settings or MineSettings()
        self.excluded = excluded
        self.report: Counter[str] = Counter()
        self._triggers = {one.name: one for one in triggers(domain)}
        self._sums: dict[Key, _Sum] = {}
        self._all = _Sum()
        self._seen: set[str] = set()

    def add(self, row: Mapping[str, Any], source: object, number: int) -> None:
        """Count a trajectory row; one of a held-out task is left out. InputError for a broken or repeated one."""
        check_trajectory(self.domain, row, source, number)
        identity = row["trajectory_id"]
        if identity in self._seen:
            raise InputError.at(source, f"trajectory {identity!r} is repeated", "give each once", number)
        self._seen.add(identity)
        self.report["trajectories"] += 1
        task = task_hash([{"content": row["initial_observation"]}])
        if task in self.excluded:
            self.report["held_out"] += 1
            return
        self.report["failing"] += not row["success"]
        erred: set[Key] = set()
        for state, step in decisions(row):
            lost = bool(step["done"]) and not row["success"]
            wrong = misstep(state, step["action"], step["observation"], lost)
            self._count(state, step["action"], wrong, bool(row["success"]), task, erred)
        for key in sorted(erred):
            self._sums[key].support += 1
            self._sums[key].name(identity, self.settings.keep_sources)

    def _count(self, state: State, action: str, wrong: str, solved: bool, task: str, erred: set[Key]) -> None:
        kind = kind_of_action(self.domain, action, state.action)
        for key in (None, *self._keys(state)):
            one = self._all if key is None else self._sums.setdefault(key, _Sum())
            if solved:
                if not wrong:
                    one.right[kind] += 1
                    one.tasks.add(task)
                continue
            one.steps += 1
            if wrong:
                one.missteps += 1
                one.kinds[wrong] += 1
                one.wrong[kind] += 1
                one.tasks.add(task)
                if key is not None:
                    erred.add(key)

    def _keys(self, state: State) -> list[Key]:
        """The keys of the flags that hold: the flag, and with it the verb of the last action."""
        keys: list[Key] = []
        for name in flags(state, self._triggers.values()):
            keys.append((("flag", name),))
            verb = action_type(self.domain, state.action)
            if self._triggers[name].by_verb and verb != "other":  # that one is ``no_command``
                keys.append((("flag", name), ("verb", verb)))
        return keys

    @property
    def base_rate(self) -> float:
        """Share of missteps among all steps of failing trajectories; 0 without any."""
        return self._all.missteps / self._all.steps if self._all.steps else 0.0

    def rules(self) -> list[Entry]:
        """The rules, sorted by id."""
        found = [self._entry(key) for key in self._sums if self._is_rule(key)]
        self.report["rules"] = len(found)
        return sorted(found, key=lambda one: one.id)

    def _is_rule(self, key: Key) -> bool:
        one = self._sums[key]
        if one.support < self.settings.min_support:
            self.report["below_support"] += 1
            return False
        if one.missteps / one.steps < self.settings.min_lift * self.base_rate:
            self.report["below_lift"] += 1
            return False
        if len(key) > 1 and self._what_worked(one) in ("", self._what_worked(self._sums[key[:1]])):
            self.report["same_as_general"] += 1
            return False
        return True

    def _what_worked(self, one: _Sum) -> str:
        """The kind of action that solved episodes took most in such a state; "" where none stands out.

        It takes as many good steps as a rule takes failing trajectories.
        """
        best = ranked(one.right, one.right.total(), LEAST_SHARE, 1)
        return best[0][0] if best and best[0][1] >= self.settings.min_support else ""

    def _entry(self, key: Key) -> Entry:
        one, trigger = self._sums[key], self._triggers[key[0][1]]
        counts = {
            "steps": one.steps,
            "missteps": one.missteps,
            "lift": round(one.missteps / one.steps / self.base_rate, 3),
            "kinds": dict(ranked(one.kinds, 1, 0.0, MOST)),
            "wrong": dict(ranked(one.wrong, 1, 0.0, MOST)),
            "right": dict(ranked(one.right, 1, 0.0, MOST)),
        }
        payload = {
            "name": "_".join(value for _, value in key),
            "counts": counts,
            "task_hashes": sorted(one.tasks),
        }
        return Entry(
            entry_id(self.domain, GUIDANCE, key),
            GUIDANCE,
            key,
            inert(_text(trigger, key, self._what_worked(one))),
            "",
            payload,
            one.support,
            tuple(sorted(identity for _, identity in one.sources)),
        )


def _text(trigger: Trigger, key: Key, worked: str) -> str:
    after = f" after {key[1][1]}" if len(key) > 1 else ""
    return trigger.advice + (f" What mostly worked next{after}: {worked}." if worked else "")


def mine(
    domain: str,
    rows: Iterable[tuple[object, int, Mapping[str, Any]]],
    settings: MineSettings | None = None,
    excluded: frozenset[str] = frozenset(),
) -> tuple[list[Entry], Counter[str]]:
    """The rules of (source, row number, trajectory row) in any order, and the counts of what was read.

    Raises InputError naming source and row for a broken, foreign or repeated trajectory.
    """
    miner = Miner(domain, settings, excluded)
    for source, number, row in rows:
        miner.add(row, source, number)
    return miner.rules(), miner.report
