"""A policy for models that follow instructions: each request is a prompt, each answer is read by one rule.

The contract is the papers' (behr.txt, Appendix G.4; memwm.txt, Algorithm 2); the wording is ours and the same in
every domain. A question stands at the end of the present observation, behind everything that the agent reads
anyway. An answer that cannot be read falls back to the policy's first proposal and is counted in the plan.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from wmlab.agents.base import Message
from wmlab.agents.planning.requests import (
    Act,
    Answer,
    Candidate,
    Choose,
    Horizon,
    Imagined,
    Propose,
    Rate,
    Reflect,
    Request,
    extended,
)
from wmlab.agents.prompts import Prompting
from wmlab.agents.react import parse_action, without_thinking
from wmlab.agents.scripts import script_of
from wmlab.domains.actions import normalise_action
from wmlab.lm.base import Completion
from wmlab.lm.chat import ChatModel
from wmlab.lm.transport import AnswerFailure
from wmlab.skills.prompt import without_skill

SHOWN_CHARACTERS = 1500
"""Most of a predicted state that a question shows, as released."""
_NUMBERED = re.compile(r"^\s*(?:option\s*)?(\d{1,3})\s*[.):\-]\s*(.*)$", re.IGNORECASE | re.MULTILINE)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class PromptedPolicy:
    """A chat model as the planning agent of a domain."""

    def __init__(self, chat: ChatModel, prompting: Prompting, domain: str) -> None:
        self.chat, self.prompting = chat, prompting
        self._script = script_of(domain)

    @property
    def system_prompt(self) -> str:
        """The agent's."""
        return self.prompting.system

    def answer(self, requests: Sequence[Request]) -> list[Answer | AnswerFailure]:
        """Answers of requests of one kind, from one batch of calls."""
        listed = [self._listed(one) if isinstance(one, Propose) else [] for one in requests]
        asked = [
            at
            for at, one in enumerate(requests)
            if not (isinstance(one, Propose) and len(listed[at]) <= one.most)
        ]
        chats = [self._chat(requests[at], listed[at]) for at in asked]
        said = dict(zip(asked, self.chat.answer([requests[at].turn.key for at in asked], chats), strict=True))
        answers: list[Answer | AnswerFailure] = []
        for at, one in enumerate(requests):
            completion = said.get(at)
            if completion is None:  # no more candidates than are wanted: nothing to ask
                answers.append(Answer([Candidate(action) for action in listed[at]], calls=0))
            elif isinstance(completion, AnswerFailure):
                answers.append(completion)
            else:
                answers.append(_understood(one, completion, listed[at]))
        return answers

    def _listed(self, one: Propose) -> list[str]:
        messages = extended(one.turn, one.path).messages
        observations = [without_skill(m["content"]) for m in messages if m["role"] == "user"]
        actions = [parse_action(m["content"]) for m in messages if m["role"] == "assistant"]
        found = self._script.candidates(observations, actions)
        return [action for action in found if normalise_action(action) not in one.without]

    def _chat(self, one: Request, listed: Sequence[str]) -> list[Message]:
        messages = list(extended(one.turn, getattr(one, "path", ())).messages)
        question = _question(one, listed)
        if question:
            messages[-1] = {**messages[-1], "content": f"{messages[-1]['content']}\n\n{question}"}
        return self.prompting.view(messages)


def _question(one: Request, listed: Sequence[str]) -> str:
    if isinstance(one, Propose):
        lines = "\n".join(f"- {action}" for action in listed)
        return (
            f"Do not act yet. These actions are possible now:\n{lines}\n"
            f"Name the {one.most} that promise most for the goal, the best first, one a line, each as it stands "
            "above, numbered 1. 2. 3. and so on. Write nothing else."
        )
    if isinstance(one, Choose):
        return (
            f"Do not act yet. This is what a model of the world expects of {len(one.options)} actions:\n\n"
            f"{_options(one.options)}\n\nWhich one brings you closest to the goal? Answer with its number alone."
        )
    if isinstance(one, Rate):
        return (
            f"Do not act yet. This is what a model of the world expects of {len(one.options)} actions:\n\n"
            f"{_options(one.options)}\n\nRate how far each brings you towards the goal, from 0 (not at all, or "
            "back) to 10 (done). One line each: its number, a colon, the rating. Write nothing else."
        )
    if isinstance(one, Horizon):
        return (
            f"Do not act yet. How many steps ahead, from 0 to {one.most}, would you need to foresee to choose the "
            "next action well? 0 if it is obvious. Answer with the number alone."
        )
    if isinstance(one, Reflect):
        steps = "\n\n".join(f"{at}. {_option(step)}" for at, step in enumerate(one.future, start=1))
        return (
            f"A model of the world expects this if you go on as you intend:\n\n{steps}\n\nConsider whether that "
            "reaches the goal and what goes wrong on the way; then give your next action in the usual format."
        )
    return ""


