"""Episodes: our JSONL, upstream folders in both layouts, the export and its round trip, panels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from wmlab.domains.base import Task
from wmlab.domains.conventions import acknowledgement_of
from wmlab.domains.panels import read_panel
from wmlab.errors import InputError
from wmlab.metrics import episodes as ep

PROMPT = "You play a game."


def make(item: str = "textworld_1", mode: str = "real", **changes: Any) -> ep.Episode:
    actions = changes.pop("actions", ("go east", "take key"))
    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": "A room."}]
    for action in actions:
        messages.append({"role": "assistant", "content": f"Thought:\nHm.\n\nAction:\n{action}"})
        messages.append({"role": "user", "content": f"You {action}."})
    fields: dict[str, Any] = {
        "item_id": item,
        "mode": mode,
        "agent_id": "scripted",
        "model_id": None if mode == "real" else "w2w",
        "messages": tuple(messages),
        "actions": tuple(actions),
        "reward": 1.0,
        "score": 1.0 if mode == "real" else None,
        "success": True,
        "status": "finished",
        "n_steps": len(actions),
        "error": None,
        "timing": {"seconds": 0.5},
        "tokens": {"agent": 3, "world_model": 4},
    }
    return ep.Episode(**(fields | changes))


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_jsonl_round_trip_and_torn_tail(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    kept = [make("textworld_1"), make("textworld_2", success=False, status="step_cap", task_sha256="ab")]
    ep.write_episodes_jsonl(path, kept)
    assert ep.read_episodes(path, "real") == kept
    with path.open("a", encoding="utf-8") as handle:
        handle.write('{"item_id": "textworld_3", "mo')
    assert ep.read_episodes(path, "real") == kept


@pytest.mark.parametrize("name", list(ep._KINDS))
def test_a_missing_field_names_file_row_and_field(tmp_path: Path, name: str) -> None:
    path = tmp_path / "episodes.jsonl"
    ep.write_episodes_jsonl(path, [make("textworld_1"), make("textworld_2")])
    good, bad = rows(path)
    del bad[name]
    path.write_text(json.dumps(good) + "\n" + json.dumps(bad) + "\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        ep.read_episodes(path, "real")
    message = str(caught.value)
    assert "\n" not in message and "episodes.jsonl, row 2" in message and name in message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("success", 1.0),
        ("success", "true"),
        ("reward", True),
        ("reward", float("nan")),
        ("reward", None),
        ("score", float("inf")),
        ("n_steps", -1),
        ("n_steps", 2.0),
        ("status", "done"),
        ("mode", "plan"),
        ("actions", ["look", 3]),
        ("messages", [{"role": "user"}]),
        ("item_id", ""),
        ("error", 5),
        ("tokens", []),
        ("task_sha256", 7),
    ],
)
def test_a_wrong_type_is_an_input_error(tmp_path: Path, name: str, value: Any) -> None:
    path = tmp_path / "episodes.jsonl"
    ep.write_episodes_jsonl(path, [make()])
    path.write_text(json.dumps(rows(path)[0] | {name: value}) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=f"row 1: .*{name}"):
        ep.read_episodes(path, "real")


def test_duplicates_and_other_modes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    ep.write_episodes_jsonl(path, [make("textworld_1"), make("textworld_2"), make("textworld_1")])
    with pytest.raises(InputError, match=r"row 3: item_id 'textworld_1' is already in row 1"):
        ep.read_episodes(path, "real")
    ep.write_episodes_jsonl(path, [make(mode="wm")])
    with pytest.raises(InputError, match="mode is 'wm'"):
        ep.read_episodes(path, "w2r")


@pytest.mark.parametrize("mode", ep.MODES)
def test_export_and_import_agree(tmp_path: Path, mode: str) -> None:
    given = [
        make("textworld_1", mode),
        make("textworld_2", mode, success=False, reward=0.0, status="step_cap", score=None),
        make("textworld_3", mode, success=False, status="error", error="context_overflow: 9 > 8", score=None),
        make("textworld_4", mode, success=False, status="error", error="server gone", actions=(), score=None),
    ]
    folder = ep.write_upstream(tmp_path / "out", given, wm=given if mode == "w2r" else ())
    assert (folder.name == ep.W2R_FOLDER) == (mode == "w2r")
    back = ep.read_episodes(tmp_path / "out", mode)
    if mode == "w2r":  # upstream's replay files have no place for the prompt and the first observation
        given = [replace(episode, messages=episode.messages[2:]) for episode in given]
    assert back == given
    totals = json.loads((folder / "_metrics.json").read_text(encoding="utf-8"))
    assert totals["accuracy"] == (0.25 if mode == "w2r" else 25.0)


def test_exported_files_have_the_released_keys(tmp_path: Path) -> None:
    ep.write_upstream(tmp_path / "real", [make()])
    real = json.loads((tmp_path / "real" / "textworld_1.json").read_text(encoding="utf-8"))
    assert [turn["role"] for turn in real["conversations"][:4]] == ["user", "assistant", "user", "assistant"]
    assert real["conversations"][1]["content"] == acknowledgement_of("textworld")
    assert (real["success"], real["score"]) == (1.0, 1.0)
    wm = make(mode="wm")
    ep.write_upstream(tmp_path / "wm", [make(mode="w2r")], wm=[wm])
    replay = json.loads((tmp_path / "wm" / ep.W2R_FOLDER / "textworld_1.json").read_text(encoding="utf-8"))
    assert set(replay["conversation"][0]) == {"react", "world_model_observation", "env_observation"}
    assert replay["conversation"][0]["world_model_observation"] == "You go east."
    assert replay["world_model_success"] == 1


def test_bare_outputs_are_exported_so_that_released_scripts_replay_them(tmp_path: Path) -> None:
    bare = make(
        messages=({"role": "user", "content": "A room."}, {"role": "assistant", "content": "go east"}),
        actions=("go east",),
    )
    ep.write_upstream(tmp_path, [bare])
    data = json.loads((tmp_path / "textworld_1.json").read_text(encoding="utf-8"))
    assert ep.parse_action(data["conversations"][3]["content"]) == "go east"
    assert ep.read_upstream(tmp_path, "real")[0].actions == ("go east",)


def test_released_layouts_without_our_key(tmp_path: Path) -> None:
    turn = {
        "role": "assistant",
        "content": "Thought:\nx\n\nAction:\nclick[buy now]",
        "reasoning_content": None,
    }
    prefix = [{"role": r, "content": c} for r, c in (("user", "p"), ("assistant", "Ok."), ("user", "page"))]
    body = prefix + [turn, {"role": "user", "content": "page 2"}] * 3
    files = {
        "webshop_1": {
            "conversations": body,
            "item_id": "webshop_1",
            "reward": 1.0,
            "score": 1.0,
            "success": 1.0,
        },
        "webshop_2": {
            "conversations": body,
            "item_id": "webshop_2",
            "reward": 0.0,
            "score": 0.0,
            "success": 0.0,
        },
        "webshop_3": {
            "conversations": prefix,
            "item_id": "webshop_3",
            "reward": 0,
            "success": 0,
            "note": "context_overflow: x",
        },
    }
    for name, data in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(data), encoding="utf-8")
    (tmp_path / "_metrics.json").write_text("{}", encoding="utf-8")
    won, lost, failed = ep.read_episodes(tmp_path, "real", step_cap=3)
    assert (won.succeeded, won.status, won.n_steps) == (True, "finished", 3)
    assert won.actions == ("click[buy now]",) * 3 and won.messages[0] == {"role": "system", "content": "p"}
    assert (lost.succeeded, lost.status) == (False, "step_cap")
    assert (failed.succeeded, failed.status, failed.error) == (False, "error", "context_overflow: x")
    assert ep.read_episodes(tmp_path, "real")[1].status == "finished"


def test_released_replay_folder_is_found_in_the_wm_folder(tmp_path: Path) -> None:
    folder = tmp_path / ep.W2R_FOLDER
    folder.mkdir()
    step = {"react": "Action:\nlook", "world_model_observation": "a", "env_observation": "b"}
    data = {
        "conversation": [step],
        "item_id": "textworld_9",
        "world_model_success": 1,
        "reward": 1,
        "success": 1,
    }
    (folder / "textworld_9.json").write_text(json.dumps(data), encoding="utf-8")
    (episode,) = ep.read_episodes(tmp_path, "w2r")
    assert episode.succeeded and episode.actions == ("look",) and episode.messages[1]["content"] == "b"
    lookahead = {"conversation": [], "item_id": "textworld_8", "data_idx": 8, "error": "timeout"}
    (folder / "textworld_8.json").write_text(json.dumps(lookahead), encoding="utf-8")
    assert ep.read_episodes(tmp_path, "w2r")[0].status == "error"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"item_id": "textworld_1", "succ', "cannot be parsed"),
        ("[]", "not a JSON object"),
        ('{"item_id": "textworld_2", "success": 1}', "item_id"),
        ('{"item_id": "textworld_1", "reward": 1.0}', "'success' is None"),
        ('{"item_id": "textworld_1", "reward": 1.0, "success": 0.5}', "'success' is 0.5"),
        ('{"item_id": "textworld_1", "success": 1}', "reward"),
        ('{"item_id": "textworld_1", "success": 1, "reward": 1, "conversations": "x"}', "conversation"),
    ],
)
def test_a_bad_upstream_file_is_named(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "textworld_1.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=problem) as caught:
        ep.read_upstream(tmp_path, "real")
    assert "textworld_1.json" in str(caught.value) and "\n" not in str(caught.value)


def test_an_empty_folder_and_a_bad_file_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no \{task\}_\{id\}\.json"):
        ep.read_upstream(tmp_path, "real")
    with pytest.raises(InputError, match="cannot be a file name"):
        ep.write_upstream(tmp_path, [make("../textworld_1")])
    with pytest.raises(InputError, match="2 modes"):
        ep.write_upstream(tmp_path, [make(), make(mode="wm")])


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("Thought:\nx\n\nAction:\ngo east", "go east"),
        ("Action: a\nAction: b", "b"),
        ("click[buy now]", "click[buy now]"),
        ("go east", ""),
    ],
)
def test_parse_action(text: str, action: str) -> None:
    assert ep.parse_action(text) == action


def panel(path: Path, frozen: list[Task], **changes: Any) -> Path:
    entries = [
        {
            "task_id": t.task_id,
            "goal": t.goal,
            "initial_observation": t.initial_observation,
            "sha256": t.sha256,
        }
        for t in frozen
    ]
    path.write_text(
        json.dumps({"schema": 1, "domain": "textworld", "split": "test", "tasks": entries} | changes),
        encoding="utf-8",
    )
    return path


def test_read_panel_verifies_the_content(tmp_path: Path) -> None:
    tasks = [Task(f"textworld_{i}", "textworld", "Find it.", f"Room {i}.") for i in range(3)]
    path = panel(tmp_path / "panel.json", tasks)
    assert read_panel(path) == tasks
    data = json.loads(path.read_text(encoding="utf-8"))
    data["tasks"][1]["goal"] = "Lose it."
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(InputError, match="row 2: task 'textworld_1' is not what its sha256 says"):
        read_panel(path)
    with pytest.raises(InputError, match="there twice"):
        read_panel(panel(path, [tasks[0], tasks[0]]))
    for changes in ({"schema": 2}, {"tasks": []}, {"domain": None}, {"tasks": [{}]}):
        with pytest.raises(InputError, match=r"panel.json"):
            read_panel(panel(path, tasks, **changes))
    with pytest.raises(InputError, match="not a readable panel"):
        read_panel(tmp_path / "absent.json")
