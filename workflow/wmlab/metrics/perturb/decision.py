"""Seven perturbations of one real observation, by what they do to the next decision (behr.txt 3.2, Appendix I).

The papers name three (Oracle, Drop Irrelevant, Drop Target) and say that there are seven; the other four are
settled here so that the two questions of Table 15 are covered: is a metric blind to harmless change, and
does it see each way in which the next action loses its ground?

====================  ======================================================================  ==============
name                  what it does                                                            next action
====================  ======================================================================  ==============
``oracle``            nothing: every metric must give its maximum                             supported
``reorder``           the same sentences (page fields, list items) in another order           supported
``drop_irrelevant``   half of what is irrelevant to the next action removed                   supported
``truncate``          the second half of the pieces removed, as by a length limit             often lost
``drop_target``       each mention of the action's target removed, the rest kept              lost
``replace_target``    the target replaced by the target of another sample                     lost
``unrelated``         the observation of another sample that does not name the target         lost
====================  ======================================================================  ==============

The target is the longest phrase of the action's arguments that the observation names: of ``take old key from
trunk`` the ``old key``, of ``click[b0001]`` the id. WebShop's block of admissible actions follows the page: it
loses the actions that name a dropped target, names the replacement, and is cut off by ``truncate``.
Irrelevant is a sentence, or an item of a list, that names no word of the action and does not report what the
last action did (``OUTCOMES``): where an agent stands in its task is what its next action hangs on. The layout
stays, so that a change of score is a change of content.

A transition is a sample only when all seven exist, so that every perturbation is scored on the same samples;
why others are left out is counted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wmlab.domains.base import SUCCESS_MARKER
from wmlab.domains.conventions import split_page_actions, with_page_actions
from wmlab.metrics.perturb.pieces import Pieces, mention, replace_mentions
from wmlab.metrics.ssf import facts

PERTURBATIONS = (
    "oracle",
    "reorder",
    "drop_irrelevant",
    "truncate",
    "drop_target",
    "replace_target",
    "unrelated",
)

_SHOP_ACTION = re.compile(r"\w+\[(?P<words>[^\[\]]*)\]?")
_WORD = re.compile(r"[^\s,.;:!?()\[\]]+")
_CONNECTIVES = frozenset(
    {
        "a",
        "an",
        "the",
        "to",
        "from",
        "in",
        "on",
        "into",
        "onto",
        "with",
        "using",
        "of",
        "at",
        "and",
        "for",
        "in/on",
    }
)
OUTCOMES = {
    "textworld": "DID SCORED REFUSED ASSUMED END FINAL",
    "alfworld": "TAKEN PLACED CLEANED HEATED COOLED SLICED NO_EFFECT NO_SWITCH SUCCESS",
    "scienceworld": "MOVED FOCUS WAIT POURED CONNECTED AMBIG_OPTION",
    "cookingworld": "PLACED COOKED EATEN PROGRESS REFUSED FULL SUCCESS",
}
"""Facts by which a domain reports what the last action did."""
_ARTICLE = r"(?:(?<!\w)(?:an?|the|some)\s+)?"
_AFTER = r"(?:,\s+(?:and\s+)?| )?"


@dataclass(frozen=True)
class Decision:
    """A real observation (with its block and marker), the action taken next, and the action's target in it."""

    domain: str
    observation: str
    action: str
    target: str

    @property
    def page(self) -> str:
        """The observation without its block of admissible actions."""
        return split_page_actions(self.observation)[0]

    @property
    def listed(self) -> list[str] | None:
        """The actions of the block, if there is one."""
        return split_page_actions(self.observation)[1]


def arguments(domain: str, action: str) -> list[str]:
    """The words of an action after its verb, lower case: ``take old key from trunk`` → old, key, from, trunk."""
    text = action.strip().lower()
    if domain == "webshop":
        match = _SHOP_ACTION.fullmatch(text)
        return match["words"].split() if match else []
    return _WORD.findall(text)[1:]


def find_target(domain: str, action: str, observation: str) -> str | None:
    """The longest run of the action's arguments that the observation names; the first of equally long ones.

    None when it names none. Runs neither start nor end with a connective (``from``, ``the``); a page's whole
    label is wanted in WebShop, where part of one is another label.
    """
    words = arguments(domain, action)
    shown = split_page_actions(observation)[0]
    if domain == "webshop":
        label = " ".join(words)
        return label if label and mention(label).search(shown) else None
    for length in range(len(words), 0, -1):
        for start in range(len(words) - length + 1):
            run = words[start : start + length]
            if run[0] in _CONNECTIVES or run[-1] in _CONNECTIVES:
                continue
            if mention(" ".join(run)).search(shown):
                return " ".join(run)
    return None


