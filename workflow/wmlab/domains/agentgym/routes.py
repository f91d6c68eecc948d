"""The routes of the four servers over our sessions: what each request means, what is answered (formats.md 7).

``answer(method, path, values)`` takes the decoded query or body and returns the JSON value. As upstream does,
three servers tell a fault as status 200 with ``{"error"}``; WebShop's uses the status. Routes that need
an engine's inside (``/goals``, ``/object_tree``, ``/action_hint``, ``/state``, ``/step_visual``) are not offered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wmlab.domains.agentgym.protocols import GAMES_FOLDER, Dialect
from wmlab.domains.agentgym.sessions import Full, Refused, Session, Sessions
from wmlab.domains.conventions import (
    SEARCH_BAR,
    split_description,
    split_page_actions,
    split_reset_actions,
)
from wmlab.errors import EnvironmentFailure, InputError

MAX_NUMBER = 10**9
Values = Mapping[str, Any]
Route = Callable[[Values], Any]


class Invalid(Exception):
    """A field is missing or of another kind (status 422)."""


@dataclass(frozen=True)
class Answer:
    """Status and JSON value."""

    status: int
    value: Any


def whole(values: Values, name: str) -> int:
    """A whole number from 0 of a body, or of a query where it is text."""
    value = values.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MAX_NUMBER:
        raise Invalid(f"'{name}' must be a whole number from 0 to {MAX_NUMBER - 1}")
    return value


def text(values: Values, name: str) -> str:
    """A text field."""
    value = values.get(name)
    if not isinstance(value, str):
        raise Invalid(f"'{name}' must be text")
    return value


class Routes:
    """Common to the servers that name an environment by ``id``; a subclass says what a task's number is called."""

    greeting = "ok"
    identity = "id"
    number = "data_idx"

    def __init__(self, sessions: Sessions, dialect: Dialect) -> None:
        self.sessions, self.dialect = sessions, dialect
        self.table: dict[tuple[str, str], Route] = {
            ("GET", "/"): lambda values: self.greeting,
            ("POST", "/create"): self.create,
            ("POST", "/reset"): self.reset,
            ("POST", "/step"): self.step,
            ("GET", "/observation"): lambda values: self.observation(self.session(values)),
            ("GET", "/available_actions"): lambda values: list(self.session(values).admissible),
            ("GET", "/detail"): lambda values: self.detail(self.session(values)),
            ("POST", "/close"): self.close,
        }

    def answer(self, method: str, path: str, values: Values) -> Answer:
        """Serve one request; every fault is an answer."""
        route = self.table.get((method, path))
        if route is None:
            other = any(path == known for _, known in self.table)
            return (
                Answer(405, {"detail": "Method Not Allowed"})
                if other
                else Answer(404, {"detail": "Not Found"})
            )
        try:
            return Answer(200, route(values))
        except Invalid as error:
            return Answer(422, {"detail": str(error)})
        except (Refused, EnvironmentFailure, InputError) as error:
            return self.fault(error)

    def fault(self, error: Exception) -> Answer:
        """Upstream's way of telling a fault."""
        return Answer(200, {"error": str(error)})

    def session(self, values: Values) -> Session:
        """The session that a request names."""
        return self.sessions.read(whole(values, self.identity))

    def create(self, values: Values) -> Any:
        """A new environment."""
        return {"id": self.sessions.create()}

    def reset(self, values: Values) -> Any:
        """Start a task."""
        number = 0 if values.get(self.number) is None else whole(values, self.number)
        session = self.sessions.reset(whole(values, self.identity), number)
        return self.started(session)

    def step(self, values: Values) -> Any:
        """One action."""
        session = self.sessions.step(whole(values, self.identity), text(values, "action"))
        return self.stepped(session)

    def close(self, values: Values) -> Any:
        """Free an environment."""
        self.sessions.close(whole(values, self.identity))
        return {"closed": True}

    def observation(self, session: Session) -> str:
        """What was shown last."""
        return self.bare(session)

    def bare(self, session: Session) -> str:
        """What was shown last, without the list of actions that upstream's client appends itself."""
        return split_reset_actions(self.sessions.domain.name, session.text)[0]

    def detail(self, session: Session) -> Any:
        """The last answer again."""
        if session.first is None:
            return {"done": False, "deleted": False}
        return self.started(session) if session.step is None else self.stepped(session)

    def started(self, session: Session) -> Any:
        """The answer to a reset."""
        raise NotImplementedError

    def stepped(self, session: Session) -> Any:
        """The answer to a step."""
        raise NotImplementedError


def _bare_step(session: Session) -> str:
    """A step's observation without our marker: upstream's servers tell success in a field of its own."""
    assert session.step is not None
    return session.step.observation.removesuffix(" [SUCCESS]") if session.step.success else session.text


class TextWorldRoutes(Routes):
    """Word2World's TextWorld server; other parser games without a server of their own are offered like it."""

    greeting = "This is environment TextWorld."

    def reset(self, values: Values) -> Any:
        """Start a game by number; a path is refused, but for the folder that upstream's replay script names."""
        if values.get("game_path") not in (None, GAMES_FOLDER):
            raise Refused("game_path is not accepted; give data_idx")
        return super().reset(values)

    def started(self, session: Session) -> Any:
        """``{id, observation, available_actions, done, reward}``."""
        actions = list(session.admissible)
        shown = {"id": session.identity, "observation": self.bare(session), "available_actions": actions}
        return {**shown, "done": False, "reward": 0.0}

    def stepped(self, session: Session) -> Any:
        """Reward is the score so far. A domain that counts no points has one, for success."""
        step = session.step
        assert step is not None
        counted = step.score is not None and step.max_score is not None
        score, most = (step.score, step.max_score) if counted else (float(step.success), 1.0)
        return {
            "observation": _bare_step(session),
            "reward": score,
            "done": step.done,
            "available_actions": list(session.admissible),
            "score": score,
            "max_score": most,
            "won": step.success,
            "lost": step.done and not step.success,
        }


