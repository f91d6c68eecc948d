"""The code fingerprint: layout never changes it, a change of what runs always does."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from wmlab.io.fingerprint import exists, fingerprint

CLI = """
    '''Commands.'''
    import typer

    app = typer.Typer(help="Train models.")
    LIMIT = 3

    def _shared(x):
        return x + LIMIT

    @app.command()
    def sft(rate: float = typer.Option(0.1, help="learning rate")):
        '''Train.'''
        from wmlab.training.sft import train

        return train(_shared(rate))

    @app.command("grpo")
    def run_grpo():
        from wmlab.training import grpo

        return grpo.train()
"""
FILES = {
    "__init__.py": "",
    "cli/__init__.py": "",
    "cli/train.py": CLI,
    "training/__init__.py": "",
    "training/sft.py": "from ..lm.model import load\n\ndef train(x):\n    return load(x)\n",
    "training/grpo.py": "from wmlab.lm.model import load\n\ndef train():\n    return load(2)\n",
    "lm/__init__.py": "",
    "lm/model.py": "import json\nfrom wmlab.lm import cache\n\ndef load(x):\n    return cache.get(x)\n",
    "lm/cache.py": "def get(x):\n    '''Look up.'''\n    return x\n",
    "report.py": "def render():\n    return 1\n",
    "rewards.py": "TABLE = {'f1': 'wmlab.report:render'}\n",
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    source = tmp_path / "wmlab"
    for name, text in FILES.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return source


def edit(source: Path, name: str, old: str, new: str) -> None:
    path = source / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("lm/cache.py", "'''Look up.'''", "'''Look up a value\n\n    in the cache.'''"),
        ("lm/cache.py", "    '''Look up.'''\n", ""),
        ("lm/cache.py", "return x", "# the value\n\n    return (x)"),
        ("lm/model.py", "import json\n", "import json  # noqa\n\n\n"),
        ("cli/train.py", "'''Train.'''", "'''Train a model.'''"),
        ("cli/train.py", 'help="learning rate"', 'help="peak learning rate"'),
        ("cli/train.py", 'help="Train models."', 'help="Train."'),
    ],
    ids=["docstring", "no-docstring", "comment", "layout", "command-docstring", "option-help", "group-help"],
)
def test_what_does_not_run_changes_nothing(package: Path, name: str, old: str, new: str) -> None:
    before = fingerprint("wmlab.cli.train:sft", source=package)
    edit(package, name, old, new)
    assert fingerprint("wmlab.cli.train:sft", source=package) == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("lm/cache.py", "return x", "return -x"),
        ("cli/train.py", "return x + LIMIT", "return x - LIMIT"),
        ("cli/train.py", "LIMIT = 3", "LIMIT = 4"),
        ("cli/train.py", "typer.Option(0.1", "typer.Option(0.2"),
        ("training/__init__.py", "", "SEED = 1\n"),
    ],
    ids=["deep-import", "helper", "constant", "default", "package-init"],
)
def test_what_runs_changes_the_fingerprint(package: Path, name: str, old: str, new: str) -> None:
    before = fingerprint("wmlab.cli.train:sft", source=package)
    edit(package, name, old, new)
    assert fingerprint("wmlab.cli.train:sft", source=package) != before


def test_another_command_of_the_module_is_not_part(package: Path) -> None:
    sft, grpo = (fingerprint(f"wmlab.cli.train:{name}", source=package) for name in ("sft", "grpo"))
    edit(package, "cli/train.py", "return grpo.train()", "return grpo.train() + 1")
    edit(package, "training/grpo.py", "load(2)", "load(3)")
    edit(package, "report.py", "return 1", "return 2")
    assert fingerprint("wmlab.cli.train:sft", source=package) == sft
    assert fingerprint("wmlab.cli.train:grpo", source=package) != grpo


def test_a_command_is_found_by_its_function_name_too(package: Path) -> None:
    by_command = fingerprint("wmlab.cli.train:grpo", source=package)
    edit(package, "training/grpo.py", "load(2)", "load(3)")
    assert fingerprint("wmlab.cli.train:grpo", source=package) != by_command
    assert exists("wmlab.cli.train:grpo", package)
    assert exists("wmlab.cli.train:run_grpo", package)
    assert not exists("wmlab.cli.train:predict", package)
    assert not exists("wmlab.cli.predict", package)


def test_a_registry_of_module_names_counts_as_imports(package: Path) -> None:
    before = fingerprint("wmlab.rewards", source=package)
    edit(package, "report.py", "return 1", "return 2")
    assert fingerprint("wmlab.rewards", source=package) != before


def test_a_target_that_appears_changes_the_fingerprint(package: Path) -> None:
    before = fingerprint("wmlab.rewards", "wmlab.later", source=package)
    (package / "later.py").write_text("X = 1\n")
    assert fingerprint("wmlab.rewards", "wmlab.later", source=package) != before


def test_the_order_of_targets_is_irrelevant(package: Path) -> None:
    names = ("wmlab.rewards", "wmlab.lm.model")
    assert fingerprint(*names, source=package) == fingerprint(*reversed(names), source=package)
