"""Refuse a table from an incomplete study: every cell of the matrix must be there, with its whole panel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wmlab.errors import IncompletePanelError
from wmlab.report.inputs import Identity, Loaded
from wmlab.report.labels import ordered_methods

SINGLE_SEED = frozenset({"w2w", "copy"})
"""Methods without a training seed of their own: the SFT model and the copy baseline."""


def expected_identities(found: Iterable[Identity], methods: Sequence[str] = ()) -> list[Identity]:
    """The full matrix implied by what was found: blocks x methods x seeds x agents of the domain.

    ``methods`` must be present too. GRPO methods share their seeds; agents are those seen in the domain.
    """
    known = list(found)
    wanted = ordered_methods([*(identity.method for identity in known), *methods])
    seeds = sorted({i.seed for i in known if i.method not in SINGLE_SEED}) or [0]
    single = {m: sorted({i.seed for i in known if i.method == m}) or [0] for m in wanted if m in SINGLE_SEED}
    agents: dict[str, set[str]] = {}
    for identity in known:
        agents.setdefault(identity.domain, set()).add(identity.agent)
    return [
        Identity(domain, backbone, method, seed, agent)
        for domain, backbone in sorted({identity.block for identity in known})
        for method in wanted
        for seed in single.get(method, seeds)
        for agent in sorted(agents[domain])
    ]


def result_path(identity: Identity, stage: str, name: str) -> str:
    """Where the result tree keeps a file of this cell, below ``results/{study}/``."""
    parts = [stage, identity.domain, identity.backbone, identity.method, f"seed{identity.seed}"]
    return "/".join([*parts, *([identity.agent] if identity.agent else []), name])


def check_matrix(
    table: str, items: Sequence[Loaded], stage: str, name: str, methods: Sequence[str] = ()
) -> None:
    """Raise IncompletePanelError that lists each missing file of the matrix."""
    if not items:
        raise IncompletePanelError(f"table {table}: no {name} was given; make {stage}/ first")
    found = {item.identity for item in items}
    missing = [i for i in expected_identities(found, methods) if i not in found]
    if missing:
        paths = ", ".join(result_path(identity, stage, name) for identity in missing)
        raise IncompletePanelError(
            f"table {table}: {len(missing)} of the matrix's files are missing: {paths}; make them or narrow the study"
        )


def check_panels(table: str, cells: Sequence[Loaded], allow_incomplete: bool) -> str | None:
    """Raise IncompletePanelError when episodes are missing; with ``allow_incomplete`` return the footnote."""
    short = [cell for cell in cells if cell.value["n_missing"]]
    if not short:
        return None
    listed = ", ".join(
        f"{result_path(c.identity, 'consistency', 'cell.json')} ({c.value['n_missing']} of {c.value['n']})"
        for c in short
    )
    if not allow_incomplete:
        raise IncompletePanelError(
            f"table {table}: episodes are missing in {listed}; finish the rollouts or pass --allow-incomplete"
        )
    return f"Incomplete: missing episodes count as failures in {listed}."
