"""Put a figure's SVG inside a page: no prolog, ids of its own, nothing active."""

from __future__ import annotations

import re
from pathlib import Path

from wmlab.errors import InputError

_ACTIVE = re.compile(
    r"<\s*(script|foreignObject|iframe|image|a|animate|set)\b|\son\w+\s*=|(?:href|src)\s*=\s*[\"'](?!#)", re.I
)


def inline(path: str | Path, prefix: str) -> str:
    """The ``<svg>`` element of a file, ids prefixed with ``prefix`` and its size left to the page.

    Raises InputError when the file is no SVG or holds scripts, handlers or outside references.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError.at(path, f"cannot be read ({error})", "make the figures again") from None
    text = re.sub(r"<!--.*?-->|<\?.*?\?>|<!DOCTYPE[^>]*>|<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    found = re.search(r"<svg\b.*</svg>", text, flags=re.DOTALL)
    if found is None:
        raise InputError.at(path, "no svg element", "make the figures again")
    svg = found.group(0)
    if _ACTIVE.search(svg) or "<!" in svg:
        raise InputError.at(
            path, "the SVG holds active content", "make the figures with `wmlab report figures`"
        )
    svg = re.sub(r'\bid="', f'id="{prefix}-', svg)
    svg = re.sub(r'href="#', f'href="#{prefix}-', svg)
    svg = svg.replace("url(#", f"url(#{prefix}-")
    head, _, body = svg.partition(">")
    width = re.search(r'\bwidth="([\d.]+)pt"', head)
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)
    limit = f' style="max-width:{float(width.group(1)) * 1.5:.0f}px"' if width else ""
    return f'{head} role="img" aria-labelledby="caption-{prefix}"{limit}>{body}'
