"""Single-step scores of predicted observations (metrics.md section 3, design.md section 9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from wmlab.errors import InputError
from wmlab.metrics import ssf, text

TEXT_METRICS: dict[str, Callable[[str, str], float]] = {
    "em": text.exact_match,
    "f1": text.token_f1,
    "rouge_l": text.rouge_l,
}
METRICS = (*TEXT_METRICS, "ssf")


def _check_metrics(domain: str, metrics: Sequence[str]) -> None:
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


def score_pairs(domain: str, pairs: Iterable[Any], metrics: Sequence[str]) -> list[dict[str, Any]]:
    """Score pairs ``{"id", "prediction", "gold"}``; one row each, in order.

    A row is ``{"id", <metric>: float in [0, 1] …}`` and, where the domain has a fact parser,
    ``"facts_prediction"`` and ``"facts_gold"`` (sorted lists); with ``ssf`` and two empty fact sets it
    carries ``"flags": ["ssf_both_empty"]``. A pair that cannot be scored gives ``{"id", "error"}``, never a
    number. Raises InputError for an unknown metric, or for ``ssf`` in a domain without a parser.
    """
    _check_metrics(domain, metrics)
    rows: list[dict[str, Any]] = []
    for number, pair in enumerate(pairs, start=1):
        problem = _problem(pair)
        if problem is not None:
            identity = pair.get("id") if isinstance(pair, Mapping) else None
            rows.append({"id": identity, "error": f"pair {number}: {problem}"})
            continue
        prediction, gold = pair["prediction"], pair["gold"]
        row: dict[str, Any] = {"id": pair["id"]}
        compared = ssf.compare(domain, prediction, gold) if domain in ssf.PARSERS else None
        for name in metrics:
            if name in TEXT_METRICS:
                row[name] = TEXT_METRICS[name](prediction, gold)
            elif compared is not None:
                row[name] = compared.score
        if compared is not None:
            row["facts_prediction"] = sorted(compared.facts_prediction)
            row["facts_gold"] = sorted(compared.facts_gold)
            if "ssf" in metrics and compared.both_empty:
                row["flags"] = ["ssf_both_empty"]
        rows.append(row)
    return rows
