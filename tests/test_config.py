"""The configuration: what is accepted, what one line an error is, what each command gets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from wmlab.config.load import check_study, deep_merge, load_study, read_yaml
from wmlab.config.plan import Plan
from wmlab.config.recipes import (
    Architecture,
    CollectRecipe,
    GrpoRecipe,
    SftRecipe,
    TokenizerRecipe,
    load_recipe,
)
from wmlab.config.root import StudyConfig
from wmlab.config.schema import schema_text
from wmlab.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
BASE = ROOT / "config.yaml"


def study(tmp_path: Path, overlay: dict[str, Any] | str) -> StudyConfig:
    path = tmp_path / "overlay.yaml"
    path.write_text(overlay if isinstance(overlay, str) else yaml.safe_dump(overlay))
    return load_study([path], BASE)


def problem(tmp_path: Path, overlay: dict[str, Any] | str) -> str:
    with pytest.raises(InputError) as caught:
        study(tmp_path, overlay)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_the_default_study_and_every_overlay_are_valid() -> None:
    assert load_study(base=BASE).study.name == "study"
    overlays = sorted((ROOT / "studies").glob("*.yaml"))
    assert overlays
    for overlay in overlays:
        assert load_study([overlay], BASE).study.name == overlay.stem


@pytest.mark.parametrize(
    ("overlay", "parts"),
    [
        ({"grpo": {"temprature": 1.0}}, ["overlay.yaml", "grpo.temprature", "'temperature'"]),
        ({"stusy": {}}, ["overlay.yaml", "'stusy'", "'study'"]),
        (
            {"agents": {"scripted": {"epsilom": 0.1}}},
            ["overlay.yaml", "agents.scripted.epsilom", "'epsilon'"],
        ),
        ({"agents": {"clone-small": {"sft": {"epoch": 2}}}}, ["agents.clone-small.sft.epoch", "'epochs'"]),
        ({"methods": {"behr": {"grpo": {"step": 2}}}}, ["methods.behr.grpo.step", "'steps'"]),
        ({"domains": {"textworld": {"test": {"taskz": 2}}}}, ["domains.textworld.test.taskz", "'tasks'"]),
        ({"domains": {"textwrld": {}}}, ["domains.textwrld", "'textworld'"]),
        ({"backbones": {"tiny": {"layer": 2}}}, ["backbones.tiny.layer", "'layers'"]),
        ({"backbones": {"big": {"pretrained": "x", "sise": 2}}}, ["key 'backbones.big.sise'", "'size'"]),
    ],
)
def test_an_unknown_key_names_file_key_and_near_match(
    tmp_path: Path, overlay: dict[str, Any], parts: list[str]
) -> None:
    message = problem(tmp_path, overlay)
    assert "unknown key" in message
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("overlay", "parts"),
    [
        ({"grpo": {"steps": "many"}}, ["overlay.yaml", "grpo.steps", "'many'", "valid integer"]),
        ({"grpo": {"steps": True}}, ["grpo.steps", "True", "valid integer"]),
        ({"grpo": {"group": 1}}, ["grpo.group", "1", "greater than or equal to 2"]),
        ({"sft": {"learning_rate": "fast"}}, ["sft.learning_rate", "'fast'", "valid number"]),
        ({"study": {"agents": "scripted"}}, ["study.agents", "'scripted'", "valid list"]),
        ({"filter": {"order": "easiest"}}, ["filter.order", "'easiest'", "'hardest'"]),
        ({"study": None}, ["study", "None"]),
    ],
)
def test_a_wrong_type_names_file_key_value_and_what_is_expected(
    tmp_path: Path, overlay: dict[str, Any], parts: list[str]
) -> None:
    message = problem(tmp_path, overlay)
    for part in ["overlay.yaml", *parts]:
        assert part in message


@pytest.mark.parametrize(
    ("overlay", "parts"),
    [
        ({"study": {"agents": ["scriptd"]}}, ["study.agents", "'scriptd'", "'scripted'"]),
        ({"study": {"methods": ["w2w", "f1", "f1", "behr"]}}, ["study.methods", "'f1'", "twice"]),
        ({"study": {"reference_agent": "scripted"}}, ["study.reference_agent", "kind lm"]),
        ({"methods": {"behr": {"reference": "clone"}}}, ["methods.behr.reference", "'clone'", "clone-"]),
        ({"methods": {"behr": {"reference": "scripted"}}}, ["methods.behr.reference", "kind lm"]),
        ({"study": {"methods": ["w2w", "f1"]}}, ["stats.target", "'behr'"]),
        ({"methods": {"w2w": {"reward": "f1"}}}, ["methods.w2w", "taken"]),
        ({"agents": {"clone-small": {"architecture": "tny"}}}, ["agents.clone-small.architecture", "'tiny'"]),
        ({"agents": {"scripted": {"architecture": "tiny"}}}, ["agents.scripted", "kind lm"]),
        ({"domains": {"textworld": {"train": {"first": 150}}}}, ["textworld", "start at 201"]),
        ({"domains": {"textworld": {"train": {"first": 2005}}}}, ["textworld", "overlap"]),
        ({"backbones": {"tiny": {"heads": 5}}}, ["backbones.tiny: ", "multiple"]),
        (
            {"agents": {"clone-small": {"train": False}}},
            ["agents.clone-small.train", "'micro'", "random weights"],
        ),
    ],
)
def test_names_and_splits_are_checked_across_sections(
    tmp_path: Path, overlay: dict[str, Any], parts: list[str]
) -> None:
    message = problem(tmp_path, overlay)
    for part in parts:
        assert part in message


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    data = read_yaml(BASE)
    del data["filter"]["budget"]
    with pytest.raises(InputError, match=r"'filter\.budget' is missing"):
        check_study(data, [BASE])


def test_a_broken_file_is_named_with_its_line(tmp_path: Path) -> None:
    assert "overlay.yaml, line 2: not YAML" in problem(tmp_path, "study:\n\tname: x\n")
    assert "not a mapping" in problem(tmp_path, "- a\n- b\n")
    with pytest.raises(InputError, match=r"nowhere\.yaml: file not found"):
        load_study(["nowhere.yaml"], BASE)


def test_exponents_without_a_dot_are_numbers(tmp_path: Path) -> None:
    assert study(tmp_path, "grpo: {learning_rate: 1e-4}\n").grpo.learning_rate == 1e-4


def test_agents_and_methods_inherit_what_they_do_not_state(tmp_path: Path) -> None:
    config = study(
        tmp_path,
        {
            "sft": {"batch_size": 7},
            "grpo": {"steps": 9},
            "methods": {"f1": {"grpo": {"kl_coefficient": 0.5}}},
        },
    )
    assert config.agents["clone-large"].sft.batch_size == 7
    assert config.agents["clone-large"].sft.epochs == load_study(base=BASE).agents["clone-large"].sft.epochs
    assert (config.methods["f1"].grpo.steps, config.methods["f1"].grpo.kl_coefficient) == (9, 0.5)
    assert config.methods["em"].grpo.kl_coefficient == config.grpo.kl_coefficient


def test_merging_replaces_lists_and_merges_mappings() -> None:
    assert deep_merge({"a": {"b": 1, "c": [1, 2]}, "d": 1}, {"a": {"c": [3]}}) == {
        "a": {"b": 1, "c": [3]},
        "d": 1,
    }


def test_the_schema_file_is_in_step() -> None:
    stored = (ROOT / "workflow/schemas/config.schema.json").read_text(encoding="utf-8")
    assert stored == schema_text(), "run `make schema`"


def test_every_field_is_described() -> None:
    schema = json.loads(schema_text())
    sections = set(StudyConfig.model_fields)
    for name, definition in schema["$defs"].items():
        for key, field in definition.get("properties", {}).items():
            assert "description" in field or "$ref" in field or key in sections, f"{name}.{key}"


def test_the_conda_environment_holds_the_same_pins() -> None:
    pins = [
        line for line in (ROOT / "requirements/cpu.txt").read_text().splitlines() if not line.startswith("#")
    ]
    conda = yaml.safe_load((ROOT / "envs/cpu.yaml").read_text())
    assert next(entry["pip"] for entry in conda["dependencies"] if isinstance(entry, dict)) == pins
    assert all("==" in pin and "+" not in pin for pin in pins)


def test_recipes_are_what_the_commands_accept() -> None:
    plan = Plan(load_study(base=BASE))
    assert load_recipe(CollectRecipe, plan.collect_recipe("textworld", "train")).demonstrations_per_task > 0
    assert load_recipe(CollectRecipe, plan.collect_recipe("textworld", "test")).demonstrations_per_task == 0
    assert (plan.domain("textworld").demonstrations, plan.domain("webshop").demonstrations) == (200, 150)
    assert (plan.filtering("textworld").pool, plan.filtering("textworld").max_f1) == (800, None)
    assert (plan.filtering("webshop").pool, plan.filtering("webshop").max_f1) == (300, 1.0)
    assert plan.filtering("webshop").order == plan.config.filter.order
    assert load_recipe(TokenizerRecipe, plan.tokenizer_recipe("textworld")).digits == "single"
    assert load_recipe(TokenizerRecipe, plan.tokenizer_recipe("webshop")).digits == "merged"
    assert (
        load_recipe(SftRecipe, plan.sft_recipe("textworld", "tiny")).architecture
        == plan.config.backbones["tiny"]
    )
    assert (
        load_recipe(SftRecipe, plan.agent_recipe("clone-small")).architecture
        == plan.config.backbones["micro"]
    )
    assert load_recipe(GrpoRecipe, plan.grpo_recipe("textworld", "behr")).reward_parameters == {"scale": 1.0}


def test_a_domains_changes_win_over_the_sections(tmp_path: Path) -> None:
    changes = {"sft": {"epochs": 7.0}, "grpo": {"max_new_tokens": 99}, "options": {"mode": "strict"}}
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text(yaml.safe_dump({"domains": {"textworld": changes}}))
    plan, base = Plan(load_study([overlay], base=BASE)), load_study(base=BASE)
    sft = load_recipe(SftRecipe, plan.sft_recipe("textworld", "tiny"))
    assert (sft.epochs, sft.learning_rate) == (7.0, base.sft.learning_rate)
    grpo = load_recipe(GrpoRecipe, plan.grpo_recipe("textworld", "behr"))
    assert (grpo.max_new_tokens, grpo.steps) == (99, base.grpo.steps)
    assert json.loads(plan.options("textworld")) == {"mode": "strict"}
    overlay.write_text(yaml.safe_dump({"domains": {"textworld": {"grpo": {"stepz": 1}}}}))
    with pytest.raises(
        InputError, match=r"unknown key 'domains\.textworld\.grpo\.stepz'; did you mean 'steps'"
    ):
        load_study([overlay], base=BASE)


def test_a_recipe_is_read_from_a_file_and_its_errors_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "recipe.json"
    path.write_text(json.dumps({"trajectories_per_task": 3, "noise": [0, 0.5]}))
    assert load_recipe(CollectRecipe, str(path)).noise == (0, 0.5)
    with pytest.raises(InputError, match=r"recipe: unknown key 'nois'; did you mean 'noise'"):
        load_recipe(CollectRecipe, '{"nois": [0]}')
    with pytest.raises(InputError, match="not JSON"):
        load_recipe(CollectRecipe, "{nois")
    with pytest.raises(InputError, match=r"nowhere\.json: cannot be read"):
        load_recipe(CollectRecipe, str(tmp_path / "nowhere.json"))


def test_the_number_of_parameters_is_that_of_the_model() -> None:
    transformers = pytest.importorskip("transformers")
    architecture = Architecture(hidden_size=32, layers=2, heads=4, kv_heads=2, intermediate_size=48)
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=300,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=48,
            tie_word_embeddings=True,
        )
    )
    assert architecture.parameters(300) == sum(parameter.numel() for parameter in model.parameters())


def test_the_matrix_shares_real_runs_and_gives_the_sft_model_one_seed() -> None:
    plan = Plan(load_study(base=BASE))
    # GRPO methods and Mem-SFT have the study's seeds, the SFT model one.
    methods, seeds, agents = len(plan.study.methods) - 1, len(plan.study.seeds), len(plan.study.agents)
    assert "w2w" in plan.study.methods and methods == len(plan.methods) + 1
    played, domains = len(plan.study.rollout_seeds), len(plan.study.domains)
    assert len(plan.models()) == domains * (1 + methods * seeds)
    assert len(plan.cells()) == domains * (1 + methods * played) * agents
    assert len([path for path in plan.played() if "/real/" in path]) == domains * agents
    assert len(plan.summaries()) == domains * (1 + methods * seeds + 1)  # and the copy baseline


def wmlab(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wmlab", *arguments],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT / "workflow"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_study_show_prints_the_plan(tmp_path: Path) -> None:
    shown = wmlab("study", "show", "--config", "studies/smoke.yaml", "--json")
    assert shown.returncode == 0, shown.stderr
    summary = json.loads(shown.stdout)
    plan = Plan(load_study([ROOT / "studies/smoke.yaml"], BASE))
    assert summary["total"]["cells"] == len(plan.cells())
    assert summary["results"] == "results/smoke"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["study", "show", "--config", "nowhere.yaml"], 2, "error: nowhere.yaml: file not found"),
        (["study", "headline", "--study-dir", "nowhere"], 2, "error: nowhere/report/index.html: no report"),
        (["study", "shw"], 2, "No such command"),
        (["--version"], 0, ""),
        (["--help"], 0, ""),
    ],
)
def test_exit_codes_of_the_command(arguments: list[str], code: int, said: str) -> None:
    ended = wmlab(*arguments)
    assert ended.returncode == code
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_help_imports_nothing_heavy() -> None:
    code = "import sys, wmlab.cli.main as m; m.command(['--help']); print([n for n in ('torch', 'pydantic', 'pyarrow') if n in sys.modules])"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT / "workflow"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.strip() == "[]"


def test_a_pretrained_backbone_brings_weights_and_tokenizer(tmp_path: Path) -> None:
    overlay = {
        "study": {
            "backbones": ["tiny", "big"],
            "agents": ["scripted", "player", "asis"],
            "reference_agent": "asis",
        },
        "backbones": {"big": {"pretrained": "some/folder", "size": 9}},
        "agents": {
            "player": {"kind": "lm", "architecture": "big"},
            "asis": {"kind": "lm", "architecture": "big", "train": False},
        },
        "memory": {"start": "scratch"},
    }
    plan = Plan(study(tmp_path, overlay))
    base = "results/cache/pretrained/big/model.safetensors"
    assert plan.base("big") == [base] and plan.base("tiny") == []
    assert plan.tokenizer("webshop", "big") == "results/cache/pretrained/big/tokenizer.json"
    assert plan.tokenizer("webshop", "tiny") == "results/study/models/webshop/tokenizer/tokenizer.json"
    assert json.loads(plan.sft_recipe("webshop", "big"))["architecture"] is None
    assert plan.initial_weights("webshop", "player") == [base] == plan.reader_start("webshop", "big")
    # An agent that is not trained is its backbone, in every domain.
    assert plan.lm_agents() == ["player"] and plan.acting_weights("webshop", "asis") == [base]
    assert plan.reference_weights("textworld") == base


def test_a_method_has_its_own_reference_agent(tmp_path: Path) -> None:
    """It is trained although no cell has it, scores the training alone, and makes another method of the same reward."""
    overlay = {"study": {"agents": ["scripted"], "methods": ["w2w", "behr", "behr_small", "mem_behr"]}}
    plan = Plan(study(tmp_path, overlay))
    assert plan.lm_agents() == ["clone-large", "clone-small"]
    assert plan.reference_weights("textworld", "behr_small").endswith(
        "textworld/agents/clone-small/model.safetensors"
    )
    assert plan.reference_weights("textworld", "behr") == plan.reference_weights("textworld")
    assert plan.plain("mem_behr") == "behr"
    without = Plan(study(tmp_path, {"study": {"methods": ["w2w", "behr"]}}))
    assert (
        without.lm_agents()
        == ["clone-large", "clone-small"]
        == [a for a in without.study.agents if a != "scripted"]
    )
    assert {"acs", "em", "behr_small"} <= set(without.defined) and "acs" not in without.study.methods


def test_memory_in_the_plan(tmp_path: Path) -> None:
    overlay = {
        "study": {"domains": ["textworld", "webshop"], "methods": ["w2w", "behr", "mem_sft", "mem_behr"], "seeds": [0, 3]},
        "memory": {"dropout": 0.25, "sft": {"epochs": 0.5}, "curator": {"url": "http://h/v1", "model": "a b"}},
        "domains": {"webshop": {"memory": {"budget": 99}}},
    }  # fmt: skip
    plan = Plan(study(tmp_path, overlay))
    assert plan.methods == ["behr", "mem_behr"] and plan.seeds("mem_sft") == [0, 3]
    assert [plan.with_memory(m) for m in ("w2w", "behr", "mem_sft", "mem_behr")] == [False, False, True, True]
    bank = "results/study/memory/webshop/tiny/bank.jsonl"
    assert plan.banks("webshop", "tiny", "mem_behr") == [bank] and plan.banks("webshop", "tiny", "behr") == []
    assert plan.start_weights("webshop", "tiny", "mem_behr", 3).endswith(
        "webshop/tiny/mem_sft/seed3/model.safetensors"
    )
    assert plan.start_weights("webshop", "tiny", "behr", 3).endswith(
        "webshop/tiny/sft/seed0/model.safetensors"
    )
    shown = json.loads(plan.memory_recipe("webshop", training=True))
    assert shown == {"budget": 99, "position": "action", "dropout": 0.25, "seed": 0}
    assert json.loads(plan.memory_recipe("textworld", training=False)) == {
        **shown,
        "budget": 128,
        "dropout": 0.0,
    }
    reader = json.loads(plan.reader_recipe("webshop", "tiny"))
    plain = json.loads(plan.sft_recipe("webshop", "tiny"))
    assert (reader["epochs"], reader["learning_rate"]) == (0.5, 1e-3)
    assert {k for k in plain if plain[k] != reader[k]} == {"epochs", "learning_rate"}
    assert plan.reader_start("webshop", "tiny") == [plan.weights("webshop", "tiny", "w2w", 0)]
    assert plan.bank_predictions("webshop", "tiny") == []
    assert plan.bank_predictions("textworld", "tiny")[0].endswith("w2w/seed0/baseline.parquet")
    assert plan.curator() == {"curator-url": "http://h/v1", "curator-model": "a b"}
    assert len(plan.removals()) == 8 and len(plan.removals("behr")) == 0
    assert len(plan.memory_exports()) == 2 and len(plan.online_gains()) == 8
    assert plan.gains("mem_sft") == [
        f"results/study/memory/{domain}/tiny/mem_sft/gain.json" for domain in ("textworld", "webshop")
    ]
    assert "results/study/tables/state_fidelity.json" in plan.memory_reports()
    scratch = {
        "memory": {"sft": {"epochs": None, "learning_rate": None}},
        "domains": {"webshop": {"memory": {"start": "scratch"}}},
    }
    plan = Plan(study(tmp_path, scratch))
    assert plan.reader_start("webshop", "tiny") == [] != plan.reader_start("textworld", "tiny")
    assert plan.reader_recipe("webshop", "tiny") == plan.sft_recipe("webshop", "tiny")
    assert "start" not in json.loads(plan.memory_recipe("webshop", training=True))
    without = Plan(study(tmp_path, {"study": {"methods": ["w2w", "behr"]}}))
    assert without.memory_reports() == [] == without.gains()


@pytest.mark.parametrize(
    ("methods", "plain"),
    [
        (["w2w", "behr", "f1", "mem_sft", "mem_behr"], {"mem_sft": "w2w", "mem_behr": "behr"}),
        (["w2w", "f1", "more_sft", "mem_sft", "mem_behr"], {"mem_sft": "more_sft", "mem_behr": "more_sft"}),
        (["w2w", "mem_sft", "mem_behr"], {"mem_sft": "w2w", "mem_behr": "w2w"}),
        (["mem_sft"], {"mem_sft": None}),
    ],
)
def test_memory_is_compared_with_the_nearest_without(
    tmp_path: Path, methods: list[str], plain: dict[str, str | None]
) -> None:
    overlay = {"study": {"methods": methods, "seeds": [0, 3]}, "stats": {"target": methods[0]}}
    plan = Plan(study(tmp_path, overlay))
    assert {name: plan.plain(name) for name in plain} == plain
    # The control has a model of every seed, W2W one, and each comes with the predictions of its own.
    counts = {"more_sft": 2, "w2w": 1, "behr": 2, None: 0}
    for name, other in plain.items():
        assert len(plan.plain_predictions("webshop", "tiny", name)) == counts[other]
    assert "more_sft" not in plan.methods and not plan.with_memory("more_sft")
    assert plan.banks("webshop", "tiny", "more_sft") == []


def test_models_behind_metrics(tmp_path: Path) -> None:
    plain = Plan(study(tmp_path, {}))
    assert {**plain.scorers("textworld"), **plain.judges()} == {"encoder": None, "encoder-layer": None}
    assert plain.encoder_weights() == []
    asked = {
        "extractor": {"url": "http://h/v1", "model": "m", "kind": "llm"},
        "judge": {"url": "http://j/v1", "model": "j"},
        "encoder": "models/roberta",
        "encoder_layer": 9,
    }
    plan = Plan(study(tmp_path, {"scoring": asked}))
    encoder = {"encoder": "models/roberta", "encoder-layer": 9}
    kept = {"cache": "results/cache/answers.sqlite"}
    assert plan.scorers("textworld") == {
        "extractor": "llm", "extractor-url": "http://h/v1", "extractor-model": "m", **kept, **encoder
    }  # fmt: skip
    assert plan.scorers("webshop") == encoder  # its pages are read by rules
    assert plan.judges() == {"judge-url": "http://j/v1", "judge-model": "j", **kept, **encoder}
    assert plan.encoder_weights() == ["models/roberta/model.safetensors"]
    assert "encoder_layer" in problem(tmp_path, {"scoring": {"encoder_layer": 1}})
    assert "scoring.judge.model" in problem(tmp_path, {"scoring": {"judge": {"url": "http://j/v1"}}})
    assert "'hybrid'" in problem(
        tmp_path, {"scoring": {"extractor": {**asked["extractor"], "kind": "rules"}}}
    )


def test_a_curator_is_given_whole(tmp_path: Path) -> None:
    message = problem(tmp_path, {"memory": {"curator": {"url": "http://h/v1"}}})
    assert "memory.curator.model" in message
    assert "the name is taken" in problem(tmp_path, {"methods": {"mem_sft": {"reward": "f1"}}})
