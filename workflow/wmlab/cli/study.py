"""``wmlab study``: what a study amounts to before it runs, and its numbers afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(help="What a study amounts to, and its headline.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep the commands below the group's name."""


@app.command()
def show(
    config: Annotated[
        list[Path] | None,
        typer.Option("--config", help="Overlay merged over config.yaml; repeatable, last wins."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check the configuration and print the matrix, the jobs of every stage and a rough duration.

    Example: wmlab study show --config studies/smoke.yaml
    """
    from wmlab.config.load import load_study
    from wmlab.config.plan import Plan

    summary = _summary(Plan(load_study(config or [])))
    if as_json:
        print(json.dumps(summary, indent=2, ensure_ascii=False))
        return
    for key, value in summary["matrix"].items():
        print(f"{key:16} {', '.join(map(str, value)) if isinstance(value, list) else value}")
    print(f"\n{'stage':16} {'jobs':>5} {'s each':>8} {'GPU-h':>8}")
    for stage in summary["stages"]:
        print(
            f"{stage['stage']:16} {stage['jobs']:5d} {stage['seconds_each']:8.0f} {stage['gpu_hours']:8.1f}"
        )
    total = summary["total"]
    print(
        f"\nresults in {summary['results']}: {total['jobs']} jobs, {total['cells']} cells, "
        f"roughly {total['core_minutes']:.0f} minutes of work, {total['gpu_hours']:.1f} GPU-hours"
    )


def _summary(plan: Any) -> dict[str, Any]:
    from wmlab.config.estimate import stages

    found = stages(plan)
    study = plan.study
    return {
        "study": study.name,
        "results": plan.root,
        "matrix": {
            "domains": study.domains,
            "backbones": study.backbones,
            "methods": study.methods,
            "seeds": study.seeds,
            "agents": study.agents,
            "reference agent": study.reference_agent,
        },
        "stages": [
            {
                "stage": stage.name,
                "jobs": stage.jobs,
                "seconds_each": round(stage.seconds, 1),
                "gpu_hours": round(stage.gpu_hours, 2),
            }
            for stage in found
        ],
        "total": {
            "jobs": sum(stage.jobs for stage in found),
            "cells": len(plan.cells()),
            "core_minutes": round(sum(stage.jobs * stage.seconds for stage in found) / 60, 1),
            "gpu_hours": round(sum(stage.gpu_hours for stage in found), 1),
        },
        "config": plan.config.model_dump(mode="json"),
    }


@app.command()
def freeze(
    study: Annotated[str, typer.Option("--study", help="A whole configuration as JSON, or a JSON file.")],
    out: Annotated[Path, typer.Option("--out", help="YAML file to write.")],
) -> None:
    """Check a whole configuration and write it down as YAML, with its provenance beside it.

    Example: wmlab study freeze --study study.json --out results/study/config.yaml
    """
    import time

    import yaml

    from wmlab.config.recipes import load_recipe
    from wmlab.config.root import StudyConfig
    from wmlab.io.atomic import write_text
    from wmlab.io.provenance import write_meta

    started = time.time()
    config = load_recipe(StudyConfig, study).model_dump(mode="json")
    write_text(out, yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
    write_meta(out, config=config, seed=config["study"]["seed"], inputs=[], started=started)
    print(f"{out}: study {config['study']['name']}")


@app.command()
def dag(
    readme: Annotated[Path, typer.Option("--readme", help="File whose marked part becomes the picture.")],
) -> None:
    """Draw the workflow into the README, from Snakemake's rule graph on standard input.

    Example: snakemake --rulegraph mermaid-js all | wmlab study dag --readme README.md
    """
    import sys

    from wmlab.io.atomic import write_text
    from wmlab.report.dag import embed, picture

    chart = picture(sys.stdin.read())
    write_text(readme, embed(readme.read_text(encoding="utf-8"), chart))
    print(f"{readme}: {chart.count('-->')} arrows")


@app.command()
def headline(
    study_dir: Annotated[
        Path, typer.Option("--study-dir", help="Folder of a finished study, results/<name>.")
    ],
) -> None:
    """Print the report's path and the study's main numbers on one line.

    Example: wmlab study headline --study-dir results/study
    """
    from wmlab.report.headline import headline as line

    print(line(study_dir))
