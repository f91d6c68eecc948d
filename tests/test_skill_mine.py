"""Corrective rules: flags by hand, mining counted by hand, in any order, within the guard."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_rows import shop_pages
from skill_rows import AT_FRIDGE, OPENED, REFUSED, TAKE, failing, numbered, solved, trajectory
from typer.testing import CliRunner
from wmlab.cli.skill import app
from wmlab.domains.base import Task
from wmlab.domains.panels import write_panel
from wmlab.domains.registry import DOMAINS
from wmlab.errors import InputError
from wmlab.io.tables import write_table
from wmlab.memory.bank import Entry
from wmlab.memory.guard import task_hash
from wmlab.skills.bank import bundled, read_skills
from wmlab.skills.mine import MineSettings, mine
from wmlab.skills.outcome import is_refused, kind_of_action, misstep
from wmlab.skills.state import State, decisions, state_of_dialogue
from wmlab.skills.triggers import flags, triggers

ONE = MineSettings(min_support=1)


def by_name(entries: list[Entry]) -> dict[str, Entry]:
    return {one.payload["name"]: one for one in entries}


def test_flags_of_a_failing_episode_by_hand() -> None:
    states = [state for state, _ in decisions(failing("a"))]
    assert [flags(state) for state in states] == [(), ("closed_here",), ("refused", "closed_here")]
    after = State("alfworld", states[0].first, (*states[2].turns, (TAKE, REFUSED)))
    assert flags(after) == ("refused", "refused_again", "repeated", "closed_here")


def test_flags_of_a_solved_episode_by_hand() -> None:
    held = [flags(state) for state, _ in decisions(solved("a"))]
    assert held == [
        (), ("closed_here",), ("thing_here",), ("treatment_due",), ("treatment_due",), ("ready_to_place",),
        ("ready_to_place",),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("domain", "first", "turns", "held"),
    [
        ("textworld", "Hi. Open the box.\n\n-= Den =-\n", (("go up", "\nYou can't go that way.\n\n>"),), ("refused", "no_exit")),
        ("textworld", "Hi. Put the key on the bed.\n\n-= Den =-\n", (("take key", "\nYou pick up the key from the ground.\n"),), ("holds_goal_item",)),
        ("textworld", "Hi.\n\n-= Den =-\n", (("open box", "\nYou have to unlock the box with the key first; it's locked.\n"),), ("refused", "locked")),
        ("scienceworld", "Your task is to boil water. First, focus on the substance.\nThis room is called the hallway. In it", (("use a on b", "I'm not sure how to use those two things together."),), ("refused", "use_unclear", "focus_due")),
        ("scienceworld", "Your task is to boil water. First, focus on the substance.\nThis room is called the hallway. In it", (("focus on water", "You focus on the water."),), ()),
        ("scienceworld", "Your task is to grow a banana.\nThis room is called the hallway. In it", (("go to x", "The door is not open."),), ("refused", "door_closed", "growth_task")),
        ("cookingworld", "You are in the den.", (("take x", "Unknown action: take x"),), ("refused", "recipe_unread")),
        ("cookingworld", "You are in the den.", (("read cookbook", "Ingredients:\n  egg\nDirections:\n  prepare meal"), ("prepare meal", "Adding the meal to your inventory.")), ("meal_ready",)),
        ("alfworld", "You see. Your task is to: put some mug in desk.", (("hum", "Nothing happens."),), ("refused", "no_command")),
    ],
)  # fmt: skip
def test_flags_of_each_world(
    domain: str, first: str, turns: tuple[tuple[str, str], ...], held: tuple[str, ...]
) -> None:
    assert flags(State(domain, first, turns)) == held


def test_flags_of_a_shop() -> None:
    pages = shop_pages("find a blue mug with size: large, and price lower than 5.00 dollars")
    turns = (("search[mug]", pages["results"]), ("click[b000000001]", pages["item"]))
    assert flags(State("webshop", pages["start"], turns)) == ("options_open", "price_over", "item_page")
    chosen = (*turns, ("click[large]", pages["item"]))
    assert flags(State("webshop", pages["start"], chosen)) == ("price_over", "item_page")
    assert flags(State("webshop", pages["start"], (*chosen, ("click[red hat]", pages["item"])))) == (
        "refused", "price_over", "item_page",
    )  # fmt: skip
    assert flags(State("webshop", pages["start"], (*turns, ("click[description]", pages["tab"])))) == (
        "sub_page",
    )
    assert not is_refused(State("webshop", pages["start"], turns), "search[cup]", pages["results"])


def test_missteps_and_kinds() -> None:
    state = State("alfworld", "x", (AT_FRIDGE,))
    assert misstep(state, TAKE, REFUSED, False) == "refused"
    assert misstep(state, *AT_FRIDGE, False) == "repeated"
    assert misstep(state, *OPENED, False) == ""
    assert misstep(state, *OPENED, True) == "lost"
    assert kind_of_action("alfworld", "open fridge 1", TAKE) == "open (its second thing)"
    assert kind_of_action("alfworld", TAKE, "examine apple 1") == "take (the same thing)"
    assert kind_of_action("alfworld", "go to desk 1", TAKE) == "go (another thing)"
    assert kind_of_action("webshop", "click[B000000001]", "") == "click a product"
    assert kind_of_action("webshop", "click[Buy Now]", "") == "click buy now"
    waiting = State("scienceworld", "x", (("wait", "You decide to wait."),))
    assert misstep(waiting, "wait", "You decide to wait.", False) == ""


def test_a_dialogue_gives_the_state_of_its_trajectory() -> None:
    row = failing("a")
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": row["initial_observation"]}]
    for step in row["steps"][:2]:
        messages.append({"role": "assistant", "content": f"Thought:\nx\n\nAction:\n{step['action']}"})
        shown = f"[BEGIN STEP_GUIDANCE]\nx\n[END STEP_GUIDANCE]\n\n{step['observation']}"
        messages.append({"role": "user", "content": shown})
    assert state_of_dialogue("alfworld", messages) == [state for state, _ in decisions(row)][2]


def test_rules_by_hand() -> None:
    rows = [failing("f1"), failing("f2"), solved("s1"), solved("s2")]
    entries, report = mine("alfworld", numbered(rows), MineSettings(min_support=2))
    found = by_name(entries)
    # Six failing steps, four missteps; the closed fridge stands before four steps, all of them missteps.
    assert set(found) == {"closed_here", "refused"}
    rule = found["closed_here"]
    assert rule.support == 2 and rule.source_ids == ("f1", "f2")
    assert rule.payload["counts"] == {
        "steps": 4, "missteps": 4, "lift": 1.5, "kinds": {"refused": 4},
        "wrong": {"take (another thing)": 2, "take (the same thing)": 2}, "right": {"open (the same thing)": 2},
    }  # fmt: skip
    assert rule.positive.endswith("What mostly worked next: open (the same thing).")
    tasks = {task_hash([{"content": row["initial_observation"]}]) for row in rows}
    assert set(rule.task_hashes) == tasks
    assert found["refused"].payload["counts"]["right"] == {}
    assert report["failing"] == 2 and report["rules"] == 2 and report["same_as_general"] == 1


def test_a_rule_for_one_verb_only_where_it_leads_elsewhere() -> None:
    refused_go = ("go to sofa 9", REFUSED)
    look = ("look", "You are facing the fridge 1.")
    rows = [failing("f1"), trajectory("f2", refused_go, refused_go)]
    rows += [solved(f"s{n}", refused_go, look) for n in range(2)] + [solved("s3", (TAKE, REFUSED))]
    found = by_name(mine("alfworld", numbered(rows), ONE)[0])
    assert {"refused", "refused_take"} <= set(found) and "refused_go" not in found
    assert found["refused"].positive.endswith("What mostly worked next: look.")
    assert found["refused_take"].positive.endswith(
        "What mostly worked next after take: open (its second thing)."
    )


def test_support_and_lift_are_asked_for() -> None:
    rows = numbered([failing("f1"), solved("s1")])
    entries, report = mine("alfworld", rows, MineSettings(min_support=2))
    assert entries == [] and report["below_support"] > 0
    assert mine("alfworld", rows, MineSettings(1, min_lift=1.6))[0] == []
    assert mine("alfworld", numbered([solved("s1")]), ONE)[0] == []
    assert mine("alfworld", [], ONE)[0] == []
    for wrong in ({"min_support": 0}, {"min_lift": -1.0}, {"min_lift": float("nan")}, {"keep_sources": 0}):
        with pytest.raises(InputError):
            MineSettings(**wrong)


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_rules_do_not_depend_on_the_order(seed: int) -> None:
    rng = random.Random(seed)
    turns = [AT_FRIDGE, (TAKE, REFUSED), OPENED, ("look", "You see."), ("hum", REFUSED)]
    rows = [trajectory(f"t{n}", *rng.choices(turns, k=rng.randint(1, 6))) for n in range(8)] + [solved("s")]
    few = MineSettings(min_support=1, keep_sources=2)
    first = mine("alfworld", numbered(rows), few)
    rng.shuffle(rows)
    assert mine("alfworld", numbered(rows), few) == first
    for one in first[0]:
        counts = one.payload["counts"]
        assert 1 <= one.support <= counts["missteps"] <= counts["steps"] and len(one.source_ids) <= 2


def test_the_guard_and_broken_rows() -> None:
    rows = [failing("f1"), failing("f2")]
    excluded = frozenset({task_hash([{"content": rows[0]["initial_observation"]}])})
    entries, report = mine("alfworld", numbered(rows), ONE, excluded)
    assert report["held_out"] == 1 and all(one.source_ids == ("f2",) for one in entries) and entries
    for broken, said in (
        (failing("a", domain="webshop"), "row 1: domain 'webshop'"),
        (failing("f1"), "row 1: trajectory 'f1' is repeated"),
        (failing("a", initial_observation=None), "row 1: a field is null"),
        (failing("a", steps=[None]), "row 1: a step is null"),
    ):
        with pytest.raises(InputError, match=said):
            mine("alfworld", numbered([failing("f1"), broken]), ONE)
    with pytest.raises(InputError, match="no triggers"):
        mine("chess", [], ONE)


def test_every_trigger_has_a_name_of_its_own_and_short_advice() -> None:
    for domain in DOMAINS:
        known = triggers(domain)
        assert len({one.name for one in known}) == len(known) > 5
        assert all(20 < len(one.advice) <= 240 for one in known)


def test_the_command_writes_the_same_bytes_twice(tmp_path: Path) -> None:
    rows = [failing("f1"), failing("f2"), failing("f3"), solved("s1")]
    source, panel = tmp_path / "trajectories.parquet", tmp_path / "test.json"
    write_table(source, "trajectories", rows)
    held = Task("alfworld_f3", "alfworld", "x", rows[2]["initial_observation"])
    write_panel(panel, "alfworld", "test", [held], {})
    runner = CliRunner()
    banks = []
    for name in ("a", "b"):
        out = tmp_path / f"{name}.jsonl"
        arguments = [
            "mine",
            "--domain",
            "alfworld",
            "--trajectories",
            str(source),
            "--exclude-panel",
            str(panel),
        ]
        done = runner.invoke(app, [*arguments, "--min-support", "2", "--out", str(out)])
        assert done.exit_code == 0, done.output
        assert "2 rules from 2 failing of 4 trajectories, 1 of held-out tasks left out" in done.output
        banks.append(out.read_bytes())
    assert banks[0] == banks[1] and len(read_skills(tmp_path / "a.jsonl", "alfworld")) == 2
    report = json.loads((tmp_path / "a.jsonl.meta.json").read_text())["report"]
    assert report["held_out"] == 1 and report["rules"] == 2
    told = runner.invoke(
        app,
        ["guide", "--domain", "alfworld", "--bank", str(tmp_path / "a.jsonl"), "--trajectories", str(source), "--limit", "1", "--out", "-"],
    )  # fmt: skip
    steps = [json.loads(line) for line in told.output.splitlines()]
    assert [one["flags"] for one in steps] == [[], ["closed_here"], ["refused", "closed_here"]]
    assert [len(one["entries"]) for one in steps] == [0, 1, 2] and steps[0]["block"] == ""
    shown = runner.invoke(app, ["show", "--domain", "alfworld", "--bank", str(tmp_path / "a.jsonl")])
    assert "2 entries match, 2 shown" in shown.output and "flag=closed_here" in shown.output


@pytest.mark.parametrize("domain", DOMAINS)
def test_bundled_rules_are_of_known_flags_and_name_their_sources(domain: str) -> None:
    rules = read_skills(bundled(domain), domain)
    assert rules and {dict(one.key)["flag"] for one in rules} <= {one.name for one in triggers(domain)}
    told = json.loads(Path(f"{bundled(domain)}.meta.json").read_text())
    assert told["report"]["rules"] == len(rules) and told["config"]["domain"] == domain
    for one in rules:
        assert one.kind == "guidance" and one.support >= told["config"]["min_support"] and one.source_ids
        assert one.payload["counts"]["lift"] >= told["config"]["min_lift"]
        assert not any(Path(name).is_absolute() for name in told["inputs"])
