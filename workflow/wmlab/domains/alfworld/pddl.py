"""A small PDDL reader and grounder for household games: which actions apply, and what they change.

The stock environment translates a problem twice through FastDownward's Python translator for every reset
(seconds) and asks the planner's C library for the applicable operators at every step. The ALFRED domain
needs only typing, ``and``/``or``/``not``/``exists`` and conditional effects, so this module reads the same
two PDDL texts and answers from sets of tuples: microseconds a query, and a state that can be copied.
Agreement with the stock environment is tested step by step (tests/test_alfworld.py, bench/alfworld.py).

Two facts of FastDownward's semantics are kept: names are lower-cased, and an operator whose effects
restate its own preconditions does not exist (going to where one stands).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from wmlab.errors import InputError

Atom = tuple[str, ...]
"""Arguments of a fact; the predicate is the key under which it is kept."""
Facts = dict[str, frozenset[Atom]]
"""Immutable sets: copying a state copies the dictionary only, and a set is its own cache key."""
Binding = dict[str, str]
NONE: frozenset[Atom] = frozenset()


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
    objects: dict[str, dict[str, None]] = {}
    facts: dict[str, set[Atom]] = {}
    goal: tuple[Clause, ...] = ()
    for part in read_lisp(text, "PDDL problem")[1:]:
        if part[0] == ":objects":
            for name, kind in _typed(part[1:]):
                objects.setdefault(kind, {})[name] = None
        elif part[0] == ":init":
            for atom in part[1:]:
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


@dataclass
class Query:
    """A clause made ready for a problem: literals in an order that binds few candidates at a time."""

    literals: tuple[Literal, ...]
    loose: tuple[
        tuple[str, tuple[str, ...]], ...
    ]  # variables that no positive literal binds, with candidates
    possible: bool
    index: Mapping[tuple[str, int], Mapping[str, list[Atom]]] = field(repr=False)

    def solve(self, facts: Facts, binding: Binding) -> Iterator[Binding]:
        """All bindings that satisfy it in ``facts``. The dictionary yielded is reused: copy what is kept."""
        return self._solve(facts, binding, 0) if self.possible else iter(())

    def _solve(self, facts: Facts, binding: Binding, depth: int) -> Iterator[Binding]:
        if depth == len(self.literals):
            yield from self._loose(binding, 0)
            return
        literal = self.literals[depth]
        if not literal.positive or all(a[0] != "?" or a in binding for a in literal.arguments):
            if literal.predicate == "=":
                holds = len(set(literal.ground(binding))) == 1
            else:
                holds = literal.ground(binding) in facts.get(literal.predicate, NONE)
            if holds == literal.positive:
                yield from self._solve(facts, binding, depth + 1)
            return
        for atom in self._candidates(facts, literal, binding):
            new: list[str] = []
            for argument, value in zip(literal.arguments, atom, strict=True):
                known = argument if argument[0] != "?" else binding.get(argument)
                if known is None:
                    binding[argument] = value
                    new.append(argument)
                elif known != value:
                    break
            else:
                yield from self._solve(facts, binding, depth + 1)
            for argument in new:
                del binding[argument]

    def _candidates(self, facts: Facts, literal: Literal, binding: Binding) -> Iterable[Atom]:
        """Facts that may match: through the index of a static predicate, else all of a changing one."""
        for position, argument in enumerate(literal.arguments):
            value = argument if argument[0] != "?" else binding.get(argument)
            if value is not None and (literal.predicate, position) in self.index:
                return self.index[literal.predicate, position].get(value, [])
        return facts.get(literal.predicate, NONE)

    def _loose(self, binding: Binding, depth: int) -> Iterator[Binding]:
        if depth == len(self.loose):
            yield binding
            return
        name, candidates = self.loose[depth]
        if name in binding:
            yield from self._loose(binding, depth + 1)
            return
        for value in candidates:
            binding[name] = value
            yield from self._loose(binding, depth + 1)
            del binding[name]


class Grounder:
    """The actions of a domain over the objects and static facts of one problem."""

    def __init__(self, actions: Sequence[Action], problem: Problem) -> None:
        self.actions = {action.name: action for action in actions}
        self.problem = problem
        changing = {effect.literal.predicate for action in actions for effect in action.effects}
        self._index: dict[tuple[str, int], dict[str, list[Atom]]] = {}
        for predicate, atoms in problem.facts.items():
            if predicate not in changing:
                for atom in sorted(atoms):
                    for position, value in enumerate(atom):
                        self._index.setdefault((predicate, position), {}).setdefault(value, []).append(atom)
        self._queries = {a.name: [self._query(clause, changing) for clause in a.clauses] for a in actions}
        self._goal = [self._query(clause, changing) for clause in problem.goal]
        self.reads = {
            a.name: tuple(sorted({lit.predicate for c in a.clauses for lit in c.literals} & changing))
            for a in actions
        }
        """Per action, the changing predicates on which its applicability depends."""

    def _query(self, clause: Clause, changing: set[str]) -> Query:
        """Order literals greedily: the one with the fewest expected matches first, checks as soon as bound."""
        left, order, bound = list(clause.literals), [], set()
        sizes = {name: len(atoms) for name, atoms in self.problem.facts.items()}

        def expected(literal: Literal) -> float:
            free = [a for a in literal.arguments if a[0] == "?" and a not in bound]
            if not free:
                return -1.0
            if not literal.positive or literal.predicate == "=":
                return float("inf")
            size = sizes.get(literal.predicate, 0)
            if size <= 1 and literal.predicate in changing:
                return 0.0  # position, hands: one fact at most at any time, or a rare one
            fixed = len(literal.arguments) - len(free)
            return 1.0 + size / 20.0**fixed

        while left:
            best = min(left, key=expected)
            if expected(best) == float("inf"):
                raise InputError(f"PDDL: no positive literal binds the variables of {best.predicate}")
            left.remove(best)
            order.append(best)
            bound |= {a for a in best.arguments if a[0] == "?"}
        kinds = dict(clause.types)
        # A variable of a type without objects (ALFRED's "location,") makes the clause impossible.
        possible = all(self.problem.objects.get(kind) for kind in kinds.values())
        loose = tuple(
            (name, self.problem.objects.get(kind, ())) for name, kind in kinds.items() if name not in bound
        )
        return Query(tuple(order), loose, possible, self._index)

    def operators(self, action: Action, facts: Facts) -> list[Atom]:
        """Values of the parameters of each applicable operator of an action, each once."""
        found: dict[Atom, None] = {}
        for query in self._queries[action.name]:
            for binding in query.solve(facts, {}):
                if not (action.may_be_idle and self._idle(action, query, binding)):
                    found[tuple(binding[name] for name in action.parameters)] = None
        return list(found)

    @staticmethod
    def _idle(action: Action, query: Query, binding: Binding) -> bool:
        needed = {(lit.predicate, lit.ground(binding)) for lit in query.literals if lit.positive}
        return all(
            (effect.literal.predicate, effect.literal.ground(binding)) in needed for effect in action.effects
        )

    def apply(self, action: Action, values: Atom, facts: Facts) -> None:
        """Change ``facts``. What was undone is kept as ``not_p``, where the text grammar looks for it."""
        binding = dict(zip(action.parameters, values, strict=True))
        due = [
            (effect.literal.positive, effect.literal.predicate, effect.literal.ground(binding))
            for effect in action.effects
            if all(
                (lit.ground(binding) in facts.get(lit.predicate, NONE)) == lit.positive
                for lit in effect.condition
            )
        ]
        for positive, predicate, atom in sorted(due):  # additions last: they win over deletions
            made, unmade = (predicate, f"not_{predicate}") if positive else (f"not_{predicate}", predicate)
            facts[made] = facts.get(made, NONE) | {atom}
            facts[unmade] = facts.get(unmade, NONE) - {atom}

    def won(self, facts: Facts) -> bool:
        """Whether the goal holds."""
        return any(next(query.solve(facts, {}), None) is not None for query in self._goal)
