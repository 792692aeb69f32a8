"""Corpora of any size for benchmarks: skewed degrees, passages about an entity, topics in the vectors. No texts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from hyce_gpu import Config, reason
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.passages import Terms
from hyce_gpu.reasoning import Reasoning
from hyce_gpu.vector_index import Indexes, VectorIndex

# As spaCy makes them of the MuSiQue passages: hyperedges a passage, entities a hyperedge, words a hyperedge.
EDGES_A_PASSAGE, SHARE_OF_ENTITIES, WORDS = 3, 1.6, 15
VOCABULARY = 30_000
# Exponent of popularity by rank, for entities and for words; 1 is Zipf's law.
ENTITY_SKEW, WORD_SKEW = 0.75, 1.0


@dataclass(frozen=True)
class Questions:
    vectors: np.ndarray  # [Q, d] float32, unit length
    # What the question names itself: an entity and some words of the hyperedge that it asks about.
    mentioned: list[list[int]]
    terms: list[list[int]]

    def part(self, part: slice) -> Questions:
        return Questions(self.vectors[part], self.mentioned[part], self.terms[part])


def corpus(num_hyperedges: int, dimension: int = 384, seed: int = 0) -> Hypergraph:
    """A hypergraph with 1.6 entities a hyperedge, 2 to 8 entities in each, as float32 vectors."""
    rng = np.random.default_rng(seed)
    num_entities = int(num_hyperedges * SHARE_OF_ENTITIES)
    num_passages = max(1, num_hyperedges // EDGES_A_PASSAGE)
    passage = np.sort(rng.integers(0, num_passages, num_hyperedges))
    subject = rng.permutation(num_entities)[:num_passages]
    pointer, member = _members(rng, passage, subject, num_entities)
    topic = rng.integers(0, max(1, int(num_passages**0.5)), num_passages)
    centres = _unit(rng.standard_normal((topic.max() + 1, dimension), dtype=np.float32))
    passages = _around(rng, centres[topic])
    hyperedges = _around(rng, passages[passage])
    home = rng.integers(0, num_passages, num_entities)
    term_pointer, term = _words(rng, num_hyperedges)
    return Hypergraph.from_arrays(
        num_entities, torch.from_numpy(pointer), torch.from_numpy(member),
        torch.from_numpy(rng.uniform(0.5, 1, num_hyperedges)), torch.from_numpy(rng.uniform(0, 1, num_hyperedges)),
        torch.from_numpy(_around(rng, passages[home])), torch.from_numpy(hyperedges),
        torch.from_numpy(passage), torch.from_numpy(subject), torch.from_numpy(passages),
        Terms.from_arrays(term_pointer, term, np.ones(len(term), dtype=np.int32), VOCABULARY),
    )  # fmt: skip


def questions(hypergraph: Hypergraph, count: int, seed: int = 1) -> Questions:
    """Questions near a hyperedge each, naming its rarest entity and five of its words."""
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, hypergraph.num_hyperedges, count)
    vectors = _around(rng, hypergraph.hyperedge_vectors.numpy()[edges])
    degree, terms = hypergraph.passages.degree, hypergraph.terms
    rows = [hypergraph.member[hypergraph.member_pointer[e] : hypergraph.member_pointer[e + 1]] for e in edges]
    named = [[int(row[degree[row].argmin()])] for row in rows]
    words = [sorted(set(terms.term[terms.pointer[e] : terms.pointer[e + 1]][:5].tolist())) for e in edges]
    return Questions(vectors, named, words)


def retrieve(
    hypergraph: Hypergraph,
    index: VectorIndex,
    asked: Questions,
    config: Config,
    backend: str = "auto",
    indexes: Indexes | None = None,
) -> list[Reasoning]:
    """From question vectors to evidence, the search of entry entities included. `index`: of the entity vectors."""
    near = index.nearest(asked.vectors, config.entry_entities)
    entry = [[*named, *ids] for named, ids in zip(asked.mentioned, near, strict=True)]
    return reason(hypergraph, entry, asked.vectors, config, backend, query_terms=asked.terms, indexes=indexes)


def _members(
    rng: np.random.Generator, passage: np.ndarray, subject: np.ndarray, num_entities: int
) -> tuple[np.ndarray, np.ndarray]:
    """Bᵀ as CSR: the passage's subject and 1 to 7 others, popular ones more often."""
    size = rng.integers(1, 8, len(passage))
    owner = np.repeat(np.arange(len(passage)), size)
    # Popularity by rank, ranks dealt to entities at random.
    drawn = rng.permutation(num_entities)[_skewed(rng, len(owner), num_entities, ENTITY_SKEW)]
    keys = np.concatenate((owner * num_entities + drawn, np.arange(len(passage)) * num_entities + subject[passage]))
    keys = np.unique(keys)
    counts = np.bincount(keys // num_entities, minlength=len(passage))
    return np.concatenate(([0], np.cumsum(counts))), keys % num_entities


def _words(rng: np.random.Generator, num_hyperedges: int) -> tuple[np.ndarray, np.ndarray]:
    drawn = _skewed(rng, num_hyperedges * WORDS, VOCABULARY, WORD_SKEW)
    keys = np.unique(np.repeat(np.arange(num_hyperedges), WORDS) * VOCABULARY + drawn)
    counts = np.bincount(keys // VOCABULARY, minlength=num_hyperedges)
    return np.concatenate(([0], np.cumsum(counts))), (keys % VOCABULARY).astype(np.int32)


def _skewed(rng: np.random.Generator, count: int, kinds: int, exponent: float) -> np.ndarray:
    share = np.arange(1, kinds + 1, dtype=np.float64) ** -exponent
    total = np.cumsum(share / share.sum())
    return np.minimum(np.searchsorted(total, rng.random(count)), kinds - 1)


def _around(rng: np.random.Generator, centres: np.ndarray) -> np.ndarray:
    """A unit vector near each centre: cosine about 0.7."""
    scale = np.float32(centres.shape[1] ** -0.5)
    return _unit(centres + scale * rng.standard_normal(centres.shape, dtype=np.float32))


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
