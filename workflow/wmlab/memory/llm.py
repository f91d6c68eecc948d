"""Curation by a language model behind any OpenAI-compatible endpoint (contract of memwm.txt, Appendix C.1).

A bucket goes in as JSON, an object ``{"positive", "negative"}`` has to come out: two short texts, worded as
conditions, that copy no object id of the bucket and spell no marker. An answer that breaks the contract is
asked for once more and then replaced by the rule curator's hints; both are counted, never silent. A server
that cannot be reached, or refuses, is a ModelFailure: a bank must not depend on whether a server was up.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from wmlab.lm.answers import json_answer
from wmlab.lm.server import ChatServer
from wmlab.lm.transport import AnswerFailure
from wmlab.memory.bank import show_key
from wmlab.memory.curate import HINT_CHARACTERS, Hints, RuleCurator, ranked
from wmlab.memory.evidence import object_ids
from wmlab.memory.prompt import inert
from wmlab.memory.store import SIDES, Bucket

MAX_TOKENS = 300
_SHOWN = 20
_CONDITIONAL = re.compile(
    r"\b(?:if|when|whenever|where|while|unless|until|once|after|before|in case)\b", re.I
)
SYSTEM = (
    "You write short memory hints for a model that predicts the next state of a text world. "
    "Answer with one JSON object and nothing else."
)
USER = (
    "Below is one bucket of evidence: transitions that share a key, what was really observed, and what a "
    "model left out or invented. Write one entry with two fields. positive: what to keep or predict when "
    "this case applies. negative: the common error to avoid. Word both as conditions, summarise what most "
    "transitions show, copy no object ids, make up no exact states.\nBUCKET_JSON: "
)


def bucket_json(bucket: Bucket) -> str:
    """What the model is shown of a bucket: its key, size and commonest patterns with their counts."""
    shown: dict[str, Any] = {"key": dict(bucket.key), "transitions": bucket.n}
    for side in SIDES:
        shown[side] = dict(ranked(getattr(bucket, side), bucket.n, 0.0, _SHOWN))
    return json.dumps(shown, ensure_ascii=False)


def check_answer(text: str, bucket: Bucket) -> Hints | str:
    """The hints of an answer, or why it breaks the contract."""
    try:
        answer = json_answer(text, "curator")
    except AnswerFailure:
        return "not JSON"
    if not isinstance(answer, dict) or set(answer) != {"positive", "negative"}:
        return "not an object of positive and negative"
    if not all(isinstance(value, str) and value.strip() for value in answer.values()):
        return "a field is not text, or empty"
    forbidden = object_ids([bucket_json(bucket), show_key(bucket.key)])
    for name, value in answer.items():
        line = " ".join(value.split())
        if len(line) > HINT_CHARACTERS:
            return f"{name} is longer than {HINT_CHARACTERS} characters"
        if inert(line) != line:
            return f"{name} spells a marker"
        if not _CONDITIONAL.search(line):
            return f"{name} is not worded as a condition"
        copied = sorted(object_ids([line]) & forbidden) or sorted(_ids_of_episodes(line))
        if copied:
            return f"{name} copies the object id {copied[0]!r}"
    return Hints(" ".join(answer["positive"].split()), " ".join(answer["negative"].split()))


def _ids_of_episodes(line: str) -> frozenset[str]:
    """Numbered names that are no measurement: a hint holds for a bucket, and buckets have types only."""
    plain = re.compile(r"\b(?:is|of|at|to|by|in|least|most|about|for|than|and|or|reads|step|steps) \d+\b")
    return object_ids([plain.sub(" ", line.casefold())])


@dataclass
class LLMCurator:
    """Asks ``model`` at ``url`` (``…/v1``) greedily. The key comes from the environment, and is sent only.

    ``counts`` has ``answered``, ``asked_again``, ``fell_back`` and one row per broken rule of the contract.
    """

    url: str
    model: str
    timeout: float = 60.0
    attempts: int = 3
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._server = ChatServer(self.url, self.model, "curator", self.timeout, self.attempts)

    @property
    def name(self) -> str:
        """Its name, with the model's."""
        return f"llm:{self.model}"

    def curate(self, bucket: Bucket) -> Hints:
        """Hints of a bucket. Raises ModelFailure when the server does not answer."""
        chat = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": USER + bucket_json(bucket)},
        ]
        for again in (False, True):
            text = self._server.ask(chat, MAX_TOKENS)
            hints = check_answer(text, bucket)
            if isinstance(hints, Hints):
                self.counts["answered"] += 1
                return hints
            self.counts["broken: " + hints.partition(" the object id")[0]] += 1
            if not again:
                self.counts["asked_again"] += 1
                chat += [
                    {"role": "assistant", "content": text[:2_000]},
                    {"role": "user", "content": f"That answer is refused: {hints}. Answer again."},
                ]
        self.counts["fell_back"] += 1
        return RuleCurator().curate(bucket)
