"""Trigger flags: what about a state makes a mistake likely. Computed from text alone, cheap, without a model.

A trigger is a predicate over a state and the advice that goes with it; whether the advice is given is decided
by what was mined (``mine``). Flags of one world are in ``worlds``; those here hold in every one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from wmlab.data.decompose import action_type
from wmlab.errors import InputError
from wmlab.skills.outcome import WINDOW, is_refused, is_repeated
from wmlab.skills.state import State

CIRCLE = 8
"""Turns among which at most CIRCLE_NEW different answers mean going in circles."""
CIRCLE_NEW = 4


@dataclass(frozen=True, slots=True)
class Trigger:
    """A flag: its name, when it holds, and what to do then.

    ``by_verb``: mined also for each verb of the last action, since the answer to ``take`` and that to ``go``
    ask for different things.
    """

    name: str
    holds: Callable[[State], bool]
    advice: str
    by_verb: bool = False


def refused(state: State) -> bool:
    """The last action had no effect."""
    return bool(state.turns) and is_refused(state.before(), *state.turns[-1])


def _refused_again(state: State) -> bool:
    return len(state.turns) > 1 and refused(state) and refused(state.before())


def _repeated(state: State) -> bool:
    return bool(state.turns) and is_repeated(state.before(), *state.turns[-1])


def _in_circles(state: State) -> bool:
    recent = [answer for _, answer in state.turns[-CIRCLE:]]
    return len(recent) == CIRCLE and len(set(recent)) <= CIRCLE_NEW


def _no_command(state: State) -> bool:
    return bool(state.turns) and action_type(state.domain, state.action) == "other"


COMMON = (
    Trigger(
        "refused",
        refused,
        "The last action was refused and changed nothing. Do not send it again: check its wording and what it needs first.",
        by_verb=True,
    ),
    Trigger(
        "refused_again",
        _refused_again,
        "Two actions in a row were refused. Read once more what is here, then act only on what was shown.",
    ),
    Trigger(
        "repeated",
        _repeated,
        f"This action got the same answer within the last {WINDOW} turns. Do something that was not tried here yet.",
        by_verb=True,
    ),
    Trigger(
        "in_circles",
        _in_circles,
        "The last turns showed the same few things over and over. Go on to the next part of the task or to a new place.",
    ),
    Trigger(
        "no_command",
        _no_command,
        "The last turn was no command that is known here. Use the verbs of the instructions, one plain command a turn.",
    ),
)


def triggers(domain: str) -> tuple[Trigger, ...]:
    """All triggers of a domain, in a fixed order. Raises InputError for a domain without any."""
    from wmlab.skills.worlds import WORLDS

    if domain not in WORLDS:
        raise InputError(f"domain {domain!r}: no triggers; choose from {', '.join(WORLDS)}")
    return (*COMMON, *WORLDS[domain])


def flags(state: State, known: Iterable[Trigger] | None = None) -> tuple[str, ...]:
    """Names of the triggers that hold, in their order; ``known`` saves looking them up."""
    return tuple(one.name for one in (triggers(state.domain) if known is None else known) if one.holds(state))