class AlfworldRoutes(Routes):
    """ALFWorld: reward 1.0 when won."""

    greeting = "This is environment AlfWorld."
    number = "game"

    def reset(self, values: Values) -> Any:
        """Start a game by number; only the text world is there."""
        if values.get("world_type", "Text") != "Text":
            raise Refused("world_type must be Text here")
        return super().reset(values)

    def started(self, session: Session) -> Any:
        """``{id, observation, available_actions, task_type}``."""
        assert session.first is not None
        actions = list(session.admissible)
        shown = {"id": session.identity, "observation": self.bare(session), "available_actions": actions}
        return {**shown, "task_type": session.first.task_type}

    def stepped(self, session: Session) -> Any:
        """``{observation, reward, available_actions, done}``."""
        assert session.step is not None
        reward, done = float(session.step.success), session.step.done
        shown = {"observation": _bare_step(session), "reward": reward}
        return {**shown, "available_actions": list(session.admissible), "done": done}


class ScienceWorldRoutes(Routes):
    """ScienceWorld: the score is in points of 100."""

    greeting = "This is environment ScienceWorld."

    def __init__(self, sessions: Sessions, dialect: Dialect) -> None:
        super().__init__(sessions, dialect)
        del self.table["GET", "/available_actions"]
        self.table["GET", "/task_description"] = lambda values: self._description(self.session(values))[0]

    def _description(self, session: Session) -> tuple[str, str]:
        return split_description(session.first.text if session.first is not None else "")

    def observation(self, session: Session) -> str:
        """The first look, or what was shown last."""
        return self._description(session)[1] if session.step is None else _bare_step(session)

    def started(self, session: Session) -> Any:
        """``{task_name, var_num, task_description, observation, reward, score, deleted, done}``."""
        assert session.first is not None
        description, look = self._description(session)
        named = {"task_name": session.first.task_type, "var_num": session.number}
        shown = {"task_description": description, "observation": look}
        return {**named, **shown, "reward": 0, "score": 0, "deleted": False, "done": False}

    def stepped(self, session: Session) -> Any:
        """``{observation, reward, score, done}``."""
        step = session.step
        assert step is not None
        score = 100.0 if step.success else session.total if step.score is None else step.score
        shown = {"observation": _bare_step(session), "reward": step.reward, "score": score}
        return {**shown, "done": step.done}


class WebShopRoutes(Routes):
    """WebShop: bare numbers and lists, statuses for faults; ``/close`` in the fork only."""

    identity = "env_idx"
    number = "session_id"

    def __init__(self, sessions: Sessions, dialect: Dialect) -> None:
        super().__init__(sessions, dialect)
        del self.table["GET", "/detail"]
        self.table["GET", "/available_actions"] = lambda values: self._actions(self.session(values))
        self.table["GET", "/instruction_text"] = lambda values: self._instruction(self.session(values))
        self.table["GET", "/list_envs"] = lambda values: self.sessions.ids()
        if dialect == "upstream":
            del self.table["POST", "/close"]

    def fault(self, error: Exception) -> Answer:
        """503 asks the client to come again, 500 is final."""
        return Answer(503 if isinstance(error, Full) else 500, {"detail": str(error)})

    def create(self, values: Values) -> Any:
        """The id alone."""
        return self.sessions.create()

    def close(self, values: Values) -> Any:
        """True."""
        super().close(values)
        return True

    def bare(self, session: Session) -> str:
        """The page without the block that the fork's client appends."""
        return split_page_actions(session.text)[0]

    def _actions(self, session: Session) -> Any:
        actions = session.admissible if session.running else ()
        clicks = [a.removeprefix("click[").removesuffix("]") for a in actions if a.startswith("click[")]
        return {"has_search_bar": SEARCH_BAR in actions, "clickables": clicks}

    def _instruction(self, session: Session) -> str:
        return "" if session.first is None else f"Instruction: {session.first.goal}"

    def started(self, session: Session) -> Any:
        """``[observation, null]``."""
        return [self.bare(session), None]

    def stepped(self, session: Session) -> Any:
        """``{state, reward, done, info}``."""
        step = session.step
        assert step is not None
        page = split_page_actions(
            step.observation.removesuffix(" [SUCCESS]") if step.success else session.text
        )[0]
        return {"state": page, "reward": step.reward, "done": step.done, "info": None}


_ROUTES: dict[str, type[Routes]] = {
    "alfworld": AlfworldRoutes,
    "scienceworld": ScienceWorldRoutes,
    "webshop": WebShopRoutes,
}


def routes_of(sessions: Sessions, dialect: Dialect) -> Routes:
    """The routes of the sessions' domain. Raises InputError for a server that upstream does not have."""
    kind = _ROUTES.get(sessions.domain.name, TextWorldRoutes)
    if kind is TextWorldRoutes and dialect == "upstream":
        raise InputError(f"domain {sessions.domain.name}: upstream has no server for it; serve word2world")
    return kind(sessions, dialect)
