"""The smoke study end to end: real games, real models, killed once and resumed; then what it left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from wmlab.io.provenance import sha256_file

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("Snakefile", "config.yaml", "rules", "profiles", "local", "slurm", "envs", "studies", "workflow")
SMOKE = ("all", "--profile", "local", "--configfile", "studies/smoke.yaml")
STUDY = Path("results") / "smoke"


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SNAKEMAKE_PROFILE")}
    return subprocess.Popen(
        [sys.executable, "-m", "snakemake", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of the workflow in which the smoke study was killed in its middle and finished by a rerun."""
    folder = tmp_path_factory.mktemp("study")
    for part in PARTS:
        source = ROOT / part
        if source.is_symlink():
            (folder / part).symlink_to(source.readlink())
        elif source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / part)
    cache = ROOT / "results" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    (folder / "results").mkdir()
    (folder / "results" / "cache").symlink_to(cache)
    first = start(folder, *SMOKE)
    waited = time.monotonic() + 600
    while not list(folder.glob("results/smoke/models/textworld/tiny/sft/seed0/model.safetensors")):
        assert first.poll() is None and time.monotonic() < waited, first.communicate()[0][-4000:]
        time.sleep(0.5)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    unlock = start(folder, *SMOKE, "--unlock")
    assert unlock.wait() == 0
    before = sha256_file(folder / STUDY / "models/textworld/tiny/sft/seed0/model.safetensors")
    second = start(folder, *SMOKE)
    output = second.communicate(timeout=1500)[0]
    assert second.returncode == 0, output[-6000:]
    after = sha256_file(folder / STUDY / "models/textworld/tiny/sft/seed0/model.safetensors")
    assert before == after  # the finished stage was kept
    return folder


@pytest.mark.slow
def test_the_study_ends_in_tables_figures_and_a_page(study: Path) -> None:
    root = study / STUDY
    for name in ("single_step", "task_level", "calibration", "sign_tests", "bootstrap", "grpo_objective"):
        for suffix in ("csv", "md", "tex"):
            assert (root / "tables" / f"{name}.{suffix}").stat().st_size > 0
    for name in ("training_curves", "crpw_cells", "calibration", "cd_diagram", "episode_lengths"):
        for suffix in ("pdf", "svg"):
            assert (root / "figures" / f"{name}.{suffix}").stat().st_size > 0
    page = (root / "report" / "index.html").read_text(encoding="utf-8")
    assert "CR_pw" in page and "<script" not in page
    for method in ("w2w", "behr"):
        for agent in ("scripted", "clone-large"):
            cell = json.loads(
                (root / f"consistency/textworld/tiny/{method}/seed0/{agent}/cell.json").read_text()
            )
            assert (cell["n"], cell["n_error"], cell["n_missing"]) == (4, 0, 0)
            assert cell["real_floor"] in (1.0, None)
    scripted = json.loads((root / "consistency/textworld/tiny/w2w/seed0/scripted/cell.json").read_text())
    assert scripted["SR_Real"] == 1.0


@pytest.mark.slow
def test_every_result_says_where_it_comes_from(study: Path) -> None:
    root = study / STUDY
    results = [
        p
        for p in root.rglob("*")
        if p.suffix in (".parquet", ".jsonl", ".safetensors") and "checkpoints" not in p.parts
    ]
    assert len(results) > 30
    for path in results:
        meta = json.loads(path.with_name(path.name + ".meta.json").read_text(encoding="utf-8"))
        assert {"config", "seed", "code", "packages", "inputs", "duration_s"} <= set(meta)
        for source, digest in meta["inputs"].items():
            file = study / source
            if file.exists():
                assert sha256_file(file) == digest, (path, source)


@pytest.mark.slow
def test_nothing_is_left_to_do_and_a_reward_parameter_reruns_its_branch(study: Path) -> None:
    assert "Nothing to be done" in start(study, *SMOKE, "-n").communicate()[0]
    config = study / "config.yaml"
    once = config.read_text().replace(
        "parameters: {scale: 1.0}", "parameters: {scale: 2.0}", 1
    )  # behr, not mem_behr
    config.write_text(once)
    planned = start(study, *SMOKE, "-n").communicate()[0]
    counted = dict(re.findall(r"^(\w+) +(\d+)$", planned, re.MULTILINE))
    assert counted["grpo"] == "1" and counted["rollout_wm"] == counted["consistency"] == "2"
    assert not {"collect", "sft_world_model", "sft_agent", "rollout_real", "difficulty_filter"} & set(counted)
