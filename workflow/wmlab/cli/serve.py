"""``wmlab serve``: model servers beside a command."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Model servers for as long as a command runs.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep ``run`` a command of its own."""


@app.command()
def run(
    command: Annotated[
        list[str], typer.Argument(help="The command, after --; {NAME} in it is a server's URL.")
    ],
    model: Annotated[list[str], typer.Option("--model", help="NAME=FOLDER: a model to serve; repeatable.")],
    logs: Annotated[Path, typer.Option("--logs", help="Folder of the servers' logs, NAME.log.")],
    options: Annotated[
        list[str] | None, typer.Option("--options", help="NAME='--dtype float32 …': vLLM's own; repeatable.")
    ] = None,
    gpus: Annotated[
        list[str] | None,
        typer.Option("--gpus", help="NAME=0,1: a server's GPUs; command=2,3: the command's; repeatable."),
    ] = None,
    python: Annotated[
        str | None, typer.Option("--python", help="Python that has vLLM; default: the one that runs this.")
    ] = None,
) -> None:
    """Start servers by vLLM, run a command that asks them, stop them.

    Example: wmlab serve run --model judge=models/qwen3-8b --logs logs -- wmlab train grpo … --reference-url {judge}
    """
    import sys

    from wmlab.lm.serving import Server, run_beside

    folders = _named("--model", model)
    told, visible = _named("--options", options or []), _named("--gpus", gpus or [])
    for option, given in (("--options", set(told)), ("--gpus", set(visible) - {"command"})):
        _known(option, given, set(folders))
    servers = [
        Server(name, Path(folder), tuple(shlex.split(told.get(name, ""))), visible.get(name))
        for name, folder in folders.items()
    ]
    code = run_beside(servers, command, logs, python=python or sys.executable, gpus=visible.get("command"))
    raise typer.Exit(code)


def _named(option: str, given: list[str]) -> dict[str, str]:
    from wmlab.errors import InputError

    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier() or not value:
            raise InputError(f"{option} {text!r}: write NAME=VALUE")
        if name in found:
            raise InputError(f"{option}: {name!r} is given twice")
        found[name] = value
    return found


def _known(option: str, names: set[str], known: set[str]) -> None:
    from wmlab.config.problems import near_match
    from wmlab.errors import InputError

    for name in sorted(names - known):
        raise InputError(f"{option}: {name!r} is no server; {near_match(name, sorted(known))}")
