"""A reader of the PDDL that household games are written in.

The ALFRED domain needs typing, ``and``/``or``/``not``/``exists`` and conditional effects; anything else is
refused. As in FastDownward, names are lower-cased and a type keeps a stray comma.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from wmlab.errors import InputError

Atom = tuple[str, ...]
"""Arguments of a fact; the predicate is the key under which it is kept."""
Facts = dict[str, frozenset[Atom]]
"""Immutable sets: copying a state copies the dictionary only, and a set is its own cache key."""
Binding = dict[str, str]
NONE: frozenset[Atom] = frozenset()
DEPTH = 100
CLAUSES = 1000


@dataclass(frozen=True)
class Literal:
    """A possibly negated predicate over variables (``?x``) and constants."""

    predicate: str
    arguments: Atom
    positive: bool = True

    def ground(self, binding: Mapping[str, str]) -> Atom:
        """Its arguments under a binding of all its variables."""
        return tuple(binding[a] if a[0] == "?" else a for a in self.arguments)


@dataclass(frozen=True)
class Clause:
    """A conjunction with the types of its variables (parameters and existential ones)."""

    literals: tuple[Literal, ...]
    types: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Effect:
    """What an action changes when ``condition`` (literals over bound variables) holds."""

    literal: Literal
    condition: tuple[Literal, ...] = ()


@dataclass(frozen=True)
class Action:
    """An action schema: ``clauses`` are the disjuncts of its precondition."""

    name: str
    parameters: tuple[str, ...]
    clauses: tuple[Clause, ...]
    effects: tuple[Effect, ...]
    may_be_idle: bool  # all its additions can restate preconditions


@dataclass(frozen=True)
class Problem:
    """Objects by type, initial facts, goal."""

    objects: Mapping[str, tuple[str, ...]]
    facts: Facts
    goal: tuple[Clause, ...]


def read_lisp(text: str, what: str) -> list[Any]:
    """Nested lists of lower-case tokens. Raises InputError on unbalanced parentheses."""
    lines = (line.split(";", 1)[0] for line in text.split("\n"))
    tokens = " ".join(lines).replace("(", " ( ").replace(")", " ) ").replace("?", " ?").lower().split()
    stack: list[list[Any]] = [[]]
    for token in tokens:
        if token == "(":
            if len(stack) > DEPTH:
                raise InputError(f"{what}: nested more than {DEPTH} deep")
            stack.append([])
        elif token == ")":
            if len(stack) == 1:
                raise InputError(f"{what}: a closing parenthesis too many; is this PDDL?")
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    if len(stack) != 1 or len(stack[0]) != 1:
        raise InputError(f"{what}: unbalanced parentheses; is this PDDL?")
    return list(stack[0][0])


def _typed(tokens: Sequence[str]) -> list[tuple[str, str]]:
    """``a b - t c - u`` → [(a, t), (b, t), (c, u)]. A type keeps a stray comma, as FastDownward keeps it."""
    pairs: list[tuple[str, str]] = []
    waiting: list[str] = []
    words = iter(tokens)
    for word in words:
        if word == "-":
            kind = next(words, "object")
            pairs += [(name, kind) for name in waiting]
            waiting = []
        else:
            waiting.append(word)
    return pairs + [(name, "object") for name in waiting]


def _disjuncts(formula: Any, scope: Mapping[str, str], fresh: Iterator[int]) -> list[Clause]:
    """Disjunctive normal form; existential variables are renamed apart."""
    if not formula:
        return [Clause((), ())]
    head = formula[0]
    if head == "and":
        clauses = [Clause((), ())]
        for part in formula[1:]:
            options = _disjuncts(part, scope, fresh)
            if len(clauses) * len(options) > CLAUSES:
                raise InputError(f"PDDL: a condition has more than {CLAUSES} cases")
            clauses = [Clause(c.literals + o.literals, c.types + o.types) for c in clauses for o in options]
        return clauses
    if head == "or":
        return [clause for part in formula[1:] for clause in _disjuncts(part, scope, fresh)]
    if head == "exists":
        pairs = _typed(formula[1])
        names = {name: f"{name}#{next(fresh)}" for name, _ in pairs}
        kinds = tuple((names[name], kind) for name, kind in pairs)
        inner = _disjuncts(formula[2], {**scope, **names}, fresh)
        return [Clause(clause.literals, clause.types + kinds) for clause in inner]
    return [Clause((_literal(formula, scope),), ())]


def _literal(formula: Any, scope: Mapping[str, str]) -> Literal:
    positive = formula[0] != "not"
    atom = formula if positive else formula[1]
    if not atom or any(not isinstance(word, str) for word in atom):
        raise InputError(f"PDDL: {atom!r} is not an atom; only and, or, not, exists and when are read")
    return Literal(atom[0], tuple(scope.get(word, word) for word in atom[1:]), positive)


def _effects(formula: Any, condition: tuple[Literal, ...] = ()) -> list[Effect]:
    if not formula or formula[0] == "increase":
        return []
    if formula[0] == "and":
        return [effect for part in formula[1:] for effect in _effects(part, condition)]
    if formula[0] == "when":
        clauses = _disjuncts(formula[1], {}, count())
        return [effect for clause in clauses for effect in _effects(formula[2], condition + clause.literals)]
    return [Effect(_literal(formula, {}), condition)]


def read_domain(text: str) -> tuple[Action, ...]:
    """The action schemas of a domain, in order. Raises InputError when it cannot be read."""
    actions = []
    for part in read_lisp(text, "PDDL domain")[1:]:
        if part[0] != ":action":
            continue
        name = part[1]
        parts = dict(zip(part[2::2], part[3::2], strict=True))
        parameters = _typed(parts[":parameters"])
        kinds = tuple(parameters)
        clauses = tuple(
            Clause(clause.literals, kinds + clause.types)
            for clause in _disjuncts(parts.get(":precondition", []), {}, count())
        )
        effects = tuple(_effects(parts[":effect"]))
        added = {effect.literal.predicate for effect in effects if effect.literal.positive}
        needed = [{lit.predicate for lit in clause.literals if lit.positive} for clause in clauses]
        idle = bool(added) and any(added <= predicates for predicates in needed)
        actions.append(Action(name, tuple(name for name, _ in parameters), clauses, effects, idle))
    return tuple(actions)


def read_problem(text: str) -> Problem:
    """Objects, initial facts and goal of a problem. Raises InputError when it cannot be read."""
    try:
        return _problem(read_lisp(text, "PDDL problem"))
    except (IndexError, TypeError, ValueError) as error:
        raise InputError(f"PDDL problem: malformed ({type(error).__name__}: {error})") from None


def _problem(parts: list[Any]) -> Problem:
    objects: dict[str, dict[str, None]] = {}
    facts: dict[str, set[Atom]] = {}
    goal: tuple[Clause, ...] = ()
    for part in parts[1:]:
        if part[0] == ":objects":
            for name, kind in _typed(part[1:]):
                objects.setdefault(kind, {})[name] = None
        elif part[0] == ":init":
            for atom in part[1:]:
                if not isinstance(atom, list) or not atom:
                    raise InputError(f"PDDL problem: {str(atom)[:80]} is not a fact")
                if atom[0] not in ("=", "not"):
                    facts.setdefault(atom[0], set()).add(tuple(atom[1:]))
        elif part[0] == ":goal":
            goal = tuple(_disjuncts(part[1], {}, count()))
    if not goal or not facts:
        raise InputError("PDDL problem: it has no goal or no initial facts")
    return Problem(
        {kind: tuple(names) for kind, names in objects.items()},
        {predicate: frozenset(atoms) for predicate, atoms in facts.items()},
        goal,
    )
