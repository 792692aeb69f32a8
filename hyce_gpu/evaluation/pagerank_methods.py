"""PageRank as a method: which entities and passages a question seeds, and the passages by their rank.

Seeds: the entities of the nearest hyperedges, with `mentions` also those that the question names, each divided by the
number of passages that name it; every passage a little, by its similarity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hyce_serving.encoder import Encoder

from hyce_gpu.entry import NameLinker
from hyce_gpu.evaluation import pagerank
from hyce_gpu.evaluation.chunk_paths import ChunkPaths, falling
from hyce_gpu.schema import Answer, Question
from hyce_gpu.store import Store

NEAREST_HYPEREDGES = 5
PASSAGE_WEIGHT = 0.05
MENTION_WEIGHT = 3.0


class PageRank:
    def __init__(self, store: Store, encoder: Encoder, paths: ChunkPaths, mentions: bool) -> None:
        self.name = "ppr-mentions" if mentions else "ppr"
        self._store, self._encoder, self._paths, self._mentions = store, encoder, paths, mentions
        pagerank.sparse()

    def describe(self) -> Mapping[str, Any]:
        return {
            "damping": pagerank.DAMPING,
            "synonym_similarity": pagerank.SYNONYM_SIMILARITY,
            "nearest_hyperedges": NEAREST_HYPEREDGES,
            "passage_weight": PASSAGE_WEIGHT,
            "mention_weight": MENTION_WEIGHT if self._mentions else 0.0,
        }

    def load(self) -> None:
        hypergraph = self._store.hypergraph()
        self._pointer, self._member = hypergraph.member_pointer.tolist(), hypergraph.member.numpy()
        # Not the rows of chunks without hyperedges.
        self._edges = np.flatnonzero(hypergraph.member_pointer.diff().numpy())
        self._hyperedge_vectors = hypergraph.hyperedge_vectors.numpy()[self._edges]
        self._chunk_vectors = np.asarray(self._store.chunk_vectors())
        names = pagerank.naming(self._store, [source.chunk_id for source in self._paths.sources])
        self._matrix = pagerank.transition(names, pagerank.synonyms(hypergraph.entity_vectors.numpy()))
        # How many passages name each entity; an entity that none names is in no hyperedge.
        self._frequency = np.maximum(np.asarray(names.sum(axis=0)).ravel(), 1)
        self._linker = NameLinker(*self._store.names_and_aliases())
        self._encoder.encode(["warm"])

    def retrieve(self, questions: Sequence[Question]) -> list[Answer]:
        vectors = self._encoder.encode([question.text for question in questions])
        seeds = [self._seeds(question.text, vector) for question, vector in zip(questions, vectors, strict=True)]
        rank = pagerank.personalised_pagerank(self._matrix, np.stack(seeds, axis=1)) if seeds else np.zeros((0, 0))
        chunks = rank[len(self._frequency) :].T
        return [self._answer(question, score) for question, score in zip(questions, chunks, strict=True)]

    def _answer(self, question: Question, score: np.ndarray) -> Answer:
        # Ranks sum to one over the whole graph; the prompt shows scores from 0 to 1.
        return self._paths.answer(question, falling(score), score / max(score.max(), 1e-300), "pagerank")

    def _seeds(self, question: str, vector: np.ndarray) -> np.ndarray:
        """The weights of one question [V + C]."""
        entities = np.zeros(len(self._frequency))
        similarity = np.clip((self._hyperedge_vectors @ vector).astype(np.float64), 0, 1)
        for place in falling(similarity)[:NEAREST_HYPEREDGES]:
            edge = self._edges[place]
            entities[self._member[self._pointer[edge] : self._pointer[edge + 1]]] += similarity[place]
        if self._mentions:
            entities[self._linker.link(self._linker.mentions(question))] += MENTION_WEIGHT
        passages = scaled((self._chunk_vectors @ vector).astype(np.float64))
        return np.concatenate((entities / self._frequency, PASSAGE_WEIGHT * passages))


def scaled(values: np.ndarray) -> np.ndarray:
    """Min-max normalisation to [0, 1]; equal values all become 1."""
    spread = np.ptp(values)
    return (values - values.min()) / spread if spread > 0 else np.ones_like(values)
