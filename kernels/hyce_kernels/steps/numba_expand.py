"""Frontier expansion under a budget as loops, a thread a question. See `contract.Steps.expand`.

The thread walks on products that may be a little off and computes a similarity exactly only where it decides: at the
edge of the budget, and among the best.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from hyce_kernels.steps.numba_rows import bounds_of
from hyce_kernels.steps.numba_scores import similarity

_EPSILON = 1e-12


# Bins of a score, which lies between 0 and 1, to find a border without sorting.
_BINS = 4096


@njit(cache=True, nogil=True, parallel=True)
def expand(
    member_pointer: np.ndarray,
    member: np.ndarray,
    incident_pointer: np.ndarray,
    incident: np.ndarray,
    entry_segment: np.ndarray,
    entry: np.ndarray,
    questions: np.ndarray,
    vectors: np.ndarray,
    near: np.ndarray,
    first: int,
    hops: int,
    budget: int,
    beta: float,
    margin: float,
    threads: int,
    best: np.ndarray,
    score: np.ndarray,
    count: np.ndarray,
    cut: np.ndarray,
) -> None:
    """Writes the best of the questions from number `first` on, best first, into best, score [Q, keep].

    Args:
        near: products that are at most half of `margin` off [T, E].
        count, cut: how many each question has, and whether the budget left any out [Q].
    """
    num_edges, num_entities = len(member_pointer) - 1, len(incident_pointer) - 1
    entry_bounds = bounds_of(entry_segment, len(questions))
    for thread in prange(threads):
        # A stamp is the number of a question and hop: nothing is ever cleared, and nothing allocated in the loop. Small
        # numbers, since this is a walk through memory: what fits in the cache decides.
        state, visited = np.zeros(num_edges, dtype=np.int32), np.zeros(num_entities, dtype=np.int32)
        frontier = np.empty(num_entities, dtype=np.int32)
        kept, work = np.empty(num_edges, dtype=np.int32), np.empty(num_edges, dtype=np.int32)
        share, rough = np.zeros(num_edges), np.empty(num_edges)
        for local in range(thread, len(near), threads):
            number, stamp = first + local, (local + 1) * (hops + 2)
            question, is_kept = questions[number], stamp + hops + 1
            entries = entry[entry_bounds[number] : entry_bounds[number + 1]]
            frontier[: len(entries)] = entries
            visited[entries] = stamp
            num_frontier, num_kept = len(entries), 0
            for hop in range(hops):
                every = _reach(
                    frontier[:num_frontier], incident_pointer, incident, state, stamp + hop, is_kept, kept, num_kept
                )
                _score(
                    kept[num_kept:every], member_pointer, member, visited, stamp, hop, near[local], beta, share, rough
                )
                num_old, num_kept = num_kept, every
                if every > budget:
                    cut[number] = True
                    state[kept[:num_old]] = 0
                    # The old ones that stay come first.
                    num_kept, num_old = _take(
                        kept, num_old, every, budget, share, rough, question, vectors, beta, margin, work
                    )
                state[kept[:num_kept]] = is_kept
                num_frontier = _onward(kept[num_old:num_kept], member_pointer, member, visited, stamp, frontier)
            count[number] = min(best.shape[1], num_kept)
            _take(kept, 0, num_kept, count[number], share, rough, question, vectors, beta, margin, work)
            _write(kept[: count[number]], share, question, vectors, beta, best[number], score[number])


@njit(cache=True, nogil=True)
def _reach(
    frontier: np.ndarray, incident_pointer: np.ndarray, incident: np.ndarray, state: np.ndarray, is_reached: int,
    is_kept: int, kept: np.ndarray, num_kept: int,
) -> int:  # fmt: skip
    """Adds the hyperedges around the frontier that are not kept yet; returns how many there are then."""
    for v in frontier:
        for place in range(incident_pointer[v], incident_pointer[v + 1]):
            edge = incident[place]
            if state[edge] != is_kept and state[edge] != is_reached:
                state[edge] = is_reached
                kept[num_kept] = edge
                num_kept += 1
    return num_kept


@njit(cache=True, nogil=True)
def _score(
    edges: np.ndarray, member_pointer: np.ndarray, member: np.ndarray, visited: np.ndarray, stamp: int, hop: int,
    near: np.ndarray, beta: float, share: np.ndarray, rough: np.ndarray,
) -> None:  # fmt: skip
    """The share of each hyperedge's entities that are entries, which only the first hop meets, and its rough score."""
    for edge in edges:
        share[edge] = 0.0
        if hop == 0:
            first, last = member_pointer[edge], member_pointer[edge + 1]
            held = 0
            for one in range(first, last):
                held += visited[member[one]] == stamp
            share[edge] = held / (last - first + _EPSILON)
        rough[edge] = beta * share[edge] + (1 - beta) * min(1.0, max(0.0, near[edge]))


@njit(cache=True, nogil=True)
def _onward(
    fresh: np.ndarray, member_pointer: np.ndarray, member: np.ndarray, visited: np.ndarray, stamp: int,
    frontier: np.ndarray,
) -> int:  # fmt: skip
    """The entities of new hyperedges that were never in the frontier become it; returns how many."""
    count = 0
    for edge in fresh:
        for place in range(member_pointer[edge], member_pointer[edge + 1]):
            if visited[member[place]] != stamp:
                visited[member[place]] = stamp
                frontier[count] = member[place]
                count += 1
    return count


@njit(cache=True, nogil=True)
def _exact(edge: int, share: float, question: np.ndarray, vectors: np.ndarray, beta: float) -> float:
    alike = np.zeros(1, dtype=vectors.dtype)
    if vectors.shape[1]:
        # Rounded to the type of the vectors, as `pair_products` does.
        alike[0] = similarity(question, vectors[edge])
    return beta * share + (1 - beta) * np.float64(alike[0])


@njit(cache=True, nogil=True)
def _border(edges: np.ndarray, rough: np.ndarray, k: int) -> tuple[float, float]:
    """Between which two numbers the k-th best rough score lies."""
    bins = np.zeros(_BINS + 1, dtype=np.int64)
    for edge in edges:
        bins[int(rough[edge] * _BINS)] += 1
    place = _BINS
    seen = bins[place]
    while seen < k:
        place -= 1
        seen += bins[place]
    return place / _BINS, (place + 1) / _BINS


@njit(cache=True, nogil=True)
def _take(
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
    # Ranked as 32-bit numbers, ties by lower id: by id first, then by a stable sort.
    near_border = np.sort(work[:unsure])
    falling = np.empty(unsure, dtype=np.float32)
    for place in range(unsure):
        falling[place] = -np.float32(_exact(near_border[place], share[near_border[place]], question, vectors, beta))
    order = np.argsort(falling, kind="mergesort")
    # A rough score no edge has marks those that go.
    for place in range(k - sure, unsure):
        rough[near_border[order[place]]] = -1.0
    total, old = 0, 0
    for place in range(num_edges):
        if rough[kept[place]] >= low - margin:
            kept[total] = kept[place]
            total += 1
            old += place < num_old
    return total, old


@njit(cache=True, nogil=True)
def _write(
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
