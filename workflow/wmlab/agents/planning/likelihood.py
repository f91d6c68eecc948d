"""A policy for models that choose but cannot follow instructions: everything is read off its likelihoods.

Candidates are the domain's (agents/scripts.py); an action's prior is its log-probability as the agent's next turn.
A step into a state that was seen before, or that the game answers as it did before, has gained nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from wmlab.agents.base import Turn
from wmlab.agents.language_model import ChoosingAgent
from wmlab.agents.planning.requests import (
    Act,
    Answer,
    Candidate,
    Choose,
    Horizon,
    Imagined,
    Path,
    Propose,
    Rate,
    Reflect,
    Request,
    extended,
)
from wmlab.agents.react import format_output
from wmlab.domains.actions import normalise_action
from wmlab.lm.transport import AnswerFailure
from wmlab.lm.tree import Tree
from wmlab.skills.prompt import without_skill

SURE = 0.9
"""Probability of the first action from which a decision looks no further ahead."""
_COUNTERS = re.compile(r"\s*-?\d+/\d+\s*$")


class LikelihoodPolicy:
    """The choosing agent's model, asked how likely each candidate is."""

    def __init__(self, agent: ChoosingAgent) -> None:
        self.agent = agent

    @property
    def system_prompt(self) -> str:
        """The agent's."""
        return self.agent.system_prompt

    def answer(self, requests: Sequence[Request]) -> list[Answer | AnswerFailure]:
        """Answers of requests of one kind."""
        first = requests[0]
        if isinstance(first, Choose):
            return [_chosen(one) for one in requests if isinstance(one, Choose)]
        if isinstance(first, Rate):
            return [_rated(one) for one in requests if isinstance(one, Rate)]
        priors = self._priors([(one.turn, getattr(one, "path", ())) for one in requests])
        return [_read(one, found) for one, found in zip(requests, priors, strict=True)]

    def _priors(self, states: Sequence[tuple[Turn, Path]]) -> list[list[Candidate]]:
        """Each state's candidates with their log-probabilities, the likeliest first."""
        lm, trees, named = self.agent.lm, [], []
        for turn, path in states:
            messages = extended(turn, path).messages
            actions = self.agent.candidates(messages)
            texts = [lm.tokenizer.encode(format_output(one), add_special_tokens=False) for one in actions]
            branches = [[*ids, lm.end_id] for ids in texts]
            trees.append(Tree(lm.encode(messages), branches, [len(ids) for ids in branches]))
            named.append(actions)
        scored = lm.score_trees(trees)
        return [
            sorted(
                (Candidate(action, float(sum(row))) for action, row in zip(actions, rows, strict=True)),
                key=lambda one: -one.prior,
            )
            for actions, rows in zip(named, scored, strict=True)
        ]


def _chosen(one: Choose) -> Answer:
    """The likeliest action among those that gain something; one that wins comes first, one that loses last."""
    values = []
    for option, prior in zip(one.options, one.priors, strict=True):
        gains = not option.done and not repeats(one.turn, one.path, option)
        values.append((2 if option.success else 1 if gains else 0, prior))
    return Answer(max(range(len(values)), key=lambda at: (values[at], -at)), calls=0)


def _rated(one: Rate) -> Answer:
    """RAP's reward without instructions: the probability of the action, 0 where it gains nothing."""
    values = [
        0.0 if repeats(one.turn, one.path, option) else math.exp(min(prior, 0.0))
        for option, prior in zip(one.options, one.priors, strict=True)
    ]
    return Answer(values, calls=0)


def _read(one: Request, found: list[Candidate]) -> Answer:
    """What a request wants of a state's candidates."""
    if isinstance(one, Propose):
        kept = [c for c in found if normalise_action(c.action) not in one.without]
        return Answer(kept[: one.most])
    if isinstance(one, Act):
        return Answer(found[0].action if found else "")
    if isinstance(one, Horizon):
        return Answer(0 if found and math.exp(found[0].prior) >= SURE else one.most)
    assert isinstance(one, Reflect)
    return Answer(_reflected(one, found))


def _reflected(one: Reflect, found: list[Candidate]) -> str:
    """The imagined first action, unless its future gains nothing: then the next likeliest."""
    intended = one.future[0].action
    wins = any(step.success for step in one.future)
    stuck = repeats(one.turn, (), one.future[0]) or one.future[-1].done
    others = [c.action for c in found if normalise_action(c.action) != normalise_action(intended)]
    return others[0] if stuck and not wins and others else intended


def repeats(turn: Turn, path: Path, option: Imagined) -> bool:
    """Whether the state after a step reads as one before it, counters at its end aside."""
    seen = [without_skill(m["content"]) for m in turn.messages if m["role"] == "user"]
    seen += [step.observation for step in path]
    return _plain(option.observation) in map(_plain, seen)


def _plain(text: str) -> str:
    return _COUNTERS.sub("", text.strip())
