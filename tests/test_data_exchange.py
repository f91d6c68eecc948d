"""Upstream's contexts, task lists, corpora and episode folders: import, export, round trips, CR by definition."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy_domains import ToyDomain
from typer.testing import CliRunner
from wmlab.cli.data import app
from wmlab.cli.eval import app as eval_app
from wmlab.config.recipes import CollectRecipe
from wmlab.data.collect import collect
from wmlab.data.contexts import read_contexts, read_task_ids
from wmlab.data.corpora import ImportReport, export_corpus, import_corpus
from wmlab.data.decompose import action_type, compose_system, split_system, transitions
from wmlab.data.filter import RULES, rule_of, select
from wmlab.domains.base import Task
from wmlab.domains.conventions import UPSTREAM_NAMES, goal_of, known_domain, task_type_of
from wmlab.domains.panels import panel_agent, read_panel, write_panel
from wmlab.domains.registry import make_domain, parse_options
from wmlab.errors import InputError
from wmlab.metrics import episodes as ep

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
MD5 = {  # formats.md 1.3
    "webshop": ("4c51b8358b259f79fc5294d7623e9807", "d169ee595d99aa248ebc4206b56c41ca"),
    "textworld": ("83a281ca0656f395867949ee9149a0c5", "d49d96bc7d6f43fa0ebd8d6d3826027d"),
}
ROOM = (
    "\n\nFind the mug.\n\n-= Bedroom =-\nA room.\n\n>   -= Bedroom =-0/1\nAVAILABLE ACTIONS: look, open box"
)
PAGE = "\n\nYour admissible actions of the current situation are: \n[\n'search[<your query>]',\n'click[search]',\n]."
START = (
    "WebShop [SEP] Instruction: [SEP] Find me a mug, and price lower than 20.00 dollars [SEP] Search" + PAGE
)
HOME = "You are in the middle of a room.\nYour task is to: put a hot apple in fridge.\nAVAILABLE ACTIONS: go to fridge 1,help,look"
LAB = (
    "Task Description:\nYour task is to boil water.\nThis room is called the hall. In it, you see: \n\ta door"
)
# The privileged blocks as the collection scripts compose them: ScienceWorld's starts and ends with line breaks.
HOUSE_BLOCK = "=== Objects on Receptacles ===\n - On the shelf 1, you see a mug 1\n\n=== Toggle States ===\n - desklamp 1 is off"
LAB_BLOCK = "\n=== Goal Progress ===\nNone\n\n=== Possible Actions ===\n - open OBJ\n\n=== Per-Room Observations ===\n== Room: hall ==\nA hall.\nPossible Objects: door\n\n"
SHOWN = {"textworld": ROOM, "webshop": START, "alfworld": HOME, "scienceworld": LAB}
BLOCKS = {"alfworld": HOUSE_BLOCK, "scienceworld": LAB_BLOCK}


def run(*arguments: Any, of: Any = app) -> Any:
    return CliRunner().invoke(of, [str(argument) for argument in arguments])


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def contexts(folder: Path, domain: str, numbers: tuple[int, ...] = (7, 3), **changes: Any) -> Path:
    """Both files as upstream writes them, by hand."""
    name, shown, block = UPSTREAM_NAMES[domain], SHOWN[domain], BLOCKS.get(domain)
    agents, worlds = [], []
    for n in numbers:
        turns = [("user", "Act!"), ("assistant", "Ok."), ("user", shown)]
        agents.append(
            {
                "item_id": f"{name}_{n}",
                "data_idx": n,
                "messages": [{"role": r, "content": c} for r, c in turns],
            }
        )
        worlds.append({"id": n, "messages": [{"role": "system", "content": compose_system(shown, block)}]})
    for file, elements, indent in (("agent", agents, 2), ("wm", worlds, 4)):
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(changes.get(file, elements), ensure_ascii=False, indent=indent)
        (folder / f"{file}_instruct_test.json").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("domain", SHOWN)
def test_contexts_come_back_byte_for_byte(tmp_path: Path, domain: str) -> None:
    source = contexts(tmp_path / "in", domain)
    panel, out = tmp_path / "panel.json", tmp_path / "out"
    upstream = UPSTREAM_NAMES[domain]
    made = run(
        "import", "--format", "init_contexts", "--corpus", source, "--domain", upstream, "--out", panel
    )
    assert made.exit_code == 0, made.exception
    tasks = read_panel(panel)
    assert [task.task_id for task in tasks] == [f"{upstream}_7", f"{upstream}_3"]
    assert tasks[0].initial_observation == SHOWN[domain] and tasks[0].privileged == BLOCKS.get(domain)
    assert tasks[0].domain == domain and tasks[0].goal and tasks[0].goal in SHOWN[domain]
    assert panel_agent(panel) == {"prompt": "Act!", "acknowledgement": "Ok."}
    assert json.loads(panel.read_text())["split"] == "test"
    assert run("export", "--format", "init_contexts", "--panel", panel, "--out", out).exit_code == 0
    for file in ("agent_instruct_test.json", "wm_instruct_test.json"):
        assert (out / file).read_bytes() == (source / file).read_bytes()
    again = read_contexts(out, domain)  # provenance notes beside the files are not contexts
    assert again.tasks == tasks
    listed = tmp_path / "list.json"
    assert run("export", "--format", "task_list", "--panel", panel, "--out", listed).exit_code == 0
    ids = [f"{upstream}_7", f"{upstream}_3"]
    assert read_task_ids(listed, domain) == read_task_ids(panel, domain) == read_task_ids(out, domain) == ids
    assert json.loads(listed.read_text())[0] == {"item_id": f"{upstream}_7", "conversations": None}


@pytest.mark.skipif(not (SHARED / "data" / "init_contexts").exists(), reason="the shared folder is not there")
@pytest.mark.parametrize("domain", MD5)
def test_the_published_contexts_come_back_byte_for_byte(tmp_path: Path, domain: str) -> None:
    source = SHARED / "data" / "init_contexts" / domain
    panel, out = tmp_path / "panel.json", tmp_path / "out"
    assert (
        run(
            "import", "--format", "init_contexts", "--corpus", source, "--domain", domain, "--out", panel
        ).exit_code
        == 0
    )
    assert run("export", "--format", "init_contexts", "--panel", panel, "--out", out).exit_code == 0
    files = ("agent_instruct_test.json", "wm_instruct_test.json")
    assert tuple(hashlib.md5((out / file).read_bytes()).hexdigest() for file in files) == MD5[domain]
    tasks = read_panel(panel)
    assert len(tasks) == 200 and all(task.goal for task in tasks)
    told = hashlib.sha256(panel_agent(panel)["prompt"].encode()).hexdigest()
    assert told.startswith(
        {"webshop": "5dd9cb5a21953f45", "textworld": "55426df329a8792e"}[domain]
    )  # formats.md 2.2
    if domain == "webshop":
        assert tasks[0].task_id == "webshop_5238" and all("price lower than" in task.goal for task in tasks)
        return
    environment = make_domain("textworld", ROOT / "results" / "cache").open()
    assert environment.load("textworld_1").sha256 == tasks[0].sha256
    environment.close()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"agent": []}, "no contexts"),
        ({"agent": [{"item_id": "webshop_7", "data_idx": 8, "messages": []}]}, "messages are not user, assistant, user"),
        ({"wm": [{"id": 7, "messages": [{"role": "user", "content": "x"}]}]}, "messages are not system"),
        ({"wm": [{"id": "7", "messages": [{"role": "system", "content": START}]}]}, 'id is "7"'),
        ({"wm": [{"id": 7, "messages": [{"role": "system", "content": START}]}]}, "1 tasks, agent_instruct_test.json has 2"),
        ({"wm": [{"id": n, "messages": [{"role": "system", "content": START.replace("mug", "cup")}]} for n in (7, 3)]}, "is not what agent_instruct_test.json has"),
        ({"wm": [{"id": n, "messages": [{"role": "system", "content": START}]} for n in (7, 7)]}, "webshop_7 is there twice"),
        ({"wm": [{"id": 7, "messages": [{"role": "system", "content": "no goal"}]}]}, "states no goal"),
        ({"wm": "torn"}, "not a JSON array"),
    ],
)  # fmt: skip
def test_wrong_contexts_name_file_and_element(tmp_path: Path, changes: dict[str, Any], named: str) -> None:
    source, out = contexts(tmp_path / "in", "webshop", **changes), tmp_path / "out" / "panel.json"
    result = run(
        "import", "--format", "init_contexts", "--corpus", source, "--domain", "webshop", "--out", out
    )
    assert isinstance(result.exception, InputError)
    assert named in str(result.exception) and "_instruct_test.json" in str(result.exception)
    assert not out.exists()


def test_contexts_of_another_domain_or_no_contexts(tmp_path: Path) -> None:
    source = contexts(tmp_path / "in", "webshop")
    with pytest.raises(InputError, match=r'item_id is "webshop_7", not textworld_7'):
        read_contexts(source, "textworld")
    with pytest.raises(InputError, match="not one set of contexts"):
        read_contexts(tmp_path, "webshop")
    (source / "wm_instruct_train.json").write_text("[]")
    with pytest.raises(InputError, match="not one set of contexts"):
        read_contexts(source, "webshop")
    only = read_contexts(source / "wm_instruct_test.json", "webshop")
    assert len(only.tasks) == 2 and only.prompt is None


def test_task_lists(tmp_path: Path) -> None:
    def rows(*names: Any) -> list[dict[str, Any]]:
        return [{"item_id": name, "conversations": []} for name in names]

    assert read_task_ids(write(tmp_path / "a.json", rows("sciworld_5", "sciworld_0")), "scienceworld") == [
        "sciworld_5",
        "sciworld_0",
    ]
    assert read_task_ids(write(tmp_path / "b.json", rows("alfworld_valid_seen_2620")), "alfworld") == [
        "alfworld_2620"
    ]
    trained = write(tmp_path / "alfworld_train.json", rows("alfworld_900", "alfworld_901"))
    assert read_task_ids(trained, "alfworld") == ["alfworld_0", "alfworld_1"]
    for bad, named in ((rows("webshop_x"), "item_id is"), (rows("webshop_../1"), "item_id is"), (rows(3), "item_id is 3"), (rows("alfworld_1"), "item_id is"), (rows("webshop_1", "webshop_01"), "there twice"), ([], "no tasks"), ([3], "item_id is null"), (rows("webshop_" + "9" * 30), "item_id is")):  # fmt: skip
        with pytest.raises(InputError, match=named):
            read_task_ids(write(tmp_path / "c.json", bad), "webshop")


def test_a_task_list_becomes_a_panel_of_the_environment(tmp_path: Path) -> None:
    listed = write(tmp_path / "textworld_test.json", [{"item_id": "textworld_1", "conversations": None}])
    panel = tmp_path / "panel.json"
    cache = ROOT / "results" / "cache"
    result = run("import", "--format", "task_list", "--corpus", listed, "--domain", "textworld", "--out", panel, "--cache", cache, "--workers", 1)  # fmt: skip
    assert result.exit_code == 0, result.exception
    (task,) = read_panel(panel)
    hashes = json.loads((ROOT / "tests" / "data" / "textworld_initial_observations.json").read_text())[
        "sha256"
    ]
    assert hashlib.sha256(task.initial_observation.encode()).hexdigest() == hashes["textworld_1"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("import", "--corpus", "x", "--domain", "webshop", "--out", "y", "--format", "csv"), "--format 'csv'"),
        (("import", "--corpus", "x", "--domain", "atari", "--out", "y"), "domain 'atari'"),
        (("import", "--corpus", "x", "--domain", "webshop", "--out", "y", "--format", "episodes", "--mode", "z"), "--mode 'z'"),
        (("import", "--corpus", "x", "--domain", "webshop", "--out", "y", "--format", "episodes"), "not a folder"),
        (("import", "--corpus", "x", "--domain", "webshop", "--out", "y", "--format", "task_list", "--options", "[1]"), "not a JSON object"),
        (("import", "--corpus", "x", "--domain", "webshop", "--out", "y", "--format", "task_list", "--options", '{"a": []}'), "'a' is not"),
        (("export", "--out", "y"), "needs --trajectories"),
        (("export", "--out", "y", "--format", "episodes"), "needs --episodes"),
        (("export", "--out", "y", "--format", "task_list"), "needs --panel"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_input_errors(arguments: tuple[str, ...], named: str) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, InputError) and named in str(result.exception)
    assert parse_options('{"server": "http://h", "timeout": 3.5}') == {"server": "http://h", "timeout": 3.5}


# --- corpora ---------------------------------------------------------------------------------------------------


def corpus(domain: str, *turns: tuple[str, str], identity: Any = 41) -> dict[str, Any]:
    system = compose_system(SHOWN[domain], BLOCKS.get(domain))
    messages = [{"role": "system", "content": system}]
    for action, observation in turns:
        messages += [{"role": "user", "content": action}, {"role": "assistant", "content": observation}]
    return {"id": identity, "messages": messages}


@pytest.mark.parametrize(
    ("domain", "turns", "want"),
    [
        ("textworld", (("look\n```", "A room."), ("eat mug", "*** You lost! ***")), {"task_type": "tw-simple", "types": ["look", "eat"], "success": False, "done": True}),
        ("alfworld", (("go to fridge 1", "You arrive."), ("move apple 1 to fridge 1", "Done. [SUCCESS]")), {"task_type": "pick_heat_then_place_in_recep", "types": ["go", "put"], "success": True, "done": True}),
        ("scienceworld", (("**\n\nfocus on water", "You focus."), ("0", "Ambiguous? [SUCCESS]")), {"task_type": "", "types": ["focus", "choose"], "success": True, "done": True}),
        ("webshop", (("search[mug]", "Results" + PAGE), ("click[search]", "Same" + PAGE)), {"task_type": "", "types": ["search", "click"], "success": False, "done": False}),
    ],
)  # fmt: skip
def test_each_domains_corpus(tmp_path: Path, domain: str, turns: Any, want: dict[str, Any]) -> None:
    name = UPSTREAM_NAMES[domain]
    path = write(tmp_path / "c.json", [corpus(domain, *turns)])
    rows = list(import_corpus(path, name, "train", ImportReport()))
    assert rows[0]["task_id"] == f"{name}_41" and rows[0]["domain"] == domain
    assert rows[0]["privileged"] == BLOCKS.get(domain) and rows[0]["initial_observation"] == SHOWN[domain]
    assert rows[0]["goal"] and (rows[0]["task_type"], rows[0]["success"]) == (
        want["task_type"],
        want["success"],
    )
    assert rows[0]["steps"][-1]["done"] is want["done"]
    cut = list(transitions(rows, "rows"))
    assert [row["action_type"] for row in cut] == want["types"]
    assert cut[0]["history"][0]["content"] == compose_system(SHOWN[domain], BLOCKS.get(domain))
    if domain != "scienceworld":
        assert cut[0]["admissible"]
    export_corpus(tmp_path / "out.json", rows, "rows")
    assert json.loads((tmp_path / "out.json").read_text())[0]["id"] == 41


def test_calls_with_json_arguments_may_have_several_lines(tmp_path: Path) -> None:
    call = 'get_weather\n{"city": "Oslo",\n "days": 2}'
    element = {
        "id": 1,
        "messages": [
            {"role": "system", "content": "tools"},
            {"role": "user", "content": call},
            {"role": "assistant", "content": "{}"},
        ],
    }
    report = ImportReport()
    (row,) = import_corpus(write(tmp_path / "c.json", [element]), "stabletoolbench", "train", report)
    assert (
        row["steps"][0]["action"] == call
        and row["task_id"] == "stabletoolbench_1"
        and not report.trajectories_cut
    )
    assert action_type("stabletoolbench", call) == "get_weather"


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(
    lambda t: "[SUCCESS]" not in t
)
ACTION = st.text("abc []", min_size=1, max_size=12).map(str.strip).filter(bool)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["textworld", "alfworld", "scienceworld", "cookingworld"]),
    TEXT,
    st.none() | TEXT,
    st.lists(st.tuples(ACTION, TEXT), min_size=1, max_size=4),
    st.integers(0, 10**6) | st.sampled_from(["alfworld_train_12", "x"]),
    st.booleans(),
)
def test_trajectories_survive_the_corpus_layout(
    tmp_path: Path, domain: str, shown: str, block: str | None, turns: Any, identity: Any, won: bool
) -> None:
    system = compose_system(shown, block)
    if split_system(system) != (shown, block) or any("*** " in observation for _, observation in turns):
        return  # a text that holds the layout's own headings
    messages = [{"role": "system", "content": system}]
    for action, observation in turns:
        messages += [{"role": "user", "content": action}, {"role": "assistant", "content": observation}]
    messages[-1]["content"] += " [SUCCESS]" * won
    path = write(tmp_path / "in.json", [{"id": identity, "messages": messages}])
    rows = list(import_corpus(path, domain, "train", ImportReport()))
    export_corpus(tmp_path / "out.json", rows, "rows")
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8")) == json.loads(
        path.read_text(encoding="utf-8")
    )
    again = list(import_corpus(tmp_path / "out.json", domain, "train", ImportReport()))
    assert again == rows


@pytest.mark.parametrize(
    ("domain", "action", "kind"),
    [
        ("alfworld", "move mug 1 to desk 1", "put"), ("alfworld", "put mug 1 in/on desk 1", "put"), ("alfworld", "use desklamp 1", "use"),
        ("alfworld", "dance", "other"), ("scienceworld", "pick up pot", "pick"), ("scienceworld", "wait1", "wait"), ("scienceworld", "3", "choose"),
        ("scienceworld", "look in pot", "look"), ("scienceworld", "zzz", "other"), ("cookingworld", "move north", "go"), ("cookingworld", "dice carrot", "dice"),
        ("cookingworld", "foo", "other"), ("textworld", "go up", "go"), ("webshop", "think[hm]", "think"), ("alfworld", " ", "other"),
    ],
)  # fmt: skip
def test_action_types_of_five_domains(domain: str, action: str, kind: str) -> None:
    assert action_type(domain, action) == kind


@pytest.mark.skipif(not (SHARED / "samples").exists(), reason="the shared folder is not there")
@pytest.mark.parametrize("domain", ["textworld", "alfworld", "scienceworld", "cookingworld", "webshop"])
def test_recorded_actions_have_a_type(domain: str) -> None:
    lines = (SHARED / "samples" / f"{domain}.jsonl").read_text(encoding="utf-8").splitlines()
    actions = {str(json.loads(line)["action"]) for line in lines} - {"[reset]", "None"}
    others = {action for action in actions if action_type(domain, action) == "other"}
    assert others <= {"xyzzy", "fly", "foo", "foo bar", "zzz"}  # no verbs of any game


def test_goals_and_families() -> None:
    assert goal_of("scienceworld", LAB) == "Task Description:\nYour task is to boil water." and goal_of(
        "webshop", START
    ).startswith("Find me a mug")
    found = {goal: task_type_of("alfworld", goal) for goal in ("put two mug in desk.", "put a clean plate in shelf.", "cool some pan and put it in stoveburner.", "look at bowl under the desklamp.", "examine the cd with the desklamp.", "put some spoon on table.", "sing.")}  # fmt: skip
    families = [
        "pick_two_obj_and_place",
        "pick_clean_then_place_in_recep",
        "pick_cool_then_place_in_recep",
        "look_at_obj_in_light",
        "look_at_obj_in_light",
        "pick_and_place_simple",
        "",
    ]
    assert list(found.values()) == families
    assert known_domain("sciworld") == known_domain("scienceworld") == "scienceworld"


def test_every_domain_has_a_filter_rule() -> None:
    assert set(RULES) == set(UPSTREAM_NAMES)
    assert (rule_of("webshop").name, rule_of("alfworld").name) == ("f1_below_0.35", "sqrt_pool_hardness")
    with pytest.raises(InputError, match="no difficulty rule"):
        select([], {}, domain="chess")
    row = {
        "transition_id": "a", "domain": "alfworld", "action": "move mug 1 to desk 1", "action_type": "put", "observation": "a b",
        "history": [{"role": "system", "content": HOME}, {"role": "user", "content": "x"}], "next_action": "look", "admissible": None,
    }  # fmt: skip
    chosen = select([row], {"a": "a c"}, domain="alfworld", budget=1)
    assert chosen.kept == {"a"} and chosen.report["action_types"]["put"]["hardness"] == 0.5


# --- episode folders -------------------------------------------------------------------------------------------


def released(folder: Path, mode: str, item: str, won: bool, steps: int = 2) -> None:
    """One result file as the released scripts write it, by hand (formats.md 1.5)."""
    turns = [
        {"role": "user", "content": "Act!"},
        {"role": "assistant", "content": "Ok."},
        {"role": "user", "content": START},
    ]
    replay = []
    for k in range(steps):
        said = f"Thought:\nhm\n\nAction:\nclick[{k}]"
        turns += [
            {"role": "assistant", "content": said, "reasoning_content": None},
            {"role": "user", "content": f"page {k}"},
        ]
        replay.append({"react": said, "world_model_observation": "guess", "env_observation": f"page {k}"})
    records: dict[str, dict[str, Any]] = {
        "real": {
            "conversations": turns,
            "item_id": item,
            "reward": float(won),
            "score": float(won),
            "success": float(won),
        },
        "wm": {"conversations": turns, "item_id": item, "reward": float(won), "success": int(won)},
        "w2r": {
            "conversation": replay,
            "item_id": item,
            "world_model_success": 1,
            "reward": float(won),
            "success": won if won else 0,
        },
    }
    write(
        folder / ep.W2R_FOLDER / f"{item}.json" if mode == "w2r" else folder / f"{item}.json", records[mode]
    )


@settings(max_examples=12, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=12))
def test_consistency_of_released_folders_is_by_definition(outcomes: list[tuple[bool, bool, bool]]) -> None:
    """CR = SR_W2R / SR_Real and CR_pw = both / Real (metrics.md 2), from folders laid out as released."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        tasks = [Task(f"webshop_{n}", "webshop", "g", START) for n in range(len(outcomes))]
        write_panel(root / "panel.json", "webshop", "test", tasks)
        for task, (real, w2r, wm) in zip(tasks, outcomes, strict=True):
            for mode, won in (("real", real), ("w2r", w2r), ("wm", wm)):
                released(root / ("real" if mode == "real" else "wm"), mode, task.task_id, won)
        write(root / "real" / "_metrics.json", {"accuracy": 0.0})
        write(root / "wm" / "_metrics.json", {"accuracy": 0.0})
        write(root / "wm" / ep.W2R_FOLDER / "_metrics.json", {"accuracy": 0.0})
        cell_path = root / "cell.json"
        result = run("consistency", "--real", root / "real", "--w2r", root / "wm", "--wm", root / "wm", "--panel", root / "panel.json", "--out", cell_path, of=eval_app)  # fmt: skip
        assert result.exit_code == 0, result.exception
        cell = json.loads(cell_path.read_text())
        n = len(outcomes)
        solved, replayed = sum(r for r, _, _ in outcomes), sum(w for _, w, _ in outcomes)
        both = sum(r and w for r, w, _ in outcomes)
        assert (cell["n"], cell["both"], cell["n_error"], cell["n_missing"]) == (n, both, 0, 0)
        assert cell["CR"] == (pytest.approx(replayed / solved) if solved else None)
        assert cell["CR_pw"] == (pytest.approx(both / solved) if solved else None)
        assert cell["fp"] == sum(m and not r for r, _, m in outcomes)


