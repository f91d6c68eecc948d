"""Successful trajectories to task skills (memwm.txt, Algorithm 3): compress, choose, summarise, normalise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from wmlab.domains.registry import check_domain
from wmlab.errors import InputError
from wmlab.memory.bank import Entry
from wmlab.skills.bank import Caps, normalised, to_entry
from wmlab.skills.packs import packs
from wmlab.skills.record import Record, check_trajectory, compress
from wmlab.skills.summary import RuleSummariser, Summariser


@dataclass(frozen=True, slots=True)
class DistilSettings:
    """Least score of a successful trajectory, records of a pack, entries of a bank."""

    min_score: float = 0.0
    per_pack: int = 12
    caps: Caps = field(default_factory=Caps)


def distil(
    domain: str,
    rows: Iterable[tuple[object, int, Mapping[str, Any]]],
    settings: DistilSettings | None = None,
    summariser: Summariser | None = None,
    excluded: frozenset[str] = frozenset(),
) -> tuple[list[Entry], Counter[str]]:
    """The task skills of (source, row number, trajectory row) in any order, sorted by id, and counts.

    Failed trajectories, those below the least score and those of ``excluded`` tasks are left out and counted.
    Raises InputError naming source and row for a broken, foreign or repeated trajectory, ServerFailure when the
    summariser's server cannot be used.
    """
    check_domain(domain)
    chosen = settings or DistilSettings()
    report: Counter[str] = Counter()
    records: list[Record] = []
    seen: set[str] = set()
    for source, number, row in rows:
        check_trajectory(domain, row, source, number)
        identity = row["trajectory_id"]
        if identity in seen:
            raise InputError.at(source, f"trajectory {identity!r} is repeated", "give each once", number)
        seen.add(identity)
        report["trajectories"] += 1
        if not row["success"] or row["score"] < chosen.min_score:
            report["not_successful"] += 1
            continue
        record = compress(row)
        if record.task_hash in excluded:
            report["held_out"] += 1
        else:
            records.append(record)
    evidence = packs(records, chosen.per_pack)
    report["records"] = len(records)
    report["task_types"] = max(0, len(evidence) - 1)
    told = (summariser or RuleSummariser()).summarise(domain, evidence)
    made = [
        to_entry(domain, draft, pack) for pack, found in zip(evidence, told, strict=True) for draft in found
    ]
    entries = normalised([one for one in made if one is not None], chosen.caps)
    report["drafts"] = len(made)
    report["entries"] = len(entries)
    return entries, report
