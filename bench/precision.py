"""What bf16 does to BehR: the same reference agent scores the same actions in fp32 and in bf16.

    python bench/precision.py --agent results/study/models/textworld/agents/clone-large \\
        --transitions results/study/decompose/textworld/test/transitions.parquet

Each action is scored after its real state and after another transition's; the reward is exp(-|difference|).
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
import torch
from wmlab.io.tables import read_table
from wmlab.lm.build import load_model
from wmlab.lm.hf import HFModel
from wmlab.lm.tokenizer import load_tokenizer
from wmlab.lm.tree import Tree
from wmlab.rewards.base import RewardInput
from wmlab.rewards.reference import ReferenceAgent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agent", type=Path, required=True)
    parser.add_argument("--transitions", type=Path, required=True)
    parser.add_argument("--n", type=int, default=40)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    rows = [row for row in read_table(given.transitions, "transitions") if row["next_action"]]
    order = np.random.default_rng(0).permutation(len(rows))[: given.n + 1]
    chosen = [rows[int(at)] for at in order]
    tokenizer = load_tokenizer(given.agent)
    agents = [
        ReferenceAgent(HFModel(load_model(given.agent, dtype), tokenizer, str(dtype)))
        for dtype in (torch.float32, torch.bfloat16)
    ]
    tokens, rewards = [], []
    for row, other in zip(chosen, chosen[1:], strict=False):
        item = RewardInput(row["domain"], row["history"], row["observation"], row["next_action"])
        prefix = agents[0]._prefix(item)
        branches = [
            agents[0]._branch(item, state, prefix) for state in (row["observation"], other["observation"])
        ]
        tree = Tree(prefix, [ids for ids, _ in branches], [n for _, n in branches])
        exact, rough = (agent.lm.score_trees([tree])[0] for agent in agents)
        tokens += [abs(a - b) for x, y in zip(exact, rough, strict=True) for a, b in zip(x, y, strict=True)]
        rewards.append([math.exp(-abs(float(np.mean(v[0])) - float(np.mean(v[1])))) for v in (exact, rough)])
    error = np.abs(np.diff(np.array(rewards), axis=1))[:, 0]
    print(
        f"{len(rewards)} actions, {len(tokens)} tokens: a token's log-probability errs by {np.mean(tokens):.4f} nats "
        f"on average, {max(tokens):.4f} at most; a reward by {error.mean():.4f} and {error.max():.4f}"
    )


if __name__ == "__main__":
    main()
