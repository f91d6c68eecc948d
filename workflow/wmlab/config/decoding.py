"""How a model behind a server decodes: part of what an episode depends on."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, JsonValue

from wmlab.config.section import Count, NonNegative, Section, Share


class Decoding(Section):
    """Fields of a chat request; temperature 0 unless a recipe says otherwise."""

    temperature: NonNegative | None = Field(
        default=0.0, description="null: not sent, for models that take only their own"
    )
    top_p: Share | None = Field(default=None, description="nucleus; null: not sent")
    seed: int | None = Field(default=None, description="sampling seed; null: not sent")
    max_new_tokens: Count = Field(default=512, description="longest answer, thinking included")
    length_key: Literal["max_tokens", "max_completion_tokens"] = Field(
        default="max_tokens", description="what the server calls it; OpenAI: max_completion_tokens"
    )
    extra: dict[str, JsonValue] = Field(
        default={}, description="other fields: {chat_template_kwargs: {enable_thinking: false}, top_k: 20}"
    )

    def request(self) -> dict[str, Any]:
        """The fields of a request's body beside model and messages."""
        chosen = {"temperature": self.temperature, "top_p": self.top_p, "seed": self.seed}
        given = {name: value for name, value in chosen.items() if value is not None}
        return {**given, self.length_key: self.max_new_tokens, **self.extra}
