"""Advice for an agent: a task's skills at the start, and the rules that a step triggers (memwm.txt, Algorithms 2-4).

Rules are matched by the flags of the present state (``triggers``), a rule for the verb of the last action in place
of the general one. Their order is fixed: by misstep rate, then support, then id; the first that fit are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wmlab.config.recipes import load_recipe
from wmlab.config.skills import SkillRecipe
from wmlab.data.decompose import action_type
from wmlab.domains.conventions import task_type_of
from wmlab.errors import InputError
from wmlab.memory.bank import Entry
from wmlab.memory.guard import require_clean
from wmlab.memory.retrieve import estimated_tokens
from wmlab.skills.bank import GENERAL, GUIDANCE, MISTAKE, TASK, overlap, read_skills, words
from wmlab.skills.prompt import STEP_BLOCK, TASK_BLOCK, CountTokens, fitting
from wmlab.skills.state import State
from wmlab.skills.triggers import flags, triggers

MOST_RULES = 3
STEP_BUDGET = 160
TASK_BUDGET = 384
MOST_SKILLS = 12


@dataclass(frozen=True, slots=True)
class Guidance:
    """A block ("" for none), the flags that held, and the entries shown, in their order."""

    block: str
    flags: tuple[str, ...]
    entries: tuple[Entry, ...]

    def record(self) -> dict[str, Any]:
        """The choice as a JSON object, without the block's text."""
        return {"flags": list(self.flags), "entries": [one.id for one in self.entries]}


class Guide:
    """A skill bank opened for an agent.

    Budgets are tokens as ``count_tokens`` counts them. InputError for a negative budget or number and for an
    entry of an ``excluded`` task.
    """

    def __init__(
        self,
        domain: str,
        entries: Iterable[Entry],
        *,
        step_budget: int = STEP_BUDGET,
        task_budget: int = TASK_BUDGET,
        most_rules: int = MOST_RULES,
        count_tokens: CountTokens = estimated_tokens,
        excluded: frozenset[str] = frozenset(),
        source: object = "skill bank",
    ) -> None:
        if min(step_budget, task_budget, most_rules) < 0:
            raise InputError("skill: budgets and the number of rules must be at least 0")
        held = sorted(entries, key=lambda one: one.id)
        require_clean(held, excluded, source)
        self.domain = domain
        self._triggers = triggers(domain)
        self._step_budget, self._task_budget, self._most = step_budget, task_budget, most_rules
        self._count = count_tokens
        self._rules = {one.key: one for one in held if one.kind == GUIDANCE}
        self._skills = [one for one in held if one.kind != GUIDANCE]

    def step(self, state: State) -> Guidance:
        """The rules for one decision."""
        held = flags(state, self._triggers)
        verb = action_type(self.domain, state.action)
        found = []
        for name in held:
            general = self._rules.get((("flag", name),))
            rule = self._rules.get((("flag", name), ("verb", verb)), general)
            if rule is not None:
                found.append(rule)
        found.sort(key=lambda one: (-_rate(one), -one.support, one.id))
        block, used = fitting(STEP_BLOCK, found, self._step_budget, self._most, self._count)
        return Guidance(block, held, used)

    def start(self, goal: str, task_type: str = "") -> Guidance:
        """The skills for an episode: its task type's, then general ones and mistakes, better supported first.

        Without a ``task_type`` the goal tells it (``identify``).
        """
        known = task_type or self.identify(goal)
        rank = {TASK: 0, GENERAL: 1, MISTAKE: 2}
        found = [one for one in self._skills if one.kind != TASK or dict(one.key)["task_type"] == known]
        found.sort(key=lambda one: (rank[one.kind], -one.support, one.id))
        block, used = fitting(TASK_BLOCK, found, self._task_budget, MOST_SKILLS, self._count)
        return Guidance(block, (known,) if known else (), used)

    def identify(self, goal: str) -> str:
        """The task type of a goal: by the domain's own rule, else the type whose goals share most words with it.

        "" where no type of the bank shares a word. Ties go to the first name.
        """
        types = sorted({dict(one.key)["task_type"] for one in self._skills if one.kind == TASK})
        told = task_type_of(self.domain, goal)
        if told in types:
            return told
        said = words(goal)
        scores = {
            dict(one.key)["task_type"]: overlap(said, frozenset(one.payload.get("goal_words", ())))
            for one in self._skills
            if one.kind == TASK and said
        }
        best = max(types, key=lambda name: scores.get(name, 0.0), default="")
        return best if scores.get(best, 0.0) > 0.0 else ""


def open_guide(
    domain: str,
    banks: Sequence[Path],
    recipe: str,
    count_tokens: CountTokens,
    excluded: frozenset[str] = frozenset(),
) -> Guide:
    """Banks opened together for an agent; ``recipe`` is JSON or a JSON file (``config.skills.SkillRecipe``).

    Raises InputError naming the bank that is broken, has an entry of an ``excluded`` task, or an entry that an
    earlier bank has.
    """
    settings = load_recipe(SkillRecipe, recipe)
    entries: dict[str, Entry] = {}
    for path in banks:
        found = read_skills(path, domain)
        require_clean(found, excluded, path)
        twice = [one.id for one in found if one.id in entries]
        if twice:
            raise InputError.at(path, f"entry {twice[0]} is in an earlier bank too", "give each entry once")
        entries |= {one.id: one for one in found}
    return Guide(domain, entries.values(), count_tokens=count_tokens, **settings.model_dump())


def _rate(rule: Entry) -> float:
    """Share of steps under the rule's trigger that were missteps in failing episodes."""
    counts = rule.payload["counts"]
    return float(counts["missteps"]) / float(counts["steps"])
