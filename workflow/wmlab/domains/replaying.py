"""A copy of an episode for backends that cannot copy: the same task, its actions played again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from wmlab.domains.base import Environment, Task
from wmlab.errors import EnvironmentFailure

E = TypeVar("E", bound=Environment)


def replayed(environment: E, task: Task, played: Sequence[tuple[str, str]]) -> E:
    """The fresh ``environment`` at the point to which ``played`` (action, observation) leads.

    Raises EnvironmentFailure, the environment closed, when it answers an action otherwise than before.
    """
    try:
        environment.reset(task)
        for place, (action, seen) in enumerate(played):
            if environment.step(action).observation != seen:
                raise EnvironmentFailure(f"{task.task_id}: played again, step {place} differs")
    except Exception:
        environment.close()
        raise
    return environment
