"""SFT and GRPO: hand-computed values, exact resume, masking, deduplication, learning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny_models as tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from memory_rows import transition_rule
from wmlab.config.memory import MemoryRecipe
from wmlab.config.recipes import GrpoRecipe, SftRecipe
from wmlab.errors import ModelFailure
from wmlab.lm.base import Completion
from wmlab.lm.build import new_model
from wmlab.memory.context import WorldMemory
from wmlab.memory.retrieve import Retriever
from wmlab.rewards.base import RewardInput, RewardRecord
from wmlab.rewards.behr import BehaviourConsistency
from wmlab.rewards.reference import ReferenceAgent
from wmlab.rewards.surface import SurfaceReward
from wmlab.training import sft
from wmlab.training.advantage import advantages
from wmlab.training.checkpoint import NAME
from wmlab.training.grpo import Grpo, Prompt, prompts_of
from wmlab.training.heldout import compare, prompt_means
from wmlab.training.loss import make_group, policy_loss
from wmlab.training.sequences import TrainingSequence, agent_sequences, pad, world_model_sequences

RECIPE = GrpoRecipe(
    steps=4, prompts_per_step=2, group=4, learning_rate=3e-3, warmup_steps=1, max_new_tokens=12,
    validation_every=2, checkpoint_every=2,
)  # fmt: skip


def transitions() -> list[dict[str, Any]]:
    states = list(tiny.STATES.items())
    return [
        {
            "domain": "textworld",
            "task_id": "textworld_0",
            "history": tiny.history(i),
            "observation": states[i][1],
            "next_action": states[i + 1][0],
        }
        for i in range(3)
    ]


def same_weights(a: Any, b: Any) -> bool:
    return all(
        torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    )


# --- supervised -------------------------------------------------------------------------------------------


def test_loss_counts_taught_tokens_only() -> None:
    lm = tiny.tiny_lm(1)
    (sequence,) = world_model_sequences(lm.tokenizer, [tiny.trajectory(2)], 512)
    ids = torch.tensor([sequence.ids])
    logprobs = torch.log_softmax(lm.model(input_ids=ids).logits[0], -1)
    places = [t for t, learn in enumerate(sequence.taught) if learn]
    want = -sum(float(logprobs[t - 1, sequence.ids[t]]) for t in places) / len(places)
    got = float(sft.batch_loss(lm.model, [sequence], lm.tokenizer.pad_token_id).detach())
    assert got == pytest.approx(want, abs=1e-5)
    taught = lm.tokenizer.decode([i for i, learn in zip(sequence.ids, sequence.taught, strict=True) if learn])
    assert taught == "".join(f"{o}<|end|>" for o in list(tiny.STATES.values())[:2])
    longer = replace(sequence, ids=sequence.ids * 2, taught=[False] * 2 * len(sequence.ids))
    padded, mask = pad([sequence, longer], 0)
    assert padded.shape == mask.shape == (2, 2 * len(sequence.ids)) and int(mask.sum()) == len(places)


def test_a_cut_sequence_ends_with_a_whole_turn() -> None:
    (whole,) = world_model_sequences(tiny.tokenizer(), [tiny.trajectory(4)], 512)
    (cut,) = world_model_sequences(tiny.tokenizer(), [tiny.trajectory(4)], len(whole.ids) - 1)
    assert cut.turns == whole.turns[:3] and len(cut.ids) == whole.turns[2][1]


def test_an_agent_learns_with_and_without_thoughts() -> None:
    said = "Thought:\nGo on.\n\nAction:\nopen box"
    demo = {
        "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "O"}, {"role": "assistant", "content": said}],
        "taught": [False, False, True],
    }  # fmt: skip
    with_thought, without = agent_sequences(
        tiny.tokenizer(), [demo], 512, thoughts=(True, False), everything=False
    )
    for sequence, want in ((with_thought, said), (without, "Action:\nopen box")):
        taught = [i for i, learn in zip(sequence.ids, sequence.taught, strict=True) if learn]
        assert tiny.tokenizer().decode(taught) == want + "<|end|>"


def run_sft(folder: Path, epochs: float) -> tuple[Any, list[dict[str, Any]]]:
    tokenizer = tiny.tokenizer()
    model = new_model(tiny.ARCHITECTURE, tokenizer, 5)
    data = world_model_sequences(tokenizer, [tiny.trajectory(1 + i % 4, i) for i in range(12)], 512)
    recipe = SftRecipe(
        architecture=tiny.ARCHITECTURE,
        epochs=epochs,
        batch_size=2,
        learning_rate=5e-3,
        checkpoint_minutes=1e-9,
    )
    return model, sft.train(model, data, data[:4], recipe, 1, tokenizer.pad_token_id, folder, "test")


def test_sft_learns_and_a_resumed_run_is_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.set_num_threads(1)
    model, curve = run_sft(tmp_path / "whole", 6)
    assert curve[-1]["loss"] < 0.5 * curve[0]["loss"]
    assert curve[-1]["val_em"] is not None and curve[-1]["val_loss"] < curve[0]["loss"]
    calls = {"n": 0}
    real = sft.batch_loss

    def dies(*args: Any) -> torch.Tensor:
        calls["n"] += 1
        if calls["n"] == 20:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(sft, "batch_loss", dies)
    with pytest.raises(KeyboardInterrupt):
        run_sft(tmp_path / "cut", 6)
    assert (tmp_path / "cut" / NAME).exists()
    again, resumed = run_sft(tmp_path / "cut", 6)
    assert calls["n"] < 20 + 36 and same_weights(model, again)
    keys = ("step", "loss", "lr", "val_loss", "val_em")
    assert [[row[k] for k in keys] for row in resumed] == [[row[k] for k in keys] for row in curve]


# --- advantages and groups --------------------------------------------------------------------------------


def test_advantages_golden_masked_and_floored() -> None:
    assert advantages([1, 0, 0, 0], 1e-3) == pytest.approx([1.5, -0.5, -0.5, -0.5])
    assert advantages([1, None, 0, 0, 0], 1e-3) == pytest.approx([1.5, 0.0, -0.5, -0.5, -0.5])
    assert advantages([None, 0.7], 1e-3) == [0.0, 0.0]
    # Scorer noise below the floor is not blown up to unit variance.
    assert max(map(abs, advantages([0.5, 0.5 + 1e-6], 1e-3))) < 1e-3


@given(st.lists(st.one_of(st.none(), st.floats(-5, 5)), min_size=1, max_size=8))
def test_advantages_sum_to_zero_and_failures_weigh_nothing(rewards: list[float | None]) -> None:
    found = advantages(rewards, 1e-3)
    assert sum(found) == pytest.approx(0, abs=1e-6 * max(1, max(map(abs, found))))
    assert all(a == 0 for a, r in zip(found, rewards, strict=True) if r is None)


def test_equal_samples_share_one_branch_with_the_same_gradient() -> None:
    lm, frozen = tiny.tiny_lm(1), tiny.tiny_lm(2).model
    prompt = lm.encode(tiny.history(0))
    samples = [
        Completion("a", (7, 8), "stop"),
        Completion("b", (9,), "length"),
        Completion("a", (7, 8), "stop"),
    ]
    weights = [0.6, -1.1, 0.5]
    merged = make_group(prompt, samples, weights, lm.end_id)
    assert merged.branches == [[7, 8, lm.end_id], [9]] and merged.counts == [2, 1]
    apart = [make_group(prompt, [s], [w], lm.end_id) for s, w in zip(samples, weights, strict=True)]
    gradients = []
    for groups in ([merged], apart):
        lm.model.zero_grad()
        loss, sums = policy_loss(lm.model, frozen, groups, 3, 7, RECIPE)
        loss.backward()  # type: ignore[no-untyped-call]
        gradients.append([p.grad.clone() for p in lm.model.parameters()])
        assert sums["tokens"] == 7 and sums["kl"] > 0
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


# --- runs ---------------------------------------------------------------------------------------------------


class Broken:
    """A reward that fails on every candidate of a group but the first ``good``."""

    def __init__(self, good: int) -> None:
        self.good = good

    def __call__(
        self, items: Sequence[RewardInput], candidates: Sequence[Sequence[str]]
    ) -> list[list[RewardRecord]]:
        return [
            [
                RewardRecord(float(i), "ok") if i < self.good else RewardRecord.failed("server gone")
                for i in range(len(g))
            ]
            for g in candidates
        ]


def make_run(reward_name: str, recipe: GrpoRecipe = RECIPE) -> tuple[Grpo, list[Prompt]]:
    policy, frozen = tiny.tiny_lm(1), tiny.tiny_lm(1).model
    reference = ReferenceAgent(tiny.tiny_lm(3)) if reward_name == "behr" else None
    reward = BehaviourConsistency(reference) if reference else SurfaceReward(reward_name)
    return Grpo(policy, frozen, reward, reference, recipe, 0), prompts_of(policy, transitions())


@pytest.mark.parametrize("name", ["behr", "f1"])
def test_grpo_resumes_to_the_same_bits(name: str, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    whole, prompts = make_run(name)
    curve = whole.train(prompts, prompts, tmp_path / "whole")
    first, _ = make_run(name)
    first.recipe = RECIPE.model_copy(update={"steps": 3})
    first.train(prompts, prompts, tmp_path / "cut")  # its last checkpoint is after step 2
    second, _ = make_run(name)
    resumed = second.train(prompts, prompts, tmp_path / "cut")
    assert same_weights(whole.policy.model, second.policy.model)
    for row in (*curve, *resumed):
        row.pop("seconds")
    assert resumed == curve and [row["step"] for row in curve] == [1, 2, 3, 4]
    assert [row["em_validation"] is not None for row in curve] == [False, True, False, True]


def test_grpo_raises_its_own_reward(tmp_path: Path) -> None:
    recipe = RECIPE.model_copy(update={"steps": 30, "group": 8, "learning_rate": 1e-2, "max_new_tokens": 6})
    run, prompts = make_run("f1", recipe)
    before = prompt_means(run.score(prompts, run.sample(prompts, 16, 0)))
    run.train(prompts, [], tmp_path)
    after = prompt_means(run.score(prompts, run.sample(prompts, 16, 0)))
    result = compare(before, after, 0, resamples=200)
    assert result["n"] == 3 and result["after"] > result["before"] + 0.05


def test_gains_move_by_a_multiple_of_the_rate(tmp_path: Path) -> None:
    def moved(multiple: float) -> tuple[float, float]:
        """Largest change of a gain and of a weight in the first step, in which Adam moves by the rate."""
        recipe = RECIPE.model_copy(
            update={"steps": 1, "learning_rate": 1e-5, "group": 8, "gain_rate": multiple}
        )
        run, prompts = make_run("f1", recipe)
        before = {name: p.detach().clone() for name, p in run.policy.model.named_parameters()}
        run.train(prompts, [], tmp_path / str(multiple))
        change = {n: float((p - before[n]).abs().max()) for n, p in run.policy.model.named_parameters()}
        return change["model.norm.weight"], change["model.layers.0.mlp.up_proj.weight"]

    assert moved(1.0) == (pytest.approx(1e-5, rel=0.05), pytest.approx(1e-5, rel=0.05))
    assert moved(10.0) == (pytest.approx(1e-4, rel=0.05), pytest.approx(1e-5, rel=0.05))


def test_too_many_failed_rewards_stop_the_run(tmp_path: Path) -> None:
    run, prompts = make_run("f1", RECIPE.model_copy(update={"steps": 40}))
    run.reward = Broken(good=0)
    with pytest.raises(ModelFailure, match=r"rewards failed, more than max_failed=0\.05.*server gone"):
        run.train(prompts, [], tmp_path)


def test_a_few_failures_are_masked_and_counted(tmp_path: Path) -> None:
    run, prompts = make_run("f1", RECIPE.model_copy(update={"steps": 1, "max_failed": 1.0}))
    run.reward = Broken(good=3)
    (row,) = run.train(prompts, [], tmp_path)
    assert row["masked"] == 2 and row["reward"] == 1.0


def test_heldout_comparison_is_paired() -> None:
    result = compare([0.1, None, 0.5], [0.3, 0.9, 0.7], 0, resamples=500)
    assert (result["n"], result["n_failed"]) == (2, 1)
    assert result["before"] == pytest.approx(0.3) and result["after"] == pytest.approx(0.5)
    assert result["difference_ci"] == pytest.approx([0.2, 0.2])
    empty = compare([None], [0.2], 0)
    assert empty["before"] is None and empty["n"] == 0


def test_a_checkpoint_of_another_run_is_not_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.set_num_threads(1)
    run, prompts = make_run("f1")
    run.train(prompts, [], tmp_path / "whole")
    other, _ = make_run("f1")
    other.run = "another recipe"
    other.recipe = RECIPE.model_copy(update={"steps": 3, "temperature": 0.7})
    other.train(prompts, [], tmp_path / "shared")
    again, _ = make_run("f1")
    again.train(prompts, [], tmp_path / "shared")
    assert same_weights(run.policy.model, again.policy.model)
    assert "starting afresh" in capsys.readouterr().err


def remembering(position: str = "action") -> WorldMemory:
    """A bank with one rule for ``open`` in a game that is not the one at hand."""
    recipe = MemoryRecipe.model_validate({"position": position})
    return WorldMemory(Retriever("textworld", [transition_rule("open")], budget=400), recipe)


@pytest.mark.parametrize("position", ["action", "system"])
def test_a_branch_is_its_prompt_alone(position: str) -> None:
    torch.set_num_threads(1)
    lm, memory = tiny.tiny_lm(1), remembering(position)
    (row,) = world_model_sequences(lm.tokenizer, [tiny.trajectory(2)], 2048, memory)
    (bare,) = world_model_sequences(lm.tokenizer, [tiny.trajectory(2)], 2048)
    told = memory.prompt(tiny.history(0), "textworld_0")
    ids = [
        *lm.encode(told),
        *lm.tokenizer.encode(tiny.STATES["open box"], add_special_tokens=False),
        lm.end_id,
    ]
    ((start, stop, shared),) = row.branches  # "take key" has no entry, so its prompt is the plain one
    assert [*row.ids[:shared], *row.ids[start:stop]] == ids and row.turns[:2] == bare.turns
    assert row.turns[2] == (start + len(lm.encode(told)) - shared, stop)
    both = sft.batch_loss(lm.model, [bare, row], 0) * (sum(bare.taught) + sum(row.taught))
    length = len(lm.encode(told))
    taught = [False] * length + [True] * (len(ids) - length)
    single = TrainingSequence(ids, taught, [(length, len(ids))])
    alone = sum(sft.batch_loss(lm.model, [one], 0) * sum(one.taught) for one in (bare, bare, single))
    assert torch.allclose(both, alone, rtol=1e-5)
    whole, em = sft.evaluate(lm.model, [row], 1, 0)
    assert whole == pytest.approx(
        float((both - sft.batch_loss(lm.model, [bare], 0) * sum(bare.taught)).detach()) / sum(row.taught),
        rel=1e-5,
    )
    assert em == 0.0


def test_branches_stop_where_there_is_no_room() -> None:
    lm = tiny.tiny_lm(1)
    (bare,) = world_model_sequences(lm.tokenizer, [tiny.trajectory(1)], 512)
    (row,) = world_model_sequences(lm.tokenizer, [tiny.trajectory(1)], len(bare.ids), remembering())
    assert row == bare


def test_grpo_reads_memory_and_its_reward_does_not() -> None:
    lm = tiny.tiny_lm(1)
    first, *others = prompts_of(lm, transitions(), remembering())
    assert first.chat[-1]["content"].startswith("[BEGIN TEXTWORLD_MEMORY]\n")
    assert first.item.history == tiny.history(0) and first.ids == lm.encode(first.chat)
    assert [prompt.chat for prompt in others] == [tiny.history(1), tiny.history(2)]
    # What max_prompt_tokens bounds: the same transitions are learnt from with memory and without.
    bare = prompts_of(lm, transitions())
    assert [prompt.history_tokens for prompt in (first, *others)] == [len(prompt.ids) for prompt in bare]
    assert first.history_tokens < len(first.ids)
