"""The shared scan: looking rules up by a text's first words finds the same facts as trying every rule."""

import importlib
import random
import re

import pytest
from ssf_properties import recorded
from wmlab.metrics.ssf.scan import rules_by_opening

GLUE = (")", ";", ":", "[success]", " [SUCCESS]", "-", "'s")


@pytest.mark.parametrize("domain", ["textworld", "alfworld", "cookingworld"])
def test_rules_by_opening_miss_nothing(domain, monkeypatch):
    module = importlib.import_module(f"wmlab.metrics.ssf.{domain}")
    table = importlib.import_module(f"wmlab.metrics.ssf.{domain}_rules").table()
    rng = random.Random(0)
    texts = recorded(domain)[:150]
    words = [word for text in texts for word in text.split()]
    texts += [" ".join(rng.sample(words, 10)) for _ in range(200)]
    texts += [re.sub(r"(?<=[a-z]{3})(?= |$)", lambda _: rng.choice(GLUE), text, count=4) for text in texts]
    # the patterns' own literal text, groups opened up
    texts += [re.sub(r"\(\?P?<?\w*>?:?|[()?\\|]|\{[^}]*\}", " ", pattern) for pattern, _ in table]
    by_opening = [module._parse(text) for text in texts]
    every = [(re.compile(pattern).match, apply) for pattern, apply in table]
    monkeypatch.setattr(module, "_RULES", {"": every})
    assert [module._parse(text) for text in texts] == by_opening


def test_openings_that_a_pattern_does_not_tell():
    def apply(reading, match):
        reading.add("SEEN")

    for pattern in (
        "(?:now )?you go",
        "you (?:can )?go",
        "you:? go",
        "you heat(?:ed)? it",
        "you (?:heat|cool)(?:ed)? it",
    ):
        index = rules_by_opening([(pattern, apply)])
        assert len(index[""]) + len(index.get("you", [])) == 1, pattern
    index = rules_by_opening([("you (?:go|run) home", apply), ("you .{1,9}", apply), (".*", apply)])
    assert [len(index[key]) for key in ("you go", "you run", "you", "")] == [3, 3, 3, 1]
