"""Single-step scores of predicted observations (metrics.md section 3, design.md section 9).

:func:`score_pairs` scores pairs that are in memory. :func:`score_stream` scores JSON Lines of any length
in bounded memory, with one process or several: whole lines go to the workers in chunks, at most a few of
which are under way, and whole lines come back in order.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import orjson

from wmlab.errors import EnvironmentFailure, InputError
from wmlab.io.executor import spawned
from wmlab.lm.transport import AnswerFailure
from wmlab.metrics import ssf, text
from wmlab.metrics.ssf.extractor import Extractor

Extracted = ssf.Facts | AnswerFailure
METRICS = ("em", "f1", "rouge_l", "ssf")
CHUNK_LINES = 1_000
CHUNK_BYTES = 1 << 20
AHEAD = 3
"""Chunks a worker may have waiting: memory is bounded by their size whatever the input's."""


@dataclass
class Totals:
    """What a stream came to: rows written, rows failed, the sum of each metric over the others."""

    rows: int = 0
    failed: int = 0
    sums: dict[str, float] = field(default_factory=dict)

    def add(self, other: Totals) -> None:
        """Take in the totals of a further chunk."""
        self.rows += other.rows
        self.failed += other.failed
        for name, value in other.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def means(self) -> dict[str, float]:
        """The mean of each metric; {} when nothing was scored."""
        n = self.rows - self.failed
        return {name: value / n for name, value in self.sums.items()} if n else {}


def check_metrics(domain: str, metrics: Sequence[str]) -> None:
    """Raises InputError for an unknown metric, or for ``ssf`` in a domain without a parser."""
    unknown = [name for name in metrics if name not in METRICS]
    if unknown or not metrics:
        named = ", ".join(unknown) or "none given"
        raise InputError(f"metrics: {named} unknown; choose from {', '.join(METRICS)}")
    if "ssf" in metrics and domain not in ssf.PARSERS:
        raise InputError(
            f"domain {domain!r}: no SSF parser; leave ssf out or use {', '.join(sorted(ssf.PARSERS))}"
        )


def _problem(pair: Any) -> str | None:
    """Why a pair cannot be scored, or None."""
    if not isinstance(pair, Mapping):
        return "not a JSON object; write {id, prediction, gold}"
    for key in ("id", "prediction", "gold"):
        if key not in pair or pair[key] is None:
            return f"{key} is missing; write {{id, prediction, gold}}"
    for key in ("prediction", "gold"):
        if not isinstance(pair[key], str):
            return f"{key} is {type(pair[key]).__name__}, not text; write a string"
    return None


def _text_scores(prediction: str, gold: str, metrics: Sequence[str]) -> dict[str, float]:
    """The wanted ones of em, f1 and rouge_l; the last two share their tokens and bounds."""
    if prediction == gold:
        return {name: 1.0 for name in metrics if name != "ssf"}
    scores: dict[str, float] = {}
    if "em" in metrics:
        scores["em"] = text.exact_match(prediction, gold)
    if "f1" in metrics or "rouge_l" in metrics:
        pair = text.Tokens.of(prediction, gold)
        most, least = pair.overlap()
        if "f1" in metrics:
            scores["f1"] = pair.f_measure(most)
        if "rouge_l" in metrics:
            scores["rouge_l"] = pair.f_measure(pair.subsequence(most, least))
    return scores


def _extracted(extractor: Extractor, pairs: Sequence[Any]) -> dict[str, Extracted]:
    """The facts of every text of the pairs that can be scored."""
    sides = ((pair["prediction"], pair["gold"]) for pair in pairs if _problem(pair) is None)
    texts = list(dict.fromkeys(chain.from_iterable(sides)))
    return dict(zip(texts, extractor.extract(texts), strict=True))


def _compare(
    domain: str, prediction: str, gold: str, found: Mapping[str, Extracted] | None
) -> ssf.Comparison | AnswerFailure | None:
    """SSF of a pair by the domain's rules, or of the facts found; None where the domain has no parser."""
    if found is None:
        return ssf.compare(domain, prediction, gold) if domain in ssf.PARSERS else None
    left, right = found[prediction], found[gold]
    if isinstance(left, AnswerFailure):
        return left
    return right if isinstance(right, AnswerFailure) else ssf.compare_facts(left, right)


def _score_pair(
    domain: str,
    number: int,
    pair: Any,
    metrics: Sequence[str],
    found: Mapping[str, Extracted] | None = None,
) -> dict[str, Any]:
    problem = _problem(pair)
    if problem is not None:
        identity = pair.get("id") if isinstance(pair, Mapping) else None
        return {"id": identity, "error": f"pair {number}: {problem}"}
    prediction, gold = pair["prediction"], pair["gold"]
    row: dict[str, Any] = {"id": pair["id"]}
    compared = _compare(domain, prediction, gold, found)
    if isinstance(compared, AnswerFailure):
        return {**row, "error": f"pair {number}: {compared}"}
    row |= _text_scores(prediction, gold, metrics)
    if compared is not None and "ssf" in metrics:
        row["ssf"] = compared.score
    if compared is not None:
        row["facts_prediction"] = sorted(compared.facts_prediction)
        row["facts_gold"] = (
            row["facts_prediction"]
            if compared.facts_gold is compared.facts_prediction
            else sorted(compared.facts_gold)
        )
        if "ssf" in metrics and compared.both_empty:
            row["flags"] = ["ssf_both_empty"]
    return row


