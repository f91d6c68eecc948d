"""The ``wmlab`` command. A group's module is imported only when one of its commands is asked for."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer
from typer.core import TyperGroup

from wmlab import __version__
from wmlab.errors import WmlabError

GROUPS = {
    "env": "Real environments: frozen task panels, play, check.",
    "data": "Trajectories, transitions, the difficulty filter, exports.",
    "train": "Tokenizer, supervised training, GRPO.",
    "memory": "World memory: banks of hints for a world model.",
    "skill": "World skill: advice for an agent.",
    "predict": "Next states from a world model or by copying.",
    "serve": "Model servers for as long as a command runs.",
    "score": "Metrics of predicted states, and rewards.",
    "rollout": "Episodes in Real, in a world model, and replays.",
    "eval": "Consistency with Real; perturbation studies and audits of the metrics.",
    "stats": "Tests over the cells of a study.",
    "report": "Tables, figures, the report page.",
    "study": "What a study amounts to, and its headline.",
}
HELP = """Text-based world models: from trajectories to tables, one command a stage.

Examples:

wmlab study show --config studies/smoke.yaml

wmlab env play --domain textworld --task textworld_1 --expert --out episode.jsonl

wmlab eval consistency --real real.jsonl --w2r w2r.jsonl --panel panel.json --out cell.json

Exit codes: 0 done, 2 bad input or configuration, 3 environment or model failure, 4 incomplete panel.
"""
UNEXPECTED = 3

root = typer.Typer(help=HELP, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"wmlab {__version__}")
        raise typer.Exit


@root.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Options of the command itself."""


def command(arguments: Sequence[str]) -> TyperGroup:
    """The command tree for ``arguments``: the group they name in full, the others by name and help."""
    tree = typer.main.get_group(root)
    tree.help = HELP
    asked = next((argument for argument in arguments if not argument.startswith("-")), None)
    for name, text in GROUPS.items():
        if name == asked:
            group = typer.main.get_group(import_module(f"wmlab.cli.{name}").app)
            group.name, group.help = name, group.help or text
            group.no_args_is_help = True
        else:
            group = TyperGroup(name=name, help=text)
        tree.add_command(group, name)
    return tree


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and end the process with the exit code of the contract."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        command(given).main(args=given, prog_name="wmlab")
    except WmlabError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except Exception:
        traceback.print_exc()
        sys.exit(UNEXPECTED)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
