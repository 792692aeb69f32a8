"""The vector index: every row up to a size, an inverted file beyond it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hyce_gpu import Config, Hypergraph, reason
from hyce_gpu.errors import StoreError
from hyce_gpu.vector_index import Indexes, VectorIndex


def _clustered(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((40, 16), dtype=np.float32)
    rows = centres[rng.integers(0, 40, count)] + 0.3 * rng.standard_normal((count, 16), dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _nearest(vectors: np.ndarray, queries: np.ndarray, k: int) -> list[list[int]]:
    score = (queries.astype(np.float64) @ vectors.T.astype(np.float64)).astype(np.float32)
    return [np.lexsort((np.arange(len(vectors)), -row))[:k].tolist() for row in score]


def test_up_to_its_size_the_index_is_exact_and_ties_go_to_the_lower_row() -> None:
    vectors = np.concatenate((_clustered(500), _clustered(500)))
    index = VectorIndex.build(vectors)
    queries = _clustered(9, seed=1)
    assert index.is_exact
    assert index.nearest(queries, 7) == _nearest(vectors, queries, 7)
    # Every row stands there twice: the lower one comes first.
    assert index.nearest(vectors[3:4], 2) == [[3, 503]]


def test_beyond_its_size_the_index_reads_a_part_and_finds_nearly_all() -> None:
    vectors, queries = _clustered(6000), _clustered(50, seed=1)
    index = VectorIndex.build(vectors, flat_up_to=1000)
    assert not index.is_exact
    truth = _nearest(vectors, queries, 10)
    found = index.nearest(queries, 10)
    shared = sum(len(set(one) & set(other)) for one, other in zip(found, truth, strict=True))
    assert shared / 500 > 0.9
    assert index.recall(queries, 10) == shared / 500


def test_a_question_finds_the_same_alone_and_in_a_batch() -> None:
    index = VectorIndex.build(_clustered(6000), flat_up_to=1000)
    queries = _clustered(64, seed=1)
    together = index.nearest(queries, 10)
    assert [index.nearest(queries[row : row + 1], 10)[0] for row in range(64)] == together


def test_an_index_survives_the_disk_and_refuses_other_vectors(tmp_path: Path) -> None:
    vectors, queries = _clustered(3000), _clustered(5, seed=1)
    index = VectorIndex.build(vectors, flat_up_to=1000)
    index.write(tmp_path / "vectors.faiss")
    assert VectorIndex.open(tmp_path / "vectors.faiss", vectors, "cpu").nearest(queries, 4) == index.nearest(queries, 4)
    with pytest.raises(StoreError, match="holds 3000 vectors, expected 2999"):
        VectorIndex.open(tmp_path / "vectors.faiss", vectors[1:], "cpu")


def test_no_vectors_give_no_rows() -> None:
    assert VectorIndex.build(np.zeros((0, 16), dtype=np.float32)).nearest(_clustered(2), 3) == [[], []]
    assert VectorIndex.build(_clustered(5)).nearest(_clustered(2), 0) == [[], []]


def test_an_index_that_reads_all_its_lists_finds_the_same_evidence() -> None:
    hyperedges, entities, asked = _clustered(2000), _clustered(1000, 1), _clustered(20, 2)
    rng = np.random.default_rng(3)
    members = [rng.integers(0, 1000, 3).tolist() for _ in hyperedges]
    hypergraph = Hypergraph.from_members(1000, members, entity_vectors=entities, hyperedge_vectors=hyperedges)
    index = VectorIndex.build(hyperedges, flat_up_to=1000)
    index._index.nprobe = index._index.nlist
    config = Config.linked(nearest_hyperedges=50)
    entry = [[number] for number in range(20)]
    exact = reason(hypergraph, entry, asked, config)
    for backend in ("torch", "numba"):
        found = reason(hypergraph, entry, asked, config, backend, indexes=Indexes(hyperedges=index))
        assert [one.evidence for one in found] == [one.evidence for one in exact]
