"""Agreement of the metrics with blinded human judgements (memwm.txt B.6, Table 5).

:func:`draw_sheet` makes two CSV files. The **sheet** goes to the annotator, in random order, without model,
memory condition or any score; the **key** stays behind:

==========  ==========================================================================================
sheet       ``item_id``, ``domain``, ``action``, ``gold``, ``prediction``, ``faithful``, ``comment``
key         ``item_id``, ``domain``, ``transition_id``, ``model_id``, ``em``, ``f1``, ``ssf``
==========  ==========================================================================================

The annotator fills ``faithful`` with a number from 0 (the facts that later actions depend on are wrong) to 1
(all are kept; another wording does not count); 0 and 1 alone are fine. Pairs are stratified by SSF: each of
[0, .2), [.2, .4), [.4, .6), [.6, .8), [.8, 1) and 1 gets as many as the others, as far as there are any.

:func:`agreement` reads both back: Pearson and Spearman of each metric with the judgement, AUROC and AUPRC
(average precision) of finding faithful pairs (judgement of at least 0.5). A statistic that is undefined,
such as AUROC with one class only, is null with a reason.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmlab.errors import InputError
from wmlab.metrics.perturb.audit import pair_scores
from wmlab.metrics.ssf import PARSERS
from wmlab.stats.arrays import mid_ranks
from wmlab.stats.correlation import spearman

SHEET = ("item_id", "domain", "action", "gold", "prediction", "faithful", "comment")
KEY = ("item_id", "domain", "transition_id", "model_id", "em", "f1", "ssf")
METRICS = ("em", "f1", "ssf")
STRATA = 5
FAITHFUL = 0.5

Array = NDArray[np.float64]


def stratum(score: float) -> int:
    """0 to 4 for the fifths of [0, 1), 5 for 1."""
    return STRATA if score >= 1.0 else int(score * STRATA)


def draw_sheet(
    transitions: Sequence[Mapping[str, Any]], predictions: Sequence[Mapping[str, Any]], *, n: int, seed: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of the sheet and of the key, at most ``n`` pairs a domain, equal texts and repeats left out.

    Raises InputError when no prediction of a domain with an SSF parser fits a transition.
    """
    golds = {row["transition_id"]: row for row in transitions if row["domain"] in PARSERS}
    strata: dict[str, list[list[dict[str, Any]]]] = {}
    seen: set[tuple[str, str]] = set()
    for row in predictions:
        gold = golds.get(row["transition_id"])
        if gold is None or (gold["observation"], row["prediction"]) in seen:
            continue
        seen.add((gold["observation"], row["prediction"]))
        scores = pair_scores(gold["domain"], row["prediction"], gold["observation"])
        entry = {**scores, **{k: row[k] for k in ("transition_id", "model_id", "prediction")}, "row": gold}
        of_domain = strata.setdefault(gold["domain"], [[] for _ in range(STRATA + 1)])
        of_domain[stratum(scores["ssf"])].append(entry)
    if not strata:
        raise InputError("annotation sheet: no prediction fits a transition of a domain with an SSF parser")
    rng = np.random.default_rng(seed)
    drawn: list[dict[str, Any]] = []
    for domain in sorted(strata):
        queues = [[group[i] for i in rng.permutation(len(group))] for group in strata[domain]]
        turn = [entry for row in _in_turn(queues) for entry in row]
        drawn += turn[:n]
    order = rng.permutation(len(drawn)).tolist()
    sheet, key = [], []
    for number, index in enumerate(order, start=1):
        entry = drawn[index]
        gold = entry["row"]
        item = {"item_id": f"item_{number:04d}", "domain": gold["domain"]}
        shown = {"action": gold["action"], "gold": gold["observation"], "prediction": entry["prediction"]}
        sheet.append({**item, **shown, "faithful": "", "comment": ""})
        key.append({**item, **{name: entry[name] for name in KEY[2:]}})
    return sheet, sorted(key, key=lambda row: str(row["item_id"]))


def _in_turn(queues: Sequence[Sequence[dict[str, Any]]]) -> list[list[dict[str, Any]]]:
    """First entries of all queues, then second ones, and so on."""
    longest = max(map(len, queues))
    return [[queue[place] for queue in queues if place < len(queue)] for place in range(longest)]


