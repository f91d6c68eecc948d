"""ScienceWorld descriptions: what is where and in which state, as rooms, containers and things are shown.

A description is a list of things. After a thing may stand states (``, which is off``), contents
(``(containing a substance called water)``) and sentences about it (``On the table is: a jug.``). Things
are separated by line breaks, by commas, and, where a layout has lost its line breaks, by the article that
the next one starts with. Text here is lower case with single spaces; line breaks and tabs are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from wmlab.metrics.ssf.scan import Reading

_CACHE_NAMES = 20_000
_DEEPEST = 6  # nested brackets that are read; what is deeper stays part of a name

_ARTICLE = re.compile(r"(?:an?|the|some) ")
_CALLED = "substance called "
_STAGE = re.compile(r"(.{1,60}?) in the ([a-z -]{1,30}?) stage(?: with an? (.{1,60}))?")
_DOOR = re.compile(r"(?:a )?door to (?:the )?(.{1,60})")
_MARK = re.compile(r"[(,.:]")
_DOOR_LINE = re.compile(r"a door to the ([a-z ]{1,40}) \(that is (open|closed)\)")
_SLOPE = re.compile(r"(.{1,60}?) (approximately \d{1,3}% down|at the (?:top|bottom) of) the plane")
_READING = re.compile(r"currently reading a temperature of (-?\d{1,9}) degrees celsius")
_IS = re.compile(
    r"which is (?:turned )?(?:(on|off|open|closed|activated|deactivated|flushing|locked)(?: |$)|(.{1,60}))"
)
_THAT_IS = re.compile(r"(?:that (?:is|looks) )?(.{1,40})")
_STATES = frozenset(
    {"on fire", "combusting", "open", "closed", "unwell", "dead", "covered in pollen", "locked"}
)
_DELIMITER = re.compile(r"[(,]|\.(?=[ .]|$)|\.$")
_BRACKET = re.compile(r"[()]")
_HELD = re.compile(r"(on|in|inside) (?:the )?(.{1,60}?) (?:is|are|you see):(?: |$)")
_LINK = re.compile(r"its (anode|cathode|terminal \d) is connected to: (.{1,80})")
_LINKED = re.compile(r"it is connected to: (.{1,80})")
_SAYS = re.compile(r"the (?:(time) reads|(artist) is listed as) (.{1,60})")
_SENTENCE_STATE = re.compile(r"the (.{1,60}?) is (open|closed|on|off|activated|deactivated|flushing|locked)")
_NOT_BEFORE = "of called to with in on at down reading by from and crossing"
_NEXT_ARTICLE = re.compile(
    " (?=(?:an?|the) )" + "".join(rf"(?<! {word} )" for word in _NOT_BEFORE.split()) + "(?<!: )"
)
_WORD = r"[a-z]{1,12}(?:-[a-z]{1,12})?"
_NOT_BEFORE_BARE = "of called containing make titled a an the blank with to solid liquid gaseous"
_BARE = re.compile(
    " (?=(?:(?:solid|liquid|gaseous) )?(?:soil|ice|soap|chocolate|peanut|almond|cashew|mixed nuts|marshmallow|flour"
    rf"|bread|dough|smores|ash|unknown substance|{_WORD} (?:paint(?! cupboard)|juice|paper)|{_WORD}pollen)\b)"
    + "".join(rf"(?<!\b{word} )" for word in _NOT_BEFORE_BARE.split())
    + "(?<![,:] )"
)
"""Before things that are printed without an article; only for descriptions without line breaks."""


def bare(name: str) -> str:
    """A thing's name without article and ``substance called``."""
    name = name.strip(" .")
    match = _ARTICLE.match(name)
    if match is not None:
        name = name[match.end() :]
    return name[len(_CALLED) :] if name.startswith(_CALLED) else name


@lru_cache(maxsize=_CACHE_NAMES)
def _named(text: str) -> tuple[str, tuple[str, ...]]:
    """A thing's name, and the states that are said in its name. The same things are seen again and again."""
    name = bare(text)
    stage = _STAGE.fullmatch(name) if " stage" in name else None
    slope = _SLOPE.fullmatch(name) if name.endswith(" plane") else None
    if stage is not None:
        return stage[1], (f"{stage[2]} stage", *((stage[3],) if stage[3] else ()))
    return (slope[1], (slope[2],)) if slope is not None else (name, ())


def _things(text: str) -> Iterator[str]:
    """Pieces of text that start with an article of their own; a piece without a second one is kept whole."""
    if " a " in text or " an " in text or " the " in text:
        yield from _NEXT_ARTICLE.split(text)
    else:
        yield text


def _closing(text: str, start: int) -> int:
    """Where the bracket closes whose inside starts at ``start``; the end when it never does."""
    depth = 1
    for bracket in _BRACKET.finditer(text, start):
        depth += 1 if bracket.group() == "(" else -1
        if depth == 0:
            return bracket.start()
    return len(text)


