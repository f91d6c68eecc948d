"""The ChatModel protocol: the next turns of running dialogues, from a model here or behind servers.

Agents, planners and served world models ask here, a batch at a time. An answer is a completion, or the failure of
that one dialogue; a server that cannot be used at all raises ServerFailure, and whoever asks stops and resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from wmlab.config.decoding import Decoding
from wmlab.lm.base import Chat, Completion, Sampling
from wmlab.lm.hf import HFModel
from wmlab.lm.server import ChatServer
from wmlab.lm.transport import AnswerFailure, several


class ChatModel(Protocol):
    """Continues dialogues; ``keys`` tie a dialogue to its earlier turns, for models that keep a cache."""

    @property
    def model_id(self) -> str: ...

    def answer(self, keys: Sequence[str], chats: Sequence[Chat]) -> list[Completion | AnswerFailure]:
        """One answer a dialogue, in order."""
        ...

    def answer_branches(self, keys: Sequence[str], chats: Sequence[Chat]) -> list[Completion | AnswerFailure]:
        """The same for several branches of a dialogue, which have its key and share its beginning."""
        ...


class LocalChat:
    """A model in this process, greedy."""

    def __init__(self, lm: HFModel, max_new_tokens: int) -> None:
        self.lm = lm
        self.sampling = Sampling(0.0, 1, max_new_tokens)

    @property
    def model_id(self) -> str:
        """The model's."""
        return self.lm.model_id

    def answer(self, keys: Sequence[str], chats: Sequence[Chat]) -> list[Completion | AnswerFailure]:
        """Answers of one batched call; a dialogue that is too long for the model fails alone."""
        return self._answered(self.lm.continue_dialogues, keys, chats)

    def answer_branches(self, keys: Sequence[str], chats: Sequence[Chat]) -> list[Completion | AnswerFailure]:
        """Answers of one batched call that computes what branches share once."""
        return self._answered(self.lm.branch_dialogues, keys, chats)

    def _answered(
        self, ask: Callable[..., list[Completion]], keys: Sequence[str], chats: Sequence[Chat]
    ) -> list[Completion | AnswerFailure]:
        room = self.lm.max_context - self.sampling.max_new_tokens
        fits = [at for at, chat in enumerate(chats) if len(self.lm.encode(chat)) <= room]
        found = ask([keys[at] for at in fits], [chats[at] for at in fits], self.sampling) if fits else []
        answers = dict(zip(fits, found, strict=True))
        return [answers.get(at, _overflow(self.lm.model_id)) for at in range(len(chats))]


class ServedChat:
    """``model`` at OpenAI-compatible servers, each dialogue always at the same one so that it finds its prefix cached."""

    def __init__(
        self,
        urls: Sequence[str],
        model: str,
        model_id: str,
        decoding: Decoding,
        *,
        purpose: str = "agent",
        timeout: float = 300.0,
        concurrency: int = 16,
    ) -> None:
        self._model_id, self.decoding = model_id, decoding
        self.servers = [ChatServer(url, model, purpose, timeout, concurrency=concurrency) for url in urls]

    @property
    def model_id(self) -> str:
        """Name of the model in records."""
        return self._model_id

    def answer(self, keys: Sequence[str], chats: Sequence[Chat]) -> list[Completion | AnswerFailure]:
        """Answers, several requests at a time."""
        request = self.decoding.request()
        asked = [
            (self.servers[_place(key) % len(self.servers)], chat)
            for key, chat in zip(keys, chats, strict=True)
        ]

        def ask(one: tuple[ChatServer, Any]) -> Completion:
            return one[0].complete(one[1], request)

        return several(ask, asked, sum(server.concurrency for server in self.servers))

    def answer_branches(self, keys: Sequence[str], chats: Sequence[Chat]) -> list[Completion | AnswerFailure]:
        """The same: a server finds shared beginnings by itself."""
        return self.answer(keys, chats)


def _place(key: str) -> int:
    return sum(key.encode())


def _overflow(model_id: str) -> AnswerFailure:
    return AnswerFailure(f"{model_id}: the dialogue is longer than its context (context_overflow)")
