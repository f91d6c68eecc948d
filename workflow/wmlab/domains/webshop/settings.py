"""The options of the web shop, checked."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from wmlab.domains.base import Options
from wmlab.domains.registry import check_options
from wmlab.domains.webshop.generator import MOST, SIZE
from wmlab.domains.webshop.nouns import TAGGERS
from wmlab.domains.webshop.reward import MODES
from wmlab.errors import InputError

GOALS = ("synthetic", "human")
_BUILDERS = ("analysis", "build", "catalogue", "generator", "goals", "search")


@dataclass(frozen=True)
class Settings:
    """``products``, ``attributes``, ``human``: official files; without them the bundled catalogue is used.

    ``goals``: synthetic or human. ``mode``: compat or strict (reward.py). ``nouns``: light or spacy.
    ``seed``: prices, price bounds and order of goals; 42 is the papers', 233 the original engine's.
    ``limit``: first rows of ``products`` only, 0 for all. ``size``: products of the bundled catalogue.
    ``tasks``: a published task list (``[{"item_id": "webshop_5238"}, ...]``), contexts or a panel as the test
    split.
    """

    products: str = ""
    attributes: str = ""
    human: str = ""
    tasks: str = ""
    goals: str = "synthetic"
    mode: str = "compat"
    nouns: str = "light"
    seed: int = 42
    limit: int = 0
    size: int = SIZE

    def key(self) -> str:
        """Names the built shop in the cache: its files, draws, and the code that builds it."""
        files = [_identity(path) for path in (self.products, self.attributes, self.human)]
        parts = [files, self.goals, self.seed, self.limit, self.size, _code()]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def read_settings(options: Options) -> Settings:
    """Check a domain's options. Raises InputError naming the option."""
    known = {field.name: type(field.default) for field in fields(Settings)}
    check_options("webshop", options, tuple(known))
    for name, value in options.items():
        if type(value) is not known[name]:
            raise InputError(f"domain webshop: option {name!r} must be of type {known[name].__name__}")
    settings = Settings(**options)  # type: ignore[arg-type]  # types are checked above
    for name, choices in (("goals", GOALS), ("mode", MODES), ("nouns", TAGGERS)):
        if getattr(settings, name) not in choices:
            raise InputError(f"domain webshop: option {name!r} must be one of {', '.join(choices)}")
    if not settings.products and (settings.attributes or settings.human or settings.limit):
        raise InputError("domain webshop: options attributes, human and limit need products")
    if settings.products and not (settings.human if settings.goals == "human" else settings.attributes):
        needed = "human" if settings.goals == "human" else "attributes"
        raise InputError(
            f"domain webshop: option products with {settings.goals} goals needs the file {needed!r}"
        )
    if not 1 <= settings.size <= MOST or settings.limit < 0 or not 0 <= settings.seed < 2**32:
        raise InputError(f"domain webshop: size must be 1 to {MOST}, limit 0 or more, seed 0 to {2**32 - 1}")
    return settings


def _identity(path: str) -> list[str | int]:
    if not path:
        return []
    try:
        stat = Path(path).stat()
    except (OSError, ValueError) as error:
        raise InputError.at(path[:200], f"cannot be read ({error})", "check the option's path") from None
    return [str(Path(path).resolve()), stat.st_size, stat.st_mtime_ns]


@cache
def _code() -> str:
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for name in _BUILDERS:
        digest.update((folder / f"{name}.py").read_bytes())
    digest.update((folder.parents[1] / "resources" / "webshop" / "vocabulary.toml").read_bytes())
    return digest.hexdigest()