class Describer:
    """Reads one list of things into facts. ``relation`` and ``holder`` say where they are: VISIBLE has none."""

    def __init__(self, reading: Reading, relation: str, holder: str = "", depth: int = 0) -> None:
        self._reading = reading
        self._outer = self._base = relation, holder
        self._place = self._base
        self._depth = depth
        self._current = ""

    def read(self, text: str) -> None:
        """One line of the list, or the whole list where it is in one line."""
        self._place = self._base
        if self._usual(text):
            return
        position, length, before, pending = 0, len(text), "", ""
        while position < length:
            match = _DELIMITER.search(text, position)
            end = match.start() if match else length
            pending += text[position:end]
            position = end + 1
            if match is not None and match.group() == "(":
                close = _closing(text, position)
                inner = text[position:close]
                position = close + 1
                if not self._is_note(inner):
                    pending += f"({inner})"
                    continue
                self._pieces(pending, before)
                self._note(inner)
                before, pending = ")", ""
                continue
            self._pieces(pending, before)
            before, pending = match.group() if match else "", ""
            if before == ".":
                self._place = self._base
        self._pieces(pending, before)

    def _usual(self, text: str) -> bool:
        """The two lines that most are: one thing in a few words, and a door."""
        if _MARK.search(text) is None:
            if " a " in text or " an " in text or " the " in text:
                return False
            self._thing(text)
            return True
        if text.startswith("a door to the "):
            door = _DOOR_LINE.fullmatch(text)
            if door is not None:
                self._reading.add("DOOR", door[1], door[2])
                return True
        return False

    def open_list(self) -> None:
        """After ``On the X is:`` at the end of a line the next lines list what is there."""
        self._base = self._place

    def _is_note(self, inner: str) -> bool:
        """Whether brackets hold contents or a state; otherwise they belong to the name."""
        if self._depth >= _DEEPEST:
            return False
        if inner.startswith("containing "):
            return True
        match = _THAT_IS.fullmatch(inner)
        return match is not None and match[1] in _STATES

    def _note(self, inner: str) -> None:
        if inner.startswith("containing "):
            nested = Describer(self._reading, "CONTAINS", self._current, self._depth + 1)
            nested.read(inner[len("containing ") :])
            return
        match = _THAT_IS.fullmatch(inner)
        state = match[1] if match is not None else inner
        door = _DOOR.fullmatch(self._current)
        if door is not None:
            self._reading.add("DOOR", door[1], state)
        else:
            self._reading.add("STATE", self._current, state)

    def _pieces(self, text: str, before: str) -> None:
        """What stands between two delimiters, after the delimiter ``before``."""
        text = text.strip()
        if text and not (before == "," and self._attribute(text)):
            rest = text if before == "," else self._sentence(text)
            if rest:
                for piece in _things(rest):
                    self._thing(piece)

    def _attribute(self, text: str) -> bool:
        """``, which is off`` and the like, of the thing before the comma."""
        state = _IS.match(text)
        if state is not None:
            self._reading.add("STATE", self._current, state[1] or state[2])
            for piece in _things(text[state.end() :]):
                self._thing(piece)
            return True
        first, *others = _things(text)
        if (degrees := _READING.fullmatch(first)) is not None:
            self._reading.add("TEMPERATURE", degrees[1], "celsius")
        elif first.startswith("with: "):
            place, self._place = self._place, ("ON", self._current)
            self._thing(first[len("with: ") :])
            self._place = place
        elif first.startswith("that is "):
            self._reading.add("STATE", self._current, first[len("that is ") :])
        else:
            return False
        for piece in others:
            self._thing(piece)
        return True

    def _sentence(self, text: str) -> str | None:
        """A sentence about the thing before it. Returns what is left to read as things, None for nothing."""
        if text.startswith(("on ", "in")):
            held = _HELD.match(text)
            if held is not None:
                self._place = ("ON" if held[1] == "on" else "IN"), bare(held[2])
                return text[held.end() :] or None
        elif text.startswith("it"):
            link = _LINK.match(text)
            if link is not None:
                self._reading.add("CONNECTED", f"{link[1]} on {self._current}", bare(link[2]))
                return None
            linked = _LINKED.match(text)
            if linked is not None:
                self._reading.add("CONNECTED", self._current, bare(linked[1]))
                return None
        elif text.startswith("the "):
            says = _SAYS.match(text)
            if says is not None:
                self._reading.add("STATE", self._current, f"{says[1] or says[2]} {says[3]}")
                return None
            state = _SENTENCE_STATE.match(text)
            if state is not None:
                self._reading.add("STATE", state[1], state[2])
                return text[state.end() :] or None
        return text

    def _thing(self, text: str) -> None:
        """One thing in its place."""
        name, states = _named(text)
        if not name:
            return
        relation, holder = self._place
        if name == "nothing":
            self._reading.add("EMPTY", holder or "here")
            self._place = self._base = self._outer
            return
        self._current = name
        if name.startswith("door to "):
            return
        if holder:
            self._reading.add(relation, holder, name)
        else:
            self._reading.add(relation, name)
        for state in states:
            self._reading.add("STATE", name, state)


def read_scene(reading: Reading, text: str, relation: str, holder: str = "") -> None:
    """A whole list of things, one a line, or all in one line."""
    describer = Describer(reading, relation, holder)
    lines = [line for line in map(str.strip, text.split("\n")) if line]
    if len(lines) == 1:
        lines = _BARE.sub("\n", lines[0]).split("\n")
    for line in lines:
        describer.read(line)
        if line.endswith(":"):
            describer.open_list()
