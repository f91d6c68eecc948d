"""RAP on trees whose values are known: visits, returns, loops, ends, and the quirks that are a switch."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning import START, Toy, decide
from wmlab.agents.planning.mcts import Node, Rap
from wmlab.agents.planning.requests import Act, Propose

# start -a-> dull -x-> dull2, start -b-> door -c-> won: the win is two steps away, behind the unlikelier action.
TWO_STEPS = Toy(
    {
        "start": {"a": "dull", "b": "door"},
        "dull": {"x": "dull2"},
        "dull2": {},
        "door": {"c": "won"},
        "won": {},
    },
    won=frozenset({"won"}),
    ratings={"dull": 0.5, "door": 0.1},
)


def tree(toy: Toy, rap: Rap) -> Node:
    search = rap.search(START)
    answer = None
    while True:
        try:
            request = search.send(answer)
        except StopIteration as end:
            assert isinstance(end.value, Node)
            return end.value
        answer = toy.answer(request)


def nodes(root: Node) -> list[Node]:
    return [root, *(found for child in root.children or () for found in nodes(child))]


@pytest.mark.parametrize("budget", [1, 2, 7, 40])
def test_visits_sum_to_the_budget(budget: int) -> None:
    root = tree(TWO_STEPS, Rap(iterations=budget, depth=3))
    assert root.visits == budget
    assert root.children is not None and sum(child.visits for child in root.children) == budget
    for node in nodes(root):
        assert sum(child.visits for child in node.children or ()) <= node.visits


def test_returns_are_those_of_the_tree() -> None:
    root = tree(TWO_STEPS, Rap(iterations=20, depth=2, discount=1.0))
    assert root.children is not None
    dull, door = root.children
    # A win is 1, a rating counts a tenth. Behind the door every return is .01 + 1; the dull way is .05 in all.
    assert door.value == pytest.approx(0.01 + 1.0) and dull.value == pytest.approx(0.05)
    assert door.visits > dull.visits
    plan = decide(TWO_STEPS, Rap(iterations=20, depth=2, discount=1.0)(START))
    assert plan.action == "b" and plan.trace["options"][plan.trace["chosen"]]["visits"] == door.visits


def test_discounting_prefers_the_nearer_win() -> None:
    toy = Toy(
        {"start": {"far": "hall", "near": "won"}, "hall": {"on": "won2"}, "won": {}, "won2": {}},
        won=frozenset({"won", "won2"}),
    )
    root = tree(toy, Rap(iterations=12, depth=3, discount=0.5))
    assert root.children is not None
    far, near = root.children
    assert near.value == pytest.approx(1.0) and far.value == pytest.approx(0.5)


def test_an_end_at_depth_one_is_not_searched_on() -> None:
    toy = Toy({"start": {"win": "won", "lose": "lost"}}, won=frozenset({"won"}), lost=frozenset({"lost"}))
    root = tree(toy, Rap(iterations=9, depth=5))
    assert root.children is not None and [child.children for child in root.children] == [None, None]
    assert [child.value for child in root.children] == [1.0, 0.0]
    assert decide(toy, Rap(iterations=9)(START)).action == "win"


def test_a_loop_ends_at_the_depth_limit() -> None:
    toy = Toy({"start": {"stay": "start", "go": "won"}, "won": {}}, won=frozenset({"won"}))
    root = tree(toy, Rap(iterations=30, depth=4))
    assert max(node.depth for node in nodes(root)) <= 4 and root.visits == 30
    assert decide(toy, Rap(iterations=30, depth=4)(START)).action == "go"


def test_actions_are_proposed_for_every_depth() -> None:
    TWO_STEPS.asked.clear()
    tree(TWO_STEPS, Rap(iterations=6, depth=2))
    asked = [one for one in TWO_STEPS.asked if isinstance(one, Propose)]
    assert {TWO_STEPS.state(one.path) for one in asked} >= {"start", "dull", "door"}


def test_without_an_action_the_agent_acts() -> None:
    toy = Toy({"start": {}})
    assert decide(toy, Rap()(START)).trace == {"kind": "act"}
    assert isinstance(toy.asked[-1], Act)


def test_the_published_quirks_are_a_switch() -> None:
    everywhere = {"a": "s", "b": "won"}
    toy = Toy({"start": everywhere, "s": everywhere, "won": everywhere}, won=frozenset({"won"}))
    root = tree(toy, Rap(iterations=25, depth=3, itp_compat=True))
    assert sum(isinstance(one, Propose) for one in toy.asked) == 1  # at the root, for all depths
    won = [node for node in nodes(root) if node.terminal and node.children]
    assert won  # an end is searched on
    assert all(node.value == pytest.approx(node.reward) for node in nodes(root) if node.visits)  # no returns


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from("abcde"),
        st.dictionaries(st.sampled_from("xyz"), st.sampled_from(["start", *"abcde", "won"]), max_size=3),
    ),
    st.integers(1, 25),
    st.integers(1, 5),
)
def test_any_world_keeps_the_invariants(edges: dict[str, dict[str, str]], budget: int, depth: int) -> None:
    edges = {"start": {"x": "a"}, **{state: edges.get(state, {}) for state in "abcde"}, "won": {}}
    root = tree(Toy(edges, won=frozenset({"won"})), Rap(iterations=budget, depth=depth))
    assert root.visits == budget
    for node in nodes(root):
        assert node.depth <= depth
        assert 0.0 <= node.value <= 1.0 + 0.1 * depth
        if node.terminal:
            assert node.children is None
