"""BehR's scoring against scoring every string by itself, on the same model in the same run.

    python bench/scoring.py [--prompts 32] [--candidates 5] [--repeats 3]

Data are generated: histories of about 1,000 tokens, states of about 200, actions of about 8; of five candidates one is
the real state and two are equal. The peer is what a user would write first: each history + state + action one forward
pass of its own, logits at the action's rows only, the real state once a candidate. Rewards must agree to 1e-4.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from typing import Any

import torch
from wmlab.config.recipes import Architecture, TokenizerRecipe
from wmlab.lm.build import new_model
from wmlab.lm.hf import HFModel
from wmlab.lm.tokenizer import train_tokenizer
from wmlab.rewards.base import RewardInput
from wmlab.rewards.behr import BehaviourConsistency
from wmlab.rewards.reference import ReferenceAgent

WORDS = [
    "key", "door", "box", "apple", "knife", "table", "shelf", "stove", "fridge", "counter", "red", "old", "small",
    "open", "closed", "wooden", "kitchen", "garden", "north", "south", "east", "west", "take", "drop", "put", "go",
]  # fmt: skip


def sentence(rng: random.Random, n: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(n)) + "."


def made(prompts: int, candidates: int) -> tuple[list[RewardInput], list[list[str]]]:
    rng = random.Random(0)
    items, groups = [], []
    for _ in range(prompts):
        history = [{"role": "system", "content": sentence(rng, 40)}]
        for step in range(8):
            history.append({"role": "user", "content": sentence(rng, 6)})
            if step < 7:
                history.append({"role": "assistant", "content": sentence(rng, 110)})
        gold = sentence(rng, 190)
        others = [sentence(rng, 190) for _ in range(candidates - 2)]
        items.append(RewardInput("textworld", history, gold, sentence(rng, 6)))
        groups.append([gold, others[0], *others][:candidates])
    return items, groups


def one_by_one(
    agent: ReferenceAgent, items: list[RewardInput], groups: list[list[str]]
) -> tuple[list[Any], int]:
    """Rewards and tokens of the peer: a forward pass for the real state and for the candidate, each time."""
    model: Any = agent.lm.model  # type: ignore[attr-defined]
    tokens = 0

    def logprob(item: RewardInput, state: str) -> float:
        nonlocal tokens
        prefix = agent._prefix(item)
        branch, scored = agent._branch(item, state, prefix)
        ids = torch.tensor([[*prefix, *branch]])
        tokens += ids.shape[1]
        with torch.inference_mode():
            hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
            logits = model.lm_head(hidden[:, -scored - 1 : -1])
        values = torch.log_softmax(logits.float(), -1)[0].gather(-1, ids[0, -scored:, None])
        return float(values.mean())

    found = [[math.exp(-abs(logprob(item, state) - logprob(item, item.gold))) for state in group]
             for item, group in zip(items, groups, strict=True)]  # fmt: skip
    return found, tokens


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--prompts", type=int, default=32)
    arguments.add_argument("--candidates", type=int, default=5)
    arguments.add_argument("--repeats", type=int, default=3)
    given = arguments.parse_args()
    torch.set_num_threads(1)
    items, groups = made(given.prompts, given.candidates)
    texts = [message["content"] for item in items for message in item.history]
    tokenizer = train_tokenizer(texts, TokenizerRecipe(vocab_size=400))
    architecture = Architecture(
        hidden_size=128, layers=4, heads=4, kv_heads=2, intermediate_size=352, max_position=4096
    )
    lm = HFModel(new_model(architecture, tokenizer, 0).eval(), tokenizer, "bench")
    distinct = sum(len({state for state in group if not item.is_gold(state)})
                   for item, group in zip(items, groups, strict=True))  # fmt: skip
    length = sum(len(ReferenceAgent(lm)._prefix(item)) for item in items) / len(items)
    print(
        f"{len(items)} prompts of {length:.0f} tokens, {given.candidates} candidates, {distinct} distinct besides the real state"
    )
    best: dict[str, float] = {}
    for _ in range(given.repeats):
        agent = ReferenceAgent(lm)
        started = time.process_time()
        records = BehaviourConsistency(agent)(items, groups)
        best["ours"] = min(best.get("ours", math.inf), time.process_time() - started)
        peer = ReferenceAgent(lm)
        started = time.process_time()
        wanted, tokens = one_by_one(peer, items, groups)
        best["peer"] = min(best.get("peer", math.inf), time.process_time() - started)
    worst = max(abs(record.reward - value) for row, values in zip(records, wanted, strict=True)
                for record, value in zip(row, values, strict=True))  # fmt: skip
    print(f"calls {agent.calls}, at most {len(items) + distinct}; prefill {agent.prefill_tokens} against {tokens}: "
          f"{tokens / agent.prefill_tokens:.2f}x fewer")  # fmt: skip
    print(f"CPU seconds {best['ours']:.2f} against {best['peer']:.2f}: {best['peer'] / best['ours']:.2f}x")
    print(f"rewards differ by {worst:.2e} at most")


if __name__ == "__main__":
    main()
