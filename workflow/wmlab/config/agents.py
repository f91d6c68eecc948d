"""Section ``agents``: who acts in the real environment and in the world model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from wmlab.config.decoding import Decoding
from wmlab.config.recipes import Prompted, SftSettings
from wmlab.config.section import Count, Name, Section, Share


class Agent(Section):
    """An agent: scripted, or a language model behaviour-cloned from expert demonstrations."""

    kind: Literal["scripted", "lm", "served"] = Field(
        description="scripted: follows the goal text; lm: a model in the job; served: one behind `urls`, or one that "
        "`engine` starts"
    )
    epsilon: Share = Field(default=0.0, description="scripted: share of turns spent on some other command")
    architecture: Name | None = Field(default=None, description="lm: a key of `backbones`")
    weights: Name | None = Field(
        default=None, description="lm: the agent whose weights it plays with; without, it trains its own"
    )
    start: Literal["scratch", "world-model"] = Field(
        default="scratch",
        description="lm: the backbone's own weights (random, or pretrained), or those of its SFT world model",
    )
    train: bool = Field(
        default=True, description="lm: learns from demonstrations; false: a pretrained backbone as it is"
    )
    choose: bool = Field(
        default=False, description="lm: picks among the commands that the goal text names; else writes freely"
    )
    thought: bool = Field(default=True, description="lm: learns the thought before each action")
    prompting: Prompted = Field(
        default_factory=Prompted, description="how a model that writes is told to act"
    )
    max_new_tokens: Count = Field(default=96, description="lm: longest turn, tokens")
    model: str | None = Field(
        default=None, min_length=1, description="served: the model's name at its server"
    )
    urls: list[str] = Field(default=[], description="served: servers that run already, …/v1")
    concurrency: Count = Field(default=16, description="served: requests under way at a server")
    decoding: Decoding = Field(default_factory=Decoding, description="served: fields of a request")
    skills: bool = Field(default=False, description="lm: reads the advice of section `skills` when it plays")
    sft: SftSettings = Field(
        description="lm: keys of section `sft` that differ here; the others are inherited"
    )

    @model_validator(mode="after")
    def _fits_kind(self) -> Agent:
        if self.kind == "lm" and self.architecture is None and self.weights is None:
            raise ValueError("an agent of kind lm needs `architecture`, a key of `backbones`, or `weights`")
        if self.weights is not None and (self.architecture is not None or self.start != "scratch"):
            raise ValueError(
                "`weights` are another agent's, so `architecture` and `start` are its own; leave them out"
            )
        if not self.train and (self.kind != "lm" or self.weights is not None or self.start != "scratch"):
            raise ValueError("`train: false` is for an agent of kind lm whose backbone is pretrained")
        if self.kind == "lm" and self.epsilon:
            raise ValueError("`epsilon` is for agents of kind scripted")
        if (self.kind == "served") != bool(self.urls) or (self.kind == "served") != (self.model is not None):
            raise ValueError("an agent of kind served needs `model` and `urls`; no other has them")
        if self.kind == "served" and (
            self.architecture is not None or self.weights is not None or self.choose
        ):
            raise ValueError("`architecture`, `weights` and `choose` are for agents of kind lm")
        if self.kind == "scripted" and (self.architecture is not None or self.start != "scratch"):
            raise ValueError("`architecture` and `start` are for agents of kind lm")
        if self.kind == "scripted" and (self.skills or self.weights is not None):
            raise ValueError("`skills` and `weights` are for agents of kind lm; a script reads no advice")
        return self
