"""Facts of an ALFWorld observation: the canonical-fact schema of memwm.txt, Appendices B.1 and B.5.1.

The papers extract these facts with a language model under a fixed prompt; the games' sentences come from
one small grammar, so here rules read them (metrics.md section 4). As there: names are lower case without
article and keep their number; only the resulting state is kept where an action's sentence is followed by
it ("You open the fridge 1. The fridge 1 is open."); "it" and "inside" mean the thing named last. Both
dialects give the same facts: ``put … in/on …`` and ``move … to …``, "You arrive at loc 15." and "You
arrive at fridge 1.".

=====================================  =====================================================
``ON(place, thing)`` ``IN(…)``         a thing seen on a surface, in a container
``EMPTY(place)``                       nothing is seen on or in it
``STATE(thing, s)``                    open, closed, heated, cooled, cleaned, dirty, sliced, on, off,
                                       normal (nothing special, no receptacle's contents said)
``CLEANED(thing, place)``              cleaned with a sink; so ``HEATED``, ``COOLED``, ``SLICED(thing, tool)``
=====================================  =====================================================

The papers' schema has no fact for the sentences below; without one a wrong prediction of them would go
unseen:

=====================================  =====================================================
``TAKEN(thing, place)``                picked up; ``PLACED(thing, place)``: put down, in both dialects
``CARRYING(thing)``                    inventory; ``CARRYING(nothing)``
``FACING(places)``                     where ``look`` says the player stands: all furniture of the spot
``NEAR(places, thing)``                what lies beside it, or ``nothing``
``AT(place)``                          the middle of the room; an arrival that nothing else follows
``SEES(thing)``                        the glance around the room, or ``nothing``
``NO_EFFECT()`` ``NO_SWITCH(thing)``   "Nothing happens."; a thing that cannot be switched
``SUCCESS(facts)``                     the `` [SUCCESS]`` marker with the change that ended the task: the
                                       right marker after a wrong change is worth nothing
``TASK(words)`` ``ADMISSIBLE(a)``      first observation: the task, the admissible actions
``HELP(text)`` ``WELCOME()``           the command list; the engine's banner
``ALL_CONTENTS()``                     the world model's privileged block, whose lines follow as
                                       ``STATE``, ``IN``, ``ON`` and ``EMPTY``
``MESSAGE(text)``                      anything else, never silently dropped
=====================================  =====================================================

The text is untrusted: names of facts are written here, never copied; quantifiers are bounded (scan.py).
"""

from __future__ import annotations

import re

from wmlab.metrics.ssf.alfworld_rules import table
from wmlab.metrics.ssf.scan import Reading, flatten, found, gap, remembered, rules_by_opening, scan

_BETWEEN = gap(r"(?:[ .,!?;>*#|]|-(?!=))*")
_MESSAGE_END = re.compile(r"[.!?]+(?= |$)| (?=\[success\])")
_PREFIX = re.compile(r"(?:the )?next state(?: is)?: ?")
_RULES = rules_by_opening(table())
_ABOUT_TASK = ("TASK(", "ADMISSIBLE(", "MESSAGE(", "WELCOME(", "HELP(")


def _parse(text: str) -> frozenset[str]:
    flat = flatten(text)
    reading = Reading()
    prefix = _PREFIX.match(flat)
    scan(flat, prefix.end() if prefix else 0, reading, _RULES, _BETWEEN, _MESSAGE_END)
    facts = reading.facts
    success = "SUCCESS()" in facts
    facts.discard("SUCCESS()")
    if reading.place and not facts:
        reading.add("AT", reading.place)
    if success:
        reading.add("SUCCESS", *sorted(fact for fact in facts if not fact.startswith(_ABOUT_TASK)))
    return found(reading, flat)


_remembered = remembered(_parse)


def parse(text: str) -> frozenset[str]:
    """The facts of one observation (schema above). Total: never raises on a string."""
    return _remembered(text)
