"""What is read from the alfworld wheel: PDDL domain, text grammar, goal templates, constants, floor plans.

Nothing of it is copied into this project; all of it is looked up where pip installed it. ``alfworld``
itself is never imported (its package pulls the whole agent zoo): its files are found, its two data
modules are loaded by path.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

from wmlab.domains.alfworld.grammar import Grammar, read_grammar
from wmlab.domains.alfworld.pddl import Action, read_domain
from wmlab.errors import EnvironmentFailure, InputError

DIALECTS = ("move", "put")
_OLD_WORDS = (  # before alfworld 0.4.0; the reverse of its own migration script
    ("You arrive at {r.name}.", "You arrive at {lend.name}."),
    ("move {o} to {r}", "put {o} in/on {r}"),
    ("You move the {o.name} to the {r.name}.", "You put the {o.name} in/on the {r.name}."),
)
_ABSENT_BEFORE = ("help",)


@cache
def root() -> Path:
    """The wheel's package folder. Raises EnvironmentFailure when alfworld is not installed."""
    spec = importlib.util.find_spec("alfworld")
    if spec is None or not spec.submodule_search_locations:
        raise EnvironmentFailure("alfworld is not installed; run `pip install alfworld==0.4.2`")
    return Path(next(iter(spec.submodule_search_locations)))


def text(*parts: str) -> str:
    """A text file of the wheel."""
    path = root().joinpath(*parts)
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise EnvironmentFailure(f"{path}: alfworld's file cannot be read ({error})") from error


@cache
def data_module(name: str) -> ModuleType:
    """``constants`` or ``goal_library`` of alfworld.gen: plain tables."""
    path = root() / "gen" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"_alfworld_{name}", path)
    if spec is None or spec.loader is None or not path.exists():
        raise EnvironmentFailure(f"{path}: alfworld's module is missing")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_dialect(dialect: str) -> str:
    """Return it, or raise InputError with the known ones."""
    if dialect not in DIALECTS:
        raise InputError(
            f"domain alfworld: dialect {dialect!r} is not known; choose from {', '.join(DIALECTS)}"
        )
    return dialect


@cache
def rules(dialect: str) -> tuple[tuple[Action, ...], Grammar]:
    """Actions and grammar in a dialect: ``move`` as the wheel has them, ``put`` as before alfworld 0.4.0."""
    grammar = text("data", "alfred.twl2")
    actions = read_domain(text("data", "alfred.pddl"))
    if check_dialect(dialect) == "put":
        for new, old in _OLD_WORDS:
            if new not in grammar:
                raise EnvironmentFailure(
                    f"alfworld's grammar no longer says {new!r}; dialect put is not possible"
                )
            grammar = grammar.replace(new, old)
        actions = tuple(action for action in actions if action.name not in _ABSENT_BEFORE)
    return actions, read_grammar(grammar)
