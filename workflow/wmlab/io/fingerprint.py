"""Fingerprint of the code a rule depends on, so that an edit reruns exactly what it affects.

Nothing is imported: source files are parsed, comments, docstrings, layout and ``help=`` texts fall
away, and the hash covers the named code with everything of ``wmlab`` that it imports, directly or
not. Snakemake keeps the value as a parameter of the rule and reruns the rule when it changes.

A module that is named by a computed string (``import_module(f"wmlab.rewards.{name}")``) is
invisible here: the rule names it as one more target. A literal string that equals a module's name
(a registry) counts as an import.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

PACKAGE = "wmlab"
SOURCE = Path(__file__).resolve().parents[1]
_HELP_CALLS = {"Option", "Argument", "Typer", "command", "callback", "Field"}
_HELP_KEYWORDS = {"help", "short_help", "epilog", "description"}

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Part:
    """A piece of a module: its digest, the modules it imports, the names it uses."""

    digest: str
    imports: frozenset[str]
    names: frozenset[str]


@dataclass(frozen=True)
class Module:
    """A parsed module: its module-level code, and its module-level functions by name."""

    body: Part
    functions: dict[str, Part]
    commands: dict[str, str]  # CLI command name -> function name


def fingerprint(*targets: str, source: Path = SOURCE) -> str:
    """Sha256 over the code of ``targets`` and the ``wmlab`` modules they import, transitively.

    A target is a module (``wmlab.training.grpo``) or one function or CLI command of a module
    (``wmlab.cli.train:grpo``): then the module's other functions count only where that one uses
    them. ``source`` is the folder of the package. A target that does not exist contributes its
    name, so that the value changes when it appears.
    """
    digests: dict[str, str] = {}
    waiting: list[str] = []
    for target in targets:
        name, _, function = target.partition(":")
        if not function:
            waiting.append(name)
            continue
        parsed = _parse(name, source)
        if parsed is None:
            digests[target] = "absent"
            continue
        parts = list(_reachable(parsed, function))
        digests[target] = _combine(part.digest for part in parts) if parts else "absent"
        waiting.extend(_parents(name))
        for part in parts:
            waiting.extend(part.imports)
    while waiting:
        name = waiting.pop()
        if name in digests:
            continue
        parsed = _parse(name, source)
        if parsed is None:
            digests[name] = "absent"
            continue
        parts = [parsed.body, *parsed.functions.values()]
        digests[name] = _combine(part.digest for part in parts)
        waiting.extend(_parents(name))
        for part in parts:
            waiting.extend(part.imports)
    return _combine(f"{name} {digest}" for name, digest in sorted(digests.items()))


def exists(target: str, source: Path = SOURCE) -> bool:
    """Whether ``target`` names a module, function or command that is there."""
    name, _, function = target.partition(":")
    parsed = _parse(name, source)
    return parsed is not None and (not function or any(True for _ in _reachable(parsed, function)))


def _combine(values: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(values).encode()).hexdigest()


def _parents(name: str) -> list[str]:
    """The packages whose ``__init__`` runs before module ``name``."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def _reachable(module: Module, function: str) -> Iterator[Part]:
    """The module-level code, ``function``, and the module's functions that these use."""
    start = function if function in module.functions else module.commands.get(function)
    if start is None:
        return
    yield module.body
    seen: set[str] = set()
    waiting = [start, *(module.body.names & module.functions.keys())]
    parts = []
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        part = module.functions[name]
        parts.append((name, part))
        waiting.extend(part.names & module.functions.keys())
    yield from (part for _, part in sorted(parts, key=lambda pair: pair[0]))


def _file(name: str, source: Path) -> Path | None:
    """The file of module ``name``, or None when ``name`` is no module of the package."""
    head, *rest = name.split(".")
    if head != PACKAGE:
        return None
    base = source.joinpath(*rest)
    for candidate in (base.with_suffix(".py"), base / "__init__.py"):
        if (rest or candidate.name == "__init__.py") and candidate.is_file():
            return candidate
    return None


