"""Sections ``tokenizer`` and ``backbones``: the models that are trained from scratch."""

from __future__ import annotations

from wmlab.config.recipes import Architecture, TokenizerRecipe

Tokenizer = TokenizerRecipe
Backbones = dict[str, Architecture]
