"""The difficulty filter and the verl export."""

import json
import math
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner
from wmlab.cli.data import app
from wmlab.data.filter import apportion, content_hash, panel_hashes, select, webshop_action_is_valid
from wmlab.data.verl import SCHEMA, read_verl
from wmlab.errors import InputError
from wmlab.io.tables import read_table, write_table


def row(name, *, kind="go", start="start", action=None, observation="a b c d", next_action="look", **changes):
    action = action or f"{kind} {name}"
    base = {
        "transition_id": name, "trajectory_id": f"t_{name}", "domain": "textworld", "task_id": "textworld_1",
        "split": "train", "step": 0, "action": action, "action_type": kind, "observation": observation,
        "history": [{"role": "system", "content": start}, {"role": "user", "content": action}],
        "next_action": next_action, "is_terminal": next_action is None, "admissible": None,
    }  # fmt: skip
    return {**base, **changes}


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


POOLS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 40), max_size=8)


@settings(max_examples=200, deadline=None)
@given(POOLS, st.integers(0, 200), st.randoms(use_true_random=False))
def test_apportionment_sums_caps_and_ignores_order(pools, budget, rng):
    weights = {name: rng.choice([0.0, rng.random() * 5]) for name in pools}
    given_ = apportion(pools, weights, budget)
    assert sum(given_.values()) == min(budget, sum(pools.values()))
    assert all(0 <= given_[name] <= pools[name] for name in pools)
    shuffled = list(pools.items())
    rng.shuffle(shuffled)
    assert apportion(dict(shuffled), weights, budget) == given_


def test_apportionment_by_hand():
    # shares 10 * (1, 2, 4) / 7 = 1.43, 2.86, 5.71: floors 1, 2, 5, the two largest remainders get one more
    assert apportion({"a": 99, "b": 99, "c": 99}, {"a": 1, "b": 2, "c": 4}, 10) == {"a": 1, "b": 3, "c": 6}
    # c is capped at 2 and its rest goes to a and b, 1 : 2
    assert apportion({"a": 99, "b": 99, "c": 2}, {"a": 1, "b": 2, "c": 4}, 11) == {"a": 3, "b": 6, "c": 2}
    # nothing is hard: the square roots of the pools decide
    assert apportion({"a": 4, "b": 16}, {"a": 0, "b": 0}, 3) == {"a": 1, "b": 2}
    with pytest.raises(InputError, match="negative"):
        apportion({"a": 1}, {"a": 1}, -1)


def test_textworld_budgets_follow_pool_and_hardness():
    rows = [row(f"g{i}", kind="go") for i in range(16)] + [row(f"l{i}", kind="look") for i in range(4)]
    predictions = {one["transition_id"]: "a b x y" for one in rows}  # F1 0.5
    chosen = select(rows, predictions, domain="textworld", budget=6)
    assert chosen.report["action_types"]["go"] == {
        "pool": 16, "hardness": 0.5, "budget": 4, "kept": 4, "dropped": {"over_budget": 12}
    }  # fmt: skip
    assert chosen.report["action_types"]["look"]["kept"] == 2  # sqrt(8) : sqrt(2) = 2 : 1
    assert len(chosen.kept) == chosen.report["n_kept"] == 6


def test_hardest_first_and_seeded_random():
    rows = [row(f"g{i}") for i in range(6)]
    texts = ["a b c d", "a b c", "a b", "a", "", "x"]
    predictions = {f"g{i}": text for i, text in enumerate(texts)}
    assert select(rows, predictions, domain="textworld", budget=3).kept == {"g3", "g4", "g5"}

    def draw(seed, data=rows):
        return select(data, predictions, domain="textworld", budget=3, order="random", seed=seed).kept

    assert draw(1) == draw(1, rows[::-1])
    assert len({draw(seed) for seed in range(8)}) > 1
    with pytest.raises(InputError, match="order 'easiest'"):
        select(rows, predictions, domain="textworld", order="easiest")


def test_every_reason_is_counted():
    held = "Goal.\n\n-= Bedroom =-\n>    -= Bedroom =-0/1"
    rows = [
        row("keep"),
        row("twin", action="go keep"),
        row("end", next_action=None, kind="put"),
        row("held", start=held + "\nAVAILABLE ACTIONS: look, go east"),
    ]
    predictions = {one["transition_id"]: "" for one in rows}
    chosen = select(rows, predictions, domain="textworld", excluded={content_hash(held)})
    assert chosen.kept == {"keep"}
    dropped = {name: n for name, n in chosen.report["dropped"].items() if n}
    assert dropped == {"terminal": 1, "held_out": 1, "duplicate": 1}
    assert chosen.report["action_types"]["put"] == {
        "pool": 0, "hardness": None, "budget": 0, "kept": 0, "dropped": {"terminal": 1}
    }  # fmt: skip
    counted = sum(
        kind["kept"] + sum(kind["dropped"].values()) for kind in chosen.report["action_types"].values()
    )
    assert counted == chosen.report["n_in"] == 4


