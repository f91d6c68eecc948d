"""A world model behind the EnvironmentBatch protocol: an agent cannot tell it from the real thing.

The dialogue is in world-model roles (system = first observation, user = action, assistant = next
observation). Done means the model ended its observation with its own `` [SUCCESS]`` marker
(metrics.md 1); a marker anywhere else is text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wmlab.data.decompose import compose_system
from wmlab.domains.base import SUCCESS_MARKER, Observation, Step, Task
from wmlab.lm.base import Completion
from wmlab.lm.chat import ChatModel
from wmlab.lm.transport import AnswerFailure
from wmlab.memory.context import WorldMemory, prompts


def says_success(answer: Completion) -> bool:
    """Whether a model ended its observation with its own marker."""
    return answer.finish_reason == "stop" and answer.text.rstrip().endswith(SUCCESS_MARKER)


class WorldModelBatch:
    """Lock-step episodes inside one world model, greedy; one LM call serves every running episode."""

    def __init__(self, chat: ChatModel, memory: WorldMemory | None = None) -> None:
        self.chat = chat
        self.memory = memory
        self.n_tokens: dict[int, int] = {}
        self._dialogues: dict[int, list[dict[str, str]]] = {}
        self._task_ids: list[str] = []
        self._runs = 0

    def reset(self, tasks: Sequence[Task]) -> list[Observation | Exception]:
        """Start one episode per task from its real first observation."""
        self._runs += 1
        self._task_ids = [task.task_id for task in tasks]
        self.n_tokens = dict.fromkeys(range(len(tasks)), 0)
        self._dialogues = {
            index: [{"role": "system", "content": compose_system(task.initial_observation, task.privileged)}]
            for index, task in enumerate(tasks)
        }
        return [Observation(task.initial_observation, None) for task in tasks]

    def step(self, actions: Mapping[int, str]) -> dict[int, Step | Exception]:
        """Predict the next observation of each named episode."""
        indices = sorted(actions)
        for index in indices:
            self._dialogues[index].append({"role": "user", "content": actions[index]})
        keys = [f"{self._runs}/{index}" for index in indices]
        # Memory is asked with what the model has predicted so far; blocks of earlier steps are not kept.
        chats = prompts(self.memory, ((self._dialogues[i], self._task_ids[i]) for i in indices))
        answers = self.chat.answer(keys, chats)
        steps: dict[int, Step | Exception] = {}
        for index, answer in zip(indices, answers, strict=True):
            if isinstance(answer, AnswerFailure):
                steps[index] = answer
                continue
            self._dialogues[index].append({"role": "assistant", "content": answer.text})
            self.n_tokens[index] += answer.n_tokens
            success = says_success(answer)
            steps[index] = Step(answer.text, float(success), success, success, None)
        return steps

    def release(self, indices: Sequence[int]) -> None:
        """Forget finished episodes."""
        for index in indices:
            self._dialogues.pop(index, None)

    def close(self) -> None:
        """Nothing is held outside this process."""
