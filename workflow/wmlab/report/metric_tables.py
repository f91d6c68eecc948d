"""Tables of the studies that judge the metrics themselves: perturbations, stress test, audits.

``perturb_*``: behr.txt, Tables 1, 15 and 16, from the summaries of ``wmlab eval perturb``. ``ssf_*``: memwm.txt,
Figure 3 and Tables 5 to 8, from the files of ``wmlab eval stress`` and ``audit``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from wmlab.report.inputs import Identity, Loaded, read_object, require
from wmlab.report.labels import CHANGE_LABELS, PERTURBATION_LABELS, kind_label, metric_label
from wmlab.report.tables import Column, Row, Table, Value, with_marks

PERTURB_KEYS = ("domains", "n", "n_failed", "means", "contrast", "reference")
STRESS_KEYS = ("n", "classes", "domains", "kinds", "per_class")
AUDIT_KEYS = ("identity", "webshop_weights", "transfer", "agreement")
REWARDS = ("behr", "multi_action_behr", "acs")
"""Table 16: what was tried as a reward."""

_DOMAIN = Column("domain", "Domain")
_SCORES = (
    Column("n", "n"),
    Column("em", "EM", 3),
    Column("f1", "Word F1", 3),
    Column("ssf", "SSF", 3),
    Column("ssf_min", "SSF min", 3),
    Column("ssf_max", "SSF max", 3),
)
_STRESS_NOTE = (
    "Synthetic predictions made from real observations. EM: exact match, which no changed text has. A state metric "
    "should give 1 to a paraphrase and little to the other changes."
)


def load_perturbations(paths: Iterable[str]) -> list[Loaded]:
    """Summaries of ``wmlab eval perturb`` under the domains that they name."""
    found = []
    for path in paths:
        value = read_object(path)
        require(value, PERTURB_KEYS, path)
        found.append(Loaded(Identity(", ".join(value["domains"])), str(path), value))
    return sorted(found, key=lambda item: item.identity)


def _numbers(
    entry: Mapping[str, Any], columns: Iterable[Column], reason: str = "not defined"
) -> dict[str, Value]:
    """The columns' values in ``entry``; null with the reason where there is none."""
    found = {column.key: entry.get(column.key) for column in columns}
    return {key: Value(number, reason=reason if number is None else None) for key, number in found.items()}


def _sample_note(items: Sequence[Loaded]) -> str:
    counts = "; ".join(
        f"{item.identity.domain}: {item.value['n']} shared samples, {item.value['n_failed']} left out because a "
        f"score failed, reference agent {item.value['reference']}"
        for item in items
    )
    return f"{counts}. Every score compares the perturbed observation with the real one; 1 is the maximum."


def perturb_contrast(items: Sequence[Loaded]) -> Table:
    """Table 1: does a metric rank a harmless loss of text above the loss of what the next action needs?"""
    columns = (
        _DOMAIN,
        Column("metric", "Metric"),
        Column("drop_irrelevant", "Drop Irrelevant", 3),
        Column("drop_target", "Drop Target", 3),
        Column("difference", "Difference", 3, signed=True),
        Column("above", "DI above DT"),
        Column("dense", "Dense"),
    )
    rows = []
    for item in items:
        for metric, entry in item.value["contrast"].items():
            low, high = entry["ci95"]
            values = {
                "domain": Value(item.identity.domain),
                "metric": Value(metric_label(metric)),
                **_numbers(entry, columns[2:4]),
                "difference": Value(entry["difference"], ci=(low, high)),
                "above": Value("yes" if entry["di_above_dt"] else "no"),
                "dense": Value("yes" if entry["dense"] else "no"),
            }
            rows.append(Row(values, (item.identity.domain,), (item.path,)))
    notes = (
        "Drop Irrelevant removes half of what the next action does not name, Drop Target each mention of what it acts "
        "on: a metric that sees behaviour ranks the first above the second. Dense: graded, so usable as a reward.",
        "[low, high]: 95 % bootstrap interval of the mean paired difference over samples.",
        _sample_note(items),
    )
    impossible = None if rows else "no sample was scored by every metric"
    title = "Decision-critical perturbations: Drop Irrelevant against Drop Target"
    return Table("perturb_contrast", title, columns, tuple(rows), notes, impossible)