def score_pairs(domain: str, pairs: Iterable[Any], metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Score pairs ``{"id", "prediction", "gold"}``; one row each, in order.

    A row is ``{"id", <metric>: float in [0, 1] …}`` and, where the domain has a fact parser,
    ``"facts_prediction"`` and ``"facts_gold"`` (sorted lists); with ``ssf`` and two empty fact sets it
    carries ``"flags": ["ssf_both_empty"]``. A pair that cannot be scored gives ``{"id", "error"}``, never a
    number. Raises InputError for an unknown metric, or for ``ssf`` in a domain without a parser.
    """
    check_metrics(domain, metrics)
    return [_score_pair(domain, number, pair, metrics) for number, pair in enumerate(pairs, start=1)]


@dataclass(frozen=True)
class Chunk:
    """Whole lines of the input; ``first`` is the number of the first (1-based), ``last`` ends the input."""

    lines: tuple[bytes, ...]
    first: int
    last: bool


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
"""Reads what orjson does not, and says what is wrong with a line: lone surrogates, integers of any size."""


def _decode(line: bytes, number: int, source: str) -> Any:
    """The object on a line. Raises InputError naming file and row."""
    try:
        value = orjson.loads(line)
    except ValueError:
        value = None
    # orjson makes a float of an integer beyond 64 bits; a row must carry its id unchanged.
    if type(value) is dict and type(value.get("id")) in (str, int):
        return value
    try:
        value = _DECODER.decode(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError.at(source, f"not JSON ({error})", "fix or remove the line", number) from None
    if not isinstance(value, dict):
        raise InputError.at(source, "not a JSON object", "write one object a line", number)
    return value


def _encode(row: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # a lone surrogate, which JSON can write only as an escape, or a long integer
        return json.dumps(row, allow_nan=False).encode() + b"\n"


def _pairs(source: str, chunk: Chunk) -> Iterator[tuple[int, Any]]:
    """Numbers and objects of a chunk's lines. Raises InputError for a line that is no JSON object."""
    for number, line in enumerate(chunk.lines, start=chunk.first):
        if not line.strip():
            continue
        try:
            yield number, _decode(line, number, source)
        except InputError:
            if chunk.last and number == chunk.first + len(chunk.lines) - 1 and not line.endswith(b"\n"):
                return  # the mark of a killed writer
            raise


def score_chunk(
    domain: str, metrics: Sequence[str], source: str, chunk: Chunk, extractor: Extractor | None = None
) -> tuple[bytes, Totals]:
    """The output lines of a chunk and their totals. Raises InputError for a line that is no JSON object."""
    totals = Totals(sums=dict.fromkeys(metrics, 0.0))
    out: list[bytes] = []
    numbered = list(_pairs(source, chunk))
    found = _extracted(extractor, [pair for _, pair in numbered]) if extractor is not None else None
    for number, pair in numbered:
        row = _score_pair(domain, number, pair, metrics, found)
        totals.rows += 1
        if "error" in row:
            totals.failed += 1
        else:
            for name in metrics:
                totals.sums[name] += row[name]
        out.append(_encode(row))
    return b"".join(out), totals


def _chunks(lines: Iterable[bytes]) -> Iterator[Chunk]:
    """Lines in chunks of at most CHUNK_LINES lines and about CHUNK_BYTES bytes."""
    kept: list[bytes] = []
    size, first = 0, 1
    for line in lines:
        if len(kept) >= CHUNK_LINES or size >= CHUNK_BYTES:
            yield Chunk(tuple(kept), first, False)
            first += len(kept)
            kept, size = [], 0
        kept.append(line)
        size += len(line)
    yield Chunk(tuple(kept), first, True)


def score_stream(
    domain: str,
    lines: Iterable[bytes],
    metrics: Sequence[str],
    write: Callable[[bytes], object],
    *,
    workers: int = 1,
    source: str = "input",
    extractor: Extractor | None = None,
) -> Totals:
    """Score JSON Lines (with their line ends) and write the rows of :func:`score_pairs` in order.

    A pair that cannot be scored gives ``{"id", "error"}``; a line that is no JSON object raises InputError
    naming ``source`` and the line, except a torn last one, which is dropped. Memory is bounded by
    ``workers * AHEAD`` chunks. Raises EnvironmentFailure when a worker process dies. An ``extractor`` that asks
    a model reads the facts instead of the domain's rules, a chunk at a time, in this process; a text without
    facts for a failure gives ``{"id", "error"}``, and ServerFailure ends the stream.
    """
    check_metrics(domain, metrics)
    if extractor is not None and workers > 1:
        raise InputError("--workers: a model extracts in one process; use --workers 1 and --concurrency")
    totals = Totals(sums=dict.fromkeys(metrics, 0.0))

    def finish(result: tuple[bytes, Totals]) -> None:
        write(result[0])
        totals.add(result[1])

    if workers == 1:
        for chunk in _chunks(lines):
            finish(score_chunk(domain, metrics, source, chunk, extractor))
        return totals
    waiting: deque[Future[tuple[bytes, Totals]]] = deque()
    with spawned(workers) as pool:
        try:
            for chunk in _chunks(lines):
                if len(waiting) >= workers * AHEAD:
                    finish(waiting.popleft().result())
                waiting.append(pool.submit(score_chunk, domain, tuple(metrics), source, chunk))
            while waiting:
                finish(waiting.popleft().result())
        except BrokenProcessPool:
            raise EnvironmentFailure(
                "a scoring worker died (out of memory?); use fewer --workers or look at the longest lines"
            ) from None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return totals
