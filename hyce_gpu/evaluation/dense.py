"""Dense retrieval: the chunks with the most similar vectors, by exact search with FAISS.

Knows vectors of chunks. Knows nothing of entities or hyperedges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from hyce_serving.encoder import Encoder

from hyce_gpu.evaluation.chunk_paths import ChunkPaths
from hyce_gpu.schema import Answer, Question
from hyce_gpu.store import Store
from hyce_gpu.vector_index import VectorIndex

# Chunks that the search gives first; a question whose chunks stand in too few documents is searched to the end.
_FIRST_DEPTH = 100


class Dense:
    name = "dense"

    def __init__(self, store: Store, encoder: Encoder, paths: ChunkPaths) -> None:
        self._store, self._encoder, self._paths = store, encoder, paths

    def describe(self) -> Mapping[str, Any]:
        return {"index": "FAISS IndexFlatIP", "text": "title and chunk"}

    def load(self) -> None:
        self._vectors = np.ascontiguousarray(self._store.chunk_vectors(), dtype=np.float32)
        self._index = VectorIndex.build(self._vectors, flat_up_to=len(self._vectors))
        assert self._paths.sources is not None
        self._encoder.encode(["warm"])

    def retrieve(self, questions: Sequence[Question]) -> list[Answer]:
        vectors = self._encoder.encode([question.text for question in questions])
        nearest = self._index.nearest(vectors, _FIRST_DEPTH)
        return [
            self._answer(question, vector, near)
            for question, vector, near in zip(questions, vectors, nearest, strict=True)
        ]

    def _answer(self, question: Question, vector: np.ndarray, near: Sequence[int]) -> Answer:
        score = np.clip(self._vectors @ vector, 0, 1)
        return self._paths.answer(question, self._ranking(vector, near), score, "similarity")

    def _ranking(self, vector: np.ndarray, near: Sequence[int]) -> Iterator[int]:
        yield from near
        if len(near) < len(self._vectors):
            (every,) = self._index.nearest(vector[None], len(self._vectors))
            known = set(near)
            yield from (number for number in every if number not in known)