def test_webshop_keeps_hard_and_valid():
    listed = ["search[<your query>]", "click[search]", "click[b01]"]
    rows = [
        row(name, kind=action.split("[")[0], action=action, domain="webshop", admissible=listed)
        for name, action in [
            ("hard", "click[B01]"),
            ("easy", "search[mug]"),
            ("gone", "click[b02]"),
            ("blank", "search[ ]"),
        ]
    ]
    predictions = {"hard": "a x y z", "easy": "a b x y", "gone": "", "blank": ""}
    chosen = select(rows, predictions, domain="webshop")
    assert chosen.kept == {"hard"}  # F1 0.25; easy has 0.5
    assert {name: n for name, n in chosen.report["dropped"].items() if n} == {
        "invalid_action": 2,
        "too_easy": 1,
    }
    assert select(rows, predictions, domain="webshop", budget=0).kept == frozenset()
    wider = select(rows, predictions, domain="webshop", max_f1=1.0)
    assert wider.kept == {"hard", "easy"} and wider.report["rule"] == "f1_below_1"
    assert select(rows, predictions, domain="webshop", max_f1=0.25).kept == frozenset()


@pytest.mark.parametrize(
    ("action", "admissible", "valid"),
    [
        ("search[blue mug]", ["search[<your query>]"], True), ("search[blue mug]", ["click[back to search]"], False),
        ("click[Buy Now]", ["click[buy now]"], True), ("click[]", ["click[]"], False), ("click[x]", None, True),
        ("buy now", None, False), ("think[hm]", ["click[x]"], False), ("[END_OF_EPISODE]", None, False),
    ],
)  # fmt: skip
def test_webshop_action_validity(action, admissible, valid):
    assert webshop_action_is_valid(action, admissible) is valid


@pytest.mark.parametrize(
    ("rows", "predicted", "named"),
    [
        ([row("a"), row("b")], ["a"], "row 1: no prediction for 'b'"),
        ([row("a"), row("a")], ["a"], "row 1: transition_id 'a' is repeated"),
        ([row("a", domain="webshop")], ["a"], "domain 'webshop'"),
        ([row("a", history=[])], ["a"], "history is empty"),
        ([row("a", history=[None])], ["a"], "history is empty"),
        ([row("a", observation=None)], ["a"], "null"),
    ],
)
def test_bad_pools_are_refused(rows, predicted, named):
    with pytest.raises(InputError, match=named):
        select(rows, dict.fromkeys(predicted, ""), domain="textworld")


def prediction(name, text="", model="m"):
    return {
        "transition_id": name,
        "model_id": model,
        "prediction": text,
        "n_tokens": 1,
        "finish_reason": "stop",
    }


def test_filter_command_with_a_panel(tmp_path):
    rows = [row("a"), row("b", start="held out"), row("c", next_action=None)]
    write_table(tmp_path / "t.parquet", "transitions", rows)
    write_table(tmp_path / "p.parquet", "predictions", [prediction(name) for name in "abc"])
    panel = tmp_path / "panel.json"
    panel.write_text(json.dumps({"tasks": [{"task_id": "other_id", "initial_observation": "held out"}]}))
    arguments = [
        "filter", "--transitions", tmp_path / "t.parquet", "--predictions", tmp_path / "p.parquet", "--domain",
        "textworld", "--exclude-panel", panel, "--out", tmp_path / "o.parquet", "--report", tmp_path / "r.json",
    ]  # fmt: skip
    result = run(*arguments)
    assert result.exit_code == 0, result.exception
    assert [one["transition_id"] for one in read_table(tmp_path / "o.parquet", "transitions")] == ["a"]
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["dropped"]["held_out"] == 1 and report["budget"] == 6000
    first = (tmp_path / "o.parquet").read_bytes()
    assert run(*arguments).exit_code == 0 and (tmp_path / "o.parquet").read_bytes() == first


def test_filter_command_errors_leave_nothing(tmp_path):
    out = tmp_path / "out"
    write_table(tmp_path / "t.parquet", "transitions", [row("a")])
    write_table(tmp_path / "p.parquet", "predictions", [prediction("a"), prediction("a", model="n")])
    panel = tmp_path / "panel.json"

    def filtered(*more):
        result = run(
            "filter", "--transitions", tmp_path / "t.parquet", "--predictions", tmp_path / "p.parquet", "--domain",
            "textworld", "--out", out / "o.parquet", "--report", out / "r.json", *more,
        )  # fmt: skip
        assert isinstance(result.exception, InputError) and "\n" not in str(result.exception)
        assert not list(tmp_path.glob("out/*"))
        return str(result.exception)

    assert "row 1: two predictions for 'a'" in filtered()
    write_table(tmp_path / "p.parquet", "predictions", [])
    assert "no prediction for 'a'" in filtered()
    for content, named in [
        ("{", "not a JSON panel"),
        ("[]", "no list of tasks"),
        ('{"tasks": [{}]}', "row 0"),
    ]:
        panel.write_text(content)
        assert named in filtered("--exclude-panel", panel)
    (tmp_path / "p.parquet").write_bytes(b"junk")
    assert "not a readable Parquet file" in filtered()


