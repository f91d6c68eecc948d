"""How the published data writes each domain: item ids, goals, blocks of admissible actions.

Sources: formats.md 1.1 (corpora), 1.3 and 1.4 (contexts, task lists), 2.4 (admissible actions), 7 (servers).
"""

from __future__ import annotations

import re

from wmlab.domains.base import SUCCESS_MARKER
from wmlab.errors import InputError

UPSTREAM_NAMES = {
    "textworld": "textworld",
    "alfworld": "alfworld",
    "scienceworld": "sciworld",
    "webshop": "webshop",
    "cookingworld": "cookingworld",
    "stabletoolbench": "stabletoolbench",
}
"""Our name of a domain to the prefix of its item ids upstream. StableToolBench is data only: no environment."""

ACKNOWLEDGEMENTS = {
    "textworld": "Understood. I will respond with one valid action per turn.",
    "alfworld": "OK. I'll follow your instructions and try my best to solve the task.",
    "scienceworld": "OK. I'll follow your instructions and try my best to solve the task.",
}
"""The fixed line with which upstream's agents answer their prompt; elsewhere ``Ok.`` (formats.md 1.3)."""

RESET_ACTIONS_HEAD = "\nAVAILABLE ACTIONS: "
PAGE_ACTIONS_HEAD = "\n\nYour admissible actions of the current situation are: \n[\n"
PAGE_ACTIONS_TAIL = "\n]."
SEARCH_BAR = "search[<your query>]"

_SEPARATORS = {"textworld": ", ", "alfworld": ","}
_ITEM = re.compile(r"(?P<name>[a-z]+)_(?P<number>0|[1-9][0-9]{0,8})")
_SPLIT_ITEM = re.compile(r"\Aalfworld_valid_(?:seen|unseen)_(\d+)\Z")
_WEBSHOP_GOAL = re.compile(r"Instruction: \[SEP\] (.*?)(?: \[SEP\]|\n|$)")
_TASK_GOAL = re.compile(r"Your task is to:? ?([^\n]*)")
_ALFWORLD_TYPES = (
    (r"\btwo\b", "pick_two_obj_and_place"),
    (r"\b(?:hot|heat)\b", "pick_heat_then_place_in_recep"),
    (r"\b(?:cool|cold)\b", "pick_cool_then_place_in_recep"),
    (r"\bclean\b", "pick_clean_then_place_in_recep"),
    (r"\b(?:look at|examine)\b", "look_at_obj_in_light"),
    (r"\b(?:put|place)\b", "pick_and_place_simple"),
)


def known_domain(domain: str) -> str:
    """Our name of a domain given by ours or by upstream's. Raises InputError for another one."""
    for name, upstream in UPSTREAM_NAMES.items():
        if domain in (name, upstream):
            return name
    raise InputError(f"domain {domain!r}: not known; choose from {', '.join(UPSTREAM_NAMES)}")


def acknowledgement_of(domain: str) -> str:
    """The line with which upstream's agent of a domain (by either name) answers its prompt."""
    own = {UPSTREAM_NAMES[name]: name for name in UPSTREAM_NAMES}.get(domain, domain)
    return ACKNOWLEDGEMENTS.get(own, "Ok.")


def item_id(domain: str, number: int) -> str:
    """Upstream's item id, e.g. ``webshop_5238`` or ``sciworld_41``."""
    return f"{UPSTREAM_NAMES[domain]}_{number}"


def item_number(domain: str, identity: str) -> int:
    """The task number of an item id, strictly ``{name}_{number}``. Raises InputError for anything else."""
    found = _ITEM.fullmatch(identity[:64])
    if found is None or found["name"] not in (domain, UPSTREAM_NAMES[domain]):
        shown = identity[:60].encode("unicode_escape").decode()
        raise InputError(f"task id '{shown}': not one of {domain}; give an id like {item_id(domain, 17)}")
    return int(found["number"])


def canonical_item_id(identity: str) -> str:
    """One name for what Word2World also files under its evaluation splits: ``alfworld_valid_seen_2620``."""
    return _SPLIT_ITEM.sub(r"alfworld_\1", identity)


def goal_of(domain: str, initial_observation: str) -> str:
    """The goal of an initial observation, or "" where it states none; ScienceWorld's whole description."""
    if domain == "scienceworld":
        description, look = split_description(initial_observation)
        return description if look and _TASK_GOAL.search(description) else ""
    if domain == "textworld":
        opening = initial_observation.partition("-= ")[0]
        return opening.rpartition("$$")[2].strip()
    pattern = _WEBSHOP_GOAL if domain == "webshop" else _TASK_GOAL
    found = pattern.search(initial_observation)
    return found.group(1).strip() if found else ""


def split_description(initial_observation: str) -> tuple[str, str]:
    """ScienceWorld's first observation: the description (a line, behind its title line if any), the first look."""
    lines = initial_observation.split("\n")
    n = 2 if lines[0].startswith("Task Description:") else 1
    return "\n".join(lines[:n]), "\n".join(lines[n:])


def task_type_of(domain: str, goal: str) -> str:
    """The family of a task as far as its goal tells: TextWorld's one, ALFWorld's six; "" elsewhere."""
    if domain == "textworld":
        return "tw-simple"
    if domain == "alfworld":
        return next((name for pattern, name in _ALFWORLD_TYPES if re.search(pattern, goal.casefold())), "")
    return ""


def with_reset_actions(domain: str, text: str, actions: list[str]) -> str:
    """A first observation with the list of actions that TextWorld and ALFWorld append to it."""
    return f"{text}{RESET_ACTIONS_HEAD}{_SEPARATORS.get(domain, ', ').join(actions)}"


def split_reset_actions(domain: str, text: str) -> tuple[str, list[str] | None]:
    """Inverse of :func:`with_reset_actions`; None where nothing is listed."""
    shown, head, listed = text.rpartition(RESET_ACTIONS_HEAD)
    if not head:
        return text, None
    return shown, listed.split(_SEPARATORS.get(domain, ", ")) if listed else []


def with_page_actions(text: str, actions: list[str]) -> str:
    """A shop page with its block of admissible actions, e.g. ``click[back to search]``."""
    body = "\n".join(f"'{action}'," for action in actions)
    return f"{text}{PAGE_ACTIONS_HEAD}{body}{PAGE_ACTIONS_TAIL}"


def split_page_actions(text: str) -> tuple[str, list[str] | None]:
    """Inverse of :func:`with_page_actions`; a marker behind the block stays with the page."""
    marked = text.endswith(SUCCESS_MARKER)
    body = text.removesuffix(SUCCESS_MARKER)
    shown, head, listed = body.rpartition(PAGE_ACTIONS_HEAD)
    if not head or not listed.endswith(PAGE_ACTIONS_TAIL):
        return text, None
    lines = listed.removesuffix(PAGE_ACTIONS_TAIL).split("\n")
    actions = [line.removeprefix("'").removesuffix("',") for line in lines if line]
    return shown + (SUCCESS_MARKER if marked else ""), actions
