"""Trigger flags of the five worlds, with the advice of each. Advice is ours; ``mine`` says which of it is needed."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from wmlab.domains.alfworld.reading import Errand, Memory, kind_of, read_task
from wmlab.domains.webshop.goals import Instruction, read_instruction
from wmlab.domains.webshop.pages import ItemPage, Reading, ResultsPage, SubPage, read
from wmlab.skills.outcome import head, kind_of_action
from wmlab.skills.state import State
from wmlab.skills.triggers import Trigger, refused

Holds = Callable[[State], bool]
DEEP_PAGE = 3
MANY_SEARCHES = 4
_INSTRUCTION = re.compile(r"Instruction: \[SEP\] (.*?)(?: \[SEP\]|\n|$)")
_AMOUNT = re.compile(r"\$(\d+(?:\.\d+)?)")


def _says(pattern: str, *, when_refused: bool = False) -> Holds:
    """Whether the first line of the present observation says something."""
    compiled = re.compile(pattern)

    def holds(state: State) -> bool:
        if not state.turns or compiled.search(head(state.observation)) is None:
            return False
        return not when_refused or refused(state)

    return holds


def _goal_says(pattern: str) -> Holds:
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda state: compiled.search(state.goal) is not None


def _answered(state: State, start: str) -> bool:
    """Whether any answer so far begins so (case-folded)."""
    return any(head(answer).startswith(start) for _, answer in state.turns)


def _holds_goal_item(state: State) -> bool:
    """TextWorld: something that the goal names was taken and not put down since."""
    held: set[str] = set()
    for _, answer in state.turns:
        said = head(answer)
        if taken := re.match(r"you (?:pick up|take) the (.{1,60}?)(?: from .*)?\.", said):
            held.add(taken[1])
        elif put := re.match(r"you (?:put|drop|insert|eat) the (.{1,60}?)(?: (?:on|into|in) .*)?\.", said):
            held.discard(put[1])
    goal = state.goal.casefold()
    return any(re.search(rf"\b(?:put|place|sit|rest) the {re.escape(name)}\b", goal) for name in held)


@lru_cache(maxsize=256)
def _memory(state: State) -> tuple[Errand | None, Memory]:
    memory = Memory.of(state.first)
    for _, answer in state.turns:
        memory.read(answer)
    return read_task(state.first), memory


def _holds_thing(state: State) -> bool:
    errand, memory = _memory(state)
    return errand is not None and bool(memory.held) and kind_of(memory.held) == errand.thing


def _is_treated(state: State) -> bool:
    errand, memory = _memory(state)
    return errand is None or not errand.treatment or (errand.treatment, memory.held) in memory.treated


def _treatment_due(state: State) -> bool:
    return _holds_thing(state) and not _is_treated(state)


def _ready_to_place(state: State) -> bool:
    errand, _ = _memory(state)
    return errand is not None and bool(errand.place) and _holds_thing(state) and _is_treated(state)


def _light_due(state: State) -> bool:
    errand, _ = _memory(state)
    return errand is not None and bool(errand.lamp) and _holds_thing(state)


def _wrong_thing(state: State) -> bool:
    errand, memory = _memory(state)
    return errand is not None and bool(memory.held) and kind_of(memory.held) != errand.thing


def _closed_here(state: State) -> bool:
    _, memory = _memory(state)
    return bool(memory.at) and memory.at in memory.closed


def _thing_here(state: State) -> bool:
    errand, memory = _memory(state)
    if errand is None or memory.held or not memory.at or kind_of(memory.at) == errand.place:
        return False
    return any(kind_of(name) == errand.thing for name in memory.contents.get(memory.at, ()))


def _hands_full(state: State) -> bool:
    return refused(state) and state.action.startswith("take ") and bool(_memory(state)[1].held)


def _focus_due(state: State) -> bool:
    return "focus on" in state.goal.casefold() and not _answered(state, "you focus on")


@lru_cache(maxsize=256)
def _page(observation: str) -> Reading | None:
    """The shop's page; several flags read the same one."""
    return read(observation)


