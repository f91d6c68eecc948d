"""One look for every figure, and byte-identical files from identical data.

Widths are those of a two-column paper (3.25 in and 6.75 in), text is 8 pt, colours are Okabe and Ito's palette,
which colour-blind readers can tell apart. Files carry no date and no random id.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

from wmlab.io.atomic import atomic_path, write_text
from wmlab.report.labels import METHOD_LABELS

matplotlib.use("Agg")

from matplotlib.figure import Figure

COLUMN = 3.25  # inches
PAGE = 6.75  # inches
BLACK, GREY = "#000000", "#767676"
OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
METHOD_COLOURS = {
    "copy": GREY,
    "w2w": "#E69F00",
    "f1": "#009E73",
    "em": "#CC79A7",
    "behr": "#0072B2",
    "more_sft": BLACK,
    "mem_sft": "#D55E00",
    "mem_behr": "#56B4E9",
}
METHOD_MARKERS = {
    "copy": "x",
    "w2w": "s",
    "f1": "^",
    "em": "D",
    "behr": "o",
    "more_sft": "<",
    "mem_sft": "v",
    "mem_behr": "P",
}
_SPARE_COLOURS = ("#F0E442",)
_SPARE_MARKERS = ("X", "*")
AGENT_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.1,
    "lines.markersize": 4,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.4,
    "axes.axisbelow": True,
    "figure.constrained_layout.use": True,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "text.parse_math": False,  # an agent id with a dollar sign is text
}


@dataclass(frozen=True)
class Drawing:
    """A figure with its caption (without ``Figure N``), the data drawn, and the files the data came from."""

    name: str
    caption: str
    figure: Figure
    data: tuple[dict[str, Any], ...]
    sources: tuple[str, ...]


@contextmanager
def style(name: str) -> Iterator[None]:
    """Drawing and saving happen inside this block; ``name`` salts the SVG ids."""
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": f"wmlab-{name}"}):
        yield


def method_style(method: str, methods: Sequence[str]) -> tuple[str, str]:
    """Colour and marker of a method; unknown methods take spare ones in the order of ``methods``."""
    if method in METHOD_COLOURS:
        return METHOD_COLOURS[method], METHOD_MARKERS[method]
    spare = [m for m in methods if m not in METHOD_LABELS].index(method)
    return _SPARE_COLOURS[spare % len(_SPARE_COLOURS)], _SPARE_MARKERS[spare % len(_SPARE_MARKERS)]


def message_figure(text: str, width: float = COLUMN) -> Figure:
    """A figure that only says why there is nothing to draw. Call inside ``style``."""
    import textwrap

    figure = Figure(figsize=(width, 0.9))
    lines = "\n".join(textwrap.wrap(text, int(width * 17)))
    figure.text(0.5, 0.5, lines, ha="center", va="center", color=GREY)
    return figure


def block_title(domain: str, backbone: str) -> str:
    """Panel title of a (domain, backbone) block."""
    return " / ".join(part for part in (domain, backbone) if part)


def data_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """The data of a figure: columns in the order they first appear, at most 10 significant digits."""
    header = list(dict.fromkeys(key for row in rows for key in row))
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        cells = [row.get(key) for key in header]
        writer.writerow(["" if c is None else f"{c:.10g}" if isinstance(c, float) else str(c) for c in cells])
    return buffer.getvalue()


def save(drawing: Drawing, folder: str | Path, extra_formats: Sequence[str] = ()) -> list[Path]:
    """Write ``{name}.pdf``, ``.svg``, ``.csv`` and ``.caption.txt`` into ``folder``; return their paths."""
    base = Path(folder) / drawing.name
    metadata: dict[str, dict[str, Any]] = {
        "pdf": {"Creator": "wmlab", "Producer": "matplotlib", "CreationDate": None},
        "svg": {"Creator": "wmlab", "Date": None},
        "png": {"Software": None},
    }
    paths = []
    with style(drawing.name):
        for suffix in ("pdf", "svg", *extra_formats):
            path = base.with_name(f"{drawing.name}.{suffix}")
            with atomic_path(path) as temporary:
                drawing.figure.savefig(temporary, format=suffix, dpi=200, metadata=metadata[suffix])
            paths.append(path)
    write_text(base.with_name(f"{drawing.name}.csv"), data_csv(drawing.data))
    write_text(base.with_name(f"{drawing.name}.caption.txt"), drawing.caption + "\n")
    return [*paths, base.with_name(f"{drawing.name}.csv"), base.with_name(f"{drawing.name}.caption.txt")]