def _parse(name: str, source: Path) -> Module | None:
    path = _file(name, source)
    if path is None:
        return None
    state = path.stat()
    return _parse_file(name, source, path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=4096)
def _parse_file(name: str, source: Path, path: Path, mtime_ns: int, size: int) -> Module:
    """Parse one file; the cache holds as long as the file keeps its time and size."""
    tree = ast.parse(path.read_bytes(), filename=path.name)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    functions = {node.name: node for node in tree.body if isinstance(node, Function)}
    rest = ast.Module([node for node in tree.body if not isinstance(node, Function)], [])
    commands = {command: node.name for node in functions.values() for command in _command_names(node)}
    return Module(
        _part(rest, package, source),
        {key: _part(ast.Module([node], []), package, source) for key, node in functions.items()},
        commands,
    )


def _command_names(node: Function) -> Iterator[str]:
    """Names that ``@app.command("name")`` gives a function."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Attribute):
            for argument in decorator.args[:1]:
                if decorator.func.attr == "command" and isinstance(argument, ast.Constant):
                    yield str(argument.value)


class _Reader:
    """One pass over a piece of a module: its plain text for hashing, its names and its imports."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.tokens: list[str] = []
        self.names: set[str] = set()
        self.imports: set[str] = set()

    def read(self, node: ast.AST) -> None:
        """Append the node's plain form: no positions, docstrings, help texts or type-checking imports."""
        kind = type(node)
        self.tokens.append(kind.__name__)
        if kind is ast.Name:
            self.names.add(node.id)  # type: ignore[attr-defined]
        elif isinstance(node, ast.Import):
            self.imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, self.package)
            self.imports.add(base)
            self.imports.update(f"{base}.{alias.name}" for alias in node.names)
        elif kind is ast.Constant:
            value = node.value  # type: ignore[attr-defined]
            if isinstance(value, str) and value.startswith(f"{PACKAGE}."):
                self.imports.add(value.partition(":")[0])
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                self.tokens.append("[")
                for item in _meaningful(node, field, value):
                    if isinstance(item, ast.AST):
                        self.read(item)
                    else:
                        self.tokens.append(repr(item))
                self.tokens.append("]")
            elif isinstance(value, ast.AST):
                self.read(value)
            else:
                self.tokens.append(repr(value))


def _meaningful(node: ast.AST, field: str, items: list[Any]) -> list[Any]:
    """The items of a list field that can change what the code does."""
    if field == "body" and isinstance(node, _DOCUMENTED):
        first = items[0] if items else None
        if (
            isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Constant)
            and isinstance(first.value.value, str)
        ):
            return items[1:]
    if field == "body" and isinstance(node, ast.If) and _last_name(node.test) == "TYPE_CHECKING":
        return []
    if field == "keywords" and isinstance(node, ast.Call) and _last_name(node.func) in _HELP_CALLS:
        return [keyword for keyword in items if keyword.arg not in _HELP_KEYWORDS]
    return items


def _last_name(node: ast.AST) -> str:
    """``c`` of the expression ``c`` or ``a.b.c``."""
    return str(node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", ""))


def _part(tree: ast.Module, package: str, source: Path) -> Part:
    reader = _Reader(package)
    reader.read(tree)
    known = frozenset(name for name in reader.imports if _file(name, source) is not None)
    digest = hashlib.sha256("\0".join(reader.tokens).encode()).hexdigest()
    return Part(digest, known, frozenset(reader.names))


def _absolute(node: ast.ImportFrom, package: str) -> str:
    """The module a ``from`` import names, relative ones resolved against ``package``."""
    if node.level == 0:
        return node.module or ""
    parts = package.split(".")
    base = parts[: len(parts) - node.level + 1]
    return ".".join([*base, node.module] if node.module else base)
