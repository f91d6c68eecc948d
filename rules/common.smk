# What the stages share: the checked configuration, the code's fingerprint, small helpers.
import os
import re
import shlex
import sys
from pathlib import Path

# The code beside this file is the code that runs, with the Python that runs Snakemake.
SOURCE = Path(workflow.basedir) / "workflow"
sys.path.insert(0, str(SOURCE))
os.environ.update(
    PYTHONPATH=os.pathsep.join(
        filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")])
    ),
    PATH=os.pathsep.join(
        filter(None, [str(Path(sys.executable).parent), os.environ.get("PATH")])
    ),
    OMP_WAIT_POLICY="passive",
)

from wmlab.config.domains import SPLITS
from wmlab.config.load import check_study
from wmlab.config.memory import CONTROL_METHOD, MEMORY_METHOD
from wmlab.config.places import ORACLE
from wmlab.config.plan import Plan
from wmlab.errors import InputError
from wmlab.io.fingerprint import fingerprint
from wmlab.report.contents import MEMORY_FIGURES, MEMORY_TABLES, PLANNING_TABLES
from wmlab.skills.bank import bundled

# Snakemake lists the overlays of the command line first; the last file has the last word.
OVERLAYS = list(workflow.overwrite_configfiles)
CONFIGS = [path for path in workflow.configfiles if path not in OVERLAYS] + OVERLAYS

try:
    PLAN = Plan(check_study(config, [os.path.relpath(path) for path in CONFIGS]))
except InputError as error:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(error.exit_code)


def one_of(names):
    """A wildcard constraint: any of the names, and nothing else; without names nothing at all."""
    listed = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return listed or "(?!)"


def threads_of(tier):
    """CPU threads of a kind of job."""
    return PLAN.tier(tier).threads


def request(tier):
    """Resources of a kind of job; GPUs only where the study asks for them."""
    wanted = PLAN.tier(tier)
    gpus = {"gpu": wanted.gpu} if wanted.gpu else {}
    return {"mem_mb": wanted.mem_mb, "runtime": wanted.runtime, **gpus}


def modules_of(domain, *parts):
    """Modules that a domain brings and no import names: ``domain``, ``script``, ``ssf``."""
    places = {
        "domain": "wmlab.domains.{}.domain",
        "script": "wmlab.domains.{}.script",
        "ssf": "wmlab.metrics.ssf.{}",
    }
    return [places[part].format(domain) for part in parts]


def domain_code(target, *parts):
    """Fingerprint of a command, of modules of its domain, and of the client where a server plays it."""

    def code(w):
        served = "domain" in parts and "server" in PLAN.domain(w.domain).options
        client = modules_of("agentgym", "domain") if served else []
        return fingerprint(target, *modules_of(w.domain, *parts), *client)

    return code


def repeated(option, paths):
    """A command-line option once for every path; Snakemake gives an only file as a string."""
    paths = [paths] if isinstance(paths, str) else paths
    return " ".join(f"{option} {shlex.quote(str(path))}" for path in paths)


def folders(option, files):
    """A command-line option with the folder of every file: nothing when there is none."""
    files = [files] if isinstance(files, str) else files
    return repeated(option, [Path(file).parent for file in files])


def options_of(values):
    """A command-line option for every named value that there is, and for each of a list."""
    return " ".join(
        f"--{name} {shlex.quote(str(one))}"
        for name, value in values.items()
        for one in (value if isinstance(value, list) else [value])
        if one is not None
    )


def asks_reference(w, rule):
    """Whether a job asks the reference agent: training does where its reward needs it."""
    return rule != "grpo" or PLAN.asks_reference(w.method)


def beside_reference(rule):
    """What goes before a command that asks the reference agent: nothing, or the server that it brings along."""

    def words(w, input):
        if not asks_reference(w, rule):
            return ""
        place = "/".join(str(value) for value in dict(w).values())
        return shlex.join(
            PLAN.reference_server(
                str(Path(input.reference).parent),
                f"{PLAN.root}/logs/servers/{rule}/{place}",
            )
        )

    return words


def asking_reference(rule):
    """Options of a command that asks the reference agent, where it is not in the job itself."""
    return lambda w: (
        options_of(PLAN.reference_options()) if asks_reference(w, rule) else ""
    )


def guidance_of(domain):
    """What a domain's corrective rules come from: failing trajectories, or the rules of the package."""
    if PLAN.mines_guidance:
        return f"{PLAN.root}/collect/{domain}/train/trajectories.parquet"
    return os.path.relpath(bundled(domain))


# A parameter that reads `input` is no reason for a rerun, so what the configuration says never does.
def banks(option, name):
    """An option for each of the files that an input names; nothing when there is none."""
    return lambda w, input: repeated(option, getattr(input, name))


def advised(w):
    """How an agent is shown its skills; nothing for an agent without."""
    if not PLAN.advice(w.domain, w.agent):
        return ""
    return options_of({"skills-recipe": PLAN.skill_recipe()})


def planner_advised(w):
    """How an agent that plans is shown its skills."""
    if not PLAN.planner_advice(w.domain, w.agent, w.planner):
        return ""
    return options_of({"skills-recipe": PLAN.skill_recipe()})


def shown(training):
    """How a world model is shown its memory; nothing for a model without."""

    def options(w):
        if not PLAN.with_memory(getattr(w, "method", MEMORY_METHOD)):
            return ""
        return options_of({"memory-recipe": PLAN.memory_recipe(w.domain, training)})

    return options
