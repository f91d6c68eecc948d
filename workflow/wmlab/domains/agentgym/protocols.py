"""What each of the four servers is asked and what its answers mean (formats.md section 7).

A protocol turns a server's JSON into the texts of the papers' data, as upstream's own client does: action
lists appended at reset (TextWorld, ALFWorld) or to every page (WebShop of the Word2World fork), the task
description before the first look (ScienceWorld), success by the domain's predicate (metrics.md 1). Every
field is checked: a server that answers something else is an EnvironmentFailure, never a wrong number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from wmlab.domains.agentgym.http import NoSuchRoute, Server
from wmlab.domains.base import SUCCESS_MARKER, Observation, Step
from wmlab.domains.conventions import SEARCH_BAR, with_page_actions, with_reset_actions
from wmlab.errors import EnvironmentFailure

Dialect = Literal["word2world", "upstream"]
GAMES_FOLDER = "data/textworld/games"
"""Relative to the TextWorld server; the one that upstream's client names."""
DIALECTS: tuple[Dialect, ...] = ("word2world", "upstream")


@dataclass(frozen=True)
class First:
    """The start of an episode: what the agent is shown, and the task's family where the server says it."""

    observation: Observation
    task_type: str = ""


class ServerProtocol(Protocol):
    """One environment kind on one server; ``before`` is the score so far, in the server's unit."""

    def create(self, server: Server) -> int: ...

    def reset(self, server: Server, identity: int, number: int) -> First: ...

    def step(self, server: Server, identity: int, action: str, before: float) -> tuple[Step, float]: ...

    def close(self, server: Server, identity: int) -> None: ...


def text_of(answer: Mapping[str, Any], name: str) -> str:
    """A text field of an answer."""
    value = answer.get(name)
    if not isinstance(value, str):
        raise EnvironmentFailure(f"the server's answer has no text '{name}' ({_kinds(answer)})")
    return value


def number_of(answer: Mapping[str, Any], name: str) -> float:
    """A finite number of an answer."""
    value = answer.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise EnvironmentFailure(f"the server's answer has no number '{name}' ({_kinds(answer)})")
    return float(value)


def flag_of(answer: Mapping[str, Any], name: str) -> bool:
    """A truth value of an answer."""
    value = answer.get(name)
    if not isinstance(value, bool):
        raise EnvironmentFailure(f"the server's answer has no true or false '{name}' ({_kinds(answer)})")
    return value


def texts_of(answer: Mapping[str, Any], name: str) -> list[str]:
    """A list of texts of an answer."""
    value = answer.get(name)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise EnvironmentFailure(f"the server's answer has no list of texts '{name}' ({_kinds(answer)})")
    return value


def object_of(value: Any) -> Mapping[str, Any]:
    """An answer that must be an object."""
    if not isinstance(value, dict):
        raise EnvironmentFailure(f"the server answered a {type(value).__name__} where an object belongs")
    return value