def test_panel_hash_ignores_action_list_and_privileged_block(tmp_path):
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"tasks": [{"initial_observation": "Room.\nAVAILABLE ACTIONS: look"}]}))
    assert panel_hashes([path]) == {content_hash("Room."), content_hash(" Room.\n")}
    assert content_hash("Room!") not in panel_hashes([path])


def test_verl_file_has_the_contract_and_reads_back(tmp_path):
    rows = [row("a"), row("z", next_action=None), row("b", observation="won [SUCCESS]", next_action="look")]
    write_table(tmp_path / "t.parquet", "transitions", rows)
    out = tmp_path / "g.parquet"
    result = run("verl", "--transitions", tmp_path / "t.parquet", "--out", out)
    assert result.exit_code == 0, result.exception
    assert result.stdout.strip().endswith("2 rows (1 without a next action left out)")
    assert pq.read_schema(out).equals(SCHEMA)
    first, second = read_verl(out)
    assert first["data_source"] == "textworld_grpo" and first["ability"] == "world_model"
    assert first["reward_model"] == {"style": "rule", "ground_truth": "a b c d"}
    extra = first["extra_info"]
    assert json.loads(extra.pop("history")) == first["prompt"] == rows[0]["history"]
    assert extra == {
        "split": "train", "index": 0, "domain": "textworld", "task_id": "textworld_1", "trajectory_id": "t_a",
        "step": 0, "item_id": "a", "expert_action": "look", "is_terminal": False, "env_reward": 0.0,
    }  # fmt: skip
    assert (second["extra_info"]["env_reward"], second["extra_info"]["index"]) == (1.0, 1)
    assert (
        run("verl", "--transitions", tmp_path / "t.parquet", "--out", out, "--include-terminal").exit_code
        == 0
    )
    assert [one["extra_info"]["expert_action"] for one in read_verl(out)] == ["look", None, "look"]


def test_verl_row_groups_and_empty_file(tmp_path):
    write_table(tmp_path / "t.parquet", "transitions", [row(f"r{i}") for i in range(10_001)])
    assert (
        run("verl", "--transitions", tmp_path / "t.parquet", "--out", tmp_path / "g.parquet").exit_code == 0
    )
    groups = pq.ParquetFile(tmp_path / "g.parquet").metadata
    assert [groups.row_group(i).num_rows for i in range(groups.num_row_groups)] == [10_000, 1]
    write_table(tmp_path / "t.parquet", "transitions", [])
    assert (
        run("verl", "--transitions", tmp_path / "t.parquet", "--out", tmp_path / "g.parquet").exit_code == 0
    )
    assert read_verl(tmp_path / "g.parquet") == []


def test_read_verl_names_the_faulty_row(tmp_path):
    write_table(tmp_path / "t.parquet", "transitions", [row("a"), row("b")])
    out = tmp_path / "g.parquet"
    run("verl", "--transitions", tmp_path / "t.parquet", "--out", out)
    good = pq.read_table(out).to_pylist()

    def fault(change):
        broken = json.loads(json.dumps(good))
        change(broken[1])
        pq.write_table(pa.Table.from_pylist(broken, schema=SCHEMA), out)
        with pytest.raises(InputError) as caught:
            read_verl(out)
        assert f"{out}, row 1" in str(caught.value)
        return str(caught.value)

    assert "data_source" in fault(lambda one: one.update(data_source="x"))
    assert "prompt" in fault(lambda one: one.update(prompt=[]))
    assert "reward_model" in fault(lambda one: one["reward_model"].update(style="model"))
    assert "not JSON" in fault(lambda one: one["extra_info"].update(history="{"))
    assert "differs" in fault(lambda one: one["extra_info"].update(history="[]"))
    assert "blank" in fault(lambda one: one["extra_info"].update(expert_action=" "))


def test_hardness_is_one_minus_mean_f1():
    rows = [row("a"), row("b")]
    chosen = select(rows, {"a": "a b c d", "b": "a"}, domain="textworld")
    assert math.isclose(chosen.report["action_types"]["go"]["hardness"], 1 - (1 + 0.4) / 2)
    assert Counter(chosen.report["dropped"].values())[0] == 6
