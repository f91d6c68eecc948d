"""A household game being played: state, admissible commands, what each command answers.

Text equals that of ``textworld.envs.pddl.PddlEnv`` behind alfworld's name demangler, quirks included:
numbers descend with the sorted id, lists are sorted by id, ``Nothing happens.`` for whatever is not
admissible, an object taken from one place can lie next to another (facts ``not_…`` appear once
something was undone).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wmlab.domains.alfworld.grammar import Grammar
from wmlab.domains.alfworld.grounder import Grounder
from wmlab.domains.alfworld.pddl import Action, Atom, Facts, Problem, read_problem
from wmlab.domains.alfworld.wheel import rules

NOTHING = "Nothing happens."
_REMEMBERED = 4_000  # entries of a game's memory of commands, some 10 MB
_GOAL_PLACE = "UNKNOWN GOAL."
_SPELLING = (("_bar_", "|"), ("_minus_", "-"), ("_plus_", "+"), ("_dot_", "."), ("_comma_", ","))


def shown_names(facts: Facts) -> dict[str, str]:
    """Id → name for every object that a fact names: the class, and a number that falls as the id rises."""
    identities = sorted({argument for atoms in facts.values() for atom in atoms for argument in atom})
    classes: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for identity in identities:
        kind, mark, _ = identity.partition("_bar_")
        if mark:
            classes.setdefault(kind + "basin" if "basin" in identity else kind, []).append(identity)
        else:
            names[identity] = f"{_spell(identity)} "  # the engine's trailing space
    for kind, members in classes.items():
        for number, identity in enumerate(members):
            names[identity] = f"{_spell(kind)} {len(members) - number}"
    return names


def _spell(identity: str) -> str:
    for code, sign in _SPELLING:
        identity = identity.replace(code, sign)
    return identity


@dataclass(frozen=True)
class Game:
    """What stays the same while a game is played. ``task`` is the goal sentence as it is shown."""

    task: str
    dialect: str
    problem: Problem
    grounder: Grounder
    grammar: Grammar
    names: Mapping[str, str]
    _known: dict[object, dict[str, tuple[Action, Atom]]] = field(default_factory=dict, repr=False)

    def start(self) -> World:
        """A new episode."""
        return World(self, dict(self.problem.facts))

    def commands_of(self, action: Action, facts: Facts) -> dict[str, tuple[Action, Atom]]:
        """Commands of one action with their operators; remembered by the facts they depend on."""
        key = (action.name, *(facts.get(predicate) for predicate in self.grounder.reads[action.name]))
        found = self._known.get(key)
        if found is None:
            found = {}
            for values in self.grounder.operators(action, facts):
                command = self.grammar.command(
                    action.name, facts, bound(action, values), self.names.__getitem__
                )
                found.setdefault(command, (action, values))
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = found
        return found


def bound(action: Action, values: Atom) -> dict[str, str]:
    """Parameter → value, named as the grammar names them."""
    return {name[1:]: value for name, value in zip(action.parameters, values, strict=True)}


def read_game(problem_text: str, task: str, dialect: str) -> Game:
    """Read a PDDL problem of the ALFRED domain. Raises InputError when it cannot be read."""
    actions, grammar = rules(dialect)
    problem = read_problem(problem_text)
    return Game(task, dialect, problem, Grounder(actions, problem), grammar, shown_names(problem.facts))


@dataclass
class World:
    """State of an episode. ``facts`` also hold ``not_p`` for what an action has undone."""

    game: Game
    facts: Facts

    def copy(self) -> World:
        """An independent state of the same game."""
        return World(self.game, dict(self.facts))

    def opening(self) -> str:
        """The first text of the engine, banner included."""
        text = self.game.grammar.say("intro", self.facts, {}, self.game.names.__getitem__)
        return text.replace(_GOAL_PLACE, self.game.task)

    def commands(self) -> list[str]:
        """Admissible commands, sorted."""
        found: set[str] = set()
        for action in self.game.grounder.actions.values():
            found.update(self.game.commands_of(action, self.facts))
        return sorted(found)

    def act(self, command: str) -> str:
        """Do a command and return the answer; ``Nothing happens.`` when it is not admissible."""
        for action in self.game.grounder.actions.values():
            operator = self.game.commands_of(action, self.facts).get(command)
            if operator is not None:
                self.game.grounder.apply(*operator, self.facts)
                names = self.game.names.__getitem__
                return self.game.grammar.answer(action.name, self.facts, bound(*operator), names)
        return NOTHING

    def follow(self, operators: Sequence[str]) -> list[str]:
        """Play a planner's operators (``name argument …``); their commands when they win, else []."""
        commands = []
        for operator in operators:
            name, *values = operator.split()
            action = self.game.grounder.actions.get(name)
            known = self.game.commands_of(action, self.facts) if action is not None else {}
            command = next((c for c, (_, found) in known.items() if found == tuple(values)), None)
            if command is None:
                return []
            commands.append(command)
            self.game.grounder.apply(*known[command], self.facts)
            if self.won():
                return commands
        return []

    def won(self) -> bool:
        """Whether the goal holds."""
        return self.game.grounder.won(self.facts)