def identity_of(value: Any) -> int:
    """An environment id."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise EnvironmentFailure(
            f"the server answered {type(value).__name__} where an environment id belongs"
        )
    return value


def _kinds(answer: Mapping[str, Any]) -> str:
    found = ", ".join(f"{str(name)[:20]}: {type(value).__name__}" for name, value in list(answer.items())[:6])
    return f"it has {found}" if found else "it is empty"


def _finish(text: str, reward: float, done: bool, success: bool, admissible: list[str] | None) -> Step:
    marked = text + SUCCESS_MARKER if success else text
    return Step(marked, reward, done or success, success, None if admissible is None else tuple(admissible))


class _ById:
    """The servers that name an environment by ``id``."""

    creation: Mapping[str, Any] = {}

    def create(self, server: Server) -> int:
        """A new environment; asking twice leaves one unused, which is harmless."""
        answer = object_of(server.post("/create", dict(self.creation), repeatable=True))
        return identity_of(answer.get("id"))

    def close(self, server: Server, identity: int) -> None:
        """Free an environment where the server can (upstream's WebShop cannot)."""
        try:
            server.post("/close", {"id": identity}, repeatable=True)
        except NoSuchRoute:
            return


class TextWorldProtocol(_ById):
    """Word2World's TextWorld server. Its ``reward`` is the score so far; won = all points."""

    creation: Mapping[str, Any] = {"games_dir": GAMES_FOLDER, "max_steps": 50}

    def reset(self, server: Server, identity: int, number: int) -> First:
        """Start game ``number``; the list of actions goes behind the text."""
        answer = object_of(server.post("/reset", {"id": identity, "data_idx": number}, repeatable=True))
        actions = texts_of(answer, "available_actions")
        text = with_reset_actions("textworld", text_of(answer, "observation"), actions)
        return First(Observation(text, tuple(actions)), "tw-simple")

    def step(self, server: Server, identity: int, action: str, before: float) -> tuple[Step, float]:
        """One command; the reward is the gain in points."""
        body = {"id": identity, "action": action}
        answer = object_of(server.post("/step", body, repeatable=False))
        score, most, done = (
            number_of(answer, "score"),
            number_of(answer, "max_score"),
            flag_of(answer, "done"),
        )
        success = done and most > 0 and score >= most
        text, actions = text_of(answer, "observation"), texts_of(answer, "available_actions")
        return _finish(text, score - before, done, success, actions), score


class AlfworldProtocol(_ById):
    """ALFWorld: the reward is 1 when won."""

    def reset(self, server: Server, identity: int, number: int) -> First:
        """Start game ``number`` of the server's list; the list of actions goes behind the text."""
        body = {"id": identity, "game": number, "world_type": "Text"}
        answer = object_of(server.post("/reset", body, repeatable=True))
        actions = texts_of(answer, "available_actions")
        text = with_reset_actions("alfworld", text_of(answer, "observation"), actions)
        # task_type is "pick_and_place_simple-Mug-None-Desk-308/trial_…": the family is its first part.
        family = str(answer.get("task_type") or "").partition("/")[0].partition("-")[0]
        return First(Observation(text, tuple(actions)), family)

    def step(self, server: Server, identity: int, action: str, before: float) -> tuple[Step, float]:
        """One command."""
        answer = object_of(server.post("/step", {"id": identity, "action": action}, repeatable=False))
        reward = number_of(answer, "reward")
        actions = texts_of(answer, "available_actions")
        step = _finish(text_of(answer, "observation"), reward, flag_of(answer, "done"), reward == 1, actions)
        return step, reward


class ScienceWorldProtocol(_ById):
    """ScienceWorld: scores of -100 to 100; success is 100. It lists no actions."""

    def reset(self, server: Server, identity: int, number: int) -> First:
        """Start task ``number`` of the flat index: its description, then the first look around."""
        answer = object_of(server.post("/reset", {"id": identity, "data_idx": number}, repeatable=True))
        text = f"{text_of(answer, 'task_description')}\n{text_of(answer, 'observation')}"
        return First(Observation(text, None), str(answer.get("task_name") or ""))

    def step(self, server: Server, identity: int, action: str, before: float) -> tuple[Step, float]:
        """One command; the reward is the gain in score."""
        answer = object_of(server.post("/step", {"id": identity, "action": action}, repeatable=False))
        score, done = number_of(answer, "score"), flag_of(answer, "done")
        return _finish(text_of(answer, "observation"), score - before, done, score == 100, None), score


@dataclass(frozen=True)
class WebShopProtocol:
    """WebShop. The fork's client appends the admissible actions to every page, upstream's does not."""

    dialect: Dialect

    def create(self, server: Server) -> int:
        """A new environment: the answer is its bare number."""
        return identity_of(server.post("/create", {}, repeatable=True))

    def reset(self, server: Server, identity: int, number: int) -> First:
        """Start session ``number``: the search page of its goal."""
        answer = server.post("/reset", {"env_idx": identity, "session_id": number}, repeatable=True)
        if not isinstance(answer, list) or not answer or not isinstance(answer[0], str):
            raise EnvironmentFailure("the server's answer to reset is not [observation, info]")
        actions = self._actions(server, identity)
        return First(Observation(self._page(answer[0], actions), tuple(actions)))

    def step(self, server: Server, identity: int, action: str, before: float) -> tuple[Step, float]:
        """One action. After a purchase the fork is on another session's page: no actions are asked for."""
        body = {"env_idx": identity, "action": action}
        answer = object_of(server.post("/step", body, repeatable=False))
        page, reward, done = text_of(answer, "state"), number_of(answer, "reward"), flag_of(answer, "done")
        if done:
            return _finish(page, reward, True, reward == 1, []), reward
        actions = self._actions(server, identity)
        return _finish(self._page(page, actions), reward, False, False, actions), reward

    def close(self, server: Server, identity: int) -> None:
        """Free the environment where the server can."""
        try:
            server.post("/close", {"env_idx": identity}, repeatable=True)
        except NoSuchRoute:
            return

    def _actions(self, server: Server, identity: int) -> list[str]:
        answer = object_of(server.get("/available_actions", {"env_idx": identity}))
        clicks = [f"click[{value}]" for value in texts_of(answer, "clickables")]
        return [SEARCH_BAR, *clicks] if flag_of(answer, "has_search_bar") else clicks

    def _page(self, text: str, actions: list[str]) -> str:
        return with_page_actions(text, actions) if self.dialect == "word2world" else text


def protocol_of(domain: str, dialect: Dialect) -> ServerProtocol | None:
    """The protocol of a domain in a dialect; None where that dialect has no such server."""
    if domain == "textworld" and dialect == "word2world":
        return TextWorldProtocol()
    if domain == "alfworld":
        return AlfworldProtocol()
    if domain == "scienceworld":
        return ScienceWorldProtocol()
    return WebShopProtocol(dialect) if domain == "webshop" else None
