"""Multi-turn decoding: the row cache against transformers' generate from scratch each turn.

    python bench/decode.py --model results/study/models/textworld/tiny/sft/seed0 \\
        --transitions results/study/decompose/textworld/test/transitions.parquet
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from wmlab.io.tables import read_table
from wmlab.lm.base import Sampling
from wmlab.lm.hf import HFModel

ROWS, TURNS, NEW = 32, 6, 24


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--transitions", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    lm = HFModel.load(given.model)
    rows = [r for r in read_table(given.transitions, "transitions") if r["step"] >= TURNS][:ROWS]
    dialogues = [[r["history"][: 2 + 2 * turn] for r in rows] for turn in range(TURNS)]
    started = time.perf_counter()
    ours = [
        [
            a.text
            for a in lm.continue_dialogues([r["transition_id"] for r in rows], chats, Sampling(0.0, 1, NEW))
        ]
        for chats in dialogues
    ]
    mine = time.perf_counter() - started
    started = time.perf_counter()
    theirs = []
    for chats in dialogues:
        prompts = [lm.encode(chat) for chat in chats]
        width = max(map(len, prompts))
        ids = torch.tensor([[lm.tokenizer.pad_token_id] * (width - len(p)) + p for p in prompts])
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts])
        with torch.inference_mode():
            out = lm.model.generate(
                input_ids=ids, attention_mask=mask, max_new_tokens=NEW, do_sample=False, eos_token_id=lm.end_id,
                pad_token_id=lm.tokenizer.pad_token_id,
            )  # fmt: skip
        theirs.append([lm.decode_ids([i for i in row[width:].tolist() if i != lm.end_id]) for row in out])
    hf = time.perf_counter() - started
    same = sum(a == b for x, y in zip(ours, theirs, strict=True) for a, b in zip(x, y, strict=True))
    print(f"row cache {mine:.1f} s, transformers' generate {hf:.1f} s, ratio {hf / mine:.2f}")
    print(f"equal texts {same}/{len(rows) * TURNS}")


if __name__ == "__main__":
    main()
