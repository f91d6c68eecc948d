"""WebShop behind the protocol: sessions, expert, splits, official files, script, workers, hostile input."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wmlab.config.recipes import CollectRecipe
from wmlab.data.collect import _play_task, demonstrate
from wmlab.domains.base import SUCCESS_MARKER, Step, Task
from wmlab.domains.panels import load_task
from wmlab.domains.play import check_backend, play_task
from wmlab.domains.registry import make_domain
from wmlab.domains.webshop import pages
from wmlab.domains.webshop.domain import WebShopDomain, make
from wmlab.domains.webshop.environment import WebShopEnvironment, index_of
from wmlab.domains.webshop.generator import ATTRIBUTES, HUMAN, PRODUCTS, write_catalogue
from wmlab.domains.webshop.shop import open_shop
from wmlab.errors import EnvironmentFailure, InputError

ROOT = Path(__file__).resolve().parents[1]
CACHE = str(ROOT / "results" / "cache")
DOMAIN = make_domain("webshop", CACHE)
FROZEN_SHA256 = "77b9b0d6013838810f3b9bbe6f9548e16e6b703941de9a0d699c223f9fb1b2f7"
"""Over the content hashes of test tasks 1 to 50 of the bundled catalogue: texts, options and price bounds."""


@pytest.fixture
def environment() -> Iterator[WebShopEnvironment]:
    opened = DOMAIN.open()
    assert isinstance(opened, WebShopEnvironment)
    yield opened
    opened.close()


def start(environment: WebShopEnvironment, task_id: str = "webshop_3") -> str:
    return environment.reset(environment.load(task_id)).text


def body(step: Step) -> str:
    return step.observation.split(pages.BLOCK_HEAD)[0]


def test_goals_are_frozen_with_their_price_bounds(environment: WebShopEnvironment) -> None:
    tasks = [environment.load(task_id) for task_id in DOMAIN.task_ids("test", 1, 50)]
    assert sum("price lower than" in task.goal for task in tasks) > 45
    digest = hashlib.sha256("".join(task.sha256 for task in tasks).encode()).hexdigest()
    assert digest == FROZEN_SHA256
    assert load_task(DOMAIN, "webshop_3") == tasks[3]
    changed = Task(
        "webshop_3", "webshop", tasks[3].goal, tasks[3].initial_observation.replace("lower", "higher")
    )
    with pytest.raises(EnvironmentFailure, match="differs"):
        environment.reset(changed)


def test_the_expert_meets_every_goal_of_the_bundled_catalogue_in_both_modes(tmp_path: Path) -> None:
    for mode in ("compat", "strict"):
        opened = make_domain("webshop", CACHE, {"mode": mode}).open()
        assert isinstance(opened, WebShopEnvironment)
        for index in range(0, opened.shop.n_goals, 3 if mode == "compat" else 40):
            opened.load(f"webshop_{index}")
            assert opened.expert(), index
    result = check_backend(DOMAIN, 20)
    assert (result["gold_success"], result["real_floor"], result["problems"]) == (1.0, 1.0, [])


def test_pages_carry_their_actions_and_success_its_marker() -> None:
    rows = play_task(DOMAIN, "webshop_3", [], True)
    for row in rows[:-1]:
        reading = pages.read(row["observation"])
        assert reading is not None and reading.admissible == tuple(row["admissible"])
        assert pages.write(reading) == row["observation"]
    last = rows[-1]["observation"]
    assert last.startswith("Thank you for shopping with us! [SEP] ") and pages.BLOCK_HEAD not in last
    assert last.endswith(
        "Your score (min 0.0, max 1.0) [SEP] 1.0 [SEP] Reward Details [SEP] None" + SUCCESS_MARKER
    )
    assert [row["reward"] for row in rows] == [0.0] * (len(rows) - 1) + [1.0]
    assert rows[-1]["done"] and rows[-1]["success"]


def test_a_session_page_by_page(environment: WebShopEnvironment) -> None:
    first = start(environment)
    assert first == environment.load("webshop_3").initial_observation
    start(environment)
    for idle in ("click[search]", "click[buy now]", "search[]", "search[  ]", "", "buy now", "CLICK[search]"):
        step = environment.step(idle)
        assert (step.observation, step.reward, step.done) == (first, 0.0, False)
    results = environment.step("search[Rubber Sole SANDALS]")
    page = pages.parse(body(results))
    assert isinstance(page, pages.ResultsPage) and (page.page, page.previous, page.total) == (1, False, 50)
    assert len(page.products) == 10 and results.admissible is not None
    assert results.admissible[:2] == ("click[back to search]", "click[next >]")
    second = environment.step("click[next >]")
    assert "Page 2 (Total results: 50) [SEP] < Prev [SEP] Next > [SEP]" in second.observation
    assert environment.step("click[< prev]").observation == results.observation
    for _ in range(5):
        beyond = environment.step("click[next >]")
    assert body(beyond).endswith("Page 6 (Total results: 50) [SEP] < Prev [SEP] Next >")
    environment.step("search[rubber sole sandals]")
    asin = page.products[4].asin
    item = environment.step(f"click[{asin}]")  # arguments are lowercased
    parsed = pages.parse(body(item))
    assert isinstance(parsed, pages.ItemPage) and parsed.title == page.products[4].title
    features = environment.step("click[features]")
    assert isinstance(pages.parse(body(features)), pages.SubPage)
    assert body(environment.step("click[reviews]")) == body(features)  # tabs are on the item page only
    assert environment.step("click[< prev]").observation == item.observation
    assert body(environment.step("click[reviews]")).endswith("Back to Search [SEP] < Prev")
    environment.step("click[< prev]")
    assert environment.step("click[< prev]").observation == results.observation
    assert environment.step("click[back to search]").observation == first


def test_options_are_hidden_until_the_purchase(environment: WebShopEnvironment) -> None:
    start(environment)
    plan = environment.expert()
    for action in plan[:2]:
        item = environment.step(action)
    for action in plan[2:-1]:
        assert environment.step(action).observation == item.observation
    wrong = environment.fork()
    done = wrong.step("click[buy now]")
    assert json.loads(str(pages.parse(done.observation.removesuffix(SUCCESS_MARKER)).options)) == {  # type: ignore[union-attr]
        option.name: option.value for option in environment._wanted.options
    }
    environment.step("click[description]")
    environment.step("click[< prev]")  # options are kept
    assert environment.expert() == ["click[buy now]"]
    environment.step("click[< prev]")
    environment.step(plan[1])  # opened anew: nothing is chosen
    assert environment.expert() == plan[2:]
    bare = environment.step("click[buy now]")
    assert bare.done and not bare.success and 0 < bare.reward < 1 and SUCCESS_MARKER not in bare.observation
    assert bare.observation.split("Your score (min 0.0, max 1.0) [SEP] ")[1].startswith(str(bare.reward))
    with pytest.raises(EnvironmentFailure, match="after the end"):
        environment.step("click[back to search]")
    assert environment.expert() == []


def test_the_expert_replans_after_any_detour(environment: WebShopEnvironment) -> None:
    rng = np.random.default_rng(5)
    for number in range(60):
        step = environment.reset(environment.load(f"webshop_{number}"))
        admissible = step.admissible or ()
        for _ in range(int(rng.integers(1, 12))):
            action = DOMAIN.stray(rng, admissible, admissible)
            if "buy now" not in action:
                admissible = environment.step(action).admissible or ()
        actions = 0
        while True:
            plan = environment.expert()
            assert plan
            taken = environment.step(plan[0])
            actions += 1
            if taken.done:
                break
        assert taken.success and actions < 20


def test_a_fork_goes_its_own_way(environment: WebShopEnvironment) -> None:
    start(environment)
    environment.step("search[lamp]")
    twin = environment.fork()
    here = environment.step("click[next >]").observation
    assert twin.step("click[next >]").observation == here
    twin.step("click[back to search]")
    assert "Page 3" in environment.step("click[next >]").observation


def test_500_exploring_episodes_end_without_a_crash(environment: WebShopEnvironment) -> None:
    rng = np.random.default_rng(1)
    kinds = set()
    for number in range(500):
        step = environment.reset(environment.load(f"webshop_{number}"))
        admissible, seen = step.admissible or (), list(step.admissible or ())
        for _ in range(15):
            taken = environment.step(DOMAIN.stray(rng, admissible, seen))
            reading = pages.read(taken.observation)
            assert reading is not None and pages.write(reading) == taken.observation
            kinds.add(type(reading.page).__name__)
            admissible = taken.admissible or ()
            seen += admissible
            if taken.done:
                break
    assert len(kinds) == 5


def test_a_collected_trajectory_replays(environment: WebShopEnvironment) -> None:
    recipe = CollectRecipe(trajectories_per_task=2, noise=[0.0, 0.4], step_cap=30)
    task = environment.load("webshop_600")
    rows = _play_task((DOMAIN, task, "validation", recipe, 0))
    assert rows[0]["success"] and rows[0]["task_type"] == environment.task_type
    for row in rows:
        environment.reset(task)
        for step in row["steps"]:
            assert environment.step(step["action"]).observation == step["observation"]


# Splits and options


def test_splits_are_disjoint_and_positions_count_from_1() -> None:
    assert DOMAIN.task_ids("test", 1, 2) == ["webshop_0", "webshop_1"]
    ids = {
        split: DOMAIN.task_ids(split, 1, n)
        for split, n in (("test", 500), ("validation", 1000), ("train", 3000))
    }
    assert len({task_id for part in ids.values() for task_id in part}) == 4500
    assert ids["validation"][0] == "webshop_500" and ids["train"][0] == "webshop_1500"
    for split, first, n in (("test", 500, 2), ("test", 0, 1), ("train", 1, 10**6), ("dev", 1, 1)):
        with pytest.raises(InputError, match="split"):
            DOMAIN.task_ids(split, first, n)
    assert pickle.loads(pickle.dumps(DOMAIN)) == DOMAIN


def test_a_small_shop_is_split_in_the_published_proportions(tmp_path: Path) -> None:
    small = make(tmp_path, {"size": 60})
    goals = open_shop(str(tmp_path), small.settings).n_goals
    assert goals == 309
    # 309 / 6910 of the published borders 500 and 1500.
    sizes = {"test": 22, "validation": 67 - 22, "train": 309 - 67}
    ids = [task for split, n in sizes.items() for task in small.task_ids(split, 1, n)]
    assert ids == [f"webshop_{index}" for index in range(goals)]
    for split, n in sizes.items():
        with pytest.raises(InputError, match=f"split {split} has {n} tasks"):
            small.task_ids(split, n, 2)


def test_a_published_task_list_is_the_test_split(tmp_path: Path) -> None:
    path = tmp_path / "webshop_test.json"
    path.write_text(
        json.dumps([{"item_id": f"webshop_{n}", "conversations": None} for n in (5238, 912, 204)])
    )
    domain = make_domain("webshop", CACHE, {"tasks": str(path)})
    assert domain.task_ids("test", 1, 3) == ["webshop_5238", "webshop_912", "webshop_204"]
    others = domain.task_ids("validation", 1, 1000) + domain.task_ids("train", 1, 4000)
    assert len({*others, "webshop_5238", "webshop_912", "webshop_204"}) == 5003
    for text, problem in (
        ('[{"id": 1}]', "row 0: item_id is null"),
        ("[]", "no tasks"),
        ('[{"item_id": "webshop_9999999"}]', "asks for"),
        ('[{"item_id": "../x"}]', "row 0: item_id is "),
        ('[{"item_id": "webshop_1"}, {"item_id": "webshop_1"}]', "row 1: webshop_1 is there twice"),
    ):
        other = tmp_path / f"{len(problem)}{problem[:2]}.json"
        other.write_text(text)
        with pytest.raises(InputError, match=problem):
            make_domain("webshop", CACHE, {"tasks": str(other)}).task_ids("test", 1, 1)


def test_official_files_load_when_given(tmp_path: Path) -> None:
    write_catalogue(tmp_path, 300)
    files = {name: str(tmp_path / f"{name}.json") for name in ("products", "attributes", "human")}
    given = make_domain("webshop", tmp_path / "cache", files).open()
    bundled = make_domain("webshop", CACHE, {"size": 300}).open()
    for index in (0, 17, 400):
        assert given.load(f"webshop_{index}") == bundled.load(f"webshop_{index}")
    other = make_domain("webshop", tmp_path / "cache", {**files, "seed": 233}).open()
    assert other.load("webshop_0").goal != given.load("webshop_0").goal
    human = make_domain("webshop", tmp_path / "cache", {**files, "goals": "human", "limit": 200}).open()
    goals = [human.load(f"webshop_{index}").goal for index in range(20)]
    assert all(not goal.startswith("Find me") for goal in goals)
    assert all(human.expert() for index in range(20) if human.load(f"webshop_{index}"))
    assert (PRODUCTS, ATTRIBUTES, HUMAN) == ("products.json", "attributes.json", "human.json")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"prodcts": "x"}, "option 'prodcts' is not known"),
        ({"seed": "42"}, "must be of type int"),
        ({"mode": "loose"}, "one of compat, strict"),
        ({"attributes": "a.json"}, "need products"),
        ({"products": "p.json"}, "needs the file 'attributes'"),
        ({"size": 0}, "size must be"),
        ({"products": "/nowhere/p.json", "attributes": "/nowhere/a.json"}, "cannot be read"),
        ({"products": "a\0b", "attributes": "/nowhere/a.json"}, "cannot be read"),
    ],
)
def test_bad_options_end_with_one_line(options: dict[str, Any], problem: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=problem):
        make_domain("webshop", tmp_path, options).open().load("webshop_0")


# Hostile input


@pytest.mark.parametrize(
    "bad", ["webshop_", "webshop_1/../2", "webshop_-1", "webshop_01", "textworld_1", "webshop_٣"]
)
def test_an_id_is_never_a_path(bad: str) -> None:
    with pytest.raises(InputError, match="not a WebShop task"):
        index_of(bad)


def test_an_unknown_goal_is_bad_input(environment: WebShopEnvironment) -> None:
    with pytest.raises(InputError, match="there are goals 0 to"):
        environment.load("webshop_999999")


def test_hostile_actions_leave_the_page_or_search(environment: WebShopEnvironment) -> None:
    first = start(environment)
    for action in (
        "x" * 10_000_000,
        "click[" + "a" * 10_000_000,
        "\x00\x1b[2J",
        "click[\n]",
        "]]]",
        "search[",
    ):
        assert environment.step(action).observation == first
    long = environment.step("search[" + "sandals " * 2_000_000)
    assert "Total results: " in long.observation
    for query in (
        "'; DROP TABLE products; --",
        "\x00sandals\n",
        "<a> non slip",
        "<c> fashion",
        "<q> yoga mats",
        "<r>",
    ):
        step = environment.step(f"search[{query}]")
        assert "Total results: " in step.observation and not step.done
    assert "B0YOGA0001" in environment.step("search[<q> yoga mats]").observation
    assert "Total results: 0" in environment.step("search[zzzz]").observation


def test_odd_option_values_can_be_clicked(tmp_path: Path) -> None:
    write_catalogue(tmp_path, 5)
    rows = json.loads((tmp_path / PRODUCTS).read_text())
    long = "x" * 300
    values = ["a3-army\xa0green", "two  spaces", long, "same", "Buy It/Now"]
    rows[0]["customization_options"] = {
        "color": [{"value": v} for v in values],
        "style": [{"value": "same"}, {"value": "plain"}],
    }
    (tmp_path / PRODUCTS).write_text(json.dumps(rows[:1]))
    entries = json.loads((tmp_path / ATTRIBUTES).read_text())
    entry = {"attributes": ["x y"], "instruction": "Find me sandals", "instruction_attributes": ["non slip"]}
    (tmp_path / ATTRIBUTES).write_text(json.dumps({**entries, rows[0]["asin"]: entry}))
    files = {"products": str(tmp_path / PRODUCTS), "attributes": str(tmp_path / ATTRIBUTES)}
    environment = make_domain("webshop", tmp_path / "cache", files).open()
    assert isinstance(environment, WebShopEnvironment)
    start(environment, "webshop_0")
    environment.step("search[sandals]")
    page = environment.step(f"click[{rows[0]['asin']}]")
    assert page.admissible is not None and page.admissible.count("click[same]") == 1
    for value in (*values[:3], "buy it | now"):
        for action in (f"click[{value}]", f"click[{value}]".replace("\xa0", " ")):
            environment._session.chosen.clear()  # type: ignore[union-attr]
            environment.step(action)
            assert environment._session.chosen == {"color": value}  # type: ignore[union-attr]
    environment.step("click[same]")
    assert environment._session.chosen["style"] == "same"  # type: ignore[union-attr]  # the later group wins


def test_the_domain_is_a_small_picklable_value() -> None:
    assert isinstance(DOMAIN, WebShopDomain)
    assert len(pickle.dumps(DOMAIN)) < 2000


def test_only_the_first_tasks_are_demonstrated_where_the_recipe_says_so() -> None:
    environment = DOMAIN.open()
    tasks = [environment.load(task_id) for task_id in DOMAIN.task_ids("train", 1, 3)]
    environment.close()
    shown = {}
    for wanted in (None, 2):
        recipe = CollectRecipe(demonstrations_per_task=1, demonstration_tasks=wanted)
        shown[wanted] = [row["task_id"] for row in demonstrate(DOMAIN, tasks, recipe, 1, 0)]
    assert shown == {None: [task.task_id for task in tasks], 2: [task.task_id for task in tasks[:2]]}
