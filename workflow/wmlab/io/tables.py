"""Parquet files of the data contracts: schema and version are checked on read and write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wmlab.errors import InputError
from wmlab.io import schemas
from wmlab.io.atomic import atomic_path


def write_table(path: str | Path, kind: str, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows of contract ``kind`` (a key of ``schemas.BY_NAME``) atomically.

    Raises InputError when a row lacks a column, has one too many, or holds the wrong type.
    """
    schema = schemas.BY_NAME[kind]
    names = set(schema.names)
    for number, row in enumerate(rows):
        if set(row) != names:
            missing, extra = sorted(names - set(row)), sorted(set(row) - names)
            raise InputError.at(
                path, f"{kind} row lacks {missing} and adds {extra}", "match the contract", number
            )
    tagged = schema.with_metadata({"wmlab.schema": kind, "wmlab.version": str(schemas.VERSION)})
    try:
        table = pa.Table.from_pylist(list(rows), schema=tagged)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError.at(
            path, f"a {kind} value has the wrong type ({error})", "match the contract"
        ) from None
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary, compression="snappy", row_group_size=10_000)


def read_table(path: str | Path, kind: str) -> list[dict[str, Any]]:
    """Read rows of contract ``kind``. Raises InputError naming the file when it does not fit."""
    schema = schemas.BY_NAME[kind]
    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        raise InputError.at(path, "file not found", "check the path or make it first") from None
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError.at(
            path, f"not a readable Parquet file ({reason})", "remove it and make it again"
        ) from None
    found = (table.schema.metadata or {}).get(b"wmlab.version")
    if found is not None and int(found) != schemas.VERSION:
        raise InputError.at(
            path, f"schema version {int(found)}", f"this code reads version {schemas.VERSION}"
        )
    missing = [name for name in schema.names if name not in table.schema.names]
    if missing:
        raise InputError.at(path, f"{kind} columns {missing} are missing", "give a file of that contract")
    try:
        rows: list[dict[str, Any]] = table.select(schema.names).cast(schema.remove_metadata()).to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError.at(
            path, f"a {kind} column has the wrong type ({error})", "match the contract"
        ) from None
    return rows
