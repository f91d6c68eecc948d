"""Where planners try actions: a world model, or the real environment itself (the upper bound).

Both are asked with the agent's dialogue. What the world model reads is what it reads in a rollout: the first
observation with the privileged block, the commands, the observations, and its memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wmlab.agents.base import Turn
from wmlab.agents.planning.requests import Answer, Imagine, Imagined
from wmlab.agents.react import parse_action
from wmlab.data.decompose import compose_system
from wmlab.domains.base import RealEnvironment, Step, Task
from wmlab.domains.world_model import says_success
from wmlab.errors import EnvironmentFailure
from wmlab.lm.chat import ChatModel
from wmlab.lm.transport import AnswerFailure
from wmlab.memory.context import WorldMemory, prompts
from wmlab.skills.prompt import without_skill


def executed(turn: Turn) -> list[tuple[str, str]]:
    """(action, observation) pairs of a dialogue, from the world's side."""
    actions = [parse_action(m["content"]) for m in turn.messages if m["role"] == "assistant"]
    seen = [without_skill(m["content"]) for m in turn.messages if m["role"] == "user"]
    return list(zip(actions, seen[1:], strict=True))


class WorldModelSimulator:
    """Predictions of a world model, all branches of all episodes in one call. A turn's key is its task's id."""

    def __init__(self, chat: ChatModel, tasks: Sequence[Task], memory: WorldMemory | None = None) -> None:
        self.chat, self.memory = chat, memory
        self._tasks = {task.task_id: task for task in tasks}

    def imagine(self, requests: Sequence[Imagine]) -> list[Answer | AnswerFailure]:
        """The state after each action of each request."""
        keys, chats = [], []
        for request in requests:
            task = self._tasks[request.turn.key]
            told = [{"role": "system", "content": compose_system(task.initial_observation, task.privileged)}]
            steps = [*executed(request.turn), *((one.action, one.observation) for one in request.path)]
            for action, observation in steps:
                told += [{"role": "user", "content": action}, {"role": "assistant", "content": observation}]
            for action in request.actions:
                keys.append(request.turn.key)
                chats.append(([*told, {"role": "user", "content": action}], task.task_id))
        found = iter(self.chat.answer_branches(keys, prompts(self.memory, chats)))
        answers: list[Answer | AnswerFailure] = []
        for request in requests:
            states, tokens = [], 0
            failure: AnswerFailure | None = None
            for action in request.actions:
                answer = next(found)
                if isinstance(answer, AnswerFailure):
                    failure = answer
                    continue
                success = says_success(answer)
                states.append(Imagined(action, answer.text, success, success))
                tokens += answer.n_tokens
            answers.append(failure or Answer(states, tokens, len(request.actions)))
        return answers

    def finish(self, keys: Sequence[str]) -> None:
        """Nothing is kept of an episode."""


class EnvironmentSimulator:
    """The real environment as the world model: each action is taken in a copy of the episode.

    ``open_environment`` gives environments of the panel's domain; one stands where each running episode is, and
    branches are its forks. Answers are the environment's own, so planning with it is an upper bound.
    """

    def __init__(self, open_environment: Callable[[], RealEnvironment], tasks: Sequence[Task]) -> None:
        self._open = open_environment
        self._tasks = {task.task_id: task for task in tasks}
        self._spare: list[RealEnvironment] = []
        self._running: dict[str, tuple[RealEnvironment, int]] = {}
        self._known: dict[str, dict[tuple[str, ...], Step]] = {}

    def imagine(self, requests: Sequence[Imagine]) -> list[Answer | AnswerFailure]:
        """The true state after each action of each request."""
        answers: list[Answer | AnswerFailure] = []
        for request in requests:
            try:
                steps = [self._step(request, action) for action in request.actions]
            except EnvironmentFailure as failure:
                answers.append(AnswerFailure(str(failure)))
                continue
            states = [
                Imagined(action, step.observation, step.success, step.done)
                for action, step in zip(request.actions, steps, strict=True)
            ]
            answers.append(Answer(states, 0, len(states)))
        return answers

    def finish(self, keys: Sequence[str]) -> None:
        """Free the environments of finished episodes for others."""
        for key in keys:
            self._known.pop(key, None)
            held = self._running.pop(key, None)
            if held is not None:
                self._spare.append(held[0])

    def close(self) -> None:
        """Close all environments."""
        for environment in [*self._spare, *(held for held, _ in self._running.values())]:
            environment.close()
        self._spare, self._running = [], {}

    def _step(self, request: Imagine, action: str) -> Step:
        done = executed(request.turn)
        known = self._known.setdefault(request.turn.key, {})
        tried = (*(one for one, _ in done), *(one.action for one in request.path), action)
        if tried not in known:
            fork = self._present(request.turn.key, done).fork()
            try:
                for at in range(len(done), len(tried)):
                    known[tried[: at + 1]] = step = fork.step(tried[at])
                    if step.done and at + 1 < len(tried):
                        raise EnvironmentFailure(f"{request.turn.key}: imagined past the end of the episode")
            finally:
                fork.close()
        return known[tried]

    def _present(self, key: str, done: Sequence[tuple[str, str]]) -> RealEnvironment:
        """The environment of an episode, brought to where its dialogue is."""
        held = self._running.get(key)
        if held is None:
            environment = self._spare.pop() if self._spare else self._open()
            environment.reset(self._tasks[key])
            held = (environment, 0)
        environment, taken = held
        for action, seen in done[taken:]:
            if environment.step(action).observation != seen:
                raise EnvironmentFailure(f"{key}: played again, step {taken} differs")
            taken += 1
        self._running[key] = (environment, taken)
        return environment
