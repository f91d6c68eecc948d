"""The last line of a study: where its report is, and its main numbers."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from wmlab.errors import InputError


def headline(study_dir: str | Path) -> str:
    """``<report>: EM w2w 0.59 …; CR_pw w2w 0.71 …`` from the files of a finished study.

    EM is the mean over domains, backbones and seeds of the single-step summaries, CR_pw the mean
    over the cells where it is defined (metrics.md sections 2 and 3). Raises InputError when the
    study has no report or no scores.
    """
    root = Path(study_dir)
    report = root / "report" / "index.html"
    if not report.is_file():
        raise InputError.at(report, "no report", "finish the study first: snakemake --profile local all")
    em: dict[str, list[float]] = defaultdict(list)
    consistency: dict[str, list[float]] = defaultdict(list)
    for path in sorted(root.glob("score/*/*/*/seed*/summary.json")):
        _collect(em, path.parts[-3], path, "em")
    for path in sorted(root.glob("consistency/*/*/*/seed*/*/cell.json")):
        _collect(consistency, path.parts[-4], path, "CR_pw")
    if not em or not consistency:
        raise InputError.at(
            root, "no scores or no cells", "finish the study first: snakemake --profile local all"
        )
    return f"{report}: EM {_means(em)}; CR_pw {_means(consistency)}"


def _collect(values: dict[str, list[float]], method: str, path: Path, key: str) -> None:
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))[key]
    except (ValueError, KeyError, TypeError):
        raise InputError.at(path, f"no number {key!r}", "remove the file and make it again") from None
    if found is not None:
        values[method].append(float(found))


def _means(values: dict[str, list[float]]) -> str:
    return ", ".join(f"{method} {sum(found) / len(found):.3f}" for method, found in sorted(values.items()))
