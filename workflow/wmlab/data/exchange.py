"""``wmlab data import`` and ``export``: upstream's four kinds of files to ours, and ours to theirs.

| format | upstream | ours |
|---|---|---|
| corpus | Word2World JSON array | trajectories.parquet |
| init_contexts | folder of ``*_instruct_*.json``, or one of them | panel.json |
| task_list | ``[{"item_id", "conversations"}]`` | panel.json, frozen from the environment |
| episodes | folder of ``{task}_{id}.json`` | episodes.jsonl |

Each function does one of them, writes provenance, and returns the line to print.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from wmlab.domains.conventions import known_domain
from wmlab.errors import InputError
from wmlab.io.atomic import write_json
from wmlab.io.provenance import write_meta

FORMATS = ("corpus", "init_contexts", "task_list", "episodes")


def check_format(name: str) -> str:
    """The name of a format. Raises InputError for an unknown one."""
    if name not in FORMATS:
        raise InputError(f"--format {name!r}: not known; choose from {', '.join(FORMATS)}")
    return name


def import_corpus_file(corpus: Path, domain: str, split: str, out: Path, report: Path | None) -> str:
    """A Word2World corpus to trajectories; ``report`` gets the counts of what was changed."""
    from wmlab.data.corpora import ImportReport, import_corpus
    from wmlab.io.tables import write_rows

    started = time.time()
    counts = ImportReport()
    n = write_rows(out, "trajectories", import_corpus(corpus, domain, split, counts))
    found = counts.as_dict()
    config = {"domain": domain, "split": split}
    write_meta(out, config=config, seed=None, inputs=[corpus], started=started, extra={"import": found})
    if report is not None:
        write_json(report, found)
    cut = sum(counts.trajectories_cut.values())
    dropped = sum(counts.trajectories_dropped.values())
    return f"{out}: {n} trajectories, {counts.steps_out} steps ({cut} cut, {dropped} dropped)"


def import_contexts(source: Path, domain: str, split: str, options: dict[str, Any], out: Path) -> str:
    """Contexts to a panel, with the prompt that the agents were given beside it."""
    from wmlab.data.contexts import context_files, read_contexts
    from wmlab.domains.panels import write_panel

    started = time.time()
    domain = known_domain(domain)
    found = read_contexts(source, domain)
    told = {"prompt": found.prompt, "acknowledgement": found.acknowledgement}
    agent = {name: text for name, text in told.items() if text is not None}
    write_panel(out, domain, split, found.tasks, options, agent)
    inputs = context_files(source) if source.is_dir() else [source]
    config = {"domain": domain, "split": split, "options": options}
    write_meta(out, config=config, seed=None, inputs=inputs, started=started)
    hidden = sum(task.privileged is not None for task in found.tasks)
    return f"{out}: {len(found.tasks)} tasks, {hidden} with a privileged block"


def import_task_list(
    source: Path, domain: str, split: str, options: dict[str, Any], out: Path, cache: Path, workers: int
) -> str:
    """A task list to a panel: each task as the environment shows it."""
    from wmlab.data.contexts import read_task_ids
    from wmlab.domains.panels import build_panel, write_panel
    from wmlab.domains.registry import make_domain

    started = time.time()
    domain = known_domain(domain)
    ids = read_task_ids(source, domain)
    tasks = build_panel(make_domain(domain, cache, options), ids, workers)
    write_panel(out, domain, split, tasks, options)
    config = {"domain": domain, "split": split, "options": options}
    write_meta(out, config=config, seed=None, inputs=[source], started=started)
    return f"{out}: {len(tasks)} tasks"


def import_episodes(folder: Path, mode: str, step_cap: int, out: Path) -> str:
    """A folder of released episodes to our JSON lines."""
    from wmlab.metrics.episodes import MODES, read_upstream, write_episodes_jsonl

    started = time.time()
    if mode not in MODES:
        raise InputError(f"--mode {mode!r}: not known; choose from {', '.join(MODES)}")
    if not folder.is_dir():
        raise InputError.at(folder, "not a folder", "give the folder that holds the {task}_{id}.json files")
    found = read_upstream(folder, mode, step_cap=step_cap)
    write_episodes_jsonl(out, found)
    inputs = sorted(path for path in folder.rglob("*.json") if not path.name.endswith(".meta.json"))
    write_meta(out, config={"mode": mode, "step_cap": step_cap}, seed=None, inputs=inputs, started=started)
    won, errors = sum(e.succeeded for e in found), sum(e.status == "error" for e in found)
    return f"{out}: {won}/{len(found)} won, {errors} errors"


def export_trajectories(trajectories: Path, out: Path) -> str:
    """Trajectories to a Word2World corpus."""
    from wmlab.data.corpora import export_corpus
    from wmlab.io.tables import read_rows

    started = time.time()
    n = export_corpus(out, read_rows(trajectories, "trajectories"), trajectories)
    write_meta(out, config={}, seed=None, inputs=[trajectories], started=started)
    return f"{out}: {n} trajectories"


def export_contexts(panel: Path, out: Path) -> str:
    """A panel to upstream's contexts; the agents' prompt is the panel's, else the domain's own."""
    from wmlab.agents.scripts import script_of
    from wmlab.data.contexts import Contexts, write_contexts
    from wmlab.domains.panels import panel_agent, panel_split, read_panel

    started = time.time()
    tasks, told = read_panel(panel), panel_agent(panel)
    domain = tasks[0].domain
    prompt = told["prompt"] if "prompt" in told else script_of(domain).SYSTEM_PROMPT
    contexts = Contexts(tasks, prompt, told.get("acknowledgement"))
    for path in write_contexts(out, domain, panel_split(panel), contexts):
        write_meta(path, config={}, seed=None, inputs=[panel], started=started)
    return f"{out}: {len(tasks)} contexts"


def export_task_list(panel: Path, out: Path) -> str:
    """A panel to upstream's task list."""
    from wmlab.data.contexts import write_task_list
    from wmlab.domains.conventions import item_id, item_number
    from wmlab.domains.panels import read_panel

    started = time.time()
    ids = [item_id(t.domain, item_number(t.domain, t.task_id)) for t in read_panel(panel)]
    write_task_list(out, ids)
    write_meta(out, config={}, seed=None, inputs=[panel], started=started)
    return f"{out}: {len(ids)} tasks"


def export_episodes(episodes: Path, wm: Path | None, out: Path) -> str:
    """Episodes of one condition to a folder in upstream's layout; ``wm`` completes a W2R folder."""
    from wmlab.metrics.episodes import MODES, read_episodes, write_upstream

    started = time.time()
    found = read_episodes(episodes, *MODES)
    if not found:
        raise InputError.at(episodes, "no episodes", "give a file with episodes")
    predicted = read_episodes(wm, "wm") if wm is not None else []
    root = write_upstream(out, found, wm=predicted)
    inputs = [path for path in (episodes, wm) if path is not None]
    write_meta(root / "_metrics.json", config={}, seed=None, inputs=inputs, started=started)
    return f"{root}: {sum(e.succeeded for e in found)}/{len(found)} won, mode {found[0].mode}"
