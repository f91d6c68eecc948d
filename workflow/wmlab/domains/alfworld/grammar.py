"""The wheel's text grammar (``alfred.twl2``): command templates and feedback, rendered from facts.

A rule is a list of alternatives; the first whose condition holds is used. Its right-hand side mixes
literal text with ``#rule#``, ``{expression}``, ``{expression | condition}`` and ``[{…}]`` (a list in
words). The stock environment parses each of these anew with TatSu for every admissible command of every
step; here each right-hand side is read once. Expressions are the few forms the grammar has (a name, an
article, ``+`` and ``or``): nothing is evaluated as code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wmlab.domains.alfworld.pddl import NONE, Atom, Binding, Facts
from wmlab.errors import InputError

Names = Callable[[str], str]
"""From an object's id to the name that is shown, e.g. ``apple 1``."""

_BLOCK = re.compile(
    r'(?:action (?P<action>\w+) \{(?P<body>.*?)\n\}|grammar :: """(?P<free>.*?)""";)', re.DOTALL
)
_FIELD = re.compile(r'(template|feedback) :: "(.*?)";')
_INNER = re.compile(r'grammar :: """(.*?)""";', re.DOTALL)
_TOKEN = re.compile(r"#[^#\n]+#|\[\{[^{}]*\}\]|\{[^{}]*\}|[^#\[{]+|[\[{#]")
_PREDICATE = re.compile(r"\s*(\w+)\(([^)]*)\)\s*")
_TERM = re.compile(r"'(?P<text>[^']*)'|(?P<variable>\w+)\.(?P<field>name|indefinite|id)")


@dataclass(frozen=True)
class Condition:
    """A conjunction over facts; parameters are (variable) names."""

    predicates: tuple[tuple[str, tuple[str, ...]], ...]

    def matches(self, facts: Facts, binding: Binding) -> Iterator[Binding]:
        """Extensions of ``binding``, ordered as the stock engine orders them: facts of each predicate sorted."""
        return self._matches(facts, binding, 0)

    def _matches(self, facts: Facts, binding: Binding, depth: int) -> Iterator[Binding]:
        if depth == len(self.predicates):
            yield binding
            return
        predicate, parameters = self.predicates[depth]
        found: Iterable[Atom] = facts.get(predicate, NONE)
        for position, parameter in enumerate(parameters):
            if parameter in binding:
                value = binding[parameter]
                found = [atom for atom in found if atom[position] == value]
        for atom in sorted(found):
            new = {p: v for p, v in zip(parameters, atom, strict=True) if p not in binding}
            # Different variables never stand for one object.
            if len(set(new.values())) == len(new) and not set(new.values()) & set(binding.values()):
                yield from self._matches(facts, {**binding, **new}, depth + 1)


@dataclass(frozen=True)
class Piece:
    """Part of a right-hand side: text, a rule's name, or an expression; perhaps repeated over a condition."""

    kind: str  # "text", "rule" or "value"
    text: str
    condition: Condition | None = None
    listed: bool = False


@dataclass(frozen=True)
class Alternative:
    """One production of a rule."""

    pieces: tuple[Piece, ...]
    condition: Condition | None


