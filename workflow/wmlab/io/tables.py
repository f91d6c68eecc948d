"""Parquet files of the data contracts: one writer and one reader, schema and version checked on both sides.

Rows go in and out in batches, so files need not fit in memory: histories repeat in every transition, and a
large pool is many times its text. Snappy, row groups of 10,000, written atomically.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from wmlab.errors import InputError
from wmlab.io import schemas
from wmlab.io.atomic import atomic_path

ROW_GROUP = 10_000
READ_BATCH = 1_000


def write_batches(path: str | Path, schema: pa.Schema, rows: Iterable[dict[str, Any]]) -> int:
    """Write rows of one fixed schema atomically; return their number. InputError for a wrong value."""
    iterator, names = iter(rows), set(schema.names)
    count = 0
    with atomic_path(path) as temporary, pq.ParquetWriter(temporary, schema, compression="snappy") as writer:
        while batch := list(islice(iterator, ROW_GROUP)):
            for offset, row in enumerate(batch):
                if set(row) != names:
                    raise InputError.at(path, "a row has other columns", "match the contract", count + offset)
            try:
                table = pa.Table.from_pylist(batch, schema=schema)
            except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                reason = str(error).splitlines()[0]
                raise InputError.at(
                    path, f"a value has the wrong type ({reason})", "match the contract"
                ) from None
            writer.write_table(table, row_group_size=ROW_GROUP)
            count += len(batch)
    return count


def write_rows(
    path: str | Path, kind: str, rows: Iterable[dict[str, Any]], optional: Iterable[str] = ()
) -> int:
    """:func:`write_batches` for contract ``kind``, with its version tag and some of its optional columns."""
    tag = {"wmlab.schema": kind, "wmlab.version": str(schemas.VERSION)}
    added = [pa.field(name, schemas.OPTIONAL[kind][name]) for name in optional]
    schema = pa.schema([*schemas.BY_NAME[kind], *added])
    return write_batches(path, schema.with_metadata(tag), rows)


def open_parquet(path: str | Path, schema: pa.Schema, kind: str) -> pq.ParquetFile:
    """Open a file and check that it has the columns of ``schema`` with castable types."""
    try:
        file = pq.ParquetFile(path)
    except FileNotFoundError:
        raise InputError.at(path, "file not found", "check the path or make it first") from None
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError.at(
            path, f"not a readable Parquet file ({reason})", "remove it and make it again"
        ) from None
    found = file.schema_arrow
    version = (found.metadata or {}).get(b"wmlab.version", b"%d" % schemas.VERSION)
    if version != b"%d" % schemas.VERSION:
        shown = version.decode("utf-8", "replace")
        raise InputError.at(path, f"schema version {shown}", f"this code reads version {schemas.VERSION}")
    missing = [name for name in schema.names if name not in found.names]
    if missing:
        raise InputError.at(path, f"{kind} columns {missing} are missing", "give a file of that contract")
    return file


def read_batches(path: str | Path, schema: pa.Schema, kind: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file with ``schema``'s columns, in file order."""
    file = open_parquet(path, schema, kind)
    plain = schema.remove_metadata()
    try:
        for batch in file.iter_batches(batch_size=READ_BATCH, columns=schema.names):
            table = pa.Table.from_batches([batch]).select(schema.names).cast(plain)
            yield from table.to_pylist()
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        fix = "match the contract or make the file again"
        raise InputError.at(path, f"a {kind} column cannot be read ({reason})", fix) from None


def read_rows(path: str | Path, kind: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of contract ``kind``. InputError naming the file when it does not fit."""
    return read_batches(path, schemas.BY_NAME[kind], kind)


def write_table(
    path: str | Path, kind: str, rows: Iterable[dict[str, Any]], optional: Iterable[str] = ()
) -> None:
    """:func:`write_rows` where the number of rows is known."""
    write_rows(path, kind, rows, optional)


def read_table(path: str | Path, kind: str) -> list[dict[str, Any]]:
    """All rows of contract ``kind`` at once."""
    return list(read_rows(path, kind))
