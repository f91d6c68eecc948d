"""``wmlab env``: frozen panels, playing a task, checking a backend."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from wmlab.domains.base import Domain as DomainBackend

app = typer.Typer(help="Real environments: frozen task panels, play, check, serve.", no_args_is_help=True)

Domain = Annotated[str, typer.Option("--domain", help="Domain, e.g. textworld.")]
Cache = Annotated[Path, typer.Option("--cache", help="Folder of generated games, shared by all studies.")]
Options = Annotated[
    str,
    typer.Option(
        "--options",
        help='JSON object of the domain\'s settings: official files, or an AgentGym "server" URL.',
    ),
]
CACHE = Path("results/cache")
FIRST_SEED = {"test": 1, "train": 201, "validation": 2001}


def _domain(name: str, cache: Path, options: str) -> DomainBackend:
    from wmlab.domains.registry import make_domain, parse_options

    return make_domain(name, cache, parse_options(options))


@app.command()
def panel(
    domain: Domain,
    split: Annotated[
        str,
        typer.Option(
            "--split", help="test, train or validation; others by domain. Seeds start at 1, 201 and 2001."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="panel.json to write.")],
    limit: Annotated[int, typer.Option("--limit", min=1, help="Number of tasks.")] = 200,
    first: Annotated[
        int | None,
        typer.Option(
            "--first", "--first-seed", min=1, help="First task: its seed, or its place in the split's list."
        ),
    ] = None,
    options: Options = "{}",
    cache: Cache = CACHE,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Generator processes.")] = 2,
) -> None:
    """Freeze the task list of a split with a content hash per task.

    Example: wmlab env panel --domain textworld --split test --limit 200 --out panel.json
    """
    from wmlab.config.domains import SEEDED
    from wmlab.domains.panels import build_panel, write_panel
    from wmlab.domains.registry import make_domain, parse_options
    from wmlab.io.provenance import write_meta

    started = time.time()
    settings = parse_options(options)
    chosen = make_domain(domain, cache, settings)
    first = first or (FIRST_SEED.get(split, 1) if domain in SEEDED else 1)
    tasks = build_panel(chosen, chosen.task_ids(split, first, limit), workers)
    write_panel(out, domain, split, tasks, settings)
    config = {"domain": domain, "options": settings, "split": split, "first": first, "limit": limit}
    write_meta(out, config=config, seed=first, inputs=[], started=started)
    print(f"{out}: {len(tasks)} tasks")


@app.command()
def play(
    domain: Domain,
    task: Annotated[str, typer.Option("--task", help="Task id, e.g. textworld_17.")],
    out: Annotated[str, typer.Option("--out", help="episode.jsonl to write, - for standard output.")],
    actions: Annotated[
        str | None, typer.Option("--actions", help="File with one action a line, - for standard input.")
    ] = None,
    expert: Annotated[bool, typer.Option("--expert", help="Play the planner's commands.")] = False,
    options: Options = "{}",
    step_cap: Annotated[int, typer.Option("--step-cap", min=1, help="Most actions played.")] = 50,
    cache: Cache = CACHE,
) -> None:
    """Play one task: given actions, the expert's, or only the reset.

    Example: wmlab env play --domain textworld --task textworld_1 --expert --out episode.jsonl
    """
    import sys

    from wmlab.domains.play import play_task
    from wmlab.errors import InputError
    from wmlab.io.jsonl import write_jsonl

    if expert and actions is not None:
        raise InputError("env play: --expert and --actions exclude each other; give one")
    given: list[str] = []
    if actions is not None:
        try:
            text = sys.stdin.read() if actions == "-" else Path(actions).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError.at(
                actions, f"cannot be read ({error})", "give a text file, one action a line"
            ) from None
        given = [line for line in text.split("\n") if line.strip()]
    rows = play_task(_domain(domain, cache, options), task, given, expert, step_cap)
    write_jsonl(out, rows)
    if out != "-":
        print(f"{out}: {len(rows) - 1} steps, success {rows[-1]['success']}")


@app.command()
def check(
    domain: Domain,
    n: Annotated[
        int, typer.Option("--n", min=1, help="Tasks to check, from the first of the test split.")
    ] = 5,
    random: Annotated[
        int,
        typer.Option(
            "--random", min=0, help="Also play this many random episodes: crashes, memory, orphans."
        ),
    ] = 0,
    options: Options = "{}",
    step_cap: Annotated[int, typer.Option("--step-cap", min=1, help="Most actions played.")] = 50,
    cache: Cache = CACHE,
    out: Annotated[str | None, typer.Option("--out", help="Also write the result as JSON.")] = None,
) -> None:
    """Replay expert actions twice: gold success, Real-to-Real floor, steps per second. Exit 3 if broken.

    With --random, also play random episodes in a worker process: errors, memory in MB after a tenth, half
    and all of them, processes left behind.

    Example: wmlab env check --domain textworld --n 5 --random 500
    """
    from wmlab.domains.endurance import endure, grows
    from wmlab.domains.play import check_backend
    from wmlab.errors import EnvironmentFailure
    from wmlab.io.atomic import write_json

    chosen = _domain(domain, cache, options)
    result = check_backend(chosen, n, step_cap)
    lasting = endure(chosen, random, step_cap) if random else None
    if out is not None:
        write_json(out, result if lasting is None else {**result, "random": lasting})
    print(
        f"{domain}: {result['n']} tasks, gold success {result['gold_success']:.3f}, "
        f"floor {result['real_floor']:.3f}, {result['steps_per_s']:.1f} steps/s"
    )
    if lasting is not None:
        sizes = "/".join(f"{size:.0f}" for size in lasting["megabytes"])
        print(
            f"{domain}: {random} random episodes, {lasting['steps']} steps, {lasting['errors']} errors, "
            f"memory {sizes} MB, {lasting['left']} processes left"
        )
        if lasting["errors"] or lasting["left"] or grows(lasting["megabytes"]):
            raise EnvironmentFailure(f"{domain}: random play fails, grows or leaves processes: {lasting}")
    if result["gold_success"] < 1 or result["real_floor"] < 1:
        raise EnvironmentFailure(f"{domain}: the backend is broken: {result['problems'][:3]}")


@app.command()
def serve(
    domain: Domain,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 chooses a free one.")] = 8000,
    protocol: Annotated[str, typer.Option("--protocol", help="agentgym.")] = "agentgym",
    dialect: Annotated[
        str, typer.Option("--dialect", help="word2world (the papers' fork) or upstream.")
    ] = "word2world",
    host: Annotated[str, typer.Option("--host", help="Address; nobody is asked who they are.")] = "127.0.0.1",
    environments: Annotated[int, typer.Option("--environments", min=1, help="Most open at a time.")] = 64,
    idle: Annotated[float, typer.Option("--idle", min=0.1, help="Seconds unused until one is freed.")] = 600,
    options: Options = "{}",
    cache: Cache = CACHE,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Environment processes.")] = 2,
) -> None:
    """Serve the domain's environments over HTTP until interrupted.

    Example: wmlab env serve --domain textworld --protocol agentgym --port 8000
    """
    from wmlab.domains.agentgym.serving import serve as run

    run(_domain(domain, cache, options), protocol, dialect, host, port, environments, idle, workers)
