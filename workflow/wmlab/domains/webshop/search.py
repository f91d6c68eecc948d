"""BM25 over a catalogue of any size: the index is built in bounded memory and read memory-mapped.

bm25s keeps every document's tokens in memory while it builds, which the 1.18M official products do not
allow; the builder here spills postings to disk and scatters them, term by term, into the arrays that bm25s
scores from. Weights are Lucene's BM25 (k1 0.9, b 0.4), with document lengths rounded as Lucene stores them.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections import Counter
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wmlab.domains.webshop.analysis import analyse

K1, B = 0.9, 0.4
HITS = 50
CHUNK = 2_000_000
"""Postings held in memory while building (12 bytes each, four times that while a chunk is sorted)."""
Array = npt.NDArray[Any]


def lucene_length(length: int) -> int:
    """A document length as Lucene keeps it in one byte: exact below 40, then three bits after the first."""
    if length < 24:
        return length
    rest = length - 24
    shift = max(rest.bit_length() - 4, 0)
    return 24 + (rest >> shift << shift)


def _empty() -> tuple[array[int], array[int], array[int], array[int]]:
    """Term, document and count of each posting; length of each document."""
    return array("i"), array("i"), array("i"), array("i")


class IndexBuilder:
    """Takes documents one by one; ``finish`` writes the index. Memory: one chunk and the vocabulary."""

    def __init__(self, folder: Path, *, exact_lengths: bool = False, chunk: int = CHUNK) -> None:
        self.folder = folder
        self.exact_lengths = exact_lengths
        self.chunk = chunk
        self._terms: dict[str, int] = {}
        self._lengths: list[Array] = []
        self._n_tokens = 0
        self._pending = _empty()
        self._n_documents = 0
        self._spilled: list[Path] = []
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, text: str) -> None:
        """Index the next document."""
        words = analyse(text)
        terms, documents, counts, lengths = self._pending
        found = Counter(words)
        terms.extend([self._terms.setdefault(term, len(self._terms)) for term in found])
        documents.extend([self._n_documents] * len(found))
        counts.extend(found.values())
        lengths.append(len(words) if self.exact_lengths else lucene_length(len(words)))
        self._n_tokens += len(words)
        self._n_documents += 1
        if len(terms) >= self.chunk:
            self._spill()

    def _spill(self) -> None:
        terms, documents, counts, lengths = (np.array(values, np.int32) for values in self._pending)
        self._lengths.append(lengths)
        self._pending = _empty()
        order = np.argsort(terms, kind="stable")
        path = self.folder / f"chunk{len(self._spilled)}.npy"
        np.save(path, np.stack([terms[order], documents[order], counts[order]]))
        self._spilled.append(path)

    def finish(self, database: sqlite3.Connection) -> None:
        """Write data, indices and indptr (bm25s's arrays) and the table ``terms`` of ``database``."""
        self._spill()
        n_terms = len(self._terms)
        lengths = np.concatenate(self._lengths).astype(np.float32)
        mean = max(self._n_tokens / max(self._n_documents, 1), 1e-9)
        norms = K1 * (1 - B + B * lengths / np.float32(mean))
        frequency = np.zeros(n_terms, np.int64)
        for path in self._spilled:
            frequency += np.bincount(np.load(path, mmap_mode="r")[0], minlength=n_terms)
        idf = np.log1p((self._n_documents - frequency + 0.5) / (frequency + 0.5)).astype(np.float32)
        indptr = np.concatenate([[0], np.cumsum(frequency)]).astype(np.int64)
        free = indptr[:-1].copy()
        total = (int(indptr[-1]),)
        data = np.lib.format.open_memmap(self.folder / "data.npy", "w+", np.float32, total)
        indices = np.lib.format.open_memmap(self.folder / "indices.npy", "w+", np.int32, total)
        for path in self._spilled:
            terms, documents, counts = np.load(path)
            first = np.searchsorted(terms, terms)  # where each posting's term starts in this sorted chunk
            places = free[terms] + np.arange(len(terms)) - first
            indices[places] = documents
            data[places] = idf[terms] * (counts / (counts + norms[documents]))
            free += np.bincount(terms, minlength=n_terms)
            path.unlink()
        data.flush()
        indices.flush()
        np.save(self.folder / "indptr.npy", indptr)
        np.save(self.folder / "n_documents.npy", np.int64(self._n_documents))
        database.execute("CREATE TABLE terms (term TEXT PRIMARY KEY, id INTEGER) WITHOUT ROWID")
        database.executemany("INSERT INTO terms VALUES (?, ?)", sorted(self._terms.items()))


class Searcher:
    """Ranks documents for a query; ties go to the earlier document."""

    def __init__(self, folder: Path, database: sqlite3.Connection) -> None:
        self.folder = folder
        self.database = database
        self.hits = lru_cache(maxsize=4096)(self._hits)
        self._id = lru_cache(maxsize=100_000)(self._find)

    @cached_property
    def _scorer(self) -> Any:
        import bm25s

        scorer = bm25s.BM25(method="lucene", k1=K1, b=B)
        arrays = {
            name: np.load(self.folder / f"{name}.npy", mmap_mode="r").view(np.ndarray)
            for name in ("data", "indices", "indptr")
        }
        scorer.scores = {**arrays, "num_docs": int(np.load(self.folder / "n_documents.npy"))}
        scorer.nonoccurrence_array = None
        return scorer

    def _find(self, term: str) -> int | None:
        row = self.database.execute("SELECT id FROM terms WHERE term = ?", (term,)).fetchone()
        return None if row is None else int(row[0])

    def scores(self, query: str) -> Array | None:
        """The score of every document, float32 (n_documents,); None when no term is known."""
        ids = [found for term in analyse(query) if (found := self._id(term)) is not None]
        return np.asarray(self._scorer.get_scores_from_ids(ids)) if ids else None

    def _hits(self, query: str) -> tuple[int, ...]:
        """Positions of the best documents, at most HITS, best first."""
        scores = self.scores(query)
        return () if scores is None else tuple(best(scores, HITS))


def best(scores: Array, n: int) -> Sequence[int]:
    """Positions of the ``n`` largest positive scores, descending, ties by position."""
    kept = np.flatnonzero(scores > 0)
    if len(kept) > n:  # few documents share a word with the query: cheaper than ordering the zeros too
        values = scores[kept]
        kept = kept[values >= np.partition(values, len(values) - n)[len(values) - n]]
    found: list[int] = kept[np.lexsort((kept, -scores[kept]))][:n].tolist()
    return found