@lru_cache(maxsize=256)
def _wanted(first: str) -> Instruction | None:
    found = _INSTRUCTION.search(first)
    return None if found is None else read_instruction(found[1])


def _options_open(state: State) -> bool:
    """An item page lists an option that the instruction names and that was not clicked since the page opened."""
    wanted, reading = _wanted(state.first), _page(state.observation)
    if wanted is None or reading is None or not isinstance(reading.page, ItemPage):
        return False
    clicked: set[str] = set()
    for action, _ in state.turns:
        kind = kind_of_action("webshop", action, "")
        if kind in ("click a product", "click back to search", "search"):
            clicked.clear()
        elif kind == "click an option":
            clicked.add(action.casefold())
    listed = {action.casefold() for action in reading.admissible or ()}
    options = {f"click[{value.casefold()}]" for _, value in wanted.options}
    return bool((options & listed) - clicked)


def _price_over(state: State) -> bool:
    wanted, reading = _wanted(state.first), _page(state.observation)
    if (
        wanted is None
        or wanted.price_upper is None
        or reading is None
        or not isinstance(reading.page, ItemPage)
    ):
        return False
    amounts = [float(amount) for amount in _AMOUNT.findall(reading.page.price)]
    return bool(amounts) and min(amounts) > wanted.price_upper


def _unlike(state: State) -> bool:
    """An item page whose title has less than half of the instruction's longer words."""
    wanted, reading = _wanted(state.first), _page(state.observation)
    if wanted is None or reading is None or not isinstance(reading.page, ItemPage):
        return False
    words = {word for word in re.findall(r"[a-z0-9]+", wanted.base.casefold()) if len(word) > 3}
    title = set(re.findall(r"[a-z0-9]+", reading.page.title.casefold()))
    return bool(words) and 2 * len(words & title) < len(words)


def _page_is(kind: type[ItemPage] | type[ResultsPage] | type[SubPage], least: int = 1) -> Holds:
    def holds(state: State) -> bool:
        reading = _page(state.observation)
        if reading is None or not isinstance(reading.page, kind):
            return False
        return not isinstance(reading.page, ResultsPage) or reading.page.page >= least

    return holds


def _nothing_found(state: State) -> bool:
    reading = _page(state.observation)
    return reading is not None and isinstance(reading.page, ResultsPage) and not reading.page.products


def _many_searches(state: State) -> bool:
    return sum(action.startswith("search[") for action, _ in state.turns) >= MANY_SEARCHES


def _recipe_unread(state: State) -> bool:
    return not any("Ingredients:" in answer for _, answer in state.turns)


def _meal_ready(state: State) -> bool:
    return any("adding the meal" in answer.casefold() for _, answer in state.turns)


