"""JSON Lines: the reader tolerates one torn last line, the writer appends whole lines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from wmlab.errors import InputError
from wmlab.io.atomic import atomic_path, write_text

STREAM = "-"


def read_jsonl(path: str | Path, *, allow_torn_tail: bool = True) -> list[dict[str, Any]]:
    """Read objects, one a line; ``-`` is standard input.

    A last line without its newline that does not parse is the mark of a killed writer and is
    dropped when ``allow_torn_tail``. Raises InputError naming file and row for anything else.
    """
    if str(path) == STREAM:
        text = sys.stdin.read()
    else:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise InputError.at(path, "file not found", "check the path") from None
        except (UnicodeDecodeError, OSError) as error:
            raise InputError.at(path, f"cannot be read ({error})", "give a UTF-8 JSONL file") from None
    torn_possible = allow_torn_tail and bool(text) and not text.endswith("\n")
    # Only "\n" ends a row: str.splitlines would also split at characters that JSON strings may hold.
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            if torn_possible and number == len(lines):
                break
            raise InputError.at(path, f"not JSON ({error})", "fix or remove the line", number) from None
        if not isinstance(value, dict):
            raise InputError.at(path, "not a JSON object", "write one object a line", number)
        rows.append(value)
    return rows


def dumps(row: dict[str, Any]) -> str:
    """One JSON line without its newline; NaN refused."""
    return json.dumps(row, ensure_ascii=False, allow_nan=False)


def write_jsonl(path: str | Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows atomically; ``-`` is standard output."""
    lines = (dumps(row) + "\n" for row in rows)
    if str(path) == STREAM:
        for line in lines:
            sys.stdout.write(line)
        sys.stdout.flush()
    else:
        write_text(path, "".join(lines))


@contextmanager
def open_lines(path: str | Path) -> Iterator[Iterable[bytes]]:
    """The lines of a file as they are, one at a time, with their ends; ``-`` is standard input.

    Only a line feed ends a line. Raises InputError when the file cannot be opened.
    """
    if str(path) == STREAM:
        yield sys.stdin.buffer
        return
    with ExitStack() as stack:
        try:
            file = stack.enter_context(Path(path).open("rb"))
        except FileNotFoundError:
            raise InputError.at(path, "file not found", "check the path") from None
        except OSError as error:
            raise InputError.at(path, f"cannot be read ({error})", "give a UTF-8 JSONL file") from None
        yield file


@contextmanager
def writing_lines(path: str | Path) -> Iterator[Callable[[bytes], object]]:
    """A function that writes bytes, to a file that appears whole at the end; ``-`` is standard output."""
    if str(path) == STREAM:
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        yield file.write
        file.flush()


class JsonlAppender:
    """Append rows to a partial file so that a killed stage can resume from the whole lines in it.

    Opening drops a torn last line first, so that the next row starts on a line of its own.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.rows: list[dict[str, Any]] = []
        if self.path.exists():
            self.rows = read_jsonl(self.path)
            write_jsonl(self.path, self.rows)
        self._file: TextIO = self.path.open("a", encoding="utf-8", newline="")

    def append(self, row: dict[str, Any]) -> None:
        """Write one row and flush it to the disk."""
        self._file.write(dumps(row) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.rows.append(row)

    def close(self) -> None:
        """Close the file; the rows stay on disk."""
        self._file.close()

    def __enter__(self) -> JsonlAppender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)
