"""Frontier expansion under a budget as loops, a thread a question. See `contract.Steps.expand`.

The thread walks on products that may be a little off and computes a similarity exactly only where it decides: at the
edge of the budget, and among the best.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from hyce_kernels.steps.numba_scores import similarity

_EPSILON = 1e-12


@njit(cache=True, nogil=True, parallel=True)
def expand(
    member_pointer: np.ndarray,
    member: np.ndarray,
    incident_pointer: np.ndarray,
    incident: np.ndarray,
    entry_bounds: np.ndarray,
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
    for thread in prange(threads):
        # A stamp is the number of a question and hop: nothing is ever cleared.
        reached = np.zeros(len(member_pointer) - 1, dtype=np.int64)
        kept_at = np.zeros(len(member_pointer) - 1, dtype=np.int64)
        visited = np.zeros(len(incident_pointer) - 1, dtype=np.int64)
        for local in range(thread, len(near), threads):
            number, stamp = first + local, (local + 1) * (hops + 1)
            frontier = entry[entry_bounds[number] : entry_bounds[number + 1]]
            kept, shares, is_cut = _search(
                member_pointer, member, incident_pointer, incident, frontier, questions[number], vectors, near[local],
                hops, budget, beta, margin, reached, kept_at, visited, stamp,
            )  # fmt: skip
            cut[number] = is_cut
            count[number] = min(best.shape[1], len(kept))
            stays = _best(kept, shares, near[local], questions[number], vectors, beta, margin, count[number])
            _write(kept, shares, stays, questions[number], vectors, beta, best[number], score[number])


@njit(cache=True, nogil=True)
def _search(
    member_pointer: np.ndarray,
    member: np.ndarray,
    incident_pointer: np.ndarray,
    incident: np.ndarray,
    frontier: np.ndarray,
    question: np.ndarray,
    vectors: np.ndarray,
    near: np.ndarray,
    hops: int,
    budget: int,
    beta: float,
    margin: float,
    reached: np.ndarray,
    kept_at: np.ndarray,
    visited: np.ndarray,
    stamp: int,
) -> tuple[np.ndarray, np.ndarray, bool]:
    """The hyperedges that one question keeps, the share of their entities that are entries, and whether it was cut."""
    kept, shares, cut = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float64), False
    visited[frontier] = stamp
    for hop in range(hops):
        fresh = _reach(frontier, incident_pointer, incident, reached, kept_at, stamp, hop)
        share = _entry_share(fresh, member_pointer, member, visited, stamp, hop)
        every, every_share = np.concatenate((kept, fresh)), np.concatenate((shares, share))
        if len(every) > budget:
            cut = True
            stays = _best(every, every_share, near, question, vectors, beta, margin, budget)
            kept_at[kept] = 0
            fresh = every[stays[stays >= len(kept)]]
            every, every_share = every[stays], every_share[stays]
        kept, shares = every, every_share
        kept_at[kept] = stamp
        frontier = _onward(fresh, member_pointer, member, visited, stamp)
    return kept, shares, cut


@njit(cache=True, nogil=True)
def _reach(
    frontier: np.ndarray, incident_pointer: np.ndarray, incident: np.ndarray, reached: np.ndarray, kept_at: np.ndarray,
    stamp: int, hop: int,
) -> np.ndarray:  # fmt: skip
    """The hyperedges around the frontier that are not kept yet."""
    room = 0
    for v in frontier:
        room += incident_pointer[v + 1] - incident_pointer[v]
    found = np.empty(room, dtype=np.int64)
    count = 0
    for v in frontier:
        for place in range(incident_pointer[v], incident_pointer[v + 1]):
            edge = incident[place]
            if kept_at[edge] != stamp and reached[edge] != stamp + hop:
                reached[edge] = stamp + hop
                found[count] = edge
                count += 1
    return found[:count]


@njit(cache=True, nogil=True)
def _entry_share(
    edges: np.ndarray, member_pointer: np.ndarray, member: np.ndarray, visited: np.ndarray, stamp: int, hop: int
) -> np.ndarray:
    """The share of each hyperedge's entities that are entries: only the first hop meets them, and only them."""
    share = np.zeros(len(edges), dtype=np.float64)
    for place in range(len(edges) if hop == 0 else 0):
        first, last = member_pointer[edges[place]], member_pointer[edges[place] + 1]
        held = 0
        for one in range(first, last):
            held += visited[member[one]] == stamp
        share[place] = held / (last - first + _EPSILON)
    return share


@njit(cache=True, nogil=True)
def _onward(
    fresh: np.ndarray, member_pointer: np.ndarray, member: np.ndarray, visited: np.ndarray, stamp: int
) -> np.ndarray:
    room = 0
    for edge in fresh:
        room += member_pointer[edge + 1] - member_pointer[edge]
    found = np.empty(room, dtype=np.int64)
    count = 0
    for edge in fresh:
        for place in range(member_pointer[edge], member_pointer[edge + 1]):
            if visited[member[place]] != stamp:
                visited[member[place]] = stamp
                found[count] = member[place]
                count += 1
    return found[:count]


@njit(cache=True, nogil=True)
def _exact(edge: int, overlap: float, question: np.ndarray, vectors: np.ndarray, beta: float) -> float:
    alike = np.zeros(1, dtype=vectors.dtype)
    if vectors.shape[1]:
        # Rounded to the type of the vectors, as `pair_products` does.
        alike[0] = similarity(question, vectors[edge])
    return beta * overlap + (1 - beta) * np.float64(alike[0])


@njit(cache=True, nogil=True)
def _best(
    edges: np.ndarray,
    overlaps: np.ndarray,
    near: np.ndarray,
    question: np.ndarray,
    vectors: np.ndarray,
    beta: float,
    margin: float,
    k: int,
) -> np.ndarray:
    """Places of the k best edges, in no order: exactly those, ties by lower id."""
    if k == 0 or len(edges) <= k:
        return np.arange(min(len(edges), k) if k else 0)
    rough = np.empty(len(edges), dtype=np.float64)
    for place in range(len(edges)):
        rough[place] = beta * overlaps[place] + (1 - beta) * min(1.0, max(0.0, near[edges[place]]))
    edge_of_k = np.partition(rough, len(rough) - k)[len(rough) - k]
    sure = np.flatnonzero(rough > edge_of_k + margin)
    unsure = np.flatnonzero((rough <= edge_of_k + margin) & (rough >= edge_of_k - margin))
    # Ranked as 32-bit numbers, ties by lower id: by id first, then by a stable sort.
    unsure = unsure[np.argsort(edges[unsure])]
    exact = np.empty(len(unsure), dtype=np.float32)
    for place in range(len(unsure)):
        one = unsure[place]
        exact[place] = np.float32(_exact(edges[one], overlaps[one], question, vectors, beta))
    chosen = unsure[np.argsort(-exact, kind="mergesort")[: k - len(sure)]]
    return np.concatenate((sure, chosen))


@njit(cache=True, nogil=True)
def _write(
    edges: np.ndarray,
    overlaps: np.ndarray,
    stays: np.ndarray,
    question: np.ndarray,
    vectors: np.ndarray,
    beta: float,
    best: np.ndarray,
    score: np.ndarray,
) -> None:
    stays = stays[np.argsort(edges[stays])]
    exact = np.empty(len(stays), dtype=np.float64)
    for place in range(len(stays)):
        exact[place] = _exact(edges[stays[place]], overlaps[stays[place]], question, vectors, beta)
    order = np.argsort(-exact.astype(np.float32), kind="mergesort")
    for place in range(len(stays)):
        best[place], score[place] = edges[stays[order[place]]], exact[order[place]]
