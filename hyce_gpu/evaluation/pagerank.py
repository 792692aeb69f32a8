"""Personalised PageRank over entities and passages, as HippoRAG 2 retrieves, on the graph of our store.

Knows sparse matrices. Nodes are the V entities, followed by the C chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hyce_gpu.errors import MissingBackendError
from hyce_gpu.store import Store

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

DAMPING = 0.5
SYNONYM_SIMILARITY = 0.8
TOLERANCE = 1e-8
MOST_STEPS = 100
_TILE = 2048


def sparse() -> Any:
    try:
        import scipy.sparse
    except ImportError as error:
        raise MissingBackendError(
            f"scipy cannot be imported ({error}); install it with: pip install 'hyce-gpu[eval]'"
        ) from error
    return scipy.sparse


def naming(store: Store, chunk_ids: Sequence[str]) -> csr_matrix:
    """Which chunk names which entity [C, V], 0 or 1: each source of a hyperedge names all of its members."""
    number = {name: place for place, name in enumerate(chunk_ids)}
    hypergraph = store.hypergraph()
    pointer, member = hypergraph.member_pointer.tolist(), hypergraph.member.numpy()
    pairs = [
        (number[source["chunk_id"]], member[pointer[edge] : pointer[edge + 1]])
        for edge in range(hypergraph.num_hyperedges)
        for source in store.hyperedge(edge)["sources"]
    ]
    rows = np.repeat([chunk for chunk, _ in pairs], [len(members) for _, members in pairs]).astype(np.int64)
    columns = np.concatenate([members for _, members in pairs]) if pairs else np.zeros(0, np.int64)
    shape = (len(chunk_ids), store.counts["entities"])
    names = sparse().csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)
    # The constructor adds up pairs that several hyperedges give.
    names.data[:] = 1
    return names


def synonyms(vectors: np.ndarray, threshold: float = SYNONYM_SIMILARITY) -> csr_matrix:
    """Cosines of the pairs of different entities that are at least the threshold [V, V], symmetric.

    Args:
        vectors: unit vectors [V, d]; no more than a tile of rows is compared at once.
    """
    rows, columns, values = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
    for start in range(0, len(vectors), _TILE):
        cosine = vectors[start : start + _TILE] @ vectors.T
        row, column = np.nonzero(cosine >= threshold)
        # One half decides for both, since products of the two orders may differ in their last bit.
        upper = row + start < column
        rows.append(row[upper] + start)
        columns.append(column[upper])
        values.append(cosine[row[upper], column[upper]].astype(np.float64))
    where = np.concatenate(rows), np.concatenate(columns)
    half = sparse().csr_matrix((np.concatenate(values), where), shape=(len(vectors), len(vectors)))
    return half + half.T


def transition(names: csr_matrix, alike: csr_matrix) -> csr_matrix:
    """The graph's column-stochastic matrix [V + C, V + C]; columns of nodes without edges are zero."""
    graph = sparse().bmat([[alike, names.T], [names, None]], format="csr")
    degree = np.asarray(graph.sum(axis=0)).ravel()
    return graph @ sparse().diags(np.divide(1, degree, out=np.zeros_like(degree), where=degree > 0))


def personalised_pagerank(matrix: csr_matrix, seeds: np.ndarray, damping: float = DAMPING) -> np.ndarray:
    """c = (1 - damping)·r + damping·M c for each question, where r is its seeds, scaled to sum to one.

    Power iteration until c moves by less than 1e-8 in the 1-norm, at most 100 steps. What nodes without edges would
    hand back to the seeds is left out: it scales all of c alike, and ranks stay the same.

    Args:
        seeds: non-negative weights [nodes, Q]; a column of zeros gives zeros.
    """
    total = seeds.sum(axis=0)
    restart = np.divide(seeds, total, out=np.zeros_like(seeds, dtype=np.float64), where=total > 0)
    rank: np.ndarray = restart.copy()
    # A question that has converged rests: its result must not depend on the others of its batch.
    moving = np.arange(seeds.shape[1])
    for _ in range(MOST_STEPS):
        if not len(moving):
            break
        before = rank[:, moving]
        after = (1 - damping) * restart[:, moving] + damping * (matrix @ before)
        rank[:, moving] = after
        moving = moving[np.abs(after - before).sum(axis=0) >= TOLERANCE]
    return rank
