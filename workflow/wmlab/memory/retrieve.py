"""Retrieval: the entries of a prediction, by key in back-off order, BM25 last, within a budget of tokens.

Each chain of a prediction's query (``keys``, ``shop``) gives the first of its keys that the bank has. Only
when no chain has any, and the query has words, the best BM25 matches (bm25s, Lucene's weights) are taken.
Entries join the block in that order while they fit; a page of the shop that does not fit is cut after its last
whole field, any other entry is left out, and where it would not fit alone its chain goes on. A retriever holds
the bank's entries rendered and counted, so a keyed retrieval is a few look-ups.

An entry that only the prediction's own task stands behind does not exist for it. So a model in training meets
memory as it will in evaluation, where no entry comes from its task: otherwise nearly every training prompt
would hold its own answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

import numpy as np

from wmlab.data.decompose import history_is_whole
from wmlab.errors import InputError
from wmlab.memory import keys, shop
from wmlab.memory.bank import Entry, Key, show_key
from wmlab.memory.guard import require_clean, task_hash
from wmlab.memory.keys import History, Query
from wmlab.memory.prompt import block_name, cut, render_block, render_entry

BUDGET = 512
"""Tokens: a results page of ten products takes about 330, a rule under 200 (``estimated_tokens``)."""
BM25_ENTRIES = 2
CHARACTERS_PER_TOKEN = 4
CountTokens = Callable[[str], int]


def estimated_tokens(text: str) -> int:
    """Tokens of a text where no tokenizer is given: a quarter of its characters, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def tokens_of(tokenizer: Any) -> CountTokens:
    """Counts what a text costs under a tokenizer, without special tokens."""

    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False))

    return count


@dataclass(frozen=True, slots=True)
class Match:
    """An entry found by a key of these ``fields``. ``level`` counts from 0, its chain's first key; -1 is BM25.

    ``status`` is ``used``, ``cut`` (used in part) or ``over_budget``.
    """

    entry_id: str
    fields: str
    chain: int
    level: int
    score: float | None
    status: str


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The block ("" for none), its tokens, and the record of how it came about.

    ``how`` is ``keyed``, ``bm25``, ``none`` or ``dropped`` (by task-level dropout); ``asked`` are the most specific keys of the chains.
    """

    block: str
    n_tokens: int
    how: str
    asked: tuple[Key, ...]
    matches: tuple[Match, ...]

    def record(self) -> dict[str, Any]:
        """The retrieval as a JSON object, without the block's text."""
        return {
            "how": self.how,
            "asked": [show_key(key) for key in self.asked],
            "n_tokens": self.n_tokens,
            "matches": [
                {
                    "entry_id": one.entry_id,
                    "fields": one.fields,
                    "chain": one.chain,
                    "level": one.level,
                    "score": one.score,
                    "status": one.status,
                }
                for one in self.matches
            ],
        }


DROPPED = Retrieval("", 0, "dropped", (), ())
"""What a task without memory gets."""


