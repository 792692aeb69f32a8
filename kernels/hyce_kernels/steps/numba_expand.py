"""Frontier expansion under a budget as loops, a thread a question. See `contract.Steps.expand`.

The thread walks on scores that may be a little off and computes a similarity exactly only where it decides: at the
edge of the budget, and among the best. Where a frontier touches much of the corpus, it goes the other way round: from
the best hyperedges down, asking of each whether it was reached, until there are as many as are wanted. What an earlier
hop left out is asked again, and left out again: the border only rises.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from hyce_kernels.steps.numba_border import BINS, take, write
from hyce_kernels.steps.numba_rows import bounds_of

_EPSILON = 1e-12
# Scores that are looked at to guess how many lie above another, and what the guess leaves room for.
_SAMPLE, _ROOM = 2048, 16
# Scores that are passed over together where all are too low.
_BLOCK = 64


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
        near: products that are at most half of `margin` off [T, E] float32; overwritten with rough scores.
        count, cut: how many each question has, and whether the budget left any out [Q].
    """
    num_edges, num_entities, keep = len(member_pointer) - 1, len(incident_pointer) - 1, best.shape[1]
    entry_bounds = bounds_of(entry_segment, len(questions))
    for thread in prange(threads):
        # A stamp is the number of a question and hop: nothing is ever cleared, and nothing allocated in the loop. Small
        # numbers, since this is a walk through memory: what fits in the cache decides.
        state, visited = np.zeros(num_edges, dtype=np.int32), np.zeros(num_entities, dtype=np.int32)
        frontier = np.empty(num_entities, dtype=np.int32)
        kept, work = np.empty(num_edges, dtype=np.int32), np.empty(num_edges, dtype=np.int32)
        share, sample = np.zeros(num_edges), np.empty(BINS + 1, dtype=np.int32)
        for local in range(thread, len(near), threads):
            number, stamp, rough = first + local, (local + 1) * (hops + 2), near[local]
            question, is_kept = questions[number], stamp + hops + 1
            entries = entry[entry_bounds[number] : entry_bounds[number + 1]]
            frontier[: len(entries)] = entries
            visited[entries] = stamp
            _begin(entries, incident_pointer, incident, member_pointer, member, visited, stamp, beta, share, rough)
            stride = _sampled(rough, sample)
            num_frontier, num_kept, is_cut = len(entries), 0, False
            for hop in range(hops):
                # Nothing goes on from the last hop but what is wanted in the end.
                wanted = keep if is_cut and hop == hops - 1 else budget
                if _work_ahead(frontier[:num_frontier], incident_pointer) > num_edges // 4 + wanted:
                    every, num_old = _from_the_best(
                        rough,
                        sample,
                        stride,
                        wanted,
                        margin,
                        member_pointer,
                        member,
                        visited,
                        stamp,
                        state,
                        is_kept,
                        kept,
                        num_kept,
                        work,
                    )
                else:
                    num_old = num_kept
                    every = _reach(
                        frontier[:num_frontier], incident_pointer, incident, state, stamp + hop, is_kept, kept, num_kept
                    )
                num_kept = every
                if every > wanted:
                    is_cut = True
                    state[kept[:num_old]] = 0
                    # The old ones that stay come first.
                    num_kept, num_old = take(
                        kept, num_old, every, wanted, share, rough, question, vectors, beta, margin, work
                    )
                if hop < hops - 1:
                    state[kept[:num_kept]] = is_kept
                    num_frontier = _onward(kept[num_old:num_kept], member_pointer, member, visited, stamp, frontier)
            cut[number], count[number] = is_cut, min(keep, num_kept)
            take(kept, 0, num_kept, count[number], share, rough, question, vectors, beta, margin, work)
            write(kept[: count[number]], share, question, vectors, beta, best[number], score[number])
            _forget(entries, incident_pointer, incident, share)


