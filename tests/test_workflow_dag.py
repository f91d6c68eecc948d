"""The workflow as a graph: it parses with every profile, and a change reruns what it affects, no more.

The reruns are tested on a complete results tree of the smoke study whose files are empty shells that
Snakemake has marked as done (``--touch``), in a copy of the repository: no stage runs.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from wmlab.config.load import load_study
from wmlab.config.plan import Plan
from wmlab.domains.registry import DOMAINS
from wmlab.io.fingerprint import exists
from wmlab.metrics.ssf import PARSERS

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("Snakefile", "config.yaml", "rules", "profiles", "envs", "studies", "workflow")
SMOKE = ("--profile", "local", "--configfile", "studies/smoke.yaml", "studies/matrix.yaml")
# The smoke study is too small a matrix to show what a change leaves alone.
MATRIX = "study: {name: matrix, methods: [w2w, f1, behr], agents: [scripted, scripted-noisy, clone-large]}\n"
FOLLOWS_MODELS = {
    "configuration",
    "cells",
    "statistics",
    "report_tables",
    "report_figures",
    "planning_tables",
    "site",
    "all",
}


def snakemake(folder: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {
        key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SNAKEMAKE_PROFILE")
    }
    ended = subprocess.run(
        [sys.executable, "-m", "snakemake", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if check:
        assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    return ended


def jobs(folder: Path, *arguments: str) -> Counter[str]:
    """Jobs of a dry-run by rule."""
    ended = snakemake(folder, *(arguments or SMOKE), "-n")
    table = re.search(
        r"^job +count\n[- ]+\n(.*?)^total", ended.stdout + ended.stderr, re.MULTILINE | re.DOTALL
    )
    if table is None:
        return Counter()
    return Counter(
        {name: int(count) for name, count in (line.rsplit(None, 1) for line in table[1].splitlines() if line)}
    )


def copy_of_repository(folder: Path) -> Path:
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy2(source, folder / part)
    for profile in ("local", "slurm"):
        (folder / profile).symlink_to(f"profiles/{profile}")
    (folder / "studies" / "matrix.yaml").write_text(MATRIX)
    return folder


def plan_of(folder: Path) -> Plan:
    """The plan of the study that the tests look at."""
    overlays = [folder / "studies" / name for name in ("smoke.yaml", "matrix.yaml")]
    return Plan(load_study(overlays, base=folder / "config.yaml"))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def finish(folder: Path, *arguments: str) -> Path:
    """Make a study count as finished in a copy of the repository."""
    listed = snakemake(folder, *arguments, "--summary", "all").stdout.splitlines()[1:]
    for name in (line.split("\t")[0] for line in listed):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("shell\n")
    snakemake(folder, *arguments, "--touch", "--forceall", "all")
    return folder


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository, in a folder with a space, whose smoke study counts as finished."""
    return finish(copy_of_repository(tmp_path_factory.mktemp("a study")), *SMOKE)


