"""Import and export of upstream corpora, and their decomposition into transitions."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner
from wmlab.cli.data import app
from wmlab.data.corpora import ImportReport, clean_action, export_corpus, import_corpus, read_array
from wmlab.data.decompose import action_type, admissible_actions, compose_system, split_system, transitions
from wmlab.errors import InputError
from wmlab.io.tables import read_table, write_table

CORPUS = Path(__file__).parent / "data" / "textworld_corpus.json"
PAGE = "\n\nYour admissible actions of the current situation are: \n[\n'search[<your query>]',\n'click[search]',\n]."
START = "WebShop [SEP] Instruction: [SEP] Find me a mug [SEP] Search" + PAGE
SOLD = "Thank you for shopping with us! [SEP] Your score (min 0.0, max 1.0) [SEP] {score} [SEP] Reward Details [SEP] None"


def element(*turns, identity=7, system="-= Bedroom =-"):
    messages = [{"role": "system", "content": system}]
    for action, observation in turns:
        messages += [{"role": "user", "content": action}, {"role": "assistant", "content": observation}]
    return {"id": identity, "messages": messages}


def load(tmp_path, elements, domain="textworld"):
    path = tmp_path / "corpus.json"
    path.write_text(json.dumps(elements))
    report = ImportReport()
    return list(import_corpus(path, domain, "train", report)), report.as_dict()


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_recorded_corpus_round_trips(tmp_path):
    report = ImportReport()
    rows = list(import_corpus(CORPUS, "textworld", "train", report))
    assert [row["task_id"] for row in rows] == ["textworld_31", "textworld_32", "textworld_33"]
    assert [row["success"] for row in rows] == [True, False, False]
    assert rows[0]["steps"][-1]["done"] and not rows[1]["steps"][-1]["done"]
    assert rows[0]["goal"].endswith("!") or rows[0]["goal"].endswith(".")
    assert "open antique trunk" in admissible_actions(rows[0]["initial_observation"])
    assert not report.actions_normalised and not report.trajectories_cut
    write_table(tmp_path / "t.parquet", "trajectories", rows)
    assert export_corpus(tmp_path / "out.json", read_table(tmp_path / "t.parquet", "trajectories"), "t") == 3
    assert json.loads((tmp_path / "out.json").read_text()) == json.loads(CORPUS.read_text())


def test_privileged_block_is_split_and_comes_back(tmp_path):
    system = compose_system(
        "Your task is to: cool a mug.\nAVAILABLE ACTIONS: look,help", "=== Toggle States ===\n - lamp off"
    )
    assert system.startswith("# Environment Information (Only visible to Assistant)\n\n=== Toggle")
    assert split_system(system) == (
        "Your task is to: cool a mug.\nAVAILABLE ACTIONS: look,help",
        "=== Toggle States ===\n - lamp off",
    )
    rows, _ = load(tmp_path, [element(("look", "x"), system=system)], "alfworld")
    assert rows[0]["goal"] == "cool a mug." and rows[0]["privileged"].endswith("lamp off")
    export_corpus(tmp_path / "o.json", rows, "rows")
    assert json.loads((tmp_path / "o.json").read_text())[0]["messages"][0]["content"] == system
    assert split_system("# Environment Information (Only visible to Assistant)\n\ntorn")[1] is None


@pytest.mark.parametrize(
    ("raw", "clean", "kinds"),
    [
        ("open box\n```", "open box", {"trailing_fence"}),
        ("**\n\nopen box", "open box", {"leading_bold"}),
        ("**\n\nopen box\n```\n", "open box", {"leading_bold", "trailing_fence"}),
        (" open box ", "open box", {"outer_whitespace"}),
        ("open box", "open box", set()),
        ("\n```", "", {"trailing_fence"}),
    ],
)
def test_action_artefacts(raw, clean, kinds):
    report = ImportReport()
    assert clean_action(raw, report.actions_normalised) == clean
    assert set(report.actions_normalised) == kinds


def test_bad_actions_cut_and_are_counted(tmp_path):
    elements = [
        element(("look\n```", "a"), ("", "b"), ("go east", "c")),
        element(("first\nsecond", "a")),
        element(("look", "a"), identity=7),
        {"messages": [*element(("look", "a"))["messages"], {"role": "user", "content": "go east"}]},
    ]
    rows, report = load(tmp_path, elements)
    assert [[step["action"] for step in row["steps"]] for row in rows] == [["look"], ["look"], ["look"]]
    assert rows[1]["task_id"] == "textworld_7" and rows[0]["trajectory_id"] != rows[1]["trajectory_id"]
    assert rows[2]["task_id"] == "textworld_element3"
    assert report == {
        "trajectories_in": 4, "trajectories_out": 3, "steps_out": 3, "successes": 0, "missing_ids": 1,
        "dangling_actions": 1, "steps_cut": 3, "actions_normalised": {"trailing_fence": 1},
        "trajectories_cut": {"empty_action": 1, "multi_line_action": 1}, "trajectories_dropped": {"no_step_left": 1},
    }  # fmt: skip


@pytest.mark.parametrize(
    "page", ["{text} [SUCCESS]", "{text} [SUCCESS]" + PAGE, "{text}" + PAGE + " [SUCCESS]"]
)
def test_webshop_success_score_and_admissible(tmp_path, page):
    last = page.format(text=SOLD.format(score="1.0"))
    rows, _ = load(
        tmp_path,
        [element(("search[mug]", "Results" + PAGE), ("click[buy now]", last), system=START)],
        "webshop",
    )
    assert rows[0]["success"] and rows[0]["score"] == 1.0 and rows[0]["goal"] == "Find me a mug"
    assert rows[0]["steps"][0]["admissible"] == ["search[<your query>]", "click[search]"]
    assert rows[0]["steps"][-1]["observation"] == last


def test_webshop_partial_score_ends_without_success(tmp_path):
    rows, _ = load(tmp_path, [element(("click[buy now]", SOLD.format(score="0.5")), system=START)], "webshop")
    assert (rows[0]["success"], rows[0]["score"], rows[0]["steps"][0]["done"]) == (False, 0.5, True)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (json.dumps([element(("look", "a")), {"id": 1, "messages": [{"role": "user", "content": "x"}]}]), "row 1: message 0"),
        (json.dumps([{"id": 1, "messages": [*element()["messages"], {"role": "assistant", "content": "x"}]}]), "message 1 has role"),
        (json.dumps([element(("look", None))]), "message 2 has no text"),
        (json.dumps([element(("look", "a [SUCCESS]"), ("look", "b"))]), "message 3 follows the end"),
        (json.dumps([element(("look", "a [SUCCESS] b"))]), "inside its text"),
        (json.dumps([{"id": 1, "messages": []}]), "messages is empty"),
        (json.dumps([{"id": True, **{"messages": element()["messages"]}}]), "id is bool"),
        (json.dumps([3]), "row 0: no list of messages"),
        (json.dumps({"id": 1}), "not a JSON array"),
        (json.dumps([element(("look", "a"))] * 3)[:-40], "row 2: the JSON array is torn"),
        (json.dumps([element(("look", "a"))])[:-1], "torn"),
        ("[] trailing", "text follows"),
        ("", "not a JSON array"),
    ],
)  # fmt: skip
def test_bad_corpora_are_one_line_errors_and_leave_nothing(tmp_path, content, named):
    path = tmp_path / "corpus.json"
    path.write_text(content)
    out = tmp_path / "out" / "t.parquet"
    result = run("import", "--corpus", path, "--domain", "textworld", "--out", out)
    assert isinstance(result.exception, InputError) and result.exception.exit_code == 2
    message = str(result.exception)
    assert named in message and str(path) in message and "\n" not in message
    assert not list(tmp_path.glob("out/*"))


def test_reader_joins_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("wmlab.data.corpora._READ_CHARACTERS", 3)
    values = [12345678, {"a": ["é" * 50, 1.5]}, "x", [], 4]
    path = tmp_path / "a.json"
    path.write_text(" " + json.dumps(values, indent=1) + "\n\n", encoding="utf-8")
    assert list(read_array(path)) == values
    path.write_text("[ ]")
    assert list(read_array(path)) == []
    path.write_bytes(b"[\xff]")
    with pytest.raises(InputError, match="not UTF-8"):
        list(read_array(path))


def trajectory(**changes):
    step = {"action": "look", "observation": "seen", "reward": 0.0, "done": False, "admissible": None}
    row = {
        "trajectory_id": "t", "domain": "textworld", "task_id": "textworld_1", "split": "train", "source": "expert",
        "goal": "", "task_type": "", "initial_observation": "start\nAVAILABLE ACTIONS: look, go east", "privileged": None,
        "steps": [step, {**step, "action": "go east", "done": True, "observation": "won [SUCCESS]"}],
        "success": True, "score": 1.0,
    }  # fmt: skip
    return {**row, **changes}


def test_transitions_by_hand():
    first, last = transitions([trajectory()], "t")
    assert first["transition_id"] == "t/step_000" and last["transition_id"] == "t/step_001"
    assert [turn["role"] for turn in last["history"]] == ["system", "user", "assistant", "user"]
    assert first["history"][-1] == {"role": "user", "content": "look"} and len(first["history"]) == 2
    assert first["next_action"] == "go east" and last["next_action"] is None
    assert (first["is_terminal"], last["is_terminal"]) == (False, True)
    assert first["admissible"] == ["look", "go east"] and last["admissible"] is None
    assert (first["action_type"], last["action_type"]) == ("look", "go")
    assert last["observation"] == "won [SUCCESS]"


def test_last_step_of_an_unfinished_trajectory_is_not_terminal():
    steps = [dict(trajectory()["steps"][0])]
    (only,) = transitions([trajectory(steps=steps)], "t")
    assert only["next_action"] is None and not only["is_terminal"]


@pytest.mark.parametrize(
    ("domain", "action", "expected"),
    [
        ("textworld", "Take key", "take"), ("textworld", "north", "go"), ("textworld", "x stove", "examine"),
        ("textworld", "xyzzy", "other"), ("textworld", "  ", "other"), ("webshop", "search[mug]", "search"),
        ("webshop", "Click[Buy Now]", "click"), ("webshop", "buy", "other"), ("alfworld", "go to desk 1", "go"),
    ],
)  # fmt: skip
def test_action_types(domain, action, expected):
    assert action_type(domain, action) == expected


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"steps": [{**trajectory()["steps"][0], "action": " "}]}, "step 0 has an empty action"),
        ({"steps": [{**trajectory()["steps"][0], "action": None}]}, "step 0 has an empty action"),
        ({"steps": [{**trajectory()["steps"][0], "observation": None}]}, "no observation"),
        ({"steps": trajectory()["steps"][::-1]}, "step 1 comes after done"),
        ({"steps": None}, "steps is null"),
        ({"trajectory_id": "first"}, "repeated"),
    ],
)
def test_broken_trajectories_name_their_row_and_leave_nothing(tmp_path, changes, named):
    path, out = tmp_path / "t.parquet", tmp_path / "out" / "x.parquet"
    write_table(path, "trajectories", [trajectory(trajectory_id="first"), trajectory(**changes)])
    result = run("decompose", "--trajectories", path, "--out", out)
    assert isinstance(result.exception, InputError)
    assert f"{path}, row 1" in str(result.exception) and named in str(result.exception)
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.parametrize("command", ["decompose", "export"])
def test_bad_parquet_is_one_line(tmp_path, command):
    path, out = tmp_path / "t.parquet", tmp_path / "out" / "x"
    good = pa.Table.from_pylist([trajectory()])
    files = {
        "not a readable": lambda: path.write_bytes(b"PAR1 nonsense"),
        "columns ['steps'] are missing": lambda: pq.write_table(good.drop_columns(["steps"]), path),
        "cannot be read": lambda: pq.write_table(
            good.set_column(good.schema.get_field_index("steps"), "steps", pa.array(["text"])), path
        ),
        "schema version 9": lambda: pq.write_table(
            good.replace_schema_metadata({"wmlab.version": "9"}), path
        ),
        "file not found": path.unlink,
    }
    for named, make in files.items():
        make()
        result = run(command, "--trajectories", path, "--out", out)
        assert isinstance(result.exception, InputError), result.output
        assert named in str(result.exception) and "\n" not in str(result.exception)
        assert str(path) in str(result.exception)
        assert not list(tmp_path.glob("out/*"))


def test_commands_from_corpus_to_transitions(tmp_path):
    made = tmp_path / "t.parquet"
    report = tmp_path / "import.json"
    result = run("import", "--corpus", CORPUS, "--domain", "textworld", "--out", made, "--report", report)
    assert result.exit_code == 0, result.exception
    assert result.stdout.strip().splitlines()[-1] == f"{made}: 3 trajectories, 33 steps (0 cut, 0 dropped)"
    assert json.loads(report.read_text())["steps_out"] == 33
    assert run("decompose", "--trajectories", made, "--out", tmp_path / "x.parquet").exit_code == 0
    rows = read_table(tmp_path / "x.parquet", "transitions")
    assert len(rows) == 33 and rows[8]["is_terminal"] and rows[8]["next_action"] is None
    assert run("export", "--trajectories", made, "--out", tmp_path / "back.json").exit_code == 0
    assert json.loads((tmp_path / "back.json").read_text()) == json.loads(CORPUS.read_text())
    for name in ("t.parquet", "x.parquet", "back.json"):
        assert (tmp_path / f"{name}.meta.json").exists()
