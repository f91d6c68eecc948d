"""The picture of the workflow: Snakemake's rule graph, reduced to the arrows that say something."""

from __future__ import annotations

import re
from collections.abc import Iterable

from wmlab.errors import InputError

BEGIN, END = "<!-- dag: made by `make dag` -->", "<!-- /dag -->"
_NODE = re.compile(r"^\s*id(\d+)\[(\w+)\]$")
_ARROW = re.compile(r"^\s*id(\d+) --> id(\d+)$")


def reduce_graph(arrows: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Arrows that no longer path implies (transitive reduction of an acyclic graph), sorted."""
    after: dict[str, set[str]] = {}
    for source, target in arrows:
        after.setdefault(source, set()).add(target)

    def reach(start: str) -> set[str]:
        found: set[str] = set()
        stack = list(after.get(start, ()))
        while stack:
            node = stack.pop()
            if node not in found:
                found.add(node)
                stack.extend(after.get(node, ()))
        return found

    return sorted(
        (source, target)
        for source, targets in after.items()
        for target in targets
        if not any(target in reach(other) for other in targets - {target})
    )


def picture(rulegraph: str) -> str:
    """A Mermaid flow chart from ``snakemake --rulegraph mermaid-js``. Raises InputError for other text."""
    names: dict[str, str] = {}
    arrows: list[tuple[str, str]] = []
    for line in rulegraph.splitlines():
        if node := _NODE.match(line):
            names[node[1]] = node[2]
        elif arrow := _ARROW.match(line):
            arrows.append((arrow[1], arrow[2]))
    if not arrows:
        raise InputError(
            "standard input: no rule graph; pipe `snakemake --rulegraph mermaid-js` into this command"
        )
    named = [(names[a], names[b]) for a, b in arrows]
    lines = [f"    {a} --> {b}" for a, b in reduce_graph(named)]
    return "\n".join(["```mermaid", "flowchart LR", *lines, "```"])


def embed(text: str, chart: str) -> str:
    """``text`` with the chart between its two marks. Raises InputError without them."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise InputError(f"README: the marks {BEGIN} and {END} are missing; put them where the picture goes")
    return f"{head}{BEGIN}\n{chart}\n{END}{tail}"