@pytest.fixture
def study(done: Path) -> Iterator[Path]:
    """The finished copy; what a test changes outside ``results`` is put back."""
    kept = {
        path: path.read_bytes()
        for part in PARTS
        for path in ([done / part] if (done / part).is_file() else (done / part).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    yield done
    for path, content in kept.items():
        if path.read_bytes() != content:
            path.write_bytes(content)


def test_advice_and_memory_reach_those_that_read_them_and_no_other(tmp_path: Path) -> None:
    """How skills are shown reruns the rollouts of the agents that read them; memory likewise with its models."""
    overlay = (
        "study: {agents: [scripted, clone-large, advised], methods: [w2w, behr, mem_sft]}\n"
        "agents: {advised: {kind: lm, weights: clone-large, choose: true, thought: false, skills: true}}\n"
    )
    folder = copy_of_repository(tmp_path)
    (folder / "studies" / "advised.yaml").write_text(overlay)
    given = (*SMOKE, "studies/advised.yaml")
    finish(folder, *given)
    assert not jobs(folder, *given)
    ended = snakemake(folder, *given, "-n", "-p", "--forceall")
    commands = [line for line in (ended.stdout + ended.stderr).splitlines() if "python -m wmlab " in line]
    assert len(commands) > 50
    # A string taken for a list of paths would give its letters one by one.
    assert not [word for line in commands for word in shlex.split(line) if len(word) == 1 and word.isalpha()]
    said = [line for line in (ended.stdout + ended.stderr).splitlines() if " --skills " in line]
    rolled = [line for line in said if "wmlab rollout" in line]
    assert len(rolled) == 1 + 3 and rolled == said  # in Real, and in the models of three methods
    assert all(line.count("--skills ") == 2 and "--skills-recipe" in line for line in rolled)
    assert all("/agents/clone-large" in line for line in rolled)
    (folder / "studies" / "advised.yaml").write_text(overlay + "skills: {step_budget: 99}\n")
    rerun = jobs(folder, *given)
    assert (rerun["rollout_real"], rerun["rollout_wm"], rerun["replay_w2r"]) == (1, 3, 3)
    assert not set(rerun) & {"skill_bank", "sft_agent", "grpo", "score"}
    (folder / "studies" / "advised.yaml").write_text(overlay + "memory: {budget: 99}\n")
    rerun = jobs(folder, *given)
    assert rerun["sft_with_memory"] == rerun["predict_with_memory"] == 1
    assert rerun["rollout_wm"] == 3 and not set(rerun) & {"rollout_real", "memory_bank", "grpo", "sft_agent"}
    scratch = "memory: {start: scratch, sft: {epochs: null, learning_rate: null}}\n"
    (folder / "studies" / "advised.yaml").write_text(overlay + scratch)
    ended = snakemake(folder, *given, "-n", "-p")
    said = [line for line in (ended.stdout + ended.stderr).splitlines() if "wmlab train sft" in line]
    assert len(said) == 1 and "--memory" in said[0] and "--init" not in said[0]
    (folder / "studies" / "advised.yaml").write_text(overlay + "skills: {guidance: mined}\n")
    assert jobs(folder, *given)["skill_guidance"] == 1


def test_models_behind_metrics_reach_the_commands_that_ask_them(study: Path) -> None:
    """Naming a model reruns what it scores, and nothing that it does not."""
    asked = "scoring: {extractor: {url: http://h/v1, model: m}, judge: {url: http://j/v1, model: j}}\n"
    (study / "studies" / "asked.yaml").write_text(asked)
    ended = snakemake(study, *SMOKE, "studies/asked.yaml", "-n", "-p")
    said = ended.stdout + ended.stderr
    scored = [line for line in said.splitlines() if "wmlab score predictions" in line]
    assert scored and all(
        "--extractor hybrid --extractor-url http://h/v1 --extractor-model m --cache" in line
        for line in scored
    )
    perturbed = [line for line in said.splitlines() if "wmlab eval perturb" in line]
    assert len(perturbed) == 1 and "--judge-url http://j/v1 --judge-model j --cache" in perturbed[0]
    rerun = jobs(study, *SMOKE, "studies/asked.yaml")
    assert {"score", "perturbations"} <= set(rerun)
    assert not set(rerun) & {
        "sft_world_model",
        "grpo",
        "predict_states",
        "rollout_wm",
        "collect",
        "ssf_audit",
    }


def test_lint_finds_nothing() -> None:
    assert snakemake(ROOT, "--lint", check=False).returncode == 0


def test_the_slurm_profile_parses(tmp_path: Path) -> None:
    found = jobs(copy_of_repository(tmp_path), "--profile", "slurm", "all")
    plan = Plan(load_study(base=ROOT / "config.yaml"))
    assert found["grpo"] == len([model for model in plan.models() if model.method in plan.methods])
    assert found["sft_with_memory"] == len(plan.models("mem_sft")) == len(plan.study.domains)
    assert found["rollout_wm"] == found["replay_w2r"] == found["consistency"] == len(plan.cells())
    assert found["rollout_real"] == len(plan.study.domains) * len(plan.study.agents)
    assert found["replay_floor"] == found["rollout_real"]
    assert found["sft_world_model"] == len(plan.study.domains)


def test_the_targets_build_their_part(tmp_path: Path) -> None:
    folder = copy_of_repository(tmp_path)
    assert jobs(folder, "data", *SMOKE)["grpo"] == 0
    assert jobs(folder, "train", *SMOKE)["rollout_wm"] == 0
    ablation = jobs(folder, "ablation_f1", *SMOKE)
    assert ablation["grpo"] == 1
    assert ablation["consistency"] == len(plan_of(folder).study.agents)
    # A method that is only defined has its target too, and a reference agent of its own is trained for it.
    ended = snakemake(folder, "ablation_behr_small", *SMOKE, "-n", "-p")
    trained = [line for line in (ended.stdout + ended.stderr).splitlines() if "wmlab train grpo" in line]
    assert (
        len(trained) == 1 and "--reference results/matrix/models/textworld/agents/clone-small" in trained[0]
    )
    judged = [
        line for line in (ended.stdout + ended.stderr).splitlines() if "wmlab score predictions" in line
    ]
    assert judged and all("agents/clone-large" in line for line in judged)


@pytest.mark.parametrize(
    ("overlay", "said"),
    [
        ("grpo: {stepz: 2}\n", "overlay.yaml: unknown key 'grpo.stepz'; did you mean 'steps'?"),
        ("grpo: {steps: many}\n", "overlay.yaml: grpo.steps is 'many'; expected a valid integer"),
    ],
)
def test_a_wrong_configuration_is_one_line_and_exit_code_2(tmp_path: Path, overlay: str, said: str) -> None:
    folder = copy_of_repository(tmp_path)
    (folder / "overlay.yaml").write_text(overlay)
    ended = snakemake(folder, "--cores", "1", "-n", "--configfile", "overlay.yaml", check=False)
    assert ended.returncode == 2
    assert f"error: {said}" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_every_rule_names_code_that_exists() -> None:
    text = "".join(path.read_text() for path in sorted((ROOT / "rules").glob("*.smk")))
    targets = sorted(set(re.findall(r'(?:fingerprint|domain_code)\(\s*"([^"]+)"', text)))
    assert len(targets) > 15
    targets += [f"wmlab.metrics.ssf.{domain}" for domain in PARSERS]
    targets += [f"wmlab.domains.{domain}.{part}" for domain in DOMAINS for part in ("domain", "script")]
    assert [target for target in targets if not exists(target)] == []


def test_rules_do_not_retry() -> None:
    for path in [ROOT / "Snakefile", *(ROOT / "rules").glob("*.smk")]:
        assert not re.search(r"^\s+retries:", path.read_text(), re.MULTILINE), path.name


@pytest.mark.slow
def test_a_finished_study_and_a_comment_rerun_nothing(study: Path) -> None:
    (study / "README.md").write_text("new words\n")
    edit(study / "config.yaml", "study:", "# a comment\nstudy:")
    edit(study / "rules/grpo.smk", "rule grpo:", "# a comment\nrule grpo:")
    edit(study / "rules/grpo.smk", "Train {wildcards.backbone} with", "Teach {wildcards.backbone} with")
    edit(study / "workflow/wmlab/io/jsonl.py", "from __future__", "# a comment\nfrom __future__")
    assert jobs(study) == Counter()


@pytest.mark.slow
def test_a_reward_parameter_reruns_that_method_and_what_follows(study: Path) -> None:
    edit(study / "config.yaml", "parameters: {scale: 1.0}", "parameters: {scale: 2.0}")
    found = jobs(study)
    agents = len(plan_of(study).study.agents)
    assert {name: count for name, count in found.items() if name not in FOLLOWS_MODELS} == {
        "grpo": 1,
        "predict_states": 1,
        "score": 1,
        "rollout_wm": agents,
        "replay_w2r": agents,
        "consistency": agents,
    }
    listed = snakemake(study, *SMOKE, "-n").stdout
    assert "reward behr" in listed
    assert "reward f1" not in listed


@pytest.mark.slow
def test_an_agents_setting_reruns_its_episodes_only(study: Path) -> None:
    edit(study / "config.yaml", "epsilon: 0.25", "epsilon: 0.3")
    found = jobs(study)
    methods = len(plan_of(study).models())
    assert {name: count for name, count in found.items() if name not in FOLLOWS_MODELS} == {
        "rollout_real": 1,
        "replay_floor": 1,
        "rollout_wm": methods,
        "replay_w2r": methods,
        "consistency": methods,
    }


@pytest.mark.slow
def test_a_domains_code_reruns_what_opens_or_reads_it(study: Path) -> None:
    edit(
        study / "workflow/wmlab/metrics/ssf/textworld.py",
        "_BANNER_LONGEST = 4_000",
        "_BANNER_LONGEST = 5_000",
    )
    found = jobs(study)
    assert found["score"] == len(plan_of(study).predictors())
    assert found["grpo"] == found["predict_states"] == found["rollout_wm"] == 0  # nothing is rewarded by SSF
    edit(study / "workflow/wmlab/domains/textworld/script.py", "RETRIES = 2", "RETRIES = 3")
    found = jobs(study)
    assert found["panel"] == 0
    assert found["collect_train"] == 1  # its demonstrations are played by the script
    assert found["rollout_real"] == len(plan_of(study).study.agents)
    edit(
        study / "workflow/wmlab/domains/textworld/environment.py",
        "class TextWorld",
        "X = 1\n\n\nclass TextWorld",
    )
    assert jobs(study)["panel"] == 3


@pytest.mark.slow
def test_a_served_domain_reruns_with_its_client(study: Path, tmp_path: Path) -> None:
    client = "workflow/wmlab/domains/agentgym/http.py"
    edit(study / client, "BACKOFF_S = 0.2", "BACKOFF_S = 0.3")
    assert jobs(study) == Counter()  # nothing is played on a server
    folder = copy_of_repository(tmp_path)
    served = 'domains: {textworld: {options: {server: "http://127.0.0.1:9"}}}\n'
    (folder / "studies" / "served.yaml").write_text(served)
    finish(folder, *SMOKE, "studies/served.yaml")
    edit(folder / client, "BACKOFF_S = 0.2", "BACKOFF_S = 0.3")
    found = jobs(folder, *SMOKE, "studies/served.yaml")
    plan = plan_of(folder)
    assert found["panel"] == 3 and found["rollout_real"] == len(plan.study.agents)
    assert found["replay_w2r"] == len(plan.models()) * len(plan.study.agents)


@pytest.mark.slow
def test_threads_and_memory_rerun_nothing(study: Path) -> None:
    edit(
        study / "config.yaml", "inference: {threads: 1, mem_mb: 2500", "inference: {threads: 2, mem_mb: 3500"
    )
    assert jobs(study) == {"configuration": 1, "site": 1, "all": 1}  # the report shows the configuration


@pytest.mark.slow
def test_a_test_of_the_cells_reruns_only_statistics(study: Path) -> None:
    edit(study / "config.yaml", "metric: CR_pw", "metric: CR")
    assert set(jobs(study)) <= {
        "configuration",
        "statistics",
        "report_tables",
        "report_figures",
        "site",
        "all",
    }
    assert jobs(study)["statistics"] == 1
