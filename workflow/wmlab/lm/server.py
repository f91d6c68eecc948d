"""Chat models behind an OpenAI-compatible server (``POST …/chat/completions``)."""

from __future__ import annotations

import json

from wmlab.lm.base import Chat
from wmlab.lm.transport import AnswerFailure, Transport, several


class ChatServer(Transport):
    """A chat model, asked greedily. Safe for threads."""

    def ask(self, chat: Chat, max_tokens: int) -> str:
        """The text of one completion. Raises AnswerFailure or ServerFailure."""
        body = {"model": self.model, "messages": chat, "temperature": 0.0, "max_tokens": max_tokens}
        content = self.request("chat/completions", body)
        try:
            text = json.loads(content)["choices"][0]["message"]["content"]
            (text or "").encode()  # escapes may spell a lone surrogate, which no file can hold
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            raise AnswerFailure(f"{self.where}: its answer is no chat completion") from None
        return str(text or "")

    def ask_all(self, chats: list[Chat], max_tokens: int) -> list[str | AnswerFailure]:
        """Completions in order, several at a time. Raises ServerFailure when the server cannot be used."""
        return several(lambda chat: self.ask(chat, max_tokens), chats, self.concurrency)
