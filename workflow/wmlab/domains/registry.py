"""Domains by name. Importing this imports no game engine."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import cast

from wmlab.domains.base import Domain, DomainMaker, Options
from wmlab.errors import InputError

_MODULES = {
    "textworld": "wmlab.domains.textworld.domain",
    "scienceworld": "wmlab.domains.scienceworld.domain",
    "cookingworld": "wmlab.domains.cookingworld.domain",
}
DOMAINS = tuple(_MODULES)


def check_domain(domain: str) -> str:
    """Return the name, or raise InputError with the known ones."""
    if domain not in _MODULES:
        raise InputError(f"domain {domain!r}: not known; choose from {', '.join(DOMAINS)}")
    return domain


def make_domain(domain: str, cache_dir: str | Path, options: Options | None = None) -> Domain:
    """The domain with its settings. Raises InputError for an unknown domain or option."""
    module = importlib.import_module(_MODULES[check_domain(domain)])
    return cast(DomainMaker, module.make)(Path(cache_dir), options or {})


def check_options(domain: str, options: Options, known: tuple[str, ...] = ()) -> None:
    """Raise InputError when ``options`` has a key that the domain does not know."""
    for key in options:
        if key not in known:
            choices = f"choose from {', '.join(known)}" if known else "it has no options"
            raise InputError(f"domain {domain}: option {key!r} is not known; {choices}")
