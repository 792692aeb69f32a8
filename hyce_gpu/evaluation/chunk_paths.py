"""Ranked chunks of a store → evidence paths, for every method that ranks passages rather than hyperedges.

Knows texts and where they stand. Knows nothing of how the chunks were ranked.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from hyce_gpu.schema import Answer, EvidencePath, Question, Source
from hyce_gpu.store import Store

# Distinct passages that a ranking names where the corpus has as many; recall is measured up to 15.
DISTINCT_PASSAGES = 20


class ChunkPaths:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._wanted = min(DISTINCT_PASSAGES, store.counts["documents"])

    @cached_property
    def sources(self) -> list[Source]:
        """Where each chunk stands, by its number."""
        return self._store.chunk_sources()

    def texts(self) -> list[str]:
        """Each chunk with its title, by its number: what lexical methods read."""
        return [
            f"{self._store.title(source.doc_id)} {self._text(number)}" for number, source in enumerate(self.sources)
        ]

    def answer(self, question: Question, ranking: Iterable[int], score: np.ndarray, term: str) -> Answer:
        """The ranking as a "retrieved" answer.

        Args:
            ranking: chunk numbers, best first; it is read until it has named enough distinct passages.
            score: of each chunk [C].
            term: what the score is made of.
        """
        numbers = self._leading(ranking)
        paths = tuple(self._path(rank, number, float(score[number]), term) for rank, number in enumerate(numbers, 1))
        return Answer(question.id, question.text, "retrieved", paths=paths)

    def _leading(self, ranking: Iterable[int]) -> list[int]:
        """The first chunks, and after them only those that bring a new passage: long documents have many chunks."""
        kept: list[int] = []
        passages: set[str] = set()
        for number in ranking:
            passage = self.sources[number].doc_id
            if len(kept) < DISTINCT_PASSAGES or passage not in passages:
                kept.append(number)
                passages.add(passage)
            if len(kept) >= DISTINCT_PASSAGES and len(passages) >= self._wanted:
                break
        return kept

    def _path(self, rank: int, number: int, score: float, term: str) -> EvidencePath:
        source = (self.sources[number],)
        return EvidencePath(rank, "text", score, {term: score}, 0.0, (), self._text(number), (), source)

    def _text(self, number: int) -> str:
        return self._store.chunk(number)[1]


def falling(score: np.ndarray) -> list[int]:
    """Places of the scores [n] from the highest to the lowest, ties by lower place."""
    order: list[int] = np.argsort(-score, kind="stable").tolist()
    return order
