"""Render a table as CSV (raw numbers), Markdown, booktabs LaTeX and the JSON the report site reads.

All text that may come from a model, an agent id or a file is escaped for the format it goes to.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wmlab.io.atomic import write_json, write_text
from wmlab.report.tables import Column, Mark, Table, Value, printed

DASH = "–"
FORMATS = ("csv", "md", "tex", "json")

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "±": r"$\pm$",
    "−": r"$-$",
    "→": r"$\rightarrow$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "×": r"$\times$",
    "Δ": r"$\Delta$",
    "χ": r"$\chi$",
    "κ": r"$\kappa$",
    "²": r"\textsuperscript{2}",
    "–": "--",
    "…": r"\dots{}",
    "\n": " ",
    "\r": " ",
}
_SUBSCRIPT = re.compile(r"[A-Za-z]+_(Real|WM|W2R|pw)")


@dataclass(frozen=True)
class Shown:
    """A cell as text: ``text`` unescaped, its mark, and the letter of its footnote."""

    text: str
    mark: Mark
    note: str


def latex_escape(text: str) -> str:
    """Escape text for LaTeX; a newline becomes a space."""
    return "".join(_LATEX.get(character, character) for character in text)


def markdown_escape(text: str) -> str:
    """Escape text for a Markdown table cell or line, raw HTML included."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_\[\]|~#$])", r"\\\1", text)
    return re.sub(r"[\r\n]+", " ", text)


def show(column: Column, value: Value) -> str:
    """The text of a cell without its mark and its footnote letter."""
    if value.value is None:
        return DASH
    if isinstance(value.value, str):
        return value.value
    text = printed(column, value.value)
    digits = 1 if column.digits is None else column.digits
    if value.ci is not None:
        low, high = (printed(column, bound) for bound in value.ci)
        text += f" [{low}, {high}]"
    elif value.sd is not None and column.spread:
        text += f" ± {value.sd:.{digits}f}"
    return text


def shown_rows(table: Table) -> tuple[list[list[Shown]], list[str]]:
    """Cells as text and the lettered reasons of the nulls, in order of appearance."""
    letters: dict[str, str] = {}
    rows = []
    for index, row in enumerate(table.rows):
        cells = []
        for column in table.columns:
            value = row.values[column.key]
            note = ""
            if value.value is None:
                reason = value.reason or "not measured"
                note = letters.setdefault(reason, _letter(len(letters)))
            cells.append(Shown(show(column, value), table.marks.get((index, column.key), ""), note))
        rows.append(cells)
    return rows, [f"{letter}: {reason}" for reason, letter in letters.items()]


def _letter(index: int) -> str:
    """0 → a, 25 → z, 26 → aa."""
    head, tail = divmod(index, 26)
    return (_letter(head - 1) if head else "") + "abcdefghijklmnopqrstuvwxyz"[tail]


def to_csv(table: Table) -> str:
    """Raw numbers (at most 10 significant digits); spread, bounds and reasons in columns of their own."""
    fields: list[tuple[str, Callable[[Value], Any]]] = []
    header: list[str] = []
    for column in table.columns:
        values = [row.values[column.key] for row in table.rows]
        fields.append((column.key, lambda v: v.value))
        header.append(column.key)
        if any(value.sd is not None for value in values):
            fields.append((column.key, lambda v: v.sd))
            header.append(f"{column.key}_sd")
        if any(value.ci is not None for value in values):
            fields.append((column.key, lambda v: v.ci[0] if v.ci else None))
            fields.append((column.key, lambda v: v.ci[1] if v.ci else None))
            header += [f"{column.key}_lo", f"{column.key}_hi"]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*header, "reasons", "sources"])
    for row in table.rows:
        reasons = "; ".join(
            f"{key}: {v.reason}" for key, v in row.values.items() if v.value is None and v.reason
        )
        cells = [_raw(get(row.values[key])) for key, get in fields]
        writer.writerow([*cells, reasons, " ".join(row.sources)])
    if table.impossible:
        writer.writerow([f"not possible: {table.impossible}"] + [""] * (len(header) + 1))
    return buffer.getvalue()


