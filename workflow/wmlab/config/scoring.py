"""Section ``scoring``: the models that metrics may ask. Without it no metric asks any."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from wmlab.config.section import Section, Whole


class Endpoint(Section):
    """A model behind an OpenAI-compatible server; the key is read from OPENAI_API_KEY, never from here."""

    url: str = Field(min_length=1, description="address of the server, …/v1")
    model: str = Field(min_length=1, description="model to ask there")


class Extraction(Endpoint):
    """Who reads the facts of an observation where it is not the rules alone."""

    kind: Literal["llm", "hybrid"] = Field(
        default="hybrid", description="llm: every text is the model's; hybrid: those that fit no rule"
    )


class Scoring(Section):
    """Models behind single-step metrics and the perturbation study."""

    extractor: Extraction | None = Field(
        default=None, description="model that reads facts for SSF; none: rules (WebShop has rules only)"
    )
    judge: Endpoint | None = Field(
        default=None, description="LLM judge of the perturbation study; none: no such column"
    )
    encoder: str | None = Field(
        min_length=1,
        default=None,
        description="folder of a transformers encoder, for BERTScore; none: no such column",
    )
    encoder_layer: Whole | None = Field(default=None, description="its layer to compare; none: the last")

    @model_validator(mode="after")
    def _layer_of_an_encoder(self) -> Scoring:
        if self.encoder_layer is not None and self.encoder is None:
            raise ValueError("`encoder_layer` without `encoder`")
        return self
