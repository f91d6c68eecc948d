"""What a table is: columns, rows of values, footnotes. The builders are in ``builders``, the output in ``render``.

A value keeps its number apart from its text, so one table gives the CSV (raw numbers), the Markdown and the
booktabs LaTeX. Marks follow one rule: within a block the best value of a column with a direction is bold and the
second underlined; values equal at the printed precision are tied and marked together; a column on which the
whole block ties has no mark.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

_TEXT = (
    *("domain", "backbone", "method", "agent", "reward", "comparison", "seed"),
    *("planner", "metric", "perturbation", "change", "kind", "scheme", "model", "above", "dense"),
)
Direction = Literal["up", "down"]
Mark = Literal["best", "second", ""]


@dataclass(frozen=True)
class Column:
    """A column: ``label`` is plain text where ``X_y`` is shown as a subscript; ``digits`` None is text or a count."""

    key: str
    label: str
    digits: int | None = None
    direction: Direction | None = None
    signed: bool = False
    p_value: bool = False
    spread: bool = True  # print ± over seeds; the CSV has it anyway

    @property
    def arrow(self) -> str:
        """``↑`` when higher is better, ``↓`` when lower is, else nothing."""
        return {"up": "↑", "down": "↓", None: ""}[self.direction]

    @property
    def is_text(self) -> bool:
        """Text columns are left-aligned, the others right-aligned."""
        return self.key in _TEXT


@dataclass(frozen=True)
class Value:
    """One cell: a number or text, its spread over seeds or its interval, or null with the reason."""

    value: float | int | str | None
    sd: float | None = None
    ci: tuple[float, float] | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Row:
    """Values by column key, the block within which they compete, and the files they came from."""

    values: dict[str, Value]
    block: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table ready to render. ``impossible`` says why there are no rows (a test that cannot be made)."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    footnotes: tuple[str, ...] = ()
    impossible: str | None = None
    marks: dict[tuple[int, str], Mark] = field(default_factory=dict)

    @property
    def sources(self) -> tuple[str, ...]:
        """Every file the table was made from, once, in row order."""
        return tuple(dict.fromkeys(source for row in self.rows for source in row.sources))


def mean_value(numbers: Sequence[float | None], reasons: Sequence[str | None] = ()) -> Value:
    """Mean over seeds with the sample standard deviation when there are several.

    A null seed makes the mean null: a mean over the seeds that happen to be defined would not be comparable.
    """
    present = [float(number) for number in numbers if number is not None]
    if not numbers or len(present) < len(numbers):
        given = sorted({reason for reason in reasons if reason})
        text = "; ".join(given) if given else "not measured"
        if present:
            text += f" (null for {len(numbers) - len(present)} of {len(numbers)} seeds)"
        return Value(None, reason=text)
    sd = statistics.stdev(present) if len(present) > 1 else None
    return Value(statistics.fmean(present), sd=sd)


def same(numbers: Sequence[int | float | None], reasons: Sequence[str | None] = ()) -> Value:
    """A count or a rate of the real environment that seeds share; where they differ, their mean."""
    if numbers and numbers[0] is not None and all(number == numbers[0] for number in numbers):
        return Value(numbers[0])
    return mean_value(numbers, reasons)


def printed(column: Column, number: float | int) -> str:
    """A number as the table prints it: fixed digits, a sign when asked, a true minus in no format."""
    if isinstance(number, float) and not math.isfinite(number):
        raise ValueError(f"{column.key}: a table never prints {number}")
    if column.p_value:
        if number == 0:
            return "0"
        return f"{number:.2e}" if 0 < number < 0.001 else f"{number:.4f}"
    if column.digits is None:
        return (
            f"{number:d}" if float(number).is_integer() and not isinstance(number, float) else f"{number:.1f}"
        )
    text = f"{number:+.{column.digits}f}" if column.signed else f"{number:.{column.digits}f}"
    zero = f"{0:.{column.digits}f}"
    return zero if text.lstrip("+-") == zero else text


def with_marks(table: Table) -> Table:
    """Fill ``marks``: best and second within each block, ties together, no mark on a value without a rival."""
    marks: dict[tuple[int, str], Mark] = {}
    blocks: dict[tuple[str, ...], list[int]] = {}
    for index, row in enumerate(table.rows):
        blocks.setdefault(row.block, []).append(index)
    for column in table.columns:
        if column.direction is None:
            continue
        sign = 1 if column.direction == "up" else -1
        for indices in blocks.values():
            shown: dict[int, float] = {}
            for index in indices:
                number = table.rows[index].values[column.key].value
                if number is not None and not isinstance(number, str):
                    shown[index] = sign * float(printed(column, number))
            if len(shown) < 2:
                continue
            levels = sorted(set(shown.values()), reverse=True)
            if len(levels) < 2:
                continue
            for index, number in shown.items():
                if number == levels[0]:
                    marks[index, column.key] = "best"
                elif number == levels[1]:
                    marks[index, column.key] = "second"
    return Table(table.name, table.title, table.columns, table.rows, table.footnotes, table.impossible, marks)
