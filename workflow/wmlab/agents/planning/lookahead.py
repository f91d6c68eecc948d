"""K-step lookahead (behr.txt 6.2, Appendix G.4) and MemWM's planning (memwm.txt, Algorithm 2).

Both propose K actions, imagine the state after each, and take the best: one proposal, K world-model calls and one
decision, K+2 in all. They differ in the decision: lookahead chooses among the imagined states, MemWM rates each and
takes the largest J. Memory (in the simulator), task skills and corrective guidance (in the dialogue that the policy
reads) come from outside. What is executed is observed in the world, and that is what the next decision sees.

The released script's heuristics, which its paper does not have (formats.md 6.9), are switches, off by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from wmlab.agents.base import Message, Turn
from wmlab.agents.planning.requests import Act, Candidate, Choose, Imagine, Plan, Propose, Rate, Thinking
from wmlab.agents.react import parse_action
from wmlab.domains.actions import normalise_action
from wmlab.skills.prompt import without_skill


@dataclass(frozen=True)
class Lookahead:
    """``candidates`` is K. ``decide``: ``choose`` (lookahead) or ``rate`` (MemWM)."""

    candidates: int = 5
    decide: Literal["choose", "rate"] = "choose"
    block_loops: bool = False
    force_options: bool = False

    def __call__(self, turn: Turn) -> Thinking:
        """One decision."""
        barred = self._barred(turn.messages)
        found: list[Candidate] = yield Propose(turn, self.candidates, without=barred)
        if len(found) < 2:
            return (yield from _without_planning(turn, found, barred))
        states = yield Imagine(turn, tuple(one.action for one in found))
        priors = tuple(one.prior for one in found)
        if self.decide == "choose":
            chosen: int = yield Choose(turn, tuple(states), priors)
            values: list[float] | None = None
        else:
            values = yield Rate(turn, tuple(states), priors)
            assert values is not None
            chosen = max(range(len(values)), key=lambda at: (values[at], -at))
        options = [
            {
                "action": state.action,
                "prior": one.prior,
                "prediction": state.observation,
                "success": state.success,
                **({} if values is None else {"value": values[at]}),
            }
            for at, (one, state) in enumerate(zip(found, states, strict=True))
        ]
        return Plan(found[chosen].action, {"kind": "lookahead", "options": options, "chosen": chosen})

    def _barred(self, messages: Sequence[Message]) -> frozenset[str]:
        """Actions that the switched-on heuristics take out of the candidates."""
        done = [normalise_action(parse_action(m["content"])) for m in messages if m["role"] == "assistant"]
        barred: set[str] = set()
        if self.block_loops and len(done) >= 2 and done[-1] == done[-2]:
            barred.add(done[-1])
        if self.block_loops and len(done) >= 3 and done[-1] == done[-3] and done[-1] != done[-2]:
            barred.add(done[-2])  # A-B-A: no second B
        if self.force_options and _options_open(messages, done):
            barred.add("click[buy now]")
        return frozenset(barred)


def _without_planning(turn: Turn, found: Sequence[Candidate], barred: frozenset[str]) -> Thinking:
    """What the agent does where there is nothing to choose between: its own action, or the only one left."""
    if found:
        return Plan(found[0].action, {"kind": "single"})
    action: str = yield Act(turn)
    return Plan(action, {"kind": "act"})


def _options_open(messages: Sequence[Message], done: Sequence[str]) -> bool:
    """Whether the present page is a product with a group of options of which no value was clicked (WebShop)."""
    from wmlab.domains.webshop.pages import ItemPage, read

    reading = read(without_skill(messages[-1]["content"]))
    if reading is None or not isinstance(reading.page, ItemPage) or reading.admissible is None:
        return False
    values = {action.lower() for action in reading.admissible}
    groups: list[set[str]] = []
    for text in reading.page.options:  # names and values in one run: a name cannot be clicked
        click = f"click[{text}]".lower()
        if click not in values:
            groups.append(set())
        elif groups:
            groups[-1].add(click)
    return any(group and not group & set(done) for group in groups)
