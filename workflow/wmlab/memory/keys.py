"""Retrieval keys of the parser games: which memory a prediction asks for, from most to least specific.

A prediction is a history in world-model roles that ends with the action. Its fields:

==========  ============================================================================================
``goal``    goal signature: ALFWorld's family of tasks, ScienceWorld's first verb; others have none
``schema``  the action's verb (``data.decompose.action_type``)
``object``  what the action names first; ALFWorld's without its number, so that it is a type
``target``  what it names second (``put … in``, ``use … on``)
``room``    the room the player was last told to be in; ALFWorld's is guessed from the furniture
``seen``    ALFWorld: types of the two receptacles gone to last
==========  ============================================================================================

A back-off order is a list of field sets; fields without a value fall out, and sets that become equal are
asked once. Keys are made the same way when a bank is built. Beside this chain there are caches, for what an
action like this one showed of the same thing in training worlds (``cached``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from wmlab.data.decompose import action_type, split_system
from wmlab.domains.conventions import goal_of, task_type_of
from wmlab.memory.bank import Key
from wmlab.memory.prompt import without_block

History = Sequence[Mapping[str, str]]
Probe = tuple[str, Key]
"""Kind of entry and key."""

FIELDS = ("goal", "schema", "object", "target", "room", "seen")
_ORDERS = {
    "alfworld": (
        "goal schema object target room seen",
        "goal schema object target room",
        "schema object target room",
        "schema object target",
        "schema object",
        "schema",
    ),
    "scienceworld": (
        "goal schema object target room",
        "schema object target room",
        "schema object target",
        "schema object",
        "schema",
    ),
    "textworld": ("schema object target room", "schema object target", "schema object", "schema"),
    "cookingworld": ("schema object target room", "schema object target", "schema object", "schema"),
}
BACK_OFF = {domain: tuple(tuple(row.split()) for row in rows) for domain, rows in _ORDERS.items()}
"""Field sets of each domain, most specific first."""

MEMORY_KIND = {domain: "fact" if domain == "scienceworld" else "transition" for domain in BACK_OFF}
"""ScienceWorld's memories are residual facts, the others' transition rules (memwm.txt, Appendix C.1)."""

RECENT = 2
_SPLIT = re.compile(r" (?:in/on|into|onto|from|with|using|containing|in|on|to|at) ")
_LEAD = re.compile(r"\A(?:(?:to|up|at|in|on|into|around|down|the|a|an) )+")
_NUMBER = re.compile(r" \d+\Z")
_LISTED = re.compile(r"\ban? ([a-z]+) \d")
_FIRST_VERB = re.compile(r"your task is to:? (?:use [a-z]+ to )?([a-z]+)", re.IGNORECASE)
_ROOM_TOLD = {
    "scienceworld": re.compile(
        r"(?:This (?:room|outside location) is called (?:the )?|You (?:move|teleport) to the )([a-z][a-z ]{0,40}?)\."
    ),
    "textworld": re.compile(r"-= ([^=\n]{1,60}) =-"),
    "cookingworld": re.compile(r"You are in the ([a-z][a-z ]{0,40}?)\."),
}
_FURNITURE = (
    ("bathroom", frozenset({"toilet", "bathtubbasin", "towelholder", "toiletpaperhanger"})),
    ("kitchen", frozenset({"fridge", "stoveburner", "microwave", "toaster", "coffeemachine"})),
    ("bedroom", frozenset({"bed"})),
    ("living room", frozenset({"sofa", "armchair", "tvstand", "ottoman"})),
)
_CACHES = {
    "scienceworld": {
        "read": ("recipe", "object"),
        "use": ("reading", "target"),
        "look": ("entity", "object"),
        "focus": ("entity", "object"),
        "open": ("entity", "object"),
    },
    "textworld": {"examine": ("entity", "object")},
}
"""Domain, verb to the cache its outcome belongs to and the field that names its subject."""


@dataclass(frozen=True, slots=True)
class Query:
    """What a prediction asks for: chains of probes, each from most to least specific, and words for BM25.

    WebShop searches ``pages`` of one kind only.
    """

    chains: tuple[tuple[Probe, ...], ...]
    words: str
    pages: str = ""


@lru_cache(maxsize=65_536)
def arguments(action: str) -> tuple[str, str]:
    """What an action names first and second, case-folded, without articles and leading particles.

    ``take the apple 1 from fridge 1`` → ``("apple 1", "fridge 1")``; ``go to fridge 1`` → ``("fridge 1", "")``.
    Where a thing is held (``thermometer in inventory``) is no argument, and only ``to`` splits a ``connect``.
    """
    verb, _, rest = " ".join(action.casefold().split()).partition(" ")
    parts = [rest.replace(" in inventory", "")]
    parts = parts[0].split(" to ", 1) if verb == "connect" else _SPLIT.split(_led(parts[0]), maxsplit=1)
    return _led(parts[0]), _led(parts[1]) if len(parts) > 1 else ""


def _led(text: str) -> str:
    """Text without leading particles and articles."""
    return _LEAD.sub("", text + " ").strip()


def type_of(name: str) -> str:
    """A name without its number: ``fridge 1`` → ``fridge``."""
    return _NUMBER.sub("", name)


@lru_cache(maxsize=16_384)
def _told_at_start(domain: str, system: str) -> tuple[str, str]:
    """Goal signature and room of a system turn."""
    shown, _ = split_system(without_block(system))
    if domain == "alfworld":
        types = set(_LISTED.findall(shown))
        room = next((name for name, marks in _FURNITURE if marks & types), "")
        return task_type_of(domain, goal_of(domain, shown)), room
    told = _ROOM_TOLD[domain].findall(shown)
    room = told[-1].casefold() if told else ""
    verb = _FIRST_VERB.search(shown) if domain == "scienceworld" else None
    return (verb[1].casefold() if verb else ""), room


def _room(domain: str, history: History) -> str:
    """The room last named by an observation of the history; "" before any is."""
    pattern = _ROOM_TOLD[domain]
    for message in reversed(history):
        if message["role"] == "assistant" and (told := pattern.findall(message["content"])):
            return str(told[-1]).casefold()
    return _told_at_start(domain, history[0]["content"])[1]


def _receptacles(history: History) -> str:
    """Types of the last receptacles gone to before the action, sorted; a refused move does not count."""
    found: list[str] = []
    for at in range(len(history) - 3, 0, -2):
        action = history[at]["content"]
        if action[:3].casefold() != "go " or history[at + 1]["content"].startswith("Nothing happens"):
            continue
        place = type_of(arguments(action)[0])
        if place and place not in found:
            found.append(place)
            if len(found) == RECENT:
                break
    return ",".join(sorted(found))


def fields_of(domain: str, history: History, action: str) -> dict[str, str]:
    """The fields above of one prediction; those without a value are "".

    ``history`` ends with the action as its last message, in strict alternation after the system turn.
    """
    first, second = arguments(action)
    goal, room = _told_at_start(domain, history[0]["content"])
    fields = {"goal": goal, "schema": action_type(domain, action), "object": first, "target": second}
    if domain == "alfworld":
        fields |= {"object": type_of(first), "target": type_of(second), "room": room}
        return fields | {"seen": _receptacles(history)}
    return fields | {"room": _room(domain, history), "seen": ""}


def chain(domain: str, fields: Mapping[str, str]) -> tuple[Probe, ...]:
    """The transition chain of a prediction with these fields."""
    return _chain(domain, tuple(fields[name] for name in FIELDS))


@lru_cache(maxsize=65_536)
def _chain(domain: str, values: tuple[str, ...]) -> tuple[Probe, ...]:
    fields = dict(zip(FIELDS, values, strict=True))
    kind = MEMORY_KIND[domain]
    probes: dict[Probe, None] = {}
    for names in BACK_OFF[domain]:
        probes[kind, tuple((name, fields[name]) for name in names if fields[name])] = None
    return tuple(probes)


def cached(domain: str, fields: Mapping[str, str]) -> tuple[Probe, ...]:
    """Keys of the caches this action belongs to: what it showed of its subject in training worlds.

    ScienceWorld may answer any command by a menu of readings, so the menu cache of its verb and object comes
    first; a look without an object is the room's. Each key is a chain of its own.
    """
    caches = _CACHES.get(domain)
    if caches is None:
        return ()
    probes: list[Probe] = []
    verb = fields["schema"]
    if domain == "scienceworld":
        menu = (("cache", "menu"), ("schema", verb), ("object", fields["object"]))
        probes.append(("state_cache", tuple(pair for pair in menu if pair[1])))
        if verb == "look" and not fields["object"]:
            return (*probes, *_subject("room", fields["room"]))
    if verb in caches:
        name, field = caches[verb]
        probes += _subject(name, fields[field])
    return tuple(probes)


def _subject(cache: str, subject: str) -> tuple[Probe, ...]:
    return (("state_cache", (("cache", cache), ("subject", subject))),) if subject else ()


def query(domain: str, history: History, action: str) -> Query:
    """What a prediction in a parser game asks for."""
    fields = fields_of(domain, history, action)
    chains = (chain(domain, fields), *((probe,) for probe in cached(domain, fields)))
    return Query(chains, " ".join(value for value in fields.values() if value))
