"""Typed errors, one per boundary, each with the exit code a command ends with.

Codes (design contract): 0 done, 2 bad input or config, 3 environment or model failure,
4 incomplete panel. A message is one line that names the file, the row and the fix.
"""

from __future__ import annotations


class WmlabError(Exception):
    """Base of every error that a user can act on."""

    exit_code = 3


class InputError(WmlabError):
    """A file, argument or configuration the user gave is wrong."""

    exit_code = 2

    @classmethod
    def at(cls, path: object, problem: str, fix: str, row: int | None = None) -> InputError:
        """Build the one-line message ``path[, row N]: problem; fix``."""
        where = f"{path}" if row is None else f"{path}, row {row}"
        return cls(f"{where}: {problem}; {fix}")


class EnvironmentFailure(WmlabError):
    """A real environment, or the process that holds it, failed."""

    exit_code = 3


class ModelFailure(WmlabError):
    """A language model could not be loaded, trained or asked."""

    exit_code = 3


class IncompletePanelError(WmlabError):
    """Episodes are missing for tasks of the frozen panel."""

    exit_code = 4
