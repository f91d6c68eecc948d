"""Properties that every fact parser has, checked on a domain's recorded observations (used by test_ssf_*)."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

from wmlab.metrics.ssf import facts, ssf

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(__file__).parent / "data"
SHARED = ROOT.parent / "shared"
SPACES = (" ", "\n", "\t", "  \n", "\r\n", "\u00a0")
MARKERS = (
    "BEGIN_FACTS", "END_FACTS", "ON(fridge 1, apple 1)", "SUCCESS()", "[SUCCESS]", "[SEP]", "=== ", "MESSAGE(", "\u0130",
    "\x00", "\ud800",
)  # fmt: skip


def recorded(domain: str) -> list[str]:
    """Bundled observations, and the library's samples where they are beside the repository."""
    paths = [DATA / f"{domain}_observations.jsonl", SHARED / "samples" / f"{domain}.jsonl"]
    return [json.loads(line)["observation"] for path in paths if path.exists() for line in path.open()]


def shuffled_spaces(text: str, rng: random.Random) -> str:
    """The text with each whitespace character replaced by other whitespace."""
    return "".join(rng.choice(SPACES) if char.isspace() else char for char in text)


def check_pair(domain: str, left: str, right: str) -> None:
    """Identity is 1, the score is symmetric and within [0, 1]."""
    score = ssf(domain, left, right)
    assert 0.0 <= score <= 1.0
    assert score == ssf(domain, right, left)
    assert ssf(domain, left, left) == 1.0


def check_layout(domain: str, text: str, seed: int) -> None:
    """Spacing and case change no fact."""
    rng = random.Random(seed)
    assert facts(domain, shuffled_spaces(text, rng)) == facts(domain, text)
    assert facts(domain, f"\n  {text.upper()} \n") == facts(domain, text)


def check_corruption(domain: str, text: str, words: list[str], seed: int) -> None:
    """Each further corrupted name leaves the score as it is or lowers it, and the first one lowers it."""
    order = [word for word in words if word.lower() in text.lower()]
    random.Random(seed).shuffle(order)
    scores, damaged = [1.0], text.lower()
    for number, word in enumerate(order):
        damaged = damaged.replace(word, f"zq{'abcdefghij'[number % 10]} {number}")
        scores.append(ssf(domain, damaged, text))
    assert scores == sorted(scores, reverse=True), (scores, text)
    assert not order or scores[-1] < 1.0, text


def check_any_text(domain: str, text: str) -> None:
    """Any text is read, and words are never passed over in silence."""
    found = facts(domain, text)
    words = text.replace("[SEP]", "").replace("[SUCCESS]", "")  # marks of the protocol, not words
    assert found or not any(map(str.isalnum, words))
    assert all("(" in fact and fact.endswith(")") for fact in found)


def check_linear(domain: str, piece: str) -> None:
    """A hostile megabyte takes seconds of processor time, not hours."""
    text = piece * (1_000_000 // len(piece))
    started = time.process_time()
    facts(domain, text)
    assert time.process_time() - started < 20


def coverage(domain: str, texts: list[str]) -> float:
    """Share of observations with a fact other than MESSAGE."""
    known = sum(any(not fact.startswith("MESSAGE(") for fact in facts(domain, text)) for text in texts)
    return known / len(texts)
