"""Fixtures that several test modules use."""

from chat_server import chat

__all__ = ["chat"]
