"""Trace every number to its files: the ``<name>.meta.json`` records of a study, with an anchor for each file."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from wmlab.io.provenance import sha256_file
from wmlab.report.inputs import read_object

SUFFIX = ".meta.json"
_HASH_LIMIT = 200 * 1024 * 1024  # bytes; larger files are traced by their meta.json only


@dataclass(frozen=True)
class Entry:
    """A result file: path below the study, anchor in the report, digest now, and its record or None."""

    path: str
    anchor: str
    sha256: str | None
    meta: dict[str, Any] | None
    config: str  # the configuration slice as indented JSON
    finished: str  # UTC, to the minute
    inputs: tuple[tuple[str, str, str], ...]  # (path, digest, anchor or "")


def anchor_of(path: str) -> str:
    """A fragment id for a path: letters, digits and hyphens, unique for paths that differ elsewhere too."""
    slug = re.sub(r"[^A-Za-z0-9]+", "-", path).strip("-").lower()
    # Paths that differ in punctuation only would collide without a digest of the path itself.
    return f"src-{slug[:80]}-{hashlib.sha256(path.encode()).hexdigest()[:6]}"


def below(path: str, study: Path) -> str:
    """``path`` relative to the study folder, wherever the study was when the path was written.

    Outside the study an absolute path is cut to ``…/name`` so that a report names no machine's folders.
    """
    given = PurePosixPath(Path(path).as_posix())
    try:
        return Path(path).resolve().relative_to(study.resolve()).as_posix()
    except ValueError:
        pass
    parts = list(given.parts)
    name = study.resolve().name
    if name in parts[:-1]:
        last = len(parts) - 1 - parts[::-1].index(name)
        return PurePosixPath(*parts[last + 1 :]).as_posix()
    return f"…/{given.name}" if given.is_absolute() else given.as_posix()


def collect(study: Path, sources: Iterable[str]) -> dict[str, Entry]:
    """Entries by path below the study: every file with a record, and every source of a table or figure."""
    paths = {below(str(meta)[: -len(SUFFIX)], study) for meta in study.rglob(f"*{SUFFIX}")}
    paths = {path for path in paths if not path.startswith("report/")}  # the report does not trace itself
    paths |= {below(source, study) for source in sources}
    anchors = {path: anchor_of(path) for path in paths}
    return {path: _entry(path, study, anchors) for path in sorted(paths)}


def _entry(path: str, study: Path, anchors: dict[str, str]) -> Entry:
    target = study / path
    record = target.with_name(target.name + SUFFIX)
    meta = read_object(record) if record.is_file() else None
    digest = sha256_file(target) if target.is_file() and target.stat().st_size <= _HASH_LIMIT else None
    inputs = []
    for name, value in (meta or {}).get("inputs", {}).items():
        relative = below(str(name), study)
        inputs.append((relative, str(value), anchors.get(relative, "")))
    config = json.dumps((meta or {}).get("config", {}), indent=2, ensure_ascii=False, sort_keys=True)
    return Entry(
        path=path,
        anchor=anchors[path],
        sha256=digest,
        meta=meta,
        config=config.replace(str(study.resolve()), study.name),
        finished=_minute((meta or {}).get("finished_unix")),
        inputs=tuple(inputs),
    )


def _minute(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")


def by_stage(entries: dict[str, Entry]) -> list[tuple[str, list[Entry]]]:
    """Entries grouped by the first folder of their path, in path order."""
    groups: dict[str, list[Entry]] = {}
    for path, entry in entries.items():
        groups.setdefault(path.split("/", 1)[0], []).append(entry)
    return list(groups.items())
