"""BehR with a second opinion on the text: the released recipe's physical facts, and SSF (metrics.md 5).

``behr_facts``  behavior_weight x BehR + facts_weight x R_facts, 0.8 and 0.2 as released for WebShop
``behr_ssf``    BehR x SSF: a state that misses facts cannot be made up for by the agent's indifference

R_facts is 1 for equal texts. Else it is the weighted mean over what the real state shows: set F1 of product
ids (4) and of prices (3), equality of the first page number (2), set F1 of ratings (1.5); of a state that shows
none of these, the share of its distinct words that the prediction has. A failed BehR fails the record; delta
and log-probabilities are BehR's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from wmlab.errors import InputError
from wmlab.metrics.text import tokens
from wmlab.rewards.base import RewardInput, RewardRecord
from wmlab.rewards.behr import BehaviourConsistency
from wmlab.rewards.reference import ReferenceAgent
from wmlab.rewards.surface import SURFACE

PARAMETERS = {"behr_facts": {"scale", "behavior_weight", "facts_weight"}, "behr_ssf": {"scale"}}
NAMES = tuple(PARAMETERS)

_SETS = (
    (4.0, re.compile(r"\bB[A-Z0-9]{9}\b")),
    (3.0, re.compile(r"\$ ?(\d[\d,]{0,12}(?:\.\d{1,12})?)")),
    (1.5, re.compile(r"[Rr]ating: ?(\d(?:\.\d{1,4})?|N\.A\.)")),
)
_PAGE = (2.0, re.compile(r"[Pp]age (\d{1,9})"))


def physical_facts(prediction: str, gold: str) -> float:
    """R_facts, in [0, 1]."""
    if prediction == gold:
        return 1.0
    found: list[tuple[float, float]] = []
    for weight, pattern in _SETS:
        wanted = set(pattern.findall(gold))
        if wanted:
            shown = set(pattern.findall(prediction))
            found.append((weight, 2.0 * len(shown & wanted) / (len(shown) + len(wanted))))
    weight, pattern = _PAGE
    page = pattern.search(gold)
    if page is not None:
        shown_page = pattern.search(prediction)
        found.append((weight, float(shown_page is not None and shown_page[1] == page[1])))
    if found:
        return sum(weight * value for weight, value in found) / sum(weight for weight, _ in found)
    words = set(tokens(gold))
    return len(words & set(tokens(prediction))) / len(words) if words else float(not prediction.split())


class MixedReward:
    """BehR and a score of the text, put together by ``mix``; equal candidates are scored once."""

    def __init__(
        self,
        behr: BehaviourConsistency,
        text: Callable[[RewardInput, str], float],
        mix: Callable[[float, float], float],
    ) -> None:
        self._behr, self._text, self._mix = behr, text, mix

    def __call__(
        self, transitions: Sequence[RewardInput], candidates: Sequence[Sequence[str]]
    ) -> list[list[RewardRecord]]:
        mixed = []
        for item, group, records in zip(
            transitions, candidates, self._behr(transitions, candidates), strict=True
        ):
            values = {candidate: self._text(item, candidate) for candidate in dict.fromkeys(group)}
            mixed.append([self._record(r, values[c]) for c, r in zip(group, records, strict=True)])
        return mixed

    def _record(self, record: RewardRecord, text: float) -> RewardRecord:
        return record if record.reward is None else replace(record, reward=self._mix(record.reward, text))


def _facts(item: RewardInput, candidate: str) -> float:
    return 1.0 if item.is_gold(candidate) else physical_facts(candidate, item.gold)


def make_mixed(
    name: str,
    reference: ReferenceAgent,
    scale: float = 1.0,
    behavior_weight: float = 0.8,
    facts_weight: float = 0.2,
) -> MixedReward:
    """``behr_facts`` or ``behr_ssf``. Raises InputError for weights that are negative or both 0."""
    behr = BehaviourConsistency(reference, "behr", scale)
    if name == "behr_ssf":
        return MixedReward(behr, SURFACE["ssf"], lambda b, s: b * s)
    if min(behavior_weight, facts_weight) < 0 or behavior_weight + facts_weight == 0:
        raise InputError(f"reward {name}: weights must be at least 0 and not both 0")
    return MixedReward(behr, _facts, lambda b, f: behavior_weight * b + facts_weight * f)
