"""Choose episodes worth reading and align Real, WM and W2R by step, with the points where they part marked.

Two marks: the first step at which the agent acts otherwise in the world model than in the real environment, and
the first state the world model gets wrong (its observation against the replay of the same actions).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from wmlab.io.jsonl import read_jsonl
from wmlab.report.inputs import Identity, identity_of
from wmlab.report.labels import method_key

TEXT_LIMIT = 900  # characters of one observation
STEP_LIMIT = 30
PAGE_LIMIT = 2_400_000  # characters of text on the page
KINDS: tuple[tuple[str, Callable[[bool, bool, bool], bool]], ...] = (
    ("lost on replay", lambda real, wm, w2r: real and not w2r),
    ("won in the world model only", lambda real, wm, w2r: wm and not real),
    ("preserved", lambda real, wm, w2r: real and w2r),
    ("lost everywhere", lambda real, wm, w2r: not real and not w2r),
)


@dataclass(frozen=True)
class Column:
    """What one condition shows at one step; empty texts when the episode has ended."""

    action: str
    observation: str
    ended: bool


@dataclass(frozen=True)
class Line:
    """One step of the three conditions. Step 0 is the initial observation."""

    step: int
    columns: tuple[Column, ...]
    agent_parts: bool
    state_parts: bool


@dataclass(frozen=True)
class Aligned:
    """One task of one cell, ready to show."""

    identity: Identity
    item_id: str
    kind: str
    outcomes: tuple[str, ...]
    lines: tuple[Line, ...]
    hidden_steps: int


def steps_of(episode: Mapping[str, Any]) -> tuple[str, list[tuple[str, str | None]]]:
    """The initial observation and (action, next observation) per step; None where no observation was kept."""
    actions = [str(action) for action in episode["actions"]]
    seen = [str(m["content"]) for m in episode["messages"] if m["role"] == "user"]
    closed = bool(episode["messages"]) and episode["messages"][-1]["role"] == "user"
    # Observations are counted from the end: some agents are given instructions in user turns first.
    first = len(seen) - len(actions) - (1 if closed else 0)
    initial = seen[first] if 0 <= first < len(seen) else ""
    pairs: list[tuple[str, str | None]] = []
    for index, action in enumerate(actions):
        place = first + 1 + index
        pairs.append((action, seen[place] if 0 <= place < len(seen) else None))
    return initial, pairs


def _fold(text: str | None) -> str:
    return " ".join((text or "").split()).casefold()


def cut(text: str | None, limit: int = TEXT_LIMIT) -> str:
    """At most ``limit`` characters, saying how many were left out."""
    if text is None:
        return "(no observation kept)"
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"


def align(
    identity: Identity, kind: str, real: Mapping[str, Any], wm: Mapping[str, Any], w2r: Mapping[str, Any]
) -> Aligned:
    """Line the three episodes of a task up by step."""
    runs = [steps_of(episode) for episode in (real, wm, w2r)]
    first = tuple(Column("", cut(initial), False) for initial, _ in runs)
    lines = [Line(0, first, False, False)]
    agent_found = state_found = False
    triples = list(zip_longest(*(pairs for _, pairs in runs)))
    for number, triple in enumerate(triples, start=1):
        acted = [_fold(pair[0]) if pair else None for pair in triple]
        states = [pair[1] if pair else None for pair in triple]
        agent = not agent_found and acted[0] != acted[1]
        both = states[1] is not None and states[2] is not None
        # The success marker belongs to the state, so states are compared whole, white space aside.
        state = (
            not state_found and both and " ".join(str(states[1]).split()) != " ".join(str(states[2]).split())
        )
        agent_found, state_found = agent_found or agent, state_found or state
        columns = tuple(
            Column(pair[0], cut(pair[1]), False) if pair is not None else Column("", "", True)
            for pair in triple
        )
        lines.append(Line(number, columns, agent, state))
    outcomes = tuple(_outcome(episode) for episode in (real, wm, w2r))
    hidden = max(0, len(triples) - STEP_LIMIT)
    return Aligned(identity, str(real["item_id"]), kind, outcomes, tuple(lines[: STEP_LIMIT + 1]), hidden)


def _outcome(episode: Mapping[str, Any]) -> str:
    word = "success" if episode["success"] and episode["status"] != "error" else "failure"
    ending = {"finished": "ended", "step_cap": "step cap", "error": "error"}.get(
        episode["status"], episode["status"]
    )
    text = f"{word}, {ending} after {episode['n_steps']} steps"
    return f"{text}: {episode['error']}" if episode.get("error") else text


def choose(
    real: Mapping[str, Any], wm: Mapping[str, Any], w2r: Mapping[str, Any], count: int
) -> list[tuple[str, str]]:
    """At most ``count`` (item_id, kind): one of each kind in turn, in the order of the file."""
    shared = [item for item in real if item in wm and item in w2r]
    queues = []
    for name, holds in KINDS:
        queue = [i for i in shared if holds(real[i]["success"], wm[i]["success"], w2r[i]["success"])]
        queues.append([(item, name) for item in queue])
    taken: dict[str, str] = {}
    for layer in zip_longest(*queues):
        for entry in layer:
            if entry is not None and entry[0] not in taken and len(taken) < count:
                taken[entry[0]] = entry[1]
    return list(taken.items())


def gather(study: Path, per_cell: int) -> tuple[list[Aligned], int]:
    """Episodes of each agent and method (its lowest seed) below ``study/rollout``; how many did not fit."""
    cells: dict[tuple[str, ...], Path] = {}
    folders = [path.parent for path in sorted(study.glob("rollout/*/*/*/seed*/*/wm.jsonl"))]
    for folder in sorted(folders, key=lambda f: _order(identity_of(f / "wm.jsonl"))):
        identity = identity_of(folder / "wm.jsonl")
        key = (*identity.block, identity.agent, identity.method)
        if (folder / "w2r.jsonl").is_file():
            cells.setdefault(key, folder)
    found: list[Aligned] = []
    size = left_out = 0
    for folder in cells.values():
        identity = identity_of(folder / "wm.jsonl")
        source = study / "rollout" / identity.domain / "real" / identity.agent / "episodes.jsonl"
        if not source.is_file():
            continue
        real, wm, w2r = (_by_item(path) for path in (source, folder / "wm.jsonl", folder / "w2r.jsonl"))
        for item, kind in choose(real, wm, w2r, per_cell):
            aligned = align(identity, kind, real[item], wm[item], w2r[item])
            weight = sum(
                400 + len(c.action) + len(c.observation) for line in aligned.lines for c in line.columns
            )
            if size + weight > PAGE_LIMIT:
                left_out += 1
                continue
            size += weight
            found.append(aligned)
    return found, left_out


def _order(identity: Identity) -> tuple[Any, ...]:
    return (identity.block, identity.agent, method_key(identity.method), identity.seed)


def _by_item(path: Path) -> dict[str, dict[str, Any]]:
    return {str(row["item_id"]): row for row in read_jsonl(path)}


def groups(episodes: Sequence[Aligned]) -> list[tuple[str, list[Aligned]]]:
    """Episodes under their agent (and block), in order."""
    out: dict[str, list[Aligned]] = {}
    for episode in episodes:
        identity = episode.identity
        out.setdefault(f"{identity.agent} ({identity.domain}, {identity.backbone})", []).append(episode)
    return list(out.items())
