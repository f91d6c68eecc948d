"""Which actions apply in a state of a household game, and what they change.

The stock environment translates a problem twice through FastDownward's Python translator for every reset
(seconds) and asks the planner's C library for the applicable operators at every step. Here the same PDDL
is answered from sets of tuples: microseconds a query, and a state that can be copied. Agreement with the
stock environment is tested step by step (tests/test_alfworld.py, bench/alfworld.py). Kept of its
semantics: an operator whose effects restate its own preconditions does not exist (going to where one
stands), and a variable of a type without objects makes a condition impossible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from wmlab.domains.alfworld.pddl import NONE, Action, Atom, Binding, Clause, Facts, Literal, Problem
from wmlab.errors import InputError


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


def _check_arity(actions: Sequence[Action], problem: Problem) -> None:
    """Raise InputError when a fact or the goal does not fit the rules' predicates."""
    clauses = [clause for action in actions for clause in action.clauses]
    literals = [lit for clause in clauses for lit in clause.literals]
    literals += [effect.literal for action in actions for effect in action.effects]
    arity = {lit.predicate: len(lit.arguments) for lit in literals}
    facts = [(name, atom) for name, atoms in problem.facts.items() for atom in atoms]
    facts += [(lit.predicate, lit.arguments) for clause in problem.goal for lit in clause.literals]
    for predicate, arguments in facts:
        if len(arguments) != arity.get(predicate, len(arguments)):
            raise InputError(
                f"PDDL problem: {predicate} has {len(arguments)} arguments, not {arity[predicate]}"
            )


class Grounder:
    """The actions of a domain over the objects and static facts of one problem."""

    def __init__(self, actions: Sequence[Action], problem: Problem) -> None:
        self.actions = {action.name: action for action in actions}
        self.problem = problem
        _check_arity(actions, problem)
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
