"""The best of a question's hyperedges by scores that may be a little off, exactly: loops of `numba_expand`."""

from __future__ import annotations

import numpy as np
from numba import njit

from hyce_kernels.steps.numba_scores import similarity

# Bins of a score, which lies between 0 and 1, to find a border without sorting.
BINS = 4096


@njit(cache=True, nogil=True)
def _exact(edge: int, share: float, question: np.ndarray, vectors: np.ndarray, beta: float) -> float:
    # Rounded to the type of the vectors, as `pair_products` does.
    alike = vectors.dtype.type(similarity(question, vectors[edge]))
    return beta * share + (1 - beta) * np.float64(alike)


@njit(cache=True, nogil=True)
def _border(edges: np.ndarray, rough: np.ndarray, k: int) -> tuple[float, float]:
    """Between which two numbers the k-th best rough score lies."""
    bins = np.zeros(BINS + 1, dtype=np.int32)
    for edge in edges:
        bins[int(rough[edge] * BINS)] += 1
    place = BINS
    seen = bins[place]
    while seen < k:
        place -= 1
        seen += bins[place]
    return place / BINS, (place + 1) / BINS


@njit(cache=True, nogil=True)
def take(
    kept: np.ndarray, num_old: int, num_edges: int, k: int, share: np.ndarray, rough: np.ndarray, question: np.ndarray,
    vectors: np.ndarray, beta: float, margin: float, work: np.ndarray,
) -> tuple[int, int]:  # fmt: skip
    """Leaves exactly the k best edges in kept, ties by lower id, old ones first; returns (how many, how many old)."""
    if num_edges <= k:
        return num_edges, num_old
    if k == 0:
        return 0, 0
    low, high = _border(kept[:num_edges], rough, k)
    sure, unsure = 0, 0
    for place in range(num_edges):
        sure += rough[kept[place]] > high + margin
        if low - margin <= rough[kept[place]] <= high + margin:
            work[unsure] = kept[place]
            unsure += 1
    keys = _keys(work[:unsure], rough, share, question, vectors, beta)
    if k - sure < unsure:
        # A rough score no edge has marks those that go.
        for key in np.partition(keys, k - sure)[k - sure :]:
            rough[key & 0xFFFFFFFF] = -1.0
    total, old = 0, 0
    for place in range(num_edges):
        if rough[kept[place]] >= low - margin:
            kept[total] = kept[place]
            total += 1
            old += place < num_old
    return total, old


@njit(cache=True, nogil=True)
def _keys(
    edges: np.ndarray, rough: np.ndarray, share: np.ndarray, question: np.ndarray, vectors: np.ndarray, beta: float
) -> np.ndarray:
    """One number for each that orders by falling score, as 32 bits, then by id."""
    exact = np.zeros(len(edges), dtype=np.float32)
    for place in range(len(edges)):
        # Zero is left to those that surely score nothing.
        if rough[edges[place]] > 0:
            exact[place] = _exact(edges[place], share[edges[place]], question, vectors, beta)
    # Scores are not negative, so their bits ascend.
    keys: np.ndarray = ((0x7FFFFFFF - exact.view(np.int32).astype(np.int64)) << 32) + edges
    return keys


@njit(cache=True, nogil=True)
def write(
    edges: np.ndarray, share: np.ndarray, question: np.ndarray, vectors: np.ndarray, beta: float, best: np.ndarray,
    score: np.ndarray,
) -> None:  # fmt: skip
    edges = np.sort(edges)
    exact = np.empty(len(edges), dtype=np.float64)
    for place in range(len(edges)):
        exact[place] = _exact(edges[place], share[edges[place]], question, vectors, beta)
    order = np.argsort(-exact.astype(np.float32), kind="mergesort")
    for place in range(len(edges)):
        best[place], score[place] = edges[order[place]], exact[order[place]]