WORLDS: dict[str, tuple[Trigger, ...]] = {
    "textworld": (
        Trigger("way_closed", _says(r"have to open|(?:is|it's) closed", when_refused=True), "Something closed is in the way. Open it first; if it is locked, unlock it with the key that the task names."),
        Trigger("locked", _says(r"\blocked\b", when_refused=True), "It is locked. Find the key that the task names, unlock it with that key, then open it."),
        Trigger("no_exit", _says(r"can't go that way"), "There is no way in that direction. Use only the exits that the description of this room names."),
        Trigger("not_here", _says(r"can't see any such thing|no such"), "What was named is not here. Use the exact name of something shown in this room or carried."),
        Trigger("already_so", _says(r"\balready\b", when_refused=True), "That is already so. Take it for done and go on to the next step of the task."),
        Trigger("holds_goal_item", _holds_goal_item, "You carry what the task wants put somewhere. Do not eat or drop it: bring it there, following the task's steps in order."),
    ),
    "alfworld": (
        Trigger("closed_here", _closed_here, "The furniture here is closed. Open it before looking in it, taking from it or putting into it."),
        Trigger("hands_full", _hands_full, "Your hands are full, so nothing else can be taken. Put down what you carry first."),
        Trigger("wrong_thing", _wrong_thing, "You carry something that the task does not ask for. Put it down here before going on."),
        Trigger("thing_here", _thing_here, "What the task asks for is right here and your hands are free. Take it, with its number as shown."),
        Trigger("treatment_due", _treatment_due, "You carry the thing but it was not cleaned, heated or cooled yet. Go to the sinkbasin, microwave or fridge and do that before placing it."),
        Trigger("ready_to_place", _ready_to_place, "You carry the thing as the task wants it. Go to the place that the task names, open it if it is closed, and put the thing there."),
        Trigger("light_due", _light_due, "You carry the thing. Go to where the lamp is and use the lamp while holding it."),
    ),
    "scienceworld": (
        Trigger("menu", _says(r"ambiguous request"), "The request was ambiguous. Answer with the number of the listed action that is meant, nothing else."),
        Trigger("door_closed", _says(r"door is not open"), "The door is closed. Open the door to that room by name, then go there."),
        Trigger("container_closed", _says(r"\A(?!the door\b).*(?:isn't open|not open(?!able))", when_refused=True), "The container is closed. Open it before moving, pouring or looking into it."),
        Trigger("nothing_mixed", _says(r"does not appear to produce"), "Mixing produced nothing. Make sure that all parts of the recipe, and nothing else, are in one container, then mix that container."),
        Trigger("device_broken", _says(r"appears broken"), "This device is broken. Look for another one that does the same."),
        Trigger("use_unclear", _says(r"not (?:sure|clear) how to"), "These two things do not work together in that way. Name the tool first, then what it acts on, both as shown here."),
        Trigger("focus_due", _focus_due, "The task asks for a focus that was not made yet. Focus only on exactly what it names: a wrong focus loses the task."),
        Trigger("temperature_task", _goal_says(r"temperature|melting point|boiling point"), "For a temperature: carry the thermometer, and use it on the substance after each change of heat."),
        Trigger("mixture_task", _goal_says(r"\bmix|use chemistry|\bpaint"), "For a mixture: read the recipe where there is one, pour the parts into one container, then mix that container."),
        Trigger("growth_task", _goal_says(r"\bgrow\b|fruit|life stage"), "For a plant: soil and seed into a flower pot, water it, then wait and look until the stage that is asked for."),
        Trigger("circuit_task", _goal_says(r"conductive|electrical|power|turn on the"), "For a circuit: join battery, wires and part in one loop, anode to anode side and cathode to cathode side, then check the part."),
    ),
    "cookingworld": (
        Trigger("recipe_unread", _recipe_unread, "The recipe was not read yet. Go to the kitchen and read the cookbook before taking or preparing anything."),
        Trigger("way_closed", _says(r"closed|isn't open|can't (?:go|move)", when_refused=True), "The way or the container is closed, or there is none. Open it first, and use only directions that this room shows."),
        Trigger("inventory_full", _says(r"and is full|too many"), "You cannot carry more. Put down what the recipe does not need."),
        Trigger("not_carried", _says(r"don't (?:currently )?have|not (?:carrying|holding)|in your inventory", when_refused=True), "The thing is not in your inventory. Take it first, then cut or cook it."),
        Trigger("meal_ready", _meal_ready, "The meal is prepared. Eat the meal to finish."),
    ),
    "webshop": (
        Trigger("options_open", _options_open, "The instruction names an option of this product that is not chosen yet. Click it before buying."),
        Trigger("price_over", _price_over, "This product costs more than the limit. Go back and look at a cheaper one."),
        Trigger("unlike", _unlike, "This title has few words of the instruction. Do not buy before comparing it with other results."),
        Trigger("item_page", _page_is(ItemPage), "On a product's page: compare title, options and price with the instruction, check the features, and buy only when all fit."),
        Trigger("sub_page", _page_is(SubPage), "This is a tab of the product. Click < Prev to choose options and buy."),
        Trigger("deep_results", _page_is(ResultsPage, DEEP_PAGE), "Results this far down seldom fit. Search again with the product's kind and its main qualities."),
        Trigger("nothing_found", _nothing_found, "The search found nothing. Search with fewer and plainer words."),
        Trigger("many_searches", _many_searches, "Many searches were made. Open the best product seen so far and check its options."),
    ),
}  # fmt: skip
"""Triggers by domain, most telling first."""
