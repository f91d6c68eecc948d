"""Chat models behind an OpenAI-compatible server (``POST …/chat/completions``)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from wmlab.lm.base import Chat, Completion
from wmlab.lm.transport import AnswerFailure, Transport, several

GREEDY: Mapping[str, Any] = {"temperature": 0.0}


class ChatServer(Transport):
    """A chat model. Safe for threads."""

    def complete(self, chat: Chat, request: Mapping[str, Any]) -> Completion:
        """One completion; ``request`` holds the other fields of the body.

        Raises AnswerFailure, for an answer that the server's filter cut too, or ServerFailure.
        """
        content = self.request("chat/completions", {"model": self.model, "messages": list(chat), **request})
        try:
            answer = json.loads(content)
            choice = answer["choices"][0]
            text = choice["message"]["content"] or ""
            text.encode()  # escapes may spell a lone surrogate, which no file can hold
            reason = str(choice.get("finish_reason") or "stop")
            usage = answer.get("usage") or {}
            tokens = int(usage.get("completion_tokens") or 0)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            raise AnswerFailure(f"{self.where}: its answer is no chat completion") from None
        if reason == "content_filter":
            raise AnswerFailure(f"{self.where}: its answer was cut (content_filter)")
        return Completion(str(text), (), reason, tokens)

    def ask(self, chat: Chat, max_tokens: int) -> str:
        """The text of one greedy completion. Raises AnswerFailure or ServerFailure."""
        return self.complete(chat, {**GREEDY, "max_tokens": max_tokens}).text

    def ask_all(self, chats: Sequence[Chat], max_tokens: int) -> list[str | AnswerFailure]:
        """Completions in order, several at a time. Raises ServerFailure when the server cannot be used."""
        return several(lambda chat: self.ask(chat, max_tokens), chats, self.concurrency)
