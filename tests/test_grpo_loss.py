"""GRPO's loss against a plain computation, several updates a step, bf16, and the signs of collapse."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import tiny_models as tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_training import RECIPE, make_run, same_weights
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from transformers import LlamaForCausalLM
from wmlab.config.recipes import GrpoRecipe, SftRecipe
from wmlab.lm.base import Completion
from wmlab.lm.decode import RowCache, _forward
from wmlab.lm.tree import Tree, branch_logprobs, cached_logprobs
from wmlab.rewards.behr import BehaviourConsistency
from wmlab.rewards.reference import ReferenceAgent
from wmlab.training import sft
from wmlab.training.advantage import advantages
from wmlab.training.collapse import collapse, repetition
from wmlab.training.loss import make_group, policy_loss

WEIGHTS = [0.9, -1.2, 0.3]
SAMPLES = [
    Completion("a", (7, 8), "stop"),
    Completion("b", (9,), "length"),
    Completion("c", (8, 8, 8), "stop"),
]


def changed(**keys: Any) -> GrpoRecipe:
    return RECIPE.model_copy(update=keys)


def plain_logprobs(model: Any, prompt: list[int], branch: list[int], temperature: float) -> torch.Tensor:
    ids = torch.tensor([[*prompt, *branch]])
    logits = model(input_ids=ids[:, :-1]).logits[0, len(prompt) - 1 :] / temperature
    return torch.log_softmax(logits, -1).gather(1, torch.tensor(branch)[:, None])[:, 0]


def plain_loss(policy: Any, frozen: Any, sampler: Any, prompt: list[int], branches: list[list[int]], recipe: GrpoRecipe) -> torch.Tensor:  # fmt: skip
    """The definition, a sample and a token at a time."""
    high = recipe.clip if recipe.clip_high is None else recipe.clip_high
    samples = []
    for branch, weight in zip(branches, WEIGHTS, strict=True):
        new = plain_logprobs(policy, prompt, branch, recipe.temperature)
        old = plain_logprobs(sampler, prompt, branch, recipe.temperature).detach()
        base = plain_logprobs(frozen, prompt, branch, recipe.temperature).detach()
        tokens = []
        for n, o, b in zip(new, old, base, strict=True):
            ratio = torch.exp(n - o)
            gain = min(ratio * weight, torch.clamp(ratio, 1 - recipe.clip, 1 + high) * weight)
            tokens.append(gain - recipe.kl_coefficient * (torch.exp(b - n) - (b - n) - 1))
        samples.append(torch.stack(tokens))
    if recipe.loss == "token-mean":
        return -torch.cat(samples).mean()
    return -torch.stack([sample.mean() for sample in samples]).mean()


@pytest.mark.parametrize("loss", ["seq-mean-token-mean", "token-mean"])
@pytest.mark.parametrize("clip_high", [None, 0.05])
@pytest.mark.parametrize("moved", [False, True])
def test_the_loss_is_its_definition(loss: str, clip_high: float | None, moved: bool) -> None:
    recipe = changed(loss=loss, clip=0.02, clip_high=clip_high, kl_coefficient=0.3)
    policy, frozen = tiny.tiny_lm(1), tiny.tiny_lm(2).model
    sampler = tiny.tiny_lm(5 if moved else 1).model
    prompt = policy.encode(tiny.history(0))
    group = make_group(prompt, SAMPLES, WEIGHTS, policy.end_id)
    old = None
    if moved:
        with torch.no_grad():
            old, _ = branch_logprobs(sampler, [group.tree], temperature=recipe.temperature)
    found, sums = policy_loss(policy.model, frozen, [group], 3, group.n_tokens, recipe, old)
    assert sums["tokens"] == group.n_tokens == 3 + 1 + 4 and (sums["clipped"] > 0) == moved
    expected = plain_loss(policy.model, frozen, sampler, prompt, group.branches, recipe)
    assert float(found.detach()) == pytest.approx(float(expected.detach()), abs=1e-6)
    gradients = []
    for value in (found, expected):
        policy.model.zero_grad()
        value.backward()  # type: ignore[no-untyped-call]
        gradients.append([p.grad.clone() for p in policy.model.parameters()])
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_a_higher_ceiling_lets_rising_tokens_go_on() -> None:
    """Clip-higher: a good token whose probability rose by 40 % still has a gradient, without it it has none."""
    policy = tiny.tiny_lm(1)
    prompt = policy.encode(tiny.history(0))
    group = make_group(prompt, [Completion("b", (9,), "length")], [1.0], policy.end_id)
    with torch.no_grad():
        now, _ = branch_logprobs(policy.model, [group.tree], temperature=RECIPE.temperature)
    old = [[now[0][0] - torch.log(torch.tensor(1.4))]]
    norms = []
    for high in (None, 0.5):
        policy.model.zero_grad()
        recipe = changed(clip_high=high, kl_coefficient=0.0)
        loss, sums = policy_loss(policy.model, policy.model, [group], 1, 1, recipe, old)
        loss.backward()  # type: ignore[no-untyped-call]
        norms.append(sum(float(p.grad.norm()) for p in policy.model.parameters()))
        assert sums["clipped"] == (high is None)
    assert norms[0] == 0.0 < norms[1]


def test_parts_of_an_update_add_up(tmp_path: Path) -> None:
    """Gradient accumulation: short backward passes lead to the same weights as one."""
    torch.set_num_threads(1)
    found = []
    for tokens in (1, 4096):
        run, prompts = make_run("f1", changed(steps=1, backward_tokens=tokens, learning_rate=1e-4))
        (row,) = run.train(prompts, [], tmp_path / str(tokens))
        found.append((row["loss"], row["kl"], row["grad_norm"], row["entropy"]))
    assert found[0] == pytest.approx(found[1], abs=1e-6)


def test_several_updates_a_step_leave_the_ratio_and_resume_to_the_same_bits(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    recipe = changed(updates=2, clip=1e-4, learning_rate=1e-2)
    whole, prompts = make_run("f1", recipe)
    curve = whole.train(prompts, prompts, tmp_path / "whole")
    assert curve[0]["clipped"] > 0  # the second update of a step is off the policy that sampled
    single, _ = make_run("f1", changed(clip=1e-4, learning_rate=1e-2))
    assert all(row["clipped"] == 0 for row in single.train(prompts, [], tmp_path / "single"))
    first, _ = make_run("f1", recipe)
    first.recipe = recipe.model_copy(update={"steps": 3})
    first.train(prompts, prompts, tmp_path / "cut")
    second, _ = make_run("f1", recipe)
    second.train(prompts, prompts, tmp_path / "cut")
    assert same_weights(whole.policy.model, second.policy.model)


@pytest.mark.parametrize(
    ("ids", "share"),
    [([], 0.0), ([1, 2, 3], 0.0), ([1, 2, 3, 4, 5], 0.0), ([7] * 7, 0.75), ([1, 2, 3, 4] * 3, 5 / 9)],
)
def test_repetition(ids: list[int], share: float) -> None:
    assert repetition(ids) == pytest.approx(share)


def test_collapse_needs_every_recent_step() -> None:
    recipe = changed(entropy_floor=0.1, max_repetition=0.5, patience=2)
    low, high = {"entropy": 0.05, "repetition": 0.0}, {"entropy": 1.0, "repetition": 0.0}
    again = {"entropy": 1.0, "repetition": 0.8}
    assert collapse([low], recipe) is None
    assert collapse([low, high], recipe) is None and collapse([high, again], recipe) is None
    assert collapse([low, again], recipe) is None
    assert collapse([high, low, low], recipe) == "entropy 0.0500 under entropy_floor 0.1 for 2 steps"
    assert collapse([low, again, again], recipe) == "repetition 0.800 over max_repetition 0.5 for 2 steps"
    assert (
        collapse([{"entropy": 0.0, "repetition": 1.0}] * 9, RECIPE) is None
    )  # by default it watches nothing


def test_a_run_that_collapses_ends_with_what_it_is(tmp_path: Path) -> None:
    run, prompts = make_run("f1", changed(steps=9, entropy_floor=1e3, patience=3, validation_every=100))
    curve = run.train(prompts, prompts, tmp_path)
    assert [row["step"] for row in curve] == [1, 2, 3] and "under entropy_floor 1000" in str(run.stopped)
    assert curve[-1]["em_validation"] is not None


def test_bf16_passes_keep_fp32_weights_and_head(tmp_path: Path) -> None:
    run, prompts = make_run("f1", changed(steps=1, precision="bf16"))
    before = copy.deepcopy(run.policy.model)
    (row,) = run.train(prompts, [], tmp_path)
    assert {p.dtype for p in run.policy.model.parameters()} == {torch.float32}
    assert row["grad_norm"] > 0 and not same_weights(before, run.policy.model)
    trees = [Tree(prompts[0].ids, [[7, 8], [9]], [2, 1])]
    (exact,), _ = branch_logprobs(before, trees)
    (rough,), _ = branch_logprobs(before, trees, bf16=True)
    error = max(float((a - b).detach().abs().max()) for a, b in zip(exact, rough, strict=True))
    assert 0 < error < 0.2
    sequence = [sft.TrainingSequence(prompts[0].ids, [True] * len(prompts[0].ids), [])]
    assert float(sft.batch_loss(before, sequence, 0, True).detach()) == pytest.approx(
        float(sft.batch_loss(before, sequence, 0).detach()), abs=0.05
    )
    assert (
        SftRecipe.model_fields["precision"].default == GrpoRecipe.model_fields["precision"].default == "fp32"
    )


@given(st.lists(st.floats(-1e-4, 1e-4), min_size=5, max_size=5), st.floats(0.01, 3.0))
def test_scoring_noise_makes_no_advantage(noise: list[float], delta: float) -> None:
    """Candidates whose Δ differ by 1e-4 nats of jitter are not told apart."""
    rewards: list[float | None] = [float(torch.exp(torch.tensor(-abs(delta + n)))) for n in noise]
    assert max(map(abs, advantages(rewards, GrpoRecipe.model_fields["std_floor"].default))) < 0.2


def test_equal_candidates_have_equal_rewards_and_no_advantage() -> None:
    _, prompts = make_run("f1")
    reference = ReferenceAgent(tiny.tiny_lm(3))
    texts = ["The box is open."] * 5
    (records,) = BehaviourConsistency(reference)([prompts[0].item], [texts])
    rewards = [record.reward for record in records]
    assert len(set(rewards)) == 1 and rewards[0] is not None and rewards[0] < 1
    assert advantages(rewards, 1e-3) == [0.0] * 5


def test_every_pass_stays_on_the_models_device() -> None:
    """No GPU here: PyTorch's fake tensors refuse operations across devices as real ones do."""
    sequences = [sft.TrainingSequence([1, 2, 3, 4], [False, True, True, True], [(1, 4)])]
    trees = [Tree([1, 2], [[3, 4], [5]], [2, 1]), Tree([1, 2, 3], [[3, 4]], [1])]
    config = tiny.tiny_lm(1).model.config
    with FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv()):
        with torch.device("meta"):
            model = LlamaForCausalLM(config)
        values, entropies = branch_logprobs(model, trees, with_entropy=True)
        assert values[0][0].device.type == entropies[1][0].device.type == "meta"
        assert cached_logprobs(model, trees[0])[0].device.type == "meta"
        assert sft.batch_loss(model, sequences, 0).device.type == "meta"
        cache = RowCache()
        cache.select(["a", "b"])
        assert _forward(model, cache, [[1, 2, 3], [4]]).device.type == "meta"
        assert _forward(model, cache.part([1]), [[1]]).device.type == "meta"
