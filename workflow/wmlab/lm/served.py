"""A frozen model behind OpenAI-compatible servers (vLLM), asked by token ids.

Two ways to score, the same numbers. vLLM's own ``/inference/v1/generate`` (``--enable-scale-out``, model runner V2,
so a GPU) takes the ids to score and where they start: it answers with those alone. Other servers have ``/v1/completions`` with ``prompt_logprobs``, which computes
and sends a distribution for every prompt token; that this is used is said once.

Several servers of one model share the requests. One that answers nothing any more is left out, and asked for its
health now and then; what it left unanswered goes to the others. Without any left, ServerFailure.
"""

from __future__ import annotations

import base64
import io
import json
import math
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from wmlab.errors import InputError
from wmlab.lm.base import Completion, Sampling
from wmlab.lm.transport import AnswerFailure, NoAnswer, ServerFailure, Transport, several
from wmlab.lm.tree import Tree

HEALTH_EVERY_S = 10.0
LARGEST_ANSWER_BYTES = 64 << 20
_FIXED = "/inference/v1/generate"
_ROUNDING = 1e-3  # a log-probability may stand this far above 0


class ServedModel:
    """``model`` at every one of ``urls`` (``…/v1``); ``tokenizer`` is the model's own. Safe for threads.

    Raises InputError when no server lists the model, ServerFailure when none can be asked.
    """

    def __init__(
        self,
        urls: Sequence[str],
        model: str,
        tokenizer: Any,
        model_id: str,
        max_context: int,
        *,
        timeout: float = 120.0,
        attempts: int = 4,
        concurrency: int = 16,
    ) -> None:
        if not urls:
            raise InputError("reference agent: no server given; give the URL of one")
        self.tokenizer, self._model_id, self._max_context = tokenizer, model_id, max_context
        self._servers = [
            Transport(url, model, "reference agent", timeout, attempts, concurrency, LARGEST_ANSWER_BYTES)
            for url in urls
        ]
        self._open = dict.fromkeys(range(len(urls)), 0)
        self._asked_health = [0.0] * len(urls)
        self._lock = threading.Lock()
        for server in self._servers:
            _check_model(server)
        there = [server for server in self._servers if not server.lost]
        if not there:
            raise ServerFailure(f"{self._servers[0].where}: no server answers; start it or correct the URL")
        self.fixed = all(_takes_fixed_ids(server) for server in there)
        if not self.fixed:
            print(
                "reference agent: a server has no fixed-token scoring (vLLM: --enable-scale-out, model runner V2);"
                " prompt_logprobs is used, which computes every prompt token anew",
                file=sys.stderr,
            )

    @property
    def model_id(self) -> str:
        """Name of the model in records."""
        return self._model_id

    @property
    def max_context(self) -> int:
        """Most tokens of a prompt; one more is generated."""
        return self._max_context - 1

    def prefill(self, trees: Sequence[Tree]) -> int:
        """Prompt tokens that are sent; a server that caches prefixes computes fewer."""
        return sum(len(tree.prefix) + len(branch) for tree in trees for branch in tree.branches)

    def score_trees(self, trees: Sequence[Tree]) -> list[list[list[float] | AnswerFailure]]:
        """Per tree and branch, log-probabilities (nats) of its scored tokens, or why there are none.

        Raises ServerFailure when no server is left.
        """
        asked = [
            ([*tree.prefix, *branch], scored)
            for tree in trees
            for branch, scored in zip(tree.branches, tree.scored, strict=True)
        ]
        found = iter(self._each(self._score, asked))
        return [[next(found) for _ in tree.branches] for tree in trees]

    def generate_ids(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[list[Completion]]:
        """(prompts,) of token ids → (prompts, n) completions, without their token ids.

        Raises AnswerFailure for the first prompt without an answer, ServerFailure without a server.
        """

        def ask(prompt: Sequence[int]) -> list[Completion]:
            body = {
                "prompt": list(prompt),
                "n": sampling.n,
                "temperature": sampling.temperature,
                "max_tokens": sampling.max_new_tokens,
                "seed": sampling.seed,
            }
            answer = self._ask("completions", body)
            try:
                return [
                    Completion(str(one["text"]), (), str(one["finish_reason"])) for one in answer["choices"]
                ]
            except (KeyError, TypeError):
                raise AnswerFailure("reference agent: an answer is no completion") from None

        found = []
        for answers in self._each(ask, [list(prompt) for prompt in prompts]):
            if isinstance(answers, AnswerFailure):
                raise answers
            found.append(answers)
        return found

    def _each(self, ask: Any, asked: list[Any]) -> list[Any]:
        return several(ask, asked, sum(server.concurrency for server in self._servers))

    def _score(self, asked: tuple[list[int], int]) -> list[float]:
        ids, scored = asked
        if self.fixed:
            start = len(ids) - scored - 1
            rows = [[token] for token in ids[-scored:]]
            sampling = {
                "max_tokens": 1,
                "temperature": 0.0,
                "prompt_logprob_token_ids": rows,
                "prompt_logprob_start": start,
            }
            answer = self._ask(_FIXED, {"token_ids": ids, "sampling_params": sampling})
            values = _fixed_values(answer, scored)
        else:
            body = {"prompt": ids, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0}
            values = _prompt_values(self._ask("completions", body), ids, scored)
        if not all(math.isfinite(value) and value <= _ROUNDING for value in values):
            raise AnswerFailure("reference agent: an answer holds what is no log-probability")
        return values

    def _ask(self, route: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer of the least busy server; what it leaves unanswered is asked of the others."""
        tried: set[int] = set()
        last: AnswerFailure | ServerFailure | None = None
        while True:
            place = self._choose(tried)
            if place is None:
                if isinstance(last, NoAnswer) and not all(server.lost for server in self._servers):
                    raise last
                if len(self._servers) == 1 and isinstance(last, ServerFailure):
                    raise last
                raise ServerFailure(
                    f"no server is left ({last or 'none answered before'}); check them, run again"
                )
            tried.add(place)
            server = self._servers[place]
            try:
                content = server.request(route, {"model": server.model, **body})
                answer = json.loads(content)
            except (NoAnswer, ServerFailure) as failure:
                last = failure
                continue
            except (ValueError, RecursionError):
                raise AnswerFailure(f"{server.where}: its answer is no JSON") from None
            finally:
                with self._lock:
                    self._open[place] -= 1
            if not isinstance(answer, dict):
                raise AnswerFailure(f"{server.where}: its answer is no object")
            return answer

    def _choose(self, tried: set[int]) -> int | None:
        """The server with the fewest requests under way; one that was lost only when it is healthy again."""
        for place, server in enumerate(self._servers):
            if server.lost and place not in tried:
                self._revive(place)
        with self._lock:
            left = [
                place for place, server in enumerate(self._servers) if place not in tried and not server.lost
            ]
            if not left:
                return None
            chosen = min(left, key=lambda place: self._open[place])
            self._open[chosen] += 1
            return chosen

    def _revive(self, place: int) -> None:
        with self._lock:
            now = time.monotonic()
            if now - self._asked_health[place] < HEALTH_EVERY_S:
                return
            self._asked_health[place] = now
        server = self._servers[place]
        probe = Transport(server.url, server.model, server.purpose, timeout=5.0, attempts=1)
        try:
            healthy = probe.status("/health") == 200
        except (AnswerFailure, ServerFailure):
            healthy = False
        if healthy:
            print(f"{server.where}: it answers again", file=sys.stderr)
            server.find()


def _check_model(server: Transport) -> None:
    """Raise InputError when the server does not list the model, naming those it has; one that is away is lost."""
    try:
        names = [str(entry["id"]) for entry in json.loads(server.request("models", None))["data"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ServerFailure(f"{server.where}: its list of models cannot be read") from None
    except NoAnswer as failure:
        print(f"{failure}; it is left out until it is healthy", file=sys.stderr)
        server.lose()
        return
    except AnswerFailure as failure:
        raise ServerFailure(str(failure)) from None
    if server.model not in names:
        listed = ", ".join(sorted(names)) or "none"
        raise InputError(f"{server.where}: it has no model {server.model!r}; it lists {listed}")


def _takes_fixed_ids(server: Transport) -> bool:
    """Whether the server scores ids that it is given: asked with a prompt of two tokens."""
    sampling = {"max_tokens": 1, "prompt_logprob_token_ids": [[1]], "prompt_logprob_start": 0}
    body = {"model": server.model, "token_ids": [1, 1], "sampling_params": sampling}
    try:
        _fixed_values(json.loads(server.request(_FIXED, body)), 1)
    except NoAnswer as failure:
        raise ServerFailure(str(failure)) from None
    except (AnswerFailure, ServerFailure, ValueError, RecursionError):
        return False
    return True


def _fixed_values(answer: dict[str, Any], scored: int) -> list[float]:
    """The values of a fixed-token answer: an array (scored, 1) in NumPy's format, base64."""
    try:
        raw = base64.b64decode(answer["prompt_token_id_logprobs"], validate=True)
        values = np.load(io.BytesIO(raw), allow_pickle=False)
    except (KeyError, TypeError, ValueError, EOFError, OSError):
        raise AnswerFailure("reference agent: an answer holds no scores") from None
    if values.shape != (scored, 1) or values.dtype.kind != "f":
        raise AnswerFailure(f"reference agent: {values.shape} scores instead of {(scored, 1)}")
    return [float(value) for value in values[:, 0]]


def _prompt_values(answer: dict[str, Any], ids: Sequence[int], scored: int) -> list[float]:
    """The last ``scored`` of a prompt's log-probabilities; each must be of the token that was sent."""
    try:
        rows = answer["choices"][0]["prompt_logprobs"]
        if rows is None:
            raise KeyError
        if len(rows) != len(ids):
            raise AnswerFailure(
                f"reference agent: log-probabilities of {len(rows)} tokens instead of {len(ids)}"
            )
        found = []
        for row, token in zip(rows[-scored:], ids[-scored:], strict=True):
            if str(token) not in row:
                raise AnswerFailure("reference agent: log-probabilities of other tokens than were sent")
            found.append(float(row[str(token)]["logprob"]))
    except (KeyError, IndexError, TypeError, ValueError):
        raise AnswerFailure("reference agent: an answer holds no log-probabilities") from None
    return found
