"""A successful trajectory compressed (memwm.txt, Appendix C.4.1): what was done, and what was seen where it mattered.

The action skeleton is the trajectory's actions without repetitions and refused ones. The trace keeps the steps
of the most informative verbs with a shortened observation; both have a largest length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wmlab.data.decompose import action_type, without_admissible
from wmlab.domains.base import SUCCESS_MARKER
from wmlab.errors import InputError
from wmlab.memory.guard import task_hash
from wmlab.memory.prompt import inert, shorten
from wmlab.skills.outcome import kind_of_action, misstep
from wmlab.skills.state import decisions

SKELETON = 60
"""Actions of a skeleton at most, the last ones are kept when there are more."""
TRACE = 12
SEEN_CHARACTERS = 160
_INFORMATIVE = {
    "textworld": ("unlock", "open", "take", "put", "insert"),
    "alfworld": ("heat", "cool", "clean", "use", "take", "put", "open"),
    "scienceworld": ("focus", "use", "mix", "pour", "connect", "activate", "read", "pick", "move", "go"),
    "cookingworld": ("read", "cook", "chop", "slice", "dice", "prepare", "eat", "take", "open"),
    "webshop": ("search", "click"),
}
"""Verbs by domain, most informative first; other steps come last."""


@dataclass(frozen=True, slots=True)
class Misstep:
    """A step that a solved episode got over: its verb, what it was, the kind of action that came next."""

    verb: str
    kind: str
    then: str


@dataclass(frozen=True, slots=True)
class Record:
    """A trajectory's evidence. ``trace`` has (action, shortened observation), in the order of the episode."""

    trajectory_id: str
    task_type: str
    task: str
    task_hash: str
    goal: str
    score: float
    n_steps: int
    skeleton: tuple[str, ...]
    trace: tuple[tuple[str, str], ...]
    missteps: tuple[Misstep, ...]

    def shown(self) -> dict[str, Any]:
        """The record as a language model reads it: no ids of trajectories or tasks."""
        return {
            "goal": self.goal,
            "score": self.score,
            "steps": self.n_steps,
            "actions": list(self.skeleton),
            "trace": [{"action": action, "observation": seen} for action, seen in self.trace],
        }


def check_trajectory(domain: str, row: Mapping[str, Any], source: object, number: int) -> None:
    """Raise InputError naming the row for a trajectory that is broken or of another domain."""
    fields = ("trajectory_id", "task_id", "initial_observation", "steps", "success", "score")
    fix = "collect or import the trajectories again"
    if any(row[name] is None for name in fields):
        raise InputError.at(source, "a field is null", fix, number)
    if row["domain"] != domain:
        raise InputError.at(source, f"domain {row['domain']!r}, not {domain!r}", "give one domain", number)
    for step in row["steps"]:
        if step is None or any(step[name] is None for name in ("action", "observation", "done")):
            raise InputError.at(source, "a step is null", fix, number)


def compress(row: Mapping[str, Any]) -> Record:
    """The record of a checked trajectory row."""
    domain = row["domain"]
    skeleton: dict[str, None] = {}
    missteps: list[Misstep] = []
    kept: list[tuple[int, int, str, str]] = []
    before = ""
    for at, (verb, action, answer, wrong) in enumerate(_steps(row)):
        if missteps and missteps[-1].then == "" and not wrong:
            last = missteps.pop()
            missteps.append(Misstep(last.verb, last.kind, kind_of_action(domain, action, before)))
        if wrong:
            missteps.append(Misstep(verb, wrong, ""))
        else:
            skeleton[action] = None
            order = _INFORMATIVE[domain]
            rank = order.index(verb) if verb in order else len(order)
            kept.append((rank, at, action, _seen(answer)))
        before = action
    trace = sorted(sorted(kept)[:TRACE], key=lambda one: one[1])
    return Record(
        row["trajectory_id"],
        row["task_type"] or "any",
        row["task_id"],
        task_hash([{"content": row["initial_observation"]}]),
        " ".join((row["goal"] or "").split()),
        float(row["score"]),
        len(row["steps"]),
        tuple(list(skeleton)[-SKELETON:]),
        tuple((action, seen) for _, _, action, seen in trace),
        tuple(missteps),
    )


def _steps(row: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    for state, step in decisions(row):
        action, answer = step["action"], step["observation"]
        wrong = misstep(state, action, answer, False)
        yield action_type(row["domain"], action), " ".join(action.split()), answer, wrong


def _seen(answer: str) -> str:
    return inert(shorten(without_admissible(answer.removesuffix(SUCCESS_MARKER)), SEEN_CHARACTERS))
