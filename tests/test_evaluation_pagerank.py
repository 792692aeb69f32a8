"""PageRank on graphs small enough to be solved by hand, and the seeds that a question gives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from hyce_gpu.evaluation import pagerank
from hyce_gpu.evaluation.pagerank import naming, personalised_pagerank, synonyms, transition
from hyce_gpu.evaluation.pagerank_methods import scaled
from hyce_gpu.store import Store

scipy_sparse = pytest.importorskip("scipy.sparse")

# One passage that names two entities: a and b, then the passage.
STAR = transition(scipy_sparse.csr_matrix(np.ones((1, 2))), scipy_sparse.csr_matrix((2, 2)))


def test_a_passage_hands_on_to_its_entities_in_equal_parts() -> None:
    assert STAR.toarray().tolist() == [[0, 0, 0.5], [0, 0, 0.5], [1, 1, 0]]


def test_the_fixed_point_of_a_star_worked_out_by_hand() -> None:
    # p = (a + b)/2, a = 1/2 + p/4, b = p/4: so p = 1/3.
    rank = personalised_pagerank(STAR, np.array([[2.0], [0], [0]]))
    assert rank[:, 0] == pytest.approx([7 / 12, 1 / 12, 1 / 3], abs=1e-8)


def test_it_agrees_with_the_closed_form() -> None:
    random = np.random.default_rng(3)
    names = scipy_sparse.csr_matrix(random.random((7, 9)) < 0.4, dtype=float)
    matrix = transition(names, synonyms(_unit(random.random((9, 3)))))
    seeds = random.random((16, 4))
    restart = seeds / seeds.sum(axis=0)
    expected = np.linalg.solve(np.eye(16) - 0.5 * matrix.toarray(), 0.5 * restart)
    assert np.abs(personalised_pagerank(matrix, seeds) - expected).max() < 1e-8


def test_a_question_does_not_depend_on_its_batch_and_no_seeds_give_zeros() -> None:
    seeds = np.array([[1.0, 0, 0.3], [0, 0, 0.1], [0, 0, 0.6]])
    together = personalised_pagerank(STAR, seeds)
    for column in range(3):
        assert (together[:, [column]] == personalised_pagerank(STAR, seeds[:, [column]])).all()
    assert not together[:, 1].any()


def test_a_node_without_edges_keeps_only_its_restart() -> None:
    lone = transition(scipy_sparse.csr_matrix((1, 1)), scipy_sparse.csr_matrix((1, 1)))
    assert personalised_pagerank(lone, np.array([[1.0], [3.0]]))[:, 0] == pytest.approx([0.125, 0.375])


@pytest.mark.parametrize("tile", [1, 2, 2048])
def test_synonyms_are_symmetric_pairs_over_the_threshold(monkeypatch: pytest.MonkeyPatch, tile: int) -> None:
    monkeypatch.setattr(pagerank, "_TILE", tile)
    vectors = np.array([[1, 0], [0.8, 0.6], [0, 1]], dtype=np.float32)
    found = synonyms(vectors, threshold=0.7).toarray()
    assert found == pytest.approx(np.array([[0, 0.8, 0], [0.8, 0, 0], [0, 0, 0]]), abs=1e-6)


def test_each_source_of_a_hyperedge_names_all_of_its_members_once() -> None:
    hypergraph = SimpleNamespace(member_pointer=torch.tensor([0, 2, 4, 4]), member=torch.tensor([0, 1, 0, 2]))
    hypergraph.num_hyperedges = 3
    sources = [[{"chunk_id": "x"}, {"chunk_id": "y"}], [{"chunk_id": "x"}], [{"chunk_id": "z"}]]
    store: Any = SimpleNamespace(
        hypergraph=lambda: hypergraph,
        hyperedge=lambda n: {"sources": sources[n]},
        counts={"entities": 3},
    )
    assert naming(cast(Store, store), ["x", "y", "z"]).toarray().tolist() == [[1, 1, 1], [1, 1, 0], [0, 0, 0]]


def test_min_max_normalisation() -> None:
    assert scaled(np.array([0.2, 0.6, 1.0])).tolist() == pytest.approx([0, 0.5, 1])
    assert scaled(np.array([0.2, 0.2])).tolist() == [1, 1]


def _unit(vectors: np.ndarray) -> np.ndarray:
    unit: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit
