"""Read the result files a report is made from, each with the identity of its study cell.

The identity (domain, backbone, method, seed, agent) is read from the file's place in the result tree
(``…/{domain}/{backbone}/{method}/seed{S}[/{agent}]/file``); a file that stands elsewhere is given as
``domain/backbone/method/seedS[/agent]=path``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from wmlab.errors import InputError
from wmlab.io.jsonl import read_jsonl

_SEED = re.compile(r"seed(\d+)")
_EXPLICIT = re.compile(r"(?P<place>[^=]+/seed\d+(?:/[^/=]+)?)=(?P<path>.+)", re.DOTALL)


@dataclass(frozen=True, order=True)
class Identity:
    """Where a result belongs. ``backbone``, ``method`` and ``seed`` are empty for the real environment."""

    domain: str
    backbone: str = ""
    method: str = ""
    seed: int = 0
    agent: str = ""

    @property
    def block(self) -> tuple[str, str]:
        """The (domain, backbone) block of a table or panel of a figure."""
        return self.domain, self.backbone


@dataclass(frozen=True)
class Loaded:
    """One result file: identity, path as the user gave it, content (an object, or rows of a JSONL file)."""

    identity: Identity
    path: str
    value: Any


def identity_of(path: str | Path) -> Identity:
    """Identity from the place of ``path`` in the result tree.

    ``models/{D}/agents/{A}/file`` and ``rollout/{D}/real/{A}/file`` give a domain and an agent only,
    ``memory/{D}/{B}/{M}/file`` a method with all its seeds.
    Raises InputError when the path has no such place.
    """
    parts = PurePath(path).parts
    for index in range(len(parts) - 2, 2, -1):
        seed = _SEED.fullmatch(parts[index])
        if seed is not None:
            agent = parts[index + 1] if index + 2 < len(parts) else ""
            return Identity(parts[index - 3], parts[index - 2], parts[index - 1], int(seed.group(1)), agent)
    if len(parts) >= 4 and parts[-3] in {"agents", "real"}:
        return Identity(parts[-4], agent=parts[-2])
    if len(parts) >= 5 and parts[-5] == "memory":
        return Identity(parts[-4], parts[-3], parts[-2])
    raise InputError.at(
        path,
        "its study cell cannot be read from its place",
        "keep the result tree, or give domain/backbone/method/seedS[/agent]=PATH",
    )


def split_argument(argument: str) -> tuple[Identity, str]:
    """Parse ``PATH`` or ``domain/backbone/method/seedS[/agent]=PATH``."""
    explicit = _EXPLICIT.fullmatch(argument)
    if explicit is not None and not Path(argument).exists():
        return identity_of(explicit.group("place") + "/file"), explicit.group("path")
    return identity_of(argument), argument


def read_object(path: str | Path) -> dict[str, Any]:
    """Read a JSON object. Raises InputError naming the file."""
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError.at(path, "file not found", "make it first or correct the path") from None
    except (OSError, ValueError) as error:
        raise InputError.at(path, f"not readable JSON ({error})", "remove it and make it again") from None
    if not isinstance(value, dict):
        raise InputError.at(path, "not a JSON object", "give a file of that contract")
    return value


def require(value: Mapping[str, Any], keys: Iterable[str], path: str | Path) -> None:
    """Raise InputError naming the keys of a contract that ``value`` lacks."""
    missing = [key for key in keys if key not in value]
    if missing:
        raise InputError.at(path, f"keys {missing} are missing", "give a file of that contract")


def require_files(arguments: Iterable[str]) -> None:
    """Raise one InputError that lists every file which does not exist."""
    paths = [argument if Path(argument).exists() else split_path(argument) for argument in arguments]
    missing = [path for path in paths if not Path(path).exists()]
    if missing:
        raise InputError(f"{len(missing)} input files are missing: {', '.join(missing)}; make them first")


def split_path(argument: str) -> str:
    """The path of an argument, with or without an explicit identity."""
    explicit = _EXPLICIT.fullmatch(argument)
    return explicit.group("path") if explicit is not None and not Path(argument).exists() else argument


def load_objects(arguments: Iterable[str], keys: Iterable[str]) -> list[Loaded]:
    """Read JSON objects with their identity, sorted by identity; each must hold ``keys``."""
    wanted = list(keys)
    found = []
    for argument in arguments:
        identity, path = split_argument(argument)
        value = read_object(path)
        require(value, wanted, path)
        found.append(Loaded(identity, path, value))
    return _unique(found)


def load_rows(arguments: Iterable[str]) -> list[Loaded]:
    """Read JSONL files with their identity, sorted by identity."""
    found = []
    for argument in arguments:
        identity, path = split_argument(argument)
        found.append(Loaded(identity, path, read_jsonl(path)))
    return _unique(found)


def load_cells(paths: Iterable[str]) -> list[Loaded]:
    """Read cells from ``cells.parquet`` and from ``cell.json`` files; a cell.json adds ``CR_pw_ci`` and ``tasks``.

    A cell found in both is taken from its cell.json. Raises InputError when the two differ in a count.
    """
    from wmlab.io.schemas import CELLS
    from wmlab.io.tables import read_table

    table: dict[Identity, Loaded] = {}
    single: dict[Identity, Loaded] = {}
    for path in paths:
        if str(path).endswith(".parquet"):
            for row in read_table(path, "cells"):
                identity = cell_identity(row)
                reasons = json.loads(row["reasons"] or "{}")
                table[identity] = Loaded(identity, str(path), {**row, "reasons": reasons})
            continue
        value = read_object(path)
        require(value, CELLS.names, path)
        identity = cell_identity(value)
        if identity in single:
            raise InputError.at(path, f"the cell is also in {single[identity].path}", "give each cell once")
        reasons = value["reasons"]
        reasons = json.loads(reasons or "{}") if isinstance(reasons, str) or reasons is None else reasons
        single[identity] = Loaded(identity, str(path), {**value, "reasons": reasons})
    for identity in table.keys() & single.keys():
        for count in ("n", "both", "real_only", "w2r_only", "neither"):
            if table[identity].value[count] != single[identity].value[count]:
                raise InputError.at(
                    single[identity].path,
                    f"{count} differs from {table[identity].path}",
                    "make the tables again",
                )
    merged = {**table, **single}
    return [merged[identity] for identity in sorted(merged)]


def cell_identity(row: Mapping[str, Any]) -> Identity:
    """Identity held by the columns of a cell."""
    return Identity(row["domain"], row["backbone"], row["method"], int(row["seed"]), row["agent"])


def _unique(found: list[Loaded]) -> list[Loaded]:
    """Sort by identity; refuse two files of one cell (and of one planner) that carry the same file name."""
    seen: dict[tuple[Identity, str, str], str] = {}
    for item in found:
        planner = item.value.get("planner", "") if isinstance(item.value, dict) else ""
        key = (item.identity, PurePath(item.path).name, str(planner))
        if key in seen and seen[key] != item.path:
            raise InputError.at(item.path, f"the same study cell as {seen[key]}", "give each cell once")
        seen[key] = item.path
    return sorted({(i.identity, i.path): i for i in found}.values(), key=lambda i: (i.identity, i.path))
