"""ScienceWorld's tasks, variations, splits and panels, without the simulator.

Names, order and numbers of variations are those of scienceworld 1.2.3 (checked against the simulator in
the tests); the split rule is the simulator's: quarters, two to train, one to dev, the rest to test.
Item ids: ``sciworld_N`` is AgentGym's flat index, the papers' form (formats.md 7.4); any task and
variation can be named ``scienceworld_<task>_<variation>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from wmlab.errors import InputError

VARIATIONS: dict[str, tuple[str, int]] = {  # library id: (task, number of variations), in library order
    "1-1": ("boil", 30),
    "1-2": ("melt", 30),
    "1-3": ("freeze", 30),
    "1-4": ("change-the-state-of-matter-of", 30),
    "2-1": ("use-thermometer", 540),
    "2-2": ("measure-melting-point-known-substance", 436),
    "2-3": ("measure-melting-point-unknown-substance", 300),
    "3-1": ("power-component", 20),
    "3-2": ("power-component-renewable-vs-nonrenewable-energy", 20),
    "3-3": ("test-conductivity", 900),
    "3-4": ("test-conductivity-of-unknown-substances", 600),
    "4-1": ("find-living-thing", 300),
    "4-2": ("find-non-living-thing", 300),
    "4-3": ("find-plant", 300),
    "4-4": ("find-animal", 300),
    "5-1": ("grow-plant", 126),
    "5-2": ("grow-fruit", 126),
    "6-1": ("chemistry-mix", 32),
    "6-2": ("chemistry-mix-paint-secondary-color", 36),
    "6-3": ("chemistry-mix-paint-tertiary-color", 36),
    "7-1": ("lifespan-longest-lived", 125),
    "7-2": ("lifespan-shortest-lived", 125),
    "7-3": ("lifespan-longest-lived-then-shortest-lived", 125),
    "8-1": ("identify-life-stages-1", 14),
    "8-2": ("identify-life-stages-2", 10),
    "9-1": ("inclined-plane-determine-angle", 168),
    "9-2": ("inclined-plane-friction-named-surfaces", 1386),
    "9-3": ("inclined-plane-friction-unnamed-surfaces", 162),
    "10-1": ("mendelian-genetics-known-plant", 120),
    "10-2": ("mendelian-genetics-unknown-plant", 480),
}
TASKS = tuple(name for name, _ in VARIATIONS.values())
COUNT = dict(VARIATIONS.values())
SHORT = (  # gold paths of at most 17 steps in every variation sampled
    "find-living-thing",
    "find-non-living-thing",
    "find-plant",
    "find-animal",
    "lifespan-longest-lived",
    "lifespan-shortest-lived",
    "lifespan-longest-lived-then-shortest-lived",
    "power-component",
)
AGENTGYM_EXCLUDED = ("5-1", "5-2", "9-1", "9-2", "9-3", "10-1", "10-2")
ETO_EXCLUDED = ("2-3", "9-1", "9-2", "9-3", "10-1", "10-2")
ETO_TEST_PER_TASK = 10
PANELS = ("official", "agentgym", "eto")
SPLITS = {"train": "train", "validation": "dev", "test": "test"}
_FLAT = "sciworld_"
_NAMED = "scienceworld_"
_ID = re.compile(rf"(?:{_FLAT}(?P<flat>\d{{1,6}})|{_NAMED}(?P<task>[a-z0-9-]+)_(?P<variation>\d{{1,6}}))")

Pair = tuple[str, int]
"""A task and one of its variations."""


def official(task: str, split: str) -> range:
    """The variations of ``task`` in the official ``train``, ``dev`` or ``test`` split."""
    n = COUNT[task]
    size = n // 4
    bounds = {"train": (0, 2 * size), "dev": (2 * size, 3 * size), "test": (3 * size, n)}
    return range(*bounds[split])


def flat_index() -> list[Pair]:
    """AgentGym's list: position N is the task of item id ``sciworld_N``."""
    kept = [pair for number, pair in VARIATIONS.items() if number not in AGENTGYM_EXCLUDED]
    return [(task, variation) for task, n in kept for variation in range(n)]