@pytest.mark.parametrize("mode", ep.MODES)
def test_released_episodes_to_jsonl_and_back(tmp_path: Path, mode: str) -> None:
    folder, ours, back = tmp_path / "in", tmp_path / "episodes.jsonl", tmp_path / "back"
    for n, won in ((7, True), (3, False)):
        released(folder, mode, f"webshop_{n}", won)
    made = run(
        "import",
        "--format",
        "episodes",
        "--corpus",
        folder,
        "--mode",
        mode,
        "--domain",
        "webshop",
        "--out",
        ours,
    )
    assert made.exit_code == 0, made.exception
    assert made.stdout.strip() == f"{ours}: 1/2 won, 0 errors"
    found = ep.read_episodes(ours, mode)
    assert [episode.actions for episode in found] == [("click[0]", "click[1]")] * 2
    assert run("export", "--format", "episodes", "--episodes", ours, "--out", back).exit_code == 0
    there = back / ep.W2R_FOLDER if mode == "w2r" else back
    assert ep.read_upstream(back, mode) == found
    for item in ("webshop_7", "webshop_3"):
        source = folder / ep.W2R_FOLDER if mode == "w2r" else folder
        before, after = (json.loads((at / f"{item}.json").read_text()) for at in (source, there))
        assert set(before) <= set(after)
        for name in ("item_id", "reward", "success"):
            assert before[name] == after[name]
        turns = "conversation" if mode == "w2r" else "conversations"
        kept = "react" if mode == "w2r" else "content"
        assert [turn[kept] for turn in before[turns]] == [turn[kept] for turn in after[turns]]
    metrics = json.loads((there / "_metrics.json").read_text())
    assert metrics["accuracy"] == (0.5 if mode == "w2r" else 50.0)
    assert (there / "_metrics.json.meta.json").exists()


def test_word2worlds_split_names_are_one_task(tmp_path: Path) -> None:
    released(tmp_path, "real", "alfworld_valid_unseen_2807", True)
    (episode,) = ep.read_upstream(tmp_path, "real")
    assert episode.item_id == "alfworld_2807" and episode.success


def test_collected_transitions_list_what_was_possible_before_their_action() -> None:
    domain = ToyDomain("webshop")
    environment = domain.open()
    recipe = CollectRecipe(noise=[1.0], trajectories_per_game=1, demonstrations_per_game=0, step_cap=12)
    task = environment.load("webshop_5")
    first, second, *_ = transitions(collect(domain, [task], "train", recipe, 1, 0), "rows")
    assert first["admissible"] == environment.clicks(True)
    assert second["admissible"] == environment.clicks(False)