def perturb_metrics(items: Sequence[Loaded]) -> Table:
    """Table 15: every metric on all seven perturbations."""
    names = list(
        dict.fromkeys(name for item in items for row in item.value["means"].values() for name in row)
    )
    chosen = [name for name in names if name != "multi_action_behr" and _measured(items, name)]
    title = "Seven perturbations of real observations: mean scores"
    return _perturbations("perturb_metrics", title, items, chosen)


def perturb_rewards(items: Sequence[Loaded]) -> Table:
    """Table 16: alternatives in the design of the reward."""
    title = "Alternatives of the behaviour reward on the seven perturbations: mean scores"
    return _perturbations(
        "perturb_rewards", title, items, [name for name in REWARDS if _measured(items, name)]
    )


def _measured(items: Sequence[Loaded], metric: str) -> bool:
    return any(row.get(metric) is not None for item in items for row in item.value["means"].values())


def _perturbations(name: str, title: str, items: Sequence[Loaded], metrics: Sequence[str]) -> Table:
    scores = [Column(metric, metric_label(metric), 3) for metric in metrics]
    rows = []
    for item in items:
        for perturbation, means in item.value["means"].items():
            values = {
                "domain": Value(item.identity.domain),
                "perturbation": Value(PERTURBATION_LABELS.get(perturbation, perturbation)),
                **_numbers(means, scores, "not measured in this domain"),
            }
            rows.append(Row(values, (item.identity.domain,), (item.path,)))
    columns = (_DOMAIN, Column("perturbation", "Perturbation"), *scores)
    notes = (
        "The next action stays supported by Oracle (the real observation), Reorder and Drop Irrelevant; it loses its "
        "ground by Drop Target, Replace Target and Unrelated, often by Truncate.",
        _sample_note(items),
    )
    return Table(name, title, columns, tuple(rows), notes)


def ssf_stress(summary: Mapping[str, Any], path: str) -> Table:
    """Figure 3 as a table: a row per domain and class of change; over all domains first when there are several."""
    groups = dict(summary["domains"])
    if len(groups) > 1:
        groups = {"all": summary["classes"], **groups}
    note = f"{_STRESS_NOTE} At most {summary['per_class']} examples a class and domain."
    title = "Stress test of the state metrics by class of change"
    return _stress(
        "ssf_stress", title, groups, Column("change", "Change"), CHANGE_LABELS.__getitem__, path, note
    )


def ssf_stress_kinds(summary: Mapping[str, Any], path: str) -> Table:
    """The stress test by kind of change, a block per domain."""
    title = "Stress test of the state metrics by kind of change"
    kind = Column("kind", "Change")
    return _stress("ssf_stress_kinds", title, summary["kinds"], kind, kind_label, path, _STRESS_NOTE)


def ssf_transfer(audit: Mapping[str, Any], path: str) -> Table:
    """Table 8: the stress test on CookingWorld, for which no rule of the other domains was made."""
    title = "Transfer of SSF to CookingWorld: stress test by kind of change"
    groups = {"cookingworld": audit["transfer"]}
    return _stress("ssf_transfer", title, groups, Column("kind", "Change"), kind_label, path, _STRESS_NOTE)


def _stress(
    name: str,
    title: str,
    groups: Mapping[str, Mapping[str, Any]],
    what: Column,
    label: Callable[[str], str],
    path: str,
    note: str,
) -> Table:
    rows = [
        Row(
            {"domain": Value(domain), what.key: Value(label(change)), **_numbers(found, _SCORES)},
            (domain,),
            (path,),
        )
        for domain, table in groups.items()
        for change, found in table.items()
    ]
    return Table(name, title, (_DOMAIN, what, *_SCORES), tuple(rows), (note,))


