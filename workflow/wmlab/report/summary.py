"""Headline numbers of a study and what its size can and cannot show, computed from cells and statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from wmlab.report.inputs import Loaded
from wmlab.report.labels import method_key, method_label, ordered_methods
from wmlab.report.suite import (
    cells_needed,
    detectable,
    dropped_note,
    first_of,
    friedman_note,
    metric_name,
    smallest_sign_p,
    why_impossible,
)

ALPHA = 0.05


def headlines(
    cells: Sequence[Loaded], stats: Mapping[str, Any] | None, tables: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, str]]:
    """Cards of the first screen: label, number, note and the anchor of the section that holds the detail."""
    cards = []
    if stats is not None and stats.get("means"):
        target = stats["target"]
        means = stats["means"]
        others = ", ".join(f"{method_label(m)} {means[m]:.3f}" for m in ordered_methods(means) if m != target)
        cards.append(
            {
                "label": f"Mean {metric_name(stats)}, {method_label(target)}",
                "value": f"{means[target]:.3f}",
                "note": f"{others}; {stats['n_cells']} cells",
                "href": "#table-task_level",
            }
        )
    if stats is not None and why_impossible(stats, "bootstrap") is None:
        cards += [_difference_card(stats, method) for method in sorted(stats["bootstrap"], key=method_key)]
    if stats is not None and why_impossible(stats, "friedman") is None:
        friedman = stats["friedman"]
        cards.append(
            {
                "label": "Friedman test",
                "value": f"p = {friedman['p']:.4g}",
                "note": f"χ² = {friedman['statistic']:.2f} over {stats['n_cells']} cells",
                "href": "#figure-cd_diagram",
            }
        )
    if "single_step" in tables:
        aim = method_label(stats["target"]) if stats is not None and "target" in stats else None
        cards += _step_cards(tables["single_step"], aim)
    if cells:
        cards.append(_size_card(cells))
    return cards


def _difference_card(stats: Mapping[str, Any], method: str) -> dict[str, str]:
    entry = stats["bootstrap"][method]
    difference, bounds = first_of(entry, "mean_difference", "difference"), entry.get("ci")
    if difference is None or not bounds:
        value, note = "–", "not computed"
    else:
        value = f"{difference:+.3f}"
        intervals = [("over cells", (float(bounds[0]), float(bounds[1])))]
        wider = ((stats.get("two_level") or {}).get(method) or {}).get("ci")
        if wider:
            intervals.append(("over tasks and cells", (float(wider[0]), float(wider[1]))))
        parts = [f"95 % interval {what} [{low:+.3f}, {high:+.3f}]" for what, (low, high) in intervals]
        clear = all(low > 0 or high < 0 for _, (low, high) in intervals)
        parts.append("excludes 0" if clear else "includes 0: no difference shown")
        if int(stats["n_cells"]) < cells_needed(ALPHA):
            parts.append(f"only {stats['n_cells']} cells")
        note = "; ".join(parts)
    label = f"{method_label(stats['target'])} − {method_label(method)}, {metric_name(stats)}"
    return {"label": label, "value": value, "note": note, "href": "#table-bootstrap"}


def _step_cards(table: Mapping[str, Any], aim: str | None) -> list[dict[str, str]]:
    """Exact match, a card for each domain and backbone: the method that is tested, or the last, then the others."""
    keys = [column["key"] for column in table["columns"]]
    blocks: dict[tuple[str, ...], dict[str, str]] = {}
    for row in table["rows"]:
        text = {key: cell["text"] for key, cell in zip(keys, row["cells"], strict=True)}
        # A place that the whole study shares stands in the table's title.
        place = tuple(text[key] for key in ("domain", "backbone") if key in text)
        blocks.setdefault(place, {})[text["method"]] = text["em"]
    cards = []
    for place, found in blocks.items():
        shown = aim if aim in found else list(found)[-1]
        others = "; ".join(f"{method} {text}" for method, text in found.items() if method != shown)
        label = ", ".join(("Single-step EM", *place, shown))
        cards.append({"label": label, "value": found[shown], "note": others, "href": "#table-single_step"})
    return cards


def _size_card(cells: Sequence[Loaded]) -> dict[str, str]:
    methods = {cell.identity.method for cell in cells}
    agents = {cell.identity.agent for cell in cells}
    return {
        "label": "Task-level runs",
        "value": str(len(cells)),
        "note": f"{len(agents)} agents × {len(methods)} methods (with seeds), {_span([c.value['n'] for c in cells])} "
        f"tasks each, {sum(c.value['n_error'] for c in cells)} failed episodes",
        "href": "#design",
    }


def design(cells: Sequence[Loaded]) -> list[tuple[str, str]]:
    """The matrix of the study as (name, value) lines."""
    if not cells:
        return []
    identities = [cell.identity for cell in cells]
    seeds = {m: sorted({i.seed for i in identities if i.method == m}) for m in {i.method for i in identities}}
    listed = "; ".join(f"{method_label(m)}: {', '.join(map(str, seeds[m]))}" for m in ordered_methods(seeds))
    return [
        ("Domains", ", ".join(sorted({i.domain for i in identities}))),
        ("World-model backbones", ", ".join(sorted({i.backbone for i in identities}))),
        ("Methods", ", ".join(method_label(m) for m in ordered_methods(i.method for i in identities))),
        ("Evaluation agents", ", ".join(sorted({i.agent for i in identities}))),
        ("Training seeds", listed),
        ("Tasks in a panel", _span([c.value["n"] for c in cells])),
        ("Task-level runs (cell x method x seed)", str(len(cells))),
    ]


def sample_size(cells: Sequence[Loaded], stats: Mapping[str, Any] | None) -> list[str]:
    """Sentences on resolution and power."""
    lines = []
    if cells:
        panel = [int(c.value["n"]) for c in cells]
        solved = [int(c.value["both"]) + int(c.value["real_only"]) for c in cells]
        lines.append(
            f"A panel has {_span(panel)} tasks, so one task moves a success rate by {1 / min(panel):.3f}."
        )
        least = min(solved)
        note = f"CR_pw of a cell rests on its Real-successful tasks: {_span(solved)}."
        if least > 0:
            width = 1.96 * math.sqrt(0.25 / least)
            note += f" At CR_pw = 0.5 the 95 % interval of the smallest cell is about ±{min(width, 0.5):.2f}."
        else:
            note += " A cell without a real success has no CR_pw."
        lines.append(note)
    if stats is None:
        return [*lines, "No statistics file was given: no test was made."]
    count = int(stats["n_cells"])
    needed = cells_needed(ALPHA)
    reach = smallest_sign_p(count)
    verdict = (
        f"so a sign test can reach p ≤ {ALPHA:g} only if at most {count - needed} of them tie when none is lost"
        if reach <= ALPHA
        else f"so no result, however clear, can reach p ≤ {ALPHA:g}; {needed} untied cells are needed"
    )
    lines.append(
        f"The tests run over {count} cells (domain, backbone, agent). The smallest two-sided sign-test p with that many "
        f"is {reach:.4g}, {verdict}."
    )
    if 0 < count < needed:
        lines.append(
            f"Resampling {count} cells understates the uncertainty; read the interval that resamples tasks too, and "
            "take neither as evidence on agents or backbones outside this study."
        )
    for method, bound in detectable(stats).items():
        parts = []
        if bound["cells"] is not None:
            parts.append(f"{bound['cells']:.3f} over cells (paired t test)")
        if bound["tasks"] is not None:
            parts.append(f"{bound['tasks']:.3f} on one panel's tasks (McNemar)")
        if parts:
            pair = f"{method_label(stats['target'])} against {method_label(method)}"
            lines.append(f"Minimum detectable difference at 80 % power, {pair}: {'; '.join(parts)}.")
    lines += [
        f"Run-to-run standard deviation of {method_label(m)} over training seeds: {entry['sd']:.3f}."
        for m, entry in sorted((stats.get("run_to_run") or {}).items(), key=lambda item: method_key(item[0]))
        if entry.get("sd") is not None
    ]
    lines.append(friedman_note(stats))
    dropped = dropped_note(stats)
    return [*lines, dropped] if dropped else lines


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"