def _options(options: Sequence[Imagined]) -> str:
    return "\n\n".join(f"{at}. {_option(option)}" for at, option in enumerate(options, start=1))


def _option(step: Imagined) -> str:
    shown = step.observation.strip()[:SHOWN_CHARACTERS]
    note = "\n(The task would be complete.)" if step.success else ""
    return f"Action: {step.action}\nExpected: {shown}{note}"


def _understood(one: Request, completion: Completion, listed: Sequence[str]) -> Answer:
    text, tokens = without_thinking(completion.text), completion.n_tokens
    if isinstance(one, Act | Reflect):
        action = parse_action(completion.text)
        if isinstance(one, Reflect) and not action:
            return Answer(one.future[0].action, tokens, fallback=True)
        return Answer(action, tokens)
    if isinstance(one, Propose):
        named = _proposed(text, listed)
        chosen = named[: one.most] if len(named) >= 2 else list(listed[: one.most])
        return Answer([Candidate(action) for action in chosen], tokens, fallback=len(named) < 2)
    if isinstance(one, Choose):
        place = _place(text, one.options)
        return Answer(place or 0, tokens, fallback=place is None)
    if isinstance(one, Rate):
        rated = _ratings(text, len(one.options))
        values = [rated.get(at, 0.0) for at in range(len(one.options))]
        return Answer(values, tokens, fallback=len(rated) < len(one.options))
    assert isinstance(one, Horizon)
    number = _NUMBER.search(text)
    steps = one.most if number is None else max(0, min(one.most, int(float(number[0]))))
    return Answer(steps, tokens, fallback=number is None)


def _proposed(text: str, listed: Sequence[str]) -> list[str]:
    """Listed actions that an answer's lines name, exactly or but for their case, in its order."""
    exact = {action.strip(): action for action in listed}
    folded = {_folded(action): action for action in listed}
    found: dict[str, None] = {}
    for line in text.splitlines():
        told = re.sub(r"^\s*(?:\d{1,3}\s*[.):\-]|[-*])\s*", "", line).strip().strip("`*\"'")
        action = exact.get(told) or folded.get(_folded(told))
        if action is not None:
            found[action] = None
    return list(found)


def _place(text: str, options: Sequence[Imagined]) -> int | None:
    """The option that an answer means: its number, or its action's text; None when it says neither."""
    stripped = text.strip().strip("`*\"' .")
    named = [at for at, one in enumerate(options) if _folded(one.action) == _folded(stripped)]
    if named:
        return named[0]
    number = re.match(r"(?:option\s*)?(\d{1,3})\b", stripped, re.IGNORECASE)
    if number is not None and 1 <= int(number[1]) <= len(options):
        return int(number[1]) - 1
    told = _folded(parse_action(text))
    return next((at for at, one in enumerate(options) if told and _folded(one.action) == told), None)


def _ratings(text: str, n: int) -> dict[int, float]:
    """Ratings in [0, 1] by option; a line that is no rating of an option is passed over."""
    found: dict[int, float] = {}
    for line in _NUMBERED.finditer(text):
        at, value = int(line[1]) - 1, _NUMBER.search(line[2])
        if 0 <= at < n and value is not None:
            found[at] = max(0.0, min(10.0, float(value[0]))) / 10
    return found


def _folded(action: str) -> str:
    """An action as comparisons of a model's text see it: case aside."""
    return normalise_action(action).casefold()