@dataclass(frozen=True)
class Grammar:
    """Rules by name; per action (lower-case name) its command template and its feedback rule."""

    rules: Mapping[str, tuple[Alternative, ...]]
    templates: Mapping[str, tuple[Piece, ...]]
    feedback: Mapping[str, tuple[Piece, ...]]

    def say(self, rule: str, facts: Facts, binding: Binding, names: Names) -> str:
        """The text of a rule."""
        return self._rule(rule, facts, binding, names)

    def reads(self, action: str) -> set[str]:
        """Predicates on which the wording of an action's command depends."""
        conditions = [piece.condition for piece in self.templates[action] if piece.condition is not None]
        return {predicate for condition in conditions for predicate, _ in condition.predicates}

    def command(self, action: str, facts: Facts, binding: Binding, names: Names) -> str:
        """The command that stands for an operator."""
        return self._render(self.templates[action], facts, binding, names)

    def answer(self, action: str, facts: Facts, binding: Binding, names: Names) -> str:
        """What is shown after an operator, ``facts`` being those after it."""
        return self._render(self.feedback[action], facts, binding, names)

    def _rule(self, rule: str, facts: Facts, binding: Binding, names: Names) -> str:
        for alternative in self.rules[rule]:
            condition = alternative.condition
            if condition is None or next(condition.matches(facts, binding), None) is not None:
                return self._render(alternative.pieces, facts, binding, names)
        raise InputError(f"grammar: no alternative of {rule!r} applies")

    def _render(self, pieces: Sequence[Piece], facts: Facts, binding: Binding, names: Names) -> str:
        parts = []
        for piece in pieces:
            if piece.kind == "text":
                parts.append(piece.text)
                continue
            matches = [binding] if piece.condition is None else piece.condition.matches(facts, binding)
            shown = [
                self._rule(piece.text, facts, match, names)
                if piece.kind == "rule"
                else _evaluate(piece.text, match, names)
                for match in matches
            ]
            parts.append(self._list(shown, facts, binding, names) if piece.listed else "".join(shown))
        return "".join(parts)

    def _list(self, shown: Sequence[str], facts: Facts, binding: Binding, names: Names) -> str:
        if not shown:
            return self._rule("list_empty", facts, binding, names)
        if len(shown) == 1:
            return shown[0]
        comma = self._rule("list_separator", facts, binding, names)
        last = self._rule("list_last_separator", facts, binding, names)
        return comma.join(shown[:-1]) + last + shown[-1]


def _evaluate(expression: str, binding: Binding, names: Names) -> str:
    """``o.indefinite + ' ' + o.name``, ``r.name or r.id``, ``r.name``, or a bare variable."""
    for option in expression.split(" or "):
        value = ""
        for part in option.split(" + "):
            term = _TERM.fullmatch(part.strip())
            if term is None:
                raise InputError(f"grammar: expression {expression!r} is not understood")
            if term["text"] is not None:
                value += term["text"]
            elif term["field"] == "indefinite":
                value += "a"  # the engine knows no "an"
            else:
                identity = binding[term["variable"]]
                value += names(identity) if term["field"] == "name" else identity
        if value:
            return value
    return ""


def _condition(text: str) -> Condition | None:
    if not text.strip():
        return None
    predicates = []
    for part in text.split("&"):
        found = _PREDICATE.fullmatch(part)
        if found is None:
            raise InputError(f"grammar: condition {text!r} is not understood")
        predicates.append((found[1], tuple(p.split(":")[0].strip() for p in found[2].split(","))))
    return Condition(tuple(predicates))


def _pieces(text: str) -> tuple[Piece, ...]:
    """Read a right-hand side. White space before it is lost in the stock engine, and so it is here."""
    pieces = []
    for token in _TOKEN.findall(text.lstrip()):
        listed = token.startswith("[{")
        if token.startswith("#") and len(token) > 1:
            pieces.append(Piece("rule", token[1:-1]))
        elif listed or (token.startswith("{") and len(token) > 1):
            expression, _, condition = token.strip("[]")[1:-1].partition("|")
            expression = expression.strip()
            rule = expression.startswith("#")
            kind, expression = ("rule", expression.strip("#")) if rule else ("value", expression)
            if kind == "value" and re.fullmatch(r"\w+", expression):
                expression += ".name"  # templates name a parameter: take {o} from {r}
            pieces.append(Piece(kind, expression, _condition(condition), listed))
        else:
            pieces.append(Piece("text", token))
    return tuple(pieces)


def read_grammar(text: str) -> Grammar:
    """Read a ``.twl2`` text. Raises InputError when a part of it is not understood."""
    rules: dict[str, tuple[Alternative, ...]] = {}
    templates, feedback = {}, {}
    for block in _BLOCK.finditer(text):
        sources = [block["free"]] if block["free"] else _INNER.findall(block["body"])
        if block["action"]:
            fields = dict(_FIELD.findall(block["body"]))
            templates[block["action"].lower()] = _pieces(fields["template"])
            feedback[block["action"].lower()] = _pieces(fields["feedback"])
        for source in sources:
            try:
                found = json.loads(source)
            except ValueError as error:
                raise InputError(f"grammar: a rule block is not JSON ({error})") from None
            for name, alternatives in found.items():
                rules[name] = tuple(
                    Alternative(_pieces(entry["rhs"]), _condition(entry.get("condition", "")))
                    for entry in alternatives
                )
    if "intro" not in rules or not templates:
        raise InputError("grammar: it has no intro or no actions; is this a .twl2 text?")
    return Grammar(rules, templates, feedback)
