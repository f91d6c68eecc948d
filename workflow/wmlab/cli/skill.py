"""``wmlab skill``: distil task skills, mine corrective rules, show a bank, and see what steps are told."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from wmlab.cli.options import Cache, Concurrency

app = typer.Typer(help="World skill: advice for an agent.", no_args_is_help=True)

Domain = Annotated[str, typer.Option("--domain", help="Domain, e.g. alfworld or webshop.")]
Bank = Annotated[
    Path | None, typer.Option("--bank", help="skills_{domain}.jsonl; default: the bundled corrective rules.")
]
Trajectories = Annotated[list[Path], typer.Option("--trajectories", help="trajectories.parquet; repeatable.")]
Out = Annotated[Path, typer.Option("--out", help="skills_{domain}.jsonl to write.")]
Panels = Annotated[
    list[Path] | None,
    typer.Option("--exclude-panel", help="Panel whose tasks no skill may come from; repeatable."),
]


def _rows(paths: Iterable[Path]) -> Iterator[tuple[Path, int, Mapping[str, Any]]]:
    from wmlab.io.tables import read_rows

    for path in paths:
        for number, row in enumerate(read_rows(path, "trajectories")):
            yield path, number, row


@app.command()
def distil(
    domain: Domain,
    trajectories: Trajectories,
    out: Out,
    exclude_panel: Panels = None,
    min_score: Annotated[float, typer.Option("--min-score", help="Least score of a solved episode.")] = 0.0,
    per_pack: Annotated[int, typer.Option("--per-pack", min=1, help="Episodes a summary is made from.")] = 12,
    summariser_url: Annotated[
        str | None, typer.Option("--summariser-url", help="OpenAI-compatible server, …/v1; default: rules.")
    ] = None,
    summariser_model: Annotated[
        str | None, typer.Option("--summariser-model", help="Model to ask there; the key: OPENAI_API_KEY.")
    ] = None,
    general: Annotated[int, typer.Option("--general", min=0, help="General skills, at most.")] = 6,
    task_specific: Annotated[
        int, typer.Option("--task-specific", min=0, help="Skills of a task type, at most.")
    ] = 4,
    common_mistake: Annotated[
        int, typer.Option("--common-mistake", min=0, help="Common mistakes, at most.")
    ] = 6,
    polish: Annotated[bool, typer.Option("--polish", help="Ask the model to polish its answers.")] = False,
    cache: Cache = None,
    concurrency: Concurrency = 4,
) -> None:
    """Distil task skills from the successful trajectories of training tasks.

    Example: wmlab skill distil --domain alfworld --trajectories trajectories.parquet
    --exclude-panel test.json --out skills_alfworld.jsonl
    """
    from wmlab.errors import InputError
    from wmlab.io.provenance import write_meta
    from wmlab.lm.answers import Questions
    from wmlab.memory.bank import write_bank
    from wmlab.memory.guard import held_out
    from wmlab.skills.bank import Caps, Draft
    from wmlab.skills.distil import DistilSettings
    from wmlab.skills.distil import distil as distilled
    from wmlab.skills.llm import MAX_TOKENS, PURPOSE, LLMSummariser
    from wmlab.skills.summary import RuleSummariser, Summariser

    started = time.time()
    questions: Questions[list[Draft]] | None = Questions.opened(
        PURPOSE, summariser_url, summariser_model, MAX_TOKENS, cache, concurrency
    )
    if questions is None and polish:
        raise InputError("--polish: needs a language model; give --summariser-url and --summariser-model")
    asked = None if questions is None else LLMSummariser(questions, polish)
    summariser: Summariser = asked if asked is not None else RuleSummariser()
    panels = exclude_panel or []
    caps = Caps(general, task_specific, common_mistake)
    settings = DistilSettings(min_score, per_pack, caps)
    entries, report = distilled(domain, _rows(trajectories), settings, summariser, held_out(panels))
    write_bank(out, entries)
    config = {
        "domain": domain,
        "summariser": summariser.name,
        "min_score": min_score,
        "per_pack": per_pack,
        "caps": {name: caps.of(name) for name in ("general", "task_specific", "common_mistake")},
    }
    extra: dict[str, Any] = {"report": dict(sorted(report.items()))}
    if asked is not None:
        extra["summariser"] = dict(sorted((asked.counts + asked.questions.counts).items()))
    write_meta(out, config=config, seed=None, inputs=[*trajectories, *panels], started=started, extra=extra)
    print(
        f"{out}: {len(entries)} skills from {report['records']} solved of {report['trajectories']} trajectories, "
        f"{report['held_out']} of held-out tasks left out"
    )


@app.command()
def mine(
    domain: Domain,
    trajectories: Trajectories,
    out: Out,
    exclude_panel: Panels = None,
    min_support: Annotated[
        int, typer.Option("--min-support", min=1, help="Failing trajectories behind a rule, at least.")
    ] = 3,
    min_lift: Annotated[
        float, typer.Option("--min-lift", min=0.0, help="Misstep rate against that of all failing steps.")
    ] = 1.0,
    keep_sources: Annotated[
        int, typer.Option("--keep-sources", min=1, help="Trajectory ids a rule names.")
    ] = 32,
) -> None:
    """Mine corrective rules from failing trajectories, beside what successful ones did in such states.

    Example: wmlab skill mine --domain webshop --trajectories trajectories.parquet
    --exclude-panel test.json --out guidance_webshop.jsonl
    """
    from wmlab.io.provenance import write_meta
    from wmlab.memory.bank import write_bank
    from wmlab.memory.guard import held_out
    from wmlab.skills.mine import MineSettings
    from wmlab.skills.mine import mine as mined

    started = time.time()
    panels = exclude_panel or []
    settings = MineSettings(min_support, min_lift, keep_sources)
    entries, report = mined(domain, _rows(trajectories), settings, held_out(panels))
    write_bank(out, entries)
    config = {
        "domain": domain,
        "min_support": min_support,
        "min_lift": min_lift,
        "keep_sources": keep_sources,
    }
    extra = {"report": dict(sorted(report.items()))}
    write_meta(out, config=config, seed=None, inputs=[*trajectories, *panels], started=started, extra=extra)
    print(
        f"{out}: {len(entries)} rules from {report['failing']} failing of {report['trajectories']} trajectories, "
        f"{report['held_out']} of held-out tasks left out"
    )


@app.command()
def adopt(
    domain: Domain,
    out: Out,
    bank: Bank = None,
    exclude_panel: Panels = None,
) -> None:
    """Take a bank over into a study; refused when one of its entries comes from a held-out task.

    Example: wmlab skill adopt --domain alfworld --exclude-panel test.json --out guidance_alfworld.jsonl
    """
    from wmlab.io.provenance import write_meta
    from wmlab.memory.bank import write_bank
    from wmlab.memory.guard import held_out, require_clean
    from wmlab.skills.bank import bundled, read_skills

    started = time.time()
    panels = exclude_panel or []
    source = bank or bundled(domain)
    entries = read_skills(source, domain)
    require_clean(entries, held_out(panels), source)
    write_bank(out, entries)
    write_meta(out, config={"domain": domain}, seed=None, inputs=[source, *panels], started=started)
    print(f"{out}: {len(entries)} entries, none of {len(panels)} panels' tasks")


@app.command()
def show(
    domain: Domain,
    bank: Bank = None,
    kind: Annotated[str | None, typer.Option("--kind", help="Only entries of this kind.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Entries shown.")] = 10,
) -> None:
    """Show a bank's entries, best supported first.

    Example: wmlab skill show --domain alfworld --bank skills_alfworld.jsonl --kind task_specific
    """
    from wmlab.errors import InputError
    from wmlab.memory.bank import show_key
    from wmlab.skills.bank import KINDS, bundled, read_skills
    from wmlab.skills.prompt import render_skill

    if kind is not None and kind not in KINDS:
        raise InputError(f"--kind {kind!r}: not known; choose from {', '.join(KINDS)}")
    source = bank or bundled(domain)
    found = [one for one in read_skills(source, domain) if kind in (None, one.kind)]
    found.sort(key=lambda one: (-one.support, one.id))
    for one in found[:limit]:
        print(f"{one.id} ({one.kind}, support {one.support}, {show_key(one.key)})\n{render_skill(one)}\n")
    print(f"{source}: {len(found)} entries match, {min(len(found), limit)} shown")


@app.command()
def guide(
    domain: Domain,
    trajectories: Trajectories,
    out: Annotated[str, typer.Option("--out", help="JSONL: a block and a record per step; - for stdout.")],
    bank: Bank = None,
    budget: Annotated[int, typer.Option("--budget", min=0, help="Tokens a step's block may take.")] = 160,
    most: Annotated[int, typer.Option("--most", min=0, help="Rules a step is shown at most.")] = 3,
    exclude_panel: Panels = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first trajectories.")] = None,
) -> None:
    """Tell what each step of trajectories would have been advised, and which flags held.

    Example: wmlab skill guide --domain webshop --bank guidance_webshop.jsonl
    --trajectories trajectories.parquet --out advised.jsonl
    """
    from itertools import islice

    from wmlab.io.jsonl import STREAM, write_jsonl
    from wmlab.io.provenance import write_meta
    from wmlab.memory.guard import held_out
    from wmlab.skills.bank import bundled, read_skills
    from wmlab.skills.guidance import Guide
    from wmlab.skills.record import check_trajectory
    from wmlab.skills.state import decisions

    started = time.time()
    panels = exclude_panel or []
    rules = bank or bundled(domain)
    opened = Guide(
        domain,
        read_skills(rules, domain),
        step_budget=budget,
        most_rules=most,
        excluded=held_out(panels),
        source=rules,
    )
    told: list[dict[str, Any]] = []
    for path, number, row in islice(_rows(trajectories), limit):
        check_trajectory(domain, row, path, number)
        for at, (state, _) in enumerate(decisions(row)):
            found = opened.step(state)
            told.append(
                {
                    "trajectory_id": row["trajectory_id"],
                    "step": at,
                    "block": found.block,
                    **found.record(),
                }
            )
    write_jsonl(out, told)
    if out == STREAM:
        return
    config = {"domain": domain, "budget": budget, "most": most}
    advised = sum(bool(one["block"]) for one in told)
    extra = {"steps": len(told), "advised": advised}
    inputs = [rules, *trajectories, *panels]
    write_meta(out, config=config, seed=None, inputs=inputs, started=started, extra=extra)
    print(f"{out}: {advised} of {len(told)} steps advised")
