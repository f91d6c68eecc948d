"""Read a study: config.yaml, overlays merged over it, inheritance resolved, everything checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from wmlab.config.problems import Location, describe, location_of
from wmlab.config.root import StudyConfig
from wmlab.errors import InputError

BASE = Path("config.yaml")


def load_study(paths: Sequence[str | Path] = (), base: str | Path = BASE) -> StudyConfig:
    """Merge the overlays ``paths`` over ``base`` and validate. Raises InputError, one line."""
    files = [Path(base), *(Path(path) for path in paths if Path(path) != Path(base))]
    merged: dict[str, Any] = {}
    for path in files:
        merged = deep_merge(merged, read_yaml(path))
    return check_study(merged, files)


def check_study(merged: Mapping[str, Any], files: Sequence[str | Path]) -> StudyConfig:
    """Validate a merged configuration; ``files`` are where it came from, for the message."""
    resolved = inherit(merged)
    try:
        return StudyConfig.model_validate(resolved)
    except ValidationError as error:
        origin = _origin(location_of(error), [Path(path) for path in files])
        raise InputError(f"{origin}: {describe(error, StudyConfig, resolved)}") from None


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a mapping from a YAML file. Raises InputError naming the file, and the line where it can."""
    try:
        data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError.at(
            path, "file not found", "check the path, and run from the repository's root"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError.at(path, f"cannot be read ({error})", "give a UTF-8 YAML file") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "syntax error"
        raise InputError(f"{path}{where}: not YAML ({problem}); mend the line") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise InputError.at(path, "not a mapping of keys to values", "write `key: value` lines")
    return data


def deep_merge(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """``overlay`` over ``base``: mappings merge key by key, anything else is replaced (as Snakemake does)."""
    merged = dict(base)
    for key, value in overlay.items():
        old = merged.get(key)
        merged[key] = (
            deep_merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
        )
    return merged


def inherit(data: Mapping[str, Any]) -> dict[str, Any]:
    """Fill ``agents.*.sft`` from section ``sft`` and ``methods.*.grpo`` from section ``grpo``."""
    resolved = dict(data)
    for section, key in (("agents", "sft"), ("methods", "grpo")):
        entries, base = data.get(section), data.get(key)
        if not isinstance(entries, Mapping) or not isinstance(base, Mapping):
            continue
        resolved[section] = {
            name: {**entry, key: deep_merge(base, entry.get(key) or {})}
            if isinstance(entry, Mapping) and isinstance(entry.get(key) or {}, Mapping)
            else entry
            for name, entry in entries.items()
        }
    return resolved


def _origin(location: Location, files: Sequence[Path]) -> str:
    """The last file that holds the key at ``location`` (or the nearest level above it)."""
    loaded = [(path, read_yaml(path)) for path in files if path.is_file()]
    for end in range(len(location), 0, -1):
        for path, data in reversed(loaded):
            if _holds(data, location[:end]):
                return str(path)
    return " + ".join(str(path) for path, _ in loaded) or "configuration"


def _holds(data: Any, location: Location) -> bool:
    for part in location:
        if not isinstance(data, Mapping) or part not in data:
            return False
        data = data[part]
    return True