class Retriever:
    """A bank opened for retrieval. ``count_tokens`` counts what a text costs in the prompt."""

    def __init__(
        self,
        domain: str,
        entries: Iterable[Entry],
        *,
        budget: int = BUDGET,
        count_tokens: CountTokens = estimated_tokens,
        excluded: frozenset[str] = frozenset(),
        bm25_entries: int = BM25_ENTRIES,
        source: object = "memory bank",
    ) -> None:
        """Take the entries. InputError for a negative budget or an entry of an ``excluded`` task."""
        block_name(domain)
        if budget < 0 or bm25_entries < 0:
            raise InputError("memory: budget and bm25_entries must be at least 0")
        self.domain = domain
        self.budget = budget
        self.entries = sorted(entries, key=lambda one: one.id)
        require_clean(self.entries, excluded, source)
        self._count = count_tokens
        self._bm25_entries = bm25_entries
        self._at = {(one.kind, one.key): number for number, one in enumerate(self.entries)}
        self._fields = ["+".join(name for name, _ in one.key) for one in self.entries]
        self._rendered = [render_entry(domain, one) for one in self.entries]
        self._sizes = [count_tokens(text + "\n") for text in self._rendered]
        self._frame = count_tokens(render_block(domain, [""]))
        # Entries of one task only, by position: that task does not see them.
        self._only = [one.task_hashes[0] if len(one.task_hashes) == 1 else None for one in self.entries]
        self._task = lru_cache(maxsize=4_096)(lambda system: task_hash([{"content": system}]))
        self._cuts = domain == "webshop"
        self._blocks = lru_cache(maxsize=65_536)(self._compose)

    def holding(self, entries: Iterable[Entry]) -> Retriever:
        """The same retrieval over other entries, whose tasks are not checked."""
        return Retriever(
            self.domain,
            entries,
            budget=self.budget,
            count_tokens=self._count,
            bm25_entries=self._bm25_entries,
        )

    def query(self, history: History, action: str) -> Query:
        """What a prediction asks for."""
        if self.domain == "webshop":
            return shop.query(history)
        return keys.query(self.domain, history, action)

    def retrieve(self, history: History) -> Retrieval:
        """The memory of the next prediction; ``history`` ends with the action, in world-model roles."""
        query = self.query(history, history[-1]["content"])
        found: list[tuple[int, int, int, float | None]] = []
        for number, chain in enumerate(query.chains):
            for level, probe in enumerate(chain):
                at = self._at.get(probe)
                if at is None or self._is_own(at, history):
                    continue
                found.append((at, number, level, None))
                if self._cuts or self._frame + self._sizes[at] <= self.budget:
                    break  # else the next more general entry may fit
        how = "keyed" if found else "none"
        if not found and query.words and self.entries and self._bm25_entries:
            found = [(at, -1, -1, score) for at, score in self._nearest(query, history)]
            how = "bm25" if found else "none"
        block, n_tokens, used = self._blocks(tuple(at for at, *_ in found))
        matches = tuple(
            Match(
                self.entries[at].id,
                self._fields[at],
                chain,
                level,
                score,
                status,
            )
            for (at, chain, level, score), status in zip(found, used, strict=True)
        )
        return Retrieval(block, n_tokens, how, tuple([c[0][1] for c in query.chains]), matches)

    def _is_own(self, at: int, history: History) -> bool:
        """Whether the task of ``history`` alone stands behind the entry at this position."""
        only = self._only[at]
        return only is not None and only == self._task(history[0]["content"])

    def _compose(self, positions: tuple[int, ...]) -> tuple[str, int, tuple[str, ...]]:
        """Block, tokens, and per entry how much of it is in."""
        total = self._frame
        used: list[str] = []
        texts: list[str] = []
        for at in positions:
            text, size, status = self._rendered[at], self._sizes[at], "used"
            if total + size > self.budget and self._cuts:
                room = self.budget - total
                text = cut(text, lambda shorter, room=room: self._count(shorter + "\n") <= room)  # type: ignore[misc]
                size, status = self._count(text + "\n"), "cut"
            fits = bool(text) and total + size <= self.budget
            used.append(status if fits else "over_budget")
            if fits:
                texts.append(text)
                total += size
        # Parts were counted one by one; a tokenizer may count their whole differently.
        while texts:
            block = render_block(self.domain, texts)
            n_tokens = self._count(block)
            if n_tokens <= self.budget:
                return block, n_tokens, tuple(used)
            texts.pop()
            last = max(place for place, status in enumerate(used) if status != "over_budget")
            used[last] = "over_budget"
        return "", 0, tuple(used)

    @cached_property
    def _searchable(self) -> tuple[Any, dict[str, int], list[int]]:
        """Scorer, vocabulary, and the position of each document: entries as words of key and text."""
        import bm25s

        chosen = [at for at, one in enumerate(self.entries) if self._may_search(one)]
        documents = [_words(self._document(self.entries[at])) for at in chosen]
        vocabulary: dict[str, int] = {}
        ids = [[vocabulary.setdefault(word, len(vocabulary)) for word in words] for words in documents]
        if not vocabulary:
            return None, {}, []
        scorer = bm25s.BM25(method="lucene")
        scorer.index((ids, vocabulary), show_progress=False)
        return scorer, vocabulary, chosen

    def _may_search(self, entry: Entry) -> bool:
        return self.domain != "webshop" or shop.kind_of_page(entry.key) in shop.SEARCHED

    def _document(self, entry: Entry) -> str:
        """Rules are searched by key alone; a page by its key and what it lists."""
        said = " ".join(value for _, value in entry.key)
        return f"{said} {entry.positive}" if self.domain == "webshop" else said

    def _nearest(self, query: Query, history: History) -> list[tuple[int, float]]:
        """Positions and scores of the best matches that the history's task may see, best first, ties by id."""
        scorer, vocabulary, chosen = self._searchable
        ids = [vocabulary[word] for word in dict.fromkeys(_words(query.words)) if word in vocabulary]
        if not ids:
            return []
        scores = np.asarray(scorer.get_scores_from_ids(ids))
        order = np.lexsort((np.arange(len(scores)), -scores))
        allowed = (
            (chosen[int(i)], round(float(scores[i]), 6))
            for i in order
            if scores[i] > 0
            and not self._is_own(chosen[int(i)], history)
            and (not query.pages or shop.kind_of_page(self.entries[chosen[int(i)]].key) == query.pages)
        )
        return list(islice(allowed, self._bm25_entries))


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() else " " for c in text.casefold()).split()


def check_row(domain: str, row: Mapping[str, Any], source: object, number: int) -> None:
    """Raise InputError for a transition row that is broken or of another domain."""
    if row["transition_id"] is None or row["task_id"] is None or not history_is_whole(row["history"]):
        raise InputError.at(source, "a field is null", "decompose the trajectories again", number)
    if row["domain"] != domain:
        raise InputError.at(source, f"domain {row['domain']!r}, not {domain!r}", "give one domain", number)


def retrievals(
    retriever: Retriever, rows: Iterable[Mapping[str, Any]], source: object
) -> Iterator[tuple[str, Retrieval]]:
    """(transition_id, its memory) of transition rows, in order. InputError for a broken or a foreign row."""
    for number, row in enumerate(rows):
        check_row(retriever.domain, row, source, number)
        yield row["transition_id"], retriever.retrieve(row["history"])


def coverage(retrievals: Sequence[Retrieval]) -> dict[str, Any]:
    """Counts over prompts: how they were answered, and matches used per set of key fields."""
    levels: dict[str, int] = {}
    how = {"keyed": 0, "bm25": 0, "none": 0, "dropped": 0}
    for one in retrievals:
        how[one.how] += 1
        for match in one.matches:
            name = "bm25" if match.level < 0 else match.fields
            name = name if match.status != "over_budget" else match.status
            levels[name] = levels.get(name, 0) + 1
    return {
        "prompts": len(retrievals),
        **how,
        "with_block": sum(bool(one.block) for one in retrievals),
        "mean_tokens": sum(one.n_tokens for one in retrievals) / len(retrievals) if retrievals else None,
        "levels": dict(sorted(levels.items())),
    }


def find(entries: Iterable[Entry], key: Mapping[str, str]) -> list[Entry]:
    """Entries whose key holds all fields of ``key``, best supported first; all of them for an empty one."""
    wanted = set(key.items())
    return sorted((one for one in entries if wanted <= set(one.key)), key=lambda one: (-one.support, one.id))
