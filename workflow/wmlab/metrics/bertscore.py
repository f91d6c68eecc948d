"""BERTScore (Zhang et al. 2019): greedy cosine matching of contextual token embeddings.

Embeddings are the hidden states of one layer of an encoder, of unit length. Precision is the mean over the
prediction's tokens of the best cosine with a token of gold, recall the mean over gold's tokens, and the score
their harmonic mean. As in the authors' package without idf weights or a baseline, the tokens that the tokenizer
adds ([CLS], [SEP]) can be matched but are not averaged over. Unlike there, a text longer than the encoder is read
in windows instead of being cut, and equal texts score exactly 1.

The encoder is a local folder (``config.json``, tokenizer, ``model.safetensors``); nothing is downloaded and no
code of the folder is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from wmlab.errors import InputError, ModelFailure

BATCH = 32
LONGEST = 512
"""Tokens of a window where the encoder names no smaller number."""


class BertScore:
    """``layer`` counts hidden states, 0 being the embeddings; None takes the last."""

    def __init__(self, model: Any, tokenizer: Any, layer: int | None = None) -> None:
        layers = int(model.config.num_hidden_layers)
        if layer is not None and not 0 <= layer <= layers:
            raise InputError(f"encoder: layer {layer} of {layers}; give one from 0 to {layers}")
        self.model, self.tokenizer = model.eval(), tokenizer
        self.layer = layers if layer is None else layer
        self._pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        self._before, self._after = _around(tokenizer)
        longest = min(LONGEST, int(getattr(model.config, "max_position_embeddings", LONGEST)))
        self._window = min(longest, int(tokenizer.model_max_length)) - len(self._before) - len(self._after)
        if self._window < 1:
            raise InputError("encoder: it takes no text beside its special tokens; give another one")

    @classmethod
    def load(cls, folder: str | Path, layer: int | None = None) -> BertScore:
        """Load a local encoder. Raises InputError when there is none, ModelFailure when it cannot be loaded."""
        from transformers import AutoModel, AutoTokenizer

        if not (Path(folder) / "config.json").is_file():
            raise InputError.at(folder, "no encoder here", "give the folder of a transformers encoder")
        options = {"local_files_only": True, "trust_remote_code": False}
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(folder), **options)
            model = AutoModel.from_pretrained(str(folder), use_safetensors=True, **options)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            reason = str(error).splitlines()[0][:200]
            raise ModelFailure(f"encoder {folder}: cannot be loaded ({reason})") from None
        return cls(model, tokenizer, layer)

    def __call__(self, predictions: Sequence[str], golds: Sequence[str]) -> list[float]:
        """One score a pair, at most 1; an empty text scores 0 against any other."""
        pairs = [(p.strip(), g.strip()) for p, g in zip(predictions, golds, strict=True)]
        open_ = [(p, g) for p, g in pairs if p != g and p and g]
        embedded = self._embed(list(dict.fromkeys(text for pair in open_ for text in pair)))
        return [1.0 if p == g else _score(embedded[p], embedded[g]) if p and g else 0.0 for p, g in pairs]

    @torch.inference_mode()
    def _embed(self, texts: Sequence[str]) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """Text → unit embeddings (tokens, width) and which of them are the text's own (tokens,)."""
        windows: list[tuple[str, list[int]]] = []
        for text in texts:
            ids = self.tokenizer.encode(text, add_special_tokens=False)
            windows += [(text, ids[at : at + self._window]) for at in range(0, len(ids) or 1, self._window)]
        windows.sort(key=lambda window: len(window[1]))  # matching knows no order
        found: dict[str, list[tuple[torch.Tensor, torch.Tensor]]] = {text: [] for text in texts}
        for start in range(0, len(windows), BATCH):
            batch = windows[start : start + BATCH]
            rows = [[*self._before, *ids, *self._after] for _, ids in batch]
            width = max(map(len, rows))
            inputs = torch.tensor([row + [self._pad] * (width - len(row)) for row in rows])
            mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
            states = self.model(inputs, attention_mask=mask, output_hidden_states=True).hidden_states
            unit = torch.nn.functional.normalize(states[self.layer].float(), dim=-1)
            for (text, ids), row, vectors in zip(batch, rows, unit, strict=True):
                own = torch.zeros(len(row), dtype=torch.bool)
                own[len(self._before) : len(self._before) + len(ids)] = True
                found[text].append((vectors[: len(row)], own))
        return {
            text: (torch.cat([v for v, _ in parts]), torch.cat([own for _, own in parts]))
            for text, parts in found.items()
        }


def _around(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The ids that a tokenizer puts before and after a text."""
    whole, plain = tokenizer.encode("a"), tokenizer.encode("a", add_special_tokens=False)
    for start in range(len(whole) - len(plain) + 1):
        if whole[start : start + len(plain)] == plain:
            return whole[:start], whole[start + len(plain) :]
    raise InputError("encoder: its special tokens are not around the text; give another one")


def _score(prediction: tuple[torch.Tensor, torch.Tensor], gold: tuple[torch.Tensor, torch.Tensor]) -> float:
    (left, own_left), (right, own_right) = prediction, gold
    if not own_left.any() or not own_right.any():
        return 0.0
    cosines = left @ right.T
    precision = float(cosines.max(1).values[own_left].mean())
    recall = float(cosines.max(0).values[own_right].mean())
    total = precision + recall
    return min(1.0, 2.0 * precision * recall / total) if total > 0 else 0.0
