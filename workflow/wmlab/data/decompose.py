"""Trajectories to transitions: one row per step, with the world model's own chat history.

Roles are the reversed Word2World ones (formats.md 1.1): ``system`` is the initial observation, behind the
privileged description where the domain has one, ``user`` is a bare action, ``assistant`` the observation
that follows. A transition's history ends with its action; the gold next observation is its own column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from wmlab.domains.conventions import PAGE_ACTIONS_HEAD, RESET_ACTIONS_HEAD
from wmlab.errors import InputError

PRIVILEGED_HEAD = "# Environment Information (Only visible to Assistant)\n\n"
PRIVILEGED_BREAK = "\n\n# User Environment Information (Displayed to User)\n\n"
_RESET_ACTIONS = re.compile(re.escape(RESET_ACTIONS_HEAD) + r"(?P<list>[^\n]*)\n?\Z")
_PAGE_ACTIONS = re.compile(
    re.escape(PAGE_ACTIONS_HEAD) + r"(?P<list>.*?)\n?\]\.(?: \[SUCCESS\])?\Z", re.DOTALL
)

_COMPASS = ("north", "south", "east", "west", "n", "s", "e", "w")
_VERBS = {
    domain: frozenset(words.split())
    for domain, words in {
        "textworld": "go look inventory examine open close lock unlock take drop put insert eat wait help goal score",
        "alfworld": "go take put open close use heat cool clean slice examine look inventory help think",
        "scienceworld": "open close activate deactivate connect disconnect use look read move pick put pour dunk mix"
        " go teleport eat flush focus wait task inventory reset choose",
        "cookingworld": "look inventory read examine open close take put drop go cook chop slice dice prepare eat wait",
    }.items()
}
# The same command in other words: parsers accept several, the two ALFWorld grammars differ in one.
_SYNONYMS: dict[str, dict[str, str]] = {
    "textworld": {
        "i": "inventory", "inv": "inventory", "l": "look", "x": "examine", "get": "take", "pick": "take",
        "z": "wait", "walk": "go", **dict.fromkeys(_COMPASS, "go"),
    },
    "alfworld": {"move": "put", "toggle": "use"},
    "scienceworld": {"wait1": "wait", "drop": "put", "walk": "go", "examine": "look"},
    "cookingworld": {"move": "go", "get": "take", "pick": "take", "cut": "chop", **dict.fromkeys(_COMPASS, "go")},
}  # fmt: skip
_SHOP_ACTION = re.compile(r"(?P<verb>search|click|think)\[", re.IGNORECASE)


def compose_system(initial_observation: str, privileged: str | None) -> str:
    """The system turn: the initial observation, behind the privileged block when there is one."""
    if privileged is None:
        return initial_observation
    return f"{PRIVILEGED_HEAD}{privileged}{PRIVILEGED_BREAK}{initial_observation}\n"


def world_model_chat(trajectory: Mapping[str, Any]) -> list[dict[str, str]]:
    """A trajectory in world-model roles: system = first observation, user = action, assistant = observation."""
    head = compose_system(trajectory["initial_observation"], trajectory.get("privileged"))
    chat = [{"role": "system", "content": head}]
    for step in trajectory["steps"]:
        chat.append({"role": "user", "content": step["action"]})
        chat.append({"role": "assistant", "content": step["observation"]})
    return chat


def split_system(content: str) -> tuple[str, str | None]:
    """Inverse of :func:`compose_system`: (initial observation, privileged block or None)."""
    if content.startswith(PRIVILEGED_HEAD) and PRIVILEGED_BREAK in content and content.endswith("\n"):
        privileged, _, shown = content[len(PRIVILEGED_HEAD) : -1].partition(PRIVILEGED_BREAK)
        if compose_system(shown, privileged) == content:
            return shown, privileged
    return content, None


def _page_block(observation: str) -> re.Match[str] | None:
    """The WebShop block, searched from its last head so that time stays linear."""
    start = observation.rfind(PAGE_ACTIONS_HEAD)
    return _PAGE_ACTIONS.match(observation, start) if start >= 0 else None


def admissible_actions(observation: str) -> list[str] | None:
    """The actions an observation lists: TextWorld and ALFWorld at reset, WebShop on each page; else None."""
    page = _page_block(observation)
    if page:
        return [line.rstrip(",").strip("'") for line in page["list"].split("\n") if line.strip()]
    reset = _RESET_ACTIONS.search(observation)
    if reset:
        return [action.strip() for action in reset["list"].split(",") if action.strip()]
    return None


def without_admissible(observation: str) -> str:
    """The observation without its block of admissible actions and outer whitespace."""
    page = _page_block(observation)
    shown = observation[: page.start()] if page else observation
    return _RESET_ACTIONS.sub("", shown).strip()


def action_type(domain: str, action: str) -> str:
    """The kind of an action: its verb, normalised; ``other`` when the domain does not know the verb.

    Parser games: the first word with synonyms folded (TextWorld's ``north`` is ``go``, ALFWorld's ``move``
    of the new grammar is the old one's ``put``, a number that answers ScienceWorld's menu is ``choose``).
    WebShop: ``search``, ``click`` or ``think``. A domain without a list of verbs: the first word.
    """
    if domain == "webshop":
        match = _SHOP_ACTION.match(action.strip())
        return match["verb"].lower() if match else "other"
    first = action.split(maxsplit=1)
    verb = first[0].casefold() if first else ""
    if domain == "scienceworld" and verb.isdigit():
        return "choose"
    verb = _SYNONYMS.get(domain, {}).get(verb, verb)
    known = _VERBS.get(domain)
    return verb if verb and (known is None or verb in known) else "other"


def history_is_whole(history: Any) -> bool:
    """True for a non-empty list of messages without nulls."""
    return bool(history) and all(
        turn is not None and turn["role"] is not None and turn["content"] is not None for turn in history
    )


def _check(trajectory: Mapping[str, Any], source: object, row: int) -> list[dict[str, Any]]:
    """The steps of a trajectory row; InputError when it is broken."""
    for column in ("trajectory_id", "domain", "task_id", "split", "initial_observation", "steps"):
        if trajectory[column] is None:
            raise InputError.at(source, f"{column} is null", "drop or repair the trajectory", row)
    steps: list[dict[str, Any]] = trajectory["steps"]
    ended = False
    for k, step in enumerate(steps):
        if step is None or step["action"] is None or not step["action"].strip():
            raise InputError.at(source, f"step {k} has an empty action", "drop or repair the trajectory", row)
        if step["observation"] is None:
            raise InputError.at(source, f"step {k} has no observation", "drop or repair the trajectory", row)
        if ended:
            raise InputError.at(source, f"step {k} comes after done", "cut the trajectory at done", row)
        ended = bool(step["done"])
    return steps


def transitions(trajectories: Iterable[Mapping[str, Any]], source: object) -> Iterator[dict[str, Any]]:
    """Rows of the ``transitions`` contract, trajectory by trajectory, step by step.

    ``is_terminal`` marks the last step of a trajectory that ended (done). The last logged step of an
    unfinished one is not terminal, and has no ``next_action`` either. Raises InputError naming ``source``
    and the 0-based row for an empty action, a null field, a step after done, or a repeated
    ``trajectory_id``.
    """
    seen: set[str] = set()
    for row, trajectory in enumerate(trajectories):
        steps = _check(trajectory, source, row)
        identity = trajectory["trajectory_id"]
        if identity in seen:
            raise InputError.at(
                source, f"trajectory_id {identity!r} is repeated", "give each its own id", row
            )
        seen.add(identity)
        chat = world_model_chat(trajectory)
        before = admissible_actions(trajectory["initial_observation"])
        for k, step in enumerate(steps):
            yield {
                "transition_id": f"{identity}/step_{k:03d}",
                "trajectory_id": identity,
                "domain": trajectory["domain"],
                "task_id": trajectory["task_id"],
                "split": trajectory["split"],
                "step": k,
                "history": chat[: 2 * k + 2],
                "action": step["action"],
                "action_type": action_type(trajectory["domain"], step["action"]),
                "observation": step["observation"],
                "next_action": steps[k + 1]["action"] if k + 1 < len(steps) else None,
                "is_terminal": bool(step["done"]),
                "admissible": before,
            }
            before = step["admissible"]