def parse(task_id: str) -> Pair:
    """Task and variation of an item id. Raises InputError on any other text (ids are never paths)."""
    match = _ID.fullmatch(task_id) if task_id.isascii() else None
    pair: Pair | None = None
    if match is not None and match["flat"] is not None:
        flat = flat_index()
        pair = flat[int(match["flat"])] if int(match["flat"]) < len(flat) else None
    elif match is not None and int(match["variation"]) < COUNT.get(match["task"], 0):
        pair = match["task"], int(match["variation"])
    if pair is None:
        raise InputError(
            f"task id {task_id[:80]!r}: not a ScienceWorld task; use {_FLAT}N with N below "
            f"{len(flat_index())}, or {_NAMED}<task>_<variation>"
        )
    return pair


def check_tasks(text: str) -> tuple[str, ...]:
    """The option ``tasks``: ``all``, ``short``, or task names with commas. Raises InputError."""
    if text in ("all", "short"):
        return TASKS if text == "all" else SHORT
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in COUNT:
            raise InputError(f"domain scienceworld: task {name!r} is not known; all, short, or {TASKS}")
    return names


def panel_ids(panel: str, split: str, tasks: tuple[str, ...], lists: str) -> list[str]:
    """All item ids of a split, in order.

    Ids are interleaved (first variation of each task, then the second, ...), so that the first n cover
    many tasks; ETO's and listed ones keep their file's order. AgentGym's 2,120 train and 200 test ids, and ETO's train and dev pairs,
    were drawn at random upstream: they need ``lists``, a folder of the released task lists
    (``sciworld_{train,test}.json``; ``{train,dev}_indices.json``). Without it, ``agentgym`` means the
    official split of its tasks under flat ids, and ETO's train and dev are refused.
    """
    if lists:
        return _listed(panel, split, tasks, Path(lists))
    part = SPLITS[split]
    if panel == "agentgym":
        numbers = {pair: number for number, pair in enumerate(flat_index())}
        pairs = _interleave((task, official(task, part)) for task in tasks)
        return [f"{_FLAT}{numbers[pair]}" for pair in pairs if pair in numbers]
    if panel == "official":
        return [_name(pair) for pair in _interleave((task, official(task, part)) for task in tasks)]
    if part != "test":
        raise InputError(
            f"domain scienceworld: ETO's {part} pairs cannot be derived; give the folder that holds its "
            f"{part}_indices.json as option lists"
        )
    return [_name(pair) for pair in _eto_test() if pair[0] in tasks]


def _eto_test() -> list[Pair]:
    """The first ten of each official test split, in the order of ETO's file: sorted by the old task names."""
    kept = {task: number for number, (task, _) in VARIATIONS.items() if number not in ETO_EXCLUDED}
    topic = {"2": "10", "3": "2", "4": "3", "5": "4", "6": "5", "7": "6", "8": "7"}

    def old(task: str) -> tuple[str, str]:
        group, _, number = kept[task].partition("-")
        return topic.get(group, group) + ("a" if group == "3" and number in "34" else ""), task

    return [(task, v) for task in sorted(kept, key=old) for v in official(task, "test")[:ETO_TEST_PER_TASK]]


def _name(pair: Pair) -> str:
    return f"{_NAMED}{pair[0]}_{pair[1]}"


def _interleave(groups: Iterable[tuple[str, range]]) -> list[Pair]:
    rows = [[(task, variation) for variation in variations] for task, variations in groups]
    longest = max(map(len, rows), default=0)
    return [row[k] for k in range(longest) for row in rows if k < len(row)]


def _listed(panel: str, split: str, tasks: tuple[str, ...], folder: Path) -> list[str]:
    from wmlab.data.contexts import read_task_ids

    name = f"{SPLITS[split]}_indices.json" if panel == "eto" else f"sciworld_{split}.json"
    path = folder / name
    ids = _read_eto(path) if panel == "eto" else read_task_ids(path, "scienceworld")
    kept = []
    for number, task_id in enumerate(ids):
        try:
            task, _ = parse(task_id)
        except InputError as error:
            raise InputError.at(path, str(error), "give the released task list", number) from None
        if task in tasks:
            kept.append(task_id)
    return kept


def _read_eto(path: Path) -> list[str]:
    from wmlab.data.corpora import read_array

    ids = []
    for number, row in enumerate(read_array(path)):
        try:
            ids.append(_name((_modern(row[0]), int(row[1]))))
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise InputError.at(path, f"not a task ({error})", "give ETO's list", number) from None
    return ids


def _modern(name: str) -> str:
    """Today's name of a task that ETO calls ``task-6-lifespan-(longest-lived)``."""
    bare = re.sub(r"^task-\d+[ab]?-|[()]", "", str(name))
    return bare.replace("mendellian", "mendelian")
