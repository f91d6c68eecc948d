"""Facts of a CookingWorld (TextWorldExpress) observation: the schema of memwm.txt, Appendix B.9.

The paper names its components (inventory items, required ingredients, recipe steps, preparation and
cooking states, ingredient locations, container states, task progress) and not their form; this is ours:

=====================================  =====================================================
``CARRYING(item)``                     inventory, and what was just taken; ``CARRYING(nothing)``
``CAPACITY(n)`` ``FULL(n)``            how much can be carried; that no more can
``INGREDIENT(item)``                   required by the recipe
``STEP(verb, item)``                   a recipe step: chop, slice, dice, fry, roast, grill, cook, prepare
``STATE(item, s)``                     preparation and cooking state: chopped, sliced, diced, raw, fried,
                                       roasted, grilled, cooked
``COOKED(item, device)``               what it was cooked with
``ON(place, item)`` ``IN(…)``          where an item is; ``PLACED(item, place)``: just put there
``STATE(thing, open|closed)``          a container's or a door's state
``EMPTY(place)``                       nothing is on or in it
``ROOM(room)`` ``HERE(thing)``         the room described; a plain thing in it, or one examined
``DOOR(direction, door, open|closed)`` ``LEADS(direction, room)`` ``BEHIND(door, room)``
                                       ways out; what an opened or closed door leads to
``EATEN(item)`` ``PROGRESS(words)``    progress: eaten, meal prepared, a printed score
``SUCCESS()``                          the `` [SUCCESS]`` marker
``REFUSED(words)``                     the engine's refusals
``TASK(words)`` ``ADMISSIBLE(a)``      first observation
``MESSAGE(text)``                      anything else, never silently dropped
=====================================  =====================================================

Names are lower case without article, and states are taken off them: "a raw red potato" is the item red
potato in the state raw. Line breaks mean nothing, so the ingredient list, whose lines have no articles, is
cut after words that end an ingredient's name (``cookingworld_rules``).

The text is untrusted: names of facts are written here, never copied; quantifiers are bounded (scan.py).
"""

from __future__ import annotations

import re

from wmlab.metrics.ssf.cookingworld_rules import table
from wmlab.metrics.ssf.scan import Reading, flatten, found, gap, remembered, rules_by_opening, scan

_BETWEEN = gap(r"[ .,!?;>*#|-]*")
_MESSAGE_END = re.compile(r"[.!?]+(?= |$)| (?=\[success\])")
_RULES = rules_by_opening(table())


def _parse(text: str) -> frozenset[str]:
    flat = flatten(text)
    reading = Reading()
    scan(flat, 0, reading, _RULES, _BETWEEN, _MESSAGE_END)
    return found(reading, flat)


_remembered = remembered(_parse)


def parse(text: str) -> frozenset[str]:
    """The facts of one observation (schema above). Total: never raises on a string."""
    return _remembered(text)
