"""Every reward as verl's reward function (``reward.custom_reward_function``, verl 0.9.1).

verl asks for one sample at a time: concurrent calls are gathered and scored together, so the samples of a prompt
share its real state and its history. A sample whose score failed is not a number: its score is NaN, which
``wmlab_grpo`` (:mod:`wmlab.training.verl_plugin`) takes out of its group. verl's own estimators would spread it.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from wmlab.errors import InputError
from wmlab.rewards.base import Reward, RewardInput, RewardRecord

GATHER_S = 0.05
"""How long the first of several calls waits for the others."""


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, float]:
    """Score of one predicted observation. ``settings`` are verl's ``reward_kwargs``: see :func:`_opened`.

    Raises InputError for a row that ``wmlab data verl`` did not write, ServerFailure when no server of the
    reference agent is left.
    """
    item = input_of(data_source, ground_truth, extra_info)
    gatherer = _gatherer(asyncio.get_running_loop(), _key(settings))
    return _scored(await gatherer.ask(item, solution_str))


def compute_score_sync(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    **settings: Any,
) -> dict[str, float]:
    """:func:`compute_score` for a manager that calls from threads, one sample at a time."""
    reward = _opened(_key(settings))
    return _scored(reward([input_of(data_source, ground_truth, extra_info)], [[solution_str]])[0][0])


def input_of(data_source: str, ground_truth: str, extra_info: Mapping[str, Any] | None) -> RewardInput:
    """What a reward reads, from a row of ``wmlab data verl``."""
    try:
        extra = dict(extra_info or {})
        history = json.loads(extra["history"])
        return RewardInput(str(extra["domain"]), history, ground_truth, extra["expert_action"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"a row of {data_source!r} has no history or action ({error!r}); make it with wmlab data verl"
        ) from None


def _scored(record: RewardRecord) -> dict[str, float]:
    """verl takes numbers alone, the same keys for every sample: NaN says that there is none."""
    return {
        "score": math.nan if record.reward is None else record.reward,
        "failed": float(record.reward is None),
        "delta": math.nan if record.delta is None else record.delta,
    }


def _key(settings: Mapping[str, Any]) -> str:
    plain = {name: list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
             for name, value in settings.items()}  # fmt: skip
    return json.dumps(plain, sort_keys=True, default=str)


@lru_cache(maxsize=4)
def _opened(key: str) -> Reward:
    """The reward of some settings: ``reward``, ``parameters`` (JSON), ``reference`` (a model folder) and, where
    servers score in its place, ``reference_urls`` and ``reference_model``; ``reference_cache`` keeps scores."""
    from wmlab.rewards.opened import open_reference
    from wmlab.rewards.registry import make_reward, needs_reference

    given = json.loads(key)
    known = {"reward", "parameters", "reference", "reference_urls", "reference_model", "reference_cache"}
    # verl adds what serves its own reward model.
    unknown = set(given) - known - {"reward_router_address", "reward_model_tokenizer"}
    if unknown or "reward" not in given:
        raise InputError(
            f"reward_kwargs {sorted(unknown) or sorted(given)}: give reward, and of {sorted(known)} what it needs"
        )
    agent = None
    if needs_reference(given["reward"]) and given.get("reference"):
        cache = given.get("reference_cache")
        agent = open_reference(
            Path(given["reference"]),
            given.get("reference_urls") or (),
            given.get("reference_model"),
            Path(cache) if cache else None,
        )
    parameters = json.loads(given.get("parameters") or "{}")
    return make_reward(given["reward"], parameters, (lambda: agent) if agent is not None else None)


class _Gatherer:
    """Calls of one event loop that come within GATHER_S of each other, scored as one."""

    def __init__(self, reward: Reward) -> None:
        self._reward = reward
        self._waiting: list[tuple[RewardInput, str, asyncio.Future[RewardRecord]]] = []
        self._lock = asyncio.Lock()

    async def ask(self, item: RewardInput, candidate: str) -> RewardRecord:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[RewardRecord] = loop.create_future()
        self._waiting.append((item, candidate, future))
        if len(self._waiting) == 1:
            loop.call_later(GATHER_S, lambda: asyncio.ensure_future(self._score()))
        return await future

    async def _score(self) -> None:
        asked, self._waiting = self._waiting, []
        groups: dict[str, list[int]] = {}
        for at, (item, _, _) in enumerate(asked):
            groups.setdefault(
                json.dumps([item.domain, list(item.history), item.gold, item.action]), []
            ).append(at)
        items = [asked[members[0]][0] for members in groups.values()]
        candidates = [[asked[at][1] for at in members] for members in groups.values()]
        try:
            async with self._lock:  # one batch at a time: a model is not safe for threads
                loop = asyncio.get_running_loop()
                found = await loop.run_in_executor(None, self._reward, items, candidates)
        except Exception as error:
            for _, _, future in asked:
                if not future.done():
                    future.set_exception(error)
            return
        for members, records in zip(groups.values(), found, strict=True):
            for at, record in zip(members, records, strict=True):
                if not asked[at][2].done():
                    asked[at][2].set_result(record)


_gatherers: dict[tuple[int, str], _Gatherer] = {}


def _gatherer(loop: asyncio.AbstractEventLoop, key: str) -> _Gatherer:
    found = _gatherers.get((id(loop), key))
    if found is None:
        found = _gatherers[id(loop), key] = _Gatherer(_opened(key))
    return found
