"""The web shop behind the Environment protocol, in process, with the observation text of the papers' corpora.

Every page but the last ends with its block of admissible actions; `` [SUCCESS]`` ends the last page when
the reward is exactly 1 (formats.md 1.1, 2.4; metrics.md 1). The reward comes at Buy Now only.
"""

from __future__ import annotations

import re
from pathlib import Path

from wmlab.domains.base import SUCCESS_MARKER, Observation, Step, Task
from wmlab.domains.webshop.expert import plan
from wmlab.domains.webshop.goals import Goal
from wmlab.domains.webshop.pages import render, with_actions
from wmlab.domains.webshop.session import Session
from wmlab.domains.webshop.settings import Settings
from wmlab.domains.webshop.shop import Shop, open_shop
from wmlab.errors import EnvironmentFailure, InputError

DOMAIN = "webshop"
_TASK_ID = re.compile(r"webshop_(0|[1-9][0-9]{0,9})", re.ASCII)


def index_of(task_id: str) -> int:
    """The goal's index of ``webshop_N``. Raises InputError for any other id (ids are never paths)."""
    match = _TASK_ID.fullmatch(task_id)
    if match is None:
        raise InputError(f"task id {task_id[:80]!r}: not a WebShop task; use webshop_N with N a goal's index")
    return int(match[1])


class WebShopEnvironment:
    """One session at a time. The shop itself is shared by the environments of a process."""

    privileged = None

    def __init__(self, cache_dir: str | Path, settings: Settings) -> None:
        self.cache_dir = Path(cache_dir)
        self.settings = settings
        self._session: Session | None = None
        self._goal: Goal | None = None

    @property
    def shop(self) -> Shop:
        """The shop; the first use builds it. Raises InputError for bad official files."""
        return open_shop(str(self.cache_dir), self.settings)

    def load(self, task_id: str) -> Task:
        """The task behind an id: its instruction with options and price bound, and the start page."""
        observation = self._start(task_id)
        return Task(task_id, DOMAIN, self._wanted.instruction, observation.text)

    def reset(self, task: Task) -> Observation:
        """Start the task. Raises EnvironmentFailure when this catalogue's goal differs from the frozen one."""
        observation = self._start(task.task_id)
        task.check(observation.text)
        return observation

    def _start(self, task_id: str) -> Observation:
        self._goal = self.shop.goal(index_of(task_id))
        self._session = Session(self.shop, self._goal.instruction)
        return Observation(self._text(0.0), self._session.admissible)

    @property
    def task_type(self) -> str:
        """The category of the wanted product."""
        return self.shop.product(self.shop.position(self._wanted.asin)).category

    @property
    def _wanted(self) -> Goal:
        if self._goal is None:
            raise EnvironmentFailure("the web shop has no task yet; call reset first")
        return self._goal

    def step(self, action: str) -> Step:
        """Take one action. Raises EnvironmentFailure after the purchase."""
        session = self._session
        if session is None or session.done:
            raise EnvironmentFailure("step after the end of the episode; call reset first")
        session.act(action)
        if not session.done:
            return Step(self._text(0.0), 0.0, False, False, session.admissible)
        reward = self.shop.score(self._wanted, session.view.position, session.chosen).total
        success = reward == 1
        text = self._text(reward) + (SUCCESS_MARKER if success else "")
        return Step(text, reward, True, success, ())

    def _text(self, score: float) -> str:
        assert self._session is not None
        text = render(self._session.page(score))
        return text if self._session.done else with_actions(text, self._session.admissible)

    def expert(self) -> list[str]:
        """Gold actions from the present page; [] after the purchase and for a goal that cannot be met."""
        if self._session is None:
            return []
        return plan(self.shop, self._wanted, self._session.view, self._session.chosen)

    def fork(self) -> WebShopEnvironment:
        """An independent session at the same point."""
        twin = WebShopEnvironment(self.cache_dir, self.settings)
        twin._goal = self._goal
        twin._session = None if self._session is None else self._session.copy()
        return twin

    def close(self) -> None:
        """End the session; the shop stays open for the process."""
        self._session = None
