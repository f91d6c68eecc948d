"""Domains by name. Importing this imports no game engine.

Modules are found by computed names, which fingerprints cannot see: a rule that opens an environment
names its domain's modules itself (rules/common.smk), so that an edit of one domain reruns that one only.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import cast

from wmlab.domains.base import Domain, DomainMaker, Options
from wmlab.errors import InputError

DOMAINS = ("textworld", "webshop", "alfworld", "scienceworld", "cookingworld")


def check_domain(domain: str) -> str:
    """Return the name, or raise InputError with the known ones."""
    if domain not in DOMAINS:
        raise InputError(f"domain {domain!r}: not known; choose from {', '.join(DOMAINS)}")
    return domain


def make_domain(domain: str, cache_dir: str | Path, options: Options | None = None) -> Domain:
    """The domain with its settings. Raises InputError for an unknown domain or option.

    With the option ``server`` its environments live on that AgentGym server.
    """
    options = options or {}
    if "server" in options:
        return cast(Domain, _module("agentgym").make(domain, Path(cache_dir), options))
    return cast(DomainMaker, _module(check_domain(domain)).make)(Path(cache_dir), options)


def _module(package: str) -> ModuleType:
    return importlib.import_module(f"wmlab.domains.{package}.domain")


def parse_options(text: str) -> dict[str, str | int | float | bool]:
    """The options of a command line. Raises InputError when they are not a JSON object of plain values."""
    try:
        options = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"--options: not JSON ({error}); give an object") from None
    if not isinstance(options, dict):
        raise InputError("--options: not a JSON object; give one, such as {}")
    for name, value in options.items():
        if not isinstance(value, str | int | float | bool):
            raise InputError(f"--options: {name!r} is not a text, number or truth value; give one")
    return options


def check_options(domain: str, options: Options, known: tuple[str, ...] = ()) -> None:
    """Raise InputError when ``options`` has a key that the domain does not know."""
    for key in options:
        if key not in known:
            choices = f"choose from {', '.join(known)}" if known else "it has no options"
            raise InputError(f"domain {domain}: option {key!r} is not known; {choices}")


def check_split(split: str, known: tuple[str, ...] = ("train", "validation", "test")) -> None:
    """Raise InputError when a domain has no such split."""
    if split not in known:
        raise InputError(f"split {split!r}: not known; choose from {', '.join(known)}")