def csv_text(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """A CSV file with a header; line breaks inside fields are kept, quoted."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def read_csv(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Rows of a CSV file that has at least ``columns``. Raises InputError naming file and row."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise InputError.at(path, f"columns {missing} are missing", f"keep {', '.join(columns)}")
            rows = list(reader)
    except FileNotFoundError:
        raise InputError.at(path, "file not found", "make it with `wmlab eval sheet`") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError.at(path, f"cannot be read ({error})", "give a UTF-8 CSV file") from None
    for number, row in enumerate(rows, start=1):
        if any(row[name] is None for name in columns):
            raise InputError.at(path, "too few columns", f"fill {', '.join(columns)}", number)
    return rows


def _number(path: Path, row: Mapping[str, str], name: str, number: int) -> float:
    try:
        value = float(row[name])
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= 1.0:
        raise InputError.at(path, f"{name} is {row[name]!r}", "write a number from 0 to 1", number)
    return value


def agreement(sheet: Path, key: Path, *, seed: int = 0) -> dict[str, Any]:
    """Table 5 by domain and over all: ``{"n", "n_faithful", metric: {pearson, spearman, auroc, auprc}}``.

    Items without a judgement are left out and counted (``n_unjudged``). Raises InputError for an unknown
    or repeated item, a judgement that is no number from 0 to 1, or when nothing was judged.
    """
    known: dict[str, dict[str, float]] = {}
    domains: dict[str, str] = {}
    for number, row in enumerate(read_csv(key, KEY), start=1):
        known[row["item_id"]] = {name: _number(key, row, name, number) for name in METRICS}
        domains[row["item_id"]] = row["domain"]
    judged: dict[str, float] = {}
    unjudged = 0
    for number, row in enumerate(read_csv(sheet, ("item_id", "faithful")), start=1):
        item = row["item_id"]
        if item not in known:
            raise InputError.at(sheet, f"item {item!r} is not in {key}", "give the key of this sheet", number)
        if item in judged:
            raise InputError.at(sheet, f"item {item!r} is repeated", "judge each item once", number)
        if not row["faithful"].strip():
            unjudged += 1
            continue
        judged[item] = _number(sheet, row, "faithful", number)
    if not judged:
        raise InputError.at(sheet, "no item is judged", "fill the column faithful with numbers from 0 to 1")
    groups = {"all": list(judged)}
    for item in judged:
        groups.setdefault(domains[item], []).append(item)
    return {
        "n_unjudged": unjudged,
        "tables": {
            name: _table([judged[i] for i in items], [known[i] for i in items], seed)
            for name, items in groups.items()
        },
    }


def _table(judgements: Sequence[float], scores: Sequence[Mapping[str, float]], seed: int) -> dict[str, Any]:
    truth = np.asarray(judgements, dtype=np.float64)
    faithful = truth >= FAITHFUL
    table: dict[str, Any] = {"n": len(judgements), "n_faithful": int(faithful.sum())}
    for metric in METRICS:
        values = np.asarray([row[metric] for row in scores], dtype=np.float64)
        rho = spearman(values, truth, seed=seed) if values.size > 1 else None
        found = {
            "pearson": pearson(values, truth),
            "spearman": None if rho is None else rho.rho,
            "auroc": auroc(values, faithful),
            "auprc": average_precision(values, faithful),
        }
        table[metric] = {**found, "spearman_ci95": None if rho is None or rho.ci is None else list(rho.ci)}
        undefined = [name for name, value in found.items() if value is None]
        table[metric]["reason"] = f"{', '.join(undefined)}: one side is constant" if undefined else None
    return table


def pearson(x: Array, y: Array) -> float | None:
    """Correlation of two vectors of one length; None when either is constant."""
    left, right = x - x.mean(), y - y.mean()
    scale = math.sqrt(math.fsum(left * left) * math.fsum(right * right))
    return None if scale == 0.0 else max(-1.0, min(1.0, math.fsum(left * right) / scale))


def auroc(scores: Array, positive: NDArray[np.bool_]) -> float | None:
    """Probability that a positive scores above a negative, ties half; None without both classes."""
    n_positive = int(positive.sum())
    n_negative = positive.size - n_positive
    if not n_positive or not n_negative:
        return None
    ranks = float(mid_ranks(scores)[positive].sum())
    return (ranks - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative)


def average_precision(scores: Array, positive: NDArray[np.bool_]) -> float | None:
    """Area under the precision-recall steps, equal scores taken together; None without both classes."""
    n_positive = int(positive.sum())
    if not n_positive or n_positive == positive.size:
        return None
    area, taken, hits = 0.0, 0, 0
    for threshold in np.unique(scores)[::-1]:
        chosen = scores == threshold
        new = int((positive & chosen).sum())
        taken += int(chosen.sum())
        hits += new
        area += new / n_positive * hits / taken
    return area