def _raw(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def to_markdown(table: Table) -> str:
    """A GitHub-flavoured table with its title, footnotes and marks."""
    rows, reasons = shown_rows(table)
    lines = [f"**{markdown_escape(table.title)}**", ""]
    if table.impossible:
        lines += [f"Not possible: {markdown_escape(table.impossible)}"]
    else:
        header = [markdown_escape(f"{c.label} {c.arrow}".strip()) for c in table.columns]
        rule = [":--" if c.is_text else "--:" for c in table.columns]
        lines += [f"| {' | '.join(header)} |", f"|{'|'.join(rule)}|"]
        for row in rows:
            lines.append(f"| {' | '.join(_markdown_cell(cell) for cell in row)} |")
    notes = [*table.footnotes, *reasons]
    if notes:
        lines += ["", *(f"- {markdown_escape(note)}" for note in notes)]
    return "\n".join(lines) + "\n"


def _markdown_cell(cell: Shown) -> str:
    text = markdown_escape(cell.text)
    text = {"best": f"**{text}**", "second": f"<u>{text}</u>", "": text}[cell.mark]
    return f"{text}<sup>{cell.note}</sup>" if cell.note else text


def latex_label(column: Column) -> str:
    """A header with its subscripts and arrow: ``CR_pw_T`` becomes CR with subscript pw and superscript T."""
    text = column.label
    if text == "CR_pw_T":
        body = r"CR\textsubscript{pw}\textsuperscript{T}"
    elif _SUBSCRIPT.fullmatch(text):
        head, _, tail = text.partition("_")
        body = f"{head}\\textsubscript{{{tail}}}"
    else:
        body = latex_escape(text)
    return f"{body} {latex_escape(column.arrow)}".strip()


def to_latex(table: Table) -> str:
    """A booktabs table environment; needs ``booktabs`` only. Blocks are separated by a thin rule."""
    rows, reasons = shown_rows(table)
    lines = [
        "% needs \\usepackage{booktabs}",
        r"\begin{table}[t]",
        r"\centering",
        r"\small",
        f"\\caption{{{latex_escape(table.title)}}}",
        f"\\label{{tab:{re.sub(r'[^A-Za-z0-9]+', '-', table.name)}}}",
    ]
    if table.impossible:
        lines.append(f"Not possible: {latex_escape(table.impossible)}")
    else:
        spec = "".join("l" if column.is_text else "r" for column in table.columns)
        lines += [f"\\begin{{tabular}}{{{spec}}}", r"\toprule"]
        lines += [" & ".join(latex_label(column) for column in table.columns) + r" \\", r"\midrule"]
        for index, row in enumerate(rows):
            if index and table.rows[index].block != table.rows[index - 1].block:
                lines.append(r"\midrule")
            lines.append(" & ".join(_latex_cell(cell) for cell in row) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}"]
    notes = [*table.footnotes, *reasons]
    if notes:
        joined = r" \\ ".join(latex_escape(note) for note in notes)
        lines += ["", r"\smallskip", f"\\parbox{{\\linewidth}}{{\\footnotesize {joined}}}"]
    lines.append(r"\end{table}")
    return "\n".join(lines) + "\n"


def _latex_cell(cell: Shown) -> str:
    text = latex_escape(cell.text)
    # A cell that opens with a bracket would be read as the option of the row break before it.
    text = f"{{{text}}}" if text.startswith("[") else text
    text = {"best": f"\\textbf{{{text}}}", "second": f"\\underline{{{text}}}", "": text}[cell.mark]
    return f"{text}\\textsuperscript{{{cell.note}}}" if cell.note else text


def to_object(table: Table) -> dict[str, Any]:
    """The table as the site reads it: texts, marks, notes and the source files of each row."""
    rows, reasons = shown_rows(table)
    return {
        "schema": 1,
        "name": table.name,
        "title": table.title,
        "columns": [
            {"key": c.key, "label": c.label, "arrow": c.arrow, "text": c.is_text} for c in table.columns
        ],
        "rows": [
            {
                "cells": [{"text": cell.text, "mark": cell.mark, "note": cell.note} for cell in shown],
                "block": list(row.block),
                "sources": list(row.sources),
            }
            for shown, row in zip(rows, table.rows, strict=True)
        ],
        "footnotes": [*table.footnotes, *reasons],
        "impossible": table.impossible,
    }


def write_table_files(table: Table, folder: str | Path) -> list[Path]:
    """Write ``{name}.csv``, ``.md``, ``.tex`` and ``.json`` into ``folder``; return their paths."""
    paths = [Path(folder) / f"{table.name}.{suffix}" for suffix in FORMATS]
    write_text(paths[0], to_csv(table))
    write_text(paths[1], to_markdown(table))
    write_text(paths[2], to_latex(table))
    write_json(paths[3], to_object(table))
    return paths