def ssf_audit(audit: Mapping[str, Any], path: str) -> Table:
    """Table 6: identity, coverage and what is left of the score when everything named is another thing."""
    columns = (
        _DOMAIN,
        Column("n", "n"),
        Column("identity", "Identity", 3),
        Column("score_mean", "SSF mean", 3),
        Column("score_min", "SSF min", 3),
        Column("coverage", "Covered", 3),
        Column("explained", "Characters", 3),
        Column("perturbed_n", "Swapped"),
        Column("perturbed_n_bare", "Bare"),
        Column("perturbed_mean", "Swapped mean", 4),
        Column("perturbed_max", "Swapped max", 3),
    )
    rows = []
    for domain, found in audit["identity"].items():
        flat = {key: value for key, value in found.items() if not isinstance(value, Mapping)}
        for part in ("score", "perturbed"):
            flat |= {f"{part}_{key}": value for key, value in found[part].items()}
        values = _numbers(flat, columns[1:], "no observation names anything")
        rows.append(Row({"domain": Value(domain), **values}, (), (path,)))
    notes = (
        "Identity: share of distinct observations whose facts stay the same when only the layout changes; SSF mean and "
        "min: between both writings.",
        "Covered: share of observations with a fact other than MESSAGE; Characters: share of their characters outside "
        "MESSAGE facts.",
        "Swapped: observations with every name replaced and every number changed, and their SSF against the original; "
        "Bare: observations without any name or number, which cannot be swapped.",
    )
    return Table("ssf_audit", "Audit of the SSF extractors", columns, tuple(rows), notes)


def ssf_weights(audit: Mapping[str, Any], path: str) -> Table:
    """Table 7: WebShop SSF of each model under every scheme of field weights."""
    found = audit["webshop_weights"]
    columns = (
        Column("scheme", "Weights"),
        Column("model", "Model"),
        Column("ssf", "SSF", 3),
        Column("margin", "Margin", 3, signed=True),
        Column("kept", "Sign kept", 2),
    )
    last = found["models"][-1]
    rows = []
    for scheme, means in found["means"].items():
        drawn = scheme not in found["margins"] or scheme.startswith("random")
        for model, mean in means.items():
            low, high = found["range"][model]
            margin = found["margins"][scheme].get(model)
            kept = found["random_draws_with_the_papers_sign"].get(model) if drawn else None
            values = {
                "scheme": Value(scheme),
                "model": Value(model),
                "ssf": Value(mean, ci=(low, high) if drawn else None),
                "margin": Value(
                    margin, reason="the model that the margins are of" if margin is None else None
                ),
                "kept": Value(
                    kept, reason="one draw only: the sign of the margin says it" if kept is None else None
                ),
            }
            if model == last and drawn:
                values["kept"] = Value(None, reason="the model that the margins are of")
            rows.append(Row(values, (scheme,), (path,)))
    notes = (
        f"Mean SSF over {found['n']} transitions that every model predicted. Margin: {last} minus the model of the row.",
        "Random: every weight drawn within ±20 %; [low, high]: smallest and largest mean over the draws; Sign kept: "
        "share of draws whose margin has the sign it has under the paper's weights.",
    )
    title = "WebShop SSF under other field weights"
    return Table("ssf_weights", title, columns, tuple(rows), notes)


def ssf_agreement(audit: Mapping[str, Any], path: str) -> Table:
    """Table 5: agreement of the metrics with blinded human judgements."""
    found = audit["agreement"]
    statistics = (
        Column("pearson", "Pearson", 3, "up"),
        Column("spearman", "Spearman", 3, "up"),
        Column("auroc", "AUROC", 3, "up"),
        Column("auprc", "AUPRC", 3, "up"),
    )
    columns = (
        _DOMAIN,
        Column("n", "n"),
        Column("n_faithful", "Faithful"),
        Column("metric", "Metric"),
        *statistics,
    )
    rows = []
    for domain, table in found["tables"].items():
        for metric, entry in table.items():
            if not isinstance(entry, Mapping):
                continue
            values = {"domain": Value(domain), "metric": Value(metric_label(metric))}
            values |= {key: Value(table[key]) for key in ("n", "n_faithful")}
            values |= _numbers(entry, statistics, entry["reason"] or "not defined")
            bounds = entry["spearman_ci95"]
            if entry["spearman"] is not None and bounds is not None:
                values["spearman"] = Value(entry["spearman"], ci=(bounds[0], bounds[1]))
            rows.append(Row(values, (domain,), (path,)))
    notes = (
        "Judgements of an annotator who saw neither model nor score, from 0 (a fact that later actions depend on is "
        "wrong) to 1; AUROC and AUPRC are of finding the pairs judged at least 0.5 (Faithful).",
        f"Items without a judgement, left out: {found['n_unjudged']}.",
    )
    title = "Agreement of the metrics with blinded judgements"
    return with_marks(Table("ssf_agreement", title, columns, tuple(rows), notes))
