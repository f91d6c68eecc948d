"""Names in an observation, by their role in its facts, and swaps of names for others of the same role.

The SSF parsers say what is a place, a thing, a door; so a swap needs no list of a domain's words: the names
of one observation are replaced by names that other observations of the domain use in the same role and that
this one does not mention.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wmlab.metrics.perturb.pieces import mention, replace_mentions
from wmlab.metrics.ssf import facts

NO_NAMES = frozenset({"nothing", "it", "here", "action"})
_GLUED = re.compile(r"(?<=\w)its (?=(?:terminal \d|anode|cathode) is connected to:)")

# Roles of a fact's arguments, in order; "-" is no name. "holder" is a place where its state is open or closed,
# else a thing; "end" is a wire's end, whose name follows " on "; "places" is a list.
_ROLES = {
    "alfworld": (
        "ON:place,thing IN:place,thing EMPTY:place STATE:holder,- CLEANED:thing,place HEATED:thing,place "
        "COOLED:thing,place SLICED:thing,thing TAKEN:thing,place PLACED:thing,place CARRYING:thing FACING:places "
        "NEAR:places,thing AT:place SEES:place NO_SWITCH:thing"
    ),
    "scienceworld": (
        "ROOM:place LOCATION:place VISIBLE:thing ON:thing,thing IN:thing,thing CONTAINS:thing,thing EMPTY:thing "
        "STATE:thing,- DOOR:place,- MOVED:thing,thing FOCUS:thing CONNECTED:end,end POURED:thing,thing "
        "RECIPE:thing,thing"
    ),
    "cookingworld": (
        "CARRYING:thing INGREDIENT:thing STEP:-,thing STATE:holder,- COOKED:thing,place ON:place,thing IN:place,thing "
        "PLACED:thing,place EMPTY:place ROOM:room HERE:place DOOR:-,door,- LEADS:-,room BEHIND:door,room EATEN:thing"
    ),
    "textworld": (
        "ROOM:room AT:room DOOR:door,- HERE:place STATE:place,- EMPTY:place IN:thing,place ON:thing,place FLOOR:thing "
        "CARRYING:thing DID:-,thing,place"
    ),
}
ROLES: dict[str, dict[str, tuple[str, ...]]] = {
    domain: {
        name: tuple(roles.split(",")) for name, _, roles in (part.partition(":") for part in table.split())
    }
    for domain, table in _ROLES.items()
}
_HOLDS = frozenset({"open", "closed"})

Pool = Mapping[str, Sequence[str]]


def _arguments(fact: str, roles: Sequence[str]) -> list[str]:
    """The arguments of a fact with as many commas as its roles ask for."""
    inside = fact.partition("(")[2].removesuffix(")")
    if roles[0] == "places" and len(roles) > 1:  # the list comes first
        return inside.rsplit(", ", len(roles) - 1)
    return inside.split(", ", len(roles) - 1)


def names_by_role(domain: str, text: str) -> dict[str, set[str]]:
    """Role → names (lower case) in the facts of a text; {} for a domain without roles."""
    table = ROLES.get(domain, {})
    found: dict[str, set[str]] = {}
    for fact in facts(domain, text) if table else ():
        roles = table.get(fact.partition("(")[0])
        if roles is None:
            continue
        arguments = _arguments(fact, roles)
        for role, argument in zip(roles, arguments, strict=False):
            for name in argument.split(", ") if role == "places" else (argument,):
                _add(found, role, name, arguments[-1])
    return found


def _add(found: dict[str, set[str]], role: str, name: str, last: str) -> None:
    if role == "-":
        return
    if role == "holder":
        role = "place" if last in _HOLDS else "thing"
    elif role == "places":
        role = "place"
    elif role == "end":
        role, name = "thing", name.rpartition(" on ")[2]
    if name and name not in NO_NAMES:
        found.setdefault(role, set()).add(name)


def pool_of(domain: str, texts: Iterable[str]) -> dict[str, list[str]]:
    """Role → all names of the texts, sorted."""
    found: dict[str, set[str]] = {}
    for text in texts:
        for role, names in names_by_role(domain, text).items():
            found.setdefault(role, set()).update(names)
    return {role: sorted(names) for role, names in sorted(found.items())}


@dataclass(frozen=True)
class Naming:
    """The names of one text that it writes as its facts do."""

    text: str
    by_role: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, domain: str, text: str) -> Naming:
        """Read a text; names that occur in it only in other words are left out.

        ScienceWorld prints a wire and its first end without a space between; the name is parted from it.
        """
        found = names_by_role(domain, text)
        text = _GLUED.sub(" its ", text) if domain == "scienceworld" else text
        return cls(
            text,
            {role: [n for n in sorted(names) if mention(n).search(text)] for role, names in found.items()},
        )

    def of_roles(self, roles: Collection[str]) -> list[tuple[str, str]]:
        """(role, name) of the roles, sorted, each name once."""
        pairs = {name: role for role in sorted(roles) for name in self.by_role.get(role, ())}
        return sorted((role, name) for name, role in pairs.items())


def swap(
    naming: Naming,
    chosen: Sequence[tuple[str, str]],
    pool: Pool,
    rng: np.random.Generator,
    spare: Sequence[str] = (),
) -> str | None:
    """The text with each chosen (role, name) replaced by another name of its role that the text lacks.

    Different names get different replacements; ``spare`` names serve a role that has run out of its own. None
    when nothing was chosen or a name is left without a replacement.
    """
    table: dict[str, str] = {}
    shown = " ".join(naming.text.lower().split())
    for role, name in chosen:
        for others in (pool.get(role, ()), spare):
            taken = set(table.values()) | {name}
            order = rng.permutation(len(others)).tolist()
            free = (others[i] for i in order if others[i] not in taken)
            other = next((o for o in free if o not in shown or not mention(o).search(naming.text)), None)
            if other is not None:
                table[name] = other
                break
        else:
            return None
    return replace_mentions(naming.text, table) if table else None


def swap_all(naming: Naming, pool: Pool, rng: np.random.Generator) -> str | None:
    """The text with every name that its facts, or those of another observation, use replaced by another one.

    None when the text mentions no name, or more names than the pool can replace.
    """
    chosen = naming.of_roles(set(naming.by_role))
    known = {name for _, name in chosen}
    shown = " ".join(naming.text.lower().split())
    for role, names in pool.items():
        said = [n for n in names if n not in known and n in shown and mention(n).search(naming.text)]
        chosen += [(role, name) for name in said]
        known.update(said)
    return swap(naming, chosen, pool, rng, sorted({name for names in pool.values() for name in names}))


def renumber(naming: Naming, chosen: Sequence[tuple[str, str]], rng: np.random.Generator) -> str | None:
    """The text with each chosen ``noun n`` given another number that the text does not use for that noun.

    None when none of the names ends in a number.
    """
    table: dict[str, str] = {}
    for _, name in chosen:
        noun, _, number = name.rpartition(" ")
        if not noun or not number.isdecimal():
            continue
        free = [n for n in range(1, 20) if not mention(f"{noun} {n}").search(naming.text)]
        if free:
            table[name] = f"{noun} {free[int(rng.integers(len(free)))]}"
    return replace_mentions(naming.text, table) if table else None
