"""Domains by name. Importing this imports no game engine."""

from __future__ import annotations

from pathlib import Path

from wmlab.domains.base import Environment
from wmlab.errors import InputError

DOMAINS = ("textworld",)


def check_domain(domain: str) -> str:
    """Return the name, or raise InputError with the known ones."""
    if domain not in DOMAINS:
        raise InputError(f"domain {domain!r}: not known; choose from {', '.join(DOMAINS)}")
    return domain


class EnvironmentFactory:
    """Picklable recipe of an environment, for worker processes."""

    def __init__(self, domain: str, cache_dir: str | Path, *, every_step: bool = False) -> None:
        self.domain = check_domain(domain)
        self.cache_dir = str(cache_dir)
        self.every_step = every_step

    def __call__(self) -> Environment:
        from wmlab.domains.textworld.environment import TextWorldEnvironment

        return TextWorldEnvironment(self.cache_dir, every_step=self.every_step)