def content_words(decision: Decision) -> set[str]:
    """Words of the action that a piece must not name to be irrelevant; a bare number says nothing of its own."""
    words = set(arguments(decision.domain, decision.action)) - _CONNECTIVES
    return {word for word in words if not word.isdecimal()}


def _with_block(decision: Decision, page: str, listed: list[str] | None) -> str:
    if listed is None:
        return page
    marked = page.endswith(SUCCESS_MARKER)
    whole = with_page_actions(page.removesuffix(SUCCESS_MARKER), listed)
    return whole + SUCCESS_MARKER if marked else whole


def reorder(decision: Decision, rng: np.random.Generator) -> str | None:
    """Shuffled sentences, or list items where there is one sentence; None when there is nothing to move."""
    for items in (False, True):
        pieces = Pieces.of(decision.domain, decision.page, items=items)
        fixed = pieces.fixed()
        free = [i for i in range(len(pieces.pieces)) if i not in fixed]
        if len({pieces.pieces[i] for i in free}) < 2:
            continue
        for _ in range(8):
            moved = iter(rng.permutation(free).tolist())
            order = [i if i in fixed else next(moved) for i in range(len(pieces.pieces))]
            text = pieces.reordered(order)
            if text.split() != decision.page.split():
                return _with_block(decision, text, decision.listed)
    return None


def _reports(domain: str, piece: str) -> bool:
    """Whether a piece says what the last action did."""
    outcomes = OUTCOMES.get(domain, "").split()
    return bool(outcomes) and any(fact.partition("(")[0] in outcomes for fact in facts(domain, piece))


def drop_irrelevant(decision: Decision, rng: np.random.Generator) -> str | None:
    """Half (rounded up) of the irrelevant sentences and list items removed; None when there is none."""
    pieces = Pieces.of(decision.domain, decision.page, items=True)
    words = [mention(word) for word in sorted(content_words(decision))]
    fixed = pieces.fixed()
    free = [
        index
        for index, piece in enumerate(pieces.pieces)
        if index not in fixed
        and not any(word.search(piece) for word in words)
        and not _reports(decision.domain, piece)
    ]
    units = pieces.units(free)
    if not units:
        return None
    drawn = rng.choice(len(units), size=-(-len(units) // 2), replace=False).tolist()
    text = pieces.without(set().union(*(units[index] for index in drawn)))
    return _with_block(decision, text, decision.listed) if mention(decision.target).search(text) else None


def truncate(decision: Decision) -> str | None:
    """The first half (rounded up) of the pieces, without the block; None for a single piece."""
    pieces = Pieces.of(decision.domain, decision.page, items=True)
    n = len(pieces.pieces)
    if n < 2:
        return None
    return pieces.first(-(-n // 2)).rstrip()


def drop_target(decision: Decision) -> str:
    """Each mention of the target removed with its article, and the actions that name it."""
    pattern = re.compile(_ARTICLE + mention(decision.target).pattern + _AFTER, re.IGNORECASE)
    page = pattern.sub("", decision.page)
    listed = decision.listed
    named = mention(decision.target)
    return _with_block(decision, page, [a for a in listed if not named.search(a)] if listed else listed)


def replace_target(decision: Decision, targets: Sequence[str], rng: np.random.Generator) -> str | None:
    """Another sample's target in the target's place; None when every other one is named already."""
    named = mention(decision.target)
    free = [
        target
        for target in dict.fromkeys(targets)
        if not named.search(target) and not mention(target).search(decision.observation)
    ]
    if not free:
        return None
    chosen = free[int(rng.integers(len(free)))]
    return replace_mentions(decision.observation, {decision.target: chosen})


def unrelated(decision: Decision, pool: Sequence[Decision], rng: np.random.Generator) -> str | None:
    """Another sample's observation without the target; None when there is none."""
    named = mention(decision.target)
    free = [other.observation for other in pool if not named.search(other.observation)]
    return free[int(rng.integers(len(free)))] if free else None


def perturb(
    decision: Decision, pool: Sequence[Decision], rng: np.random.Generator
) -> tuple[dict[str, str], str | None]:
    """All seven texts by name, or ({}, why not): the name of the first perturbation that does not exist.

    ``pool`` gives other targets and observations of the same domain; ``rng`` is used up in a fixed order.
    """
    made: dict[str, str | None] = {
        "oracle": decision.observation,
        "reorder": reorder(decision, rng),
        "drop_irrelevant": drop_irrelevant(decision, rng),
        "truncate": truncate(decision),
        "drop_target": drop_target(decision),
        "replace_target": replace_target(decision, [other.target for other in pool], rng),
        "unrelated": unrelated(decision, pool, rng),
    }
    found: dict[str, str] = {}
    for name, text in made.items():
        if text is None or not text.strip():
            return {}, name
        if name != "oracle" and text.strip() == decision.observation.strip():
            return {}, name
        found[name] = text
    return found, None