@njit(cache=True, nogil=True)
def _begin(
    entries: np.ndarray, incident_pointer: np.ndarray, incident: np.ndarray, member_pointer: np.ndarray,
    member: np.ndarray, visited: np.ndarray, stamp: int, beta: float, share: np.ndarray, rough: np.ndarray,
) -> None:  # fmt: skip
    """Products become scores. Only the first hop meets hyperedges that hold entries: their share of them."""
    part = rough.dtype.type(1 - beta)
    for edge in range(len(rough)):
        rough[edge] = part * min(np.float32(1), max(np.float32(0), rough[edge]))
    for v in entries:
        for place in range(incident_pointer[v], incident_pointer[v + 1]):
            edge = incident[place]
            if share[edge] == 0:
                first, last = member_pointer[edge], member_pointer[edge + 1]
                held = 0
                for one in range(first, last):
                    held += visited[member[one]] == stamp
                share[edge] = held / (last - first + _EPSILON)
                rough[edge] += beta * share[edge]


@njit(cache=True, nogil=True)
def _forget(entries: np.ndarray, incident_pointer: np.ndarray, incident: np.ndarray, share: np.ndarray) -> None:
    for v in entries:
        share[incident[incident_pointer[v] : incident_pointer[v + 1]]] = 0


@njit(cache=True, nogil=True)
def _work_ahead(frontier: np.ndarray, incident_pointer: np.ndarray) -> int:
    total = 0
    for v in frontier:
        total += incident_pointer[v + 1] - incident_pointer[v]
    return total


@njit(cache=True, nogil=True)
def _sampled(rough: np.ndarray, sample: np.ndarray) -> int:
    """Counts every so manieth score into bins; returns how manieth."""
    stride = max(1, len(rough) // _SAMPLE)
    sample[:] = 0
    for edge in range(0, len(rough), stride):
        sample[int(rough[edge] * BINS)] += 1
    return stride


@njit(cache=True, nogil=True)
def _score_at(sample: np.ndarray, rank: int) -> float:
    """A score that about so many of the sample reach; below all of them where it has fewer."""
    place = BINS
    seen = sample[place]
    while seen < rank and place > 0:
        place -= 1
        seen += sample[place]
    return place / BINS if place > 0 else -1.0


@njit(cache=True, nogil=True)
def _from_the_best(
    rough: np.ndarray, sample: np.ndarray, stride: int, k: int, margin: float, member_pointer: np.ndarray,
    member: np.ndarray, visited: np.ndarray, stamp: int, state: np.ndarray, is_kept: int, kept: np.ndarray,
    num_kept: int, work: np.ndarray,
) -> tuple[int, int]:  # fmt: skip
    """Leaves in kept those that may be among the k best of the kept ones and those reached now, old ones first.

    Returns:
        (how many, how many old): more than k where, and only where, there are more than k to choose from.
    """
    aim, above, least, found = k + k // 2, -1, 1.0, 0
    while above <= k and least >= 0:
        # As many more as the last time found too few.
        aim = aim if above < 0 else aim + max(aim // 4, aim * (k - above) // max(above, 1))
        least = _score_at(sample, aim // stride + _ROOM)
        found, above = _reached_from(rough, least, margin, member_pointer, member, visited, stamp, state, is_kept, work)
        for place in range(num_kept):
            above += rough[kept[place]] >= least
    old = 0
    for place in range(num_kept):
        edge = kept[place]
        if rough[edge] >= least - margin:
            kept[old] = edge
            old += 1
        else:
            state[edge] = 0
    kept[old : old + found] = work[:found]
    return old + found, old


@njit(cache=True, nogil=True)
def _reached_from(
    rough: np.ndarray, least: float, margin: float, member_pointer: np.ndarray, member: np.ndarray,
    visited: np.ndarray, stamp: int, state: np.ndarray, is_kept: int, work: np.ndarray,
) -> tuple[int, int]:  # fmt: skip
    """The reached hyperedges from `least` - `margin` on that are not kept yet.

    Returns:
        (how many, how many from `least` on).
    """
    found, above = 0, 0
    border = np.float32(least - margin)
    for start in range(0, len(rough), _BLOCK):
        block = rough[start : start + _BLOCK]
        some = 0
        for score in block:
            some += score >= border
        if some == 0:
            continue
        for place in range(len(block)):
            edge = start + place
            if block[place] >= border and state[edge] != is_kept:
                for one in range(member_pointer[edge], member_pointer[edge + 1]):
                    if visited[member[one]] == stamp:
                        work[found] = edge
                        found += 1
                        above += block[place] >= least
                        break
    return found, above


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
