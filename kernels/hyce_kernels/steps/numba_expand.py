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
from hyce_kernels.steps.numba_ending import overflows, settle
from hyce_kernels.steps.numba_reach import from_the_best, reach, sampled
from hyce_kernels.steps.numba_rows import bounds_of
from hyce_kernels.steps.search import EPSILON

# Where the budget holds fewer than one hyperedge of so many, few neighbours are strong, and asking them settles little.
_RARE = 16
# Above zero, and lost in any sum.
_TINY = np.float32(1e-30)


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
    entry_bounds, may_settle = bounds_of(entry_segment, len(questions)), num_edges <= _RARE * budget
    for thread in prange(threads):
        # A stamp is the number of a question and hop: nothing is ever cleared, and nothing allocated in the loop. Small
        # numbers, since this is a walk through memory: what fits in the cache decides.
        state, visited = np.zeros(num_edges, dtype=np.int32), np.zeros(num_entities, dtype=np.int32)
        frontier = np.empty(num_entities + 1, dtype=np.int32)
        kept, work = np.empty(num_edges, dtype=np.int32), np.empty(num_edges + 1, dtype=np.int32)
        share, sample = np.zeros(num_edges), np.empty(BINS + 1, dtype=np.int32)
        for local in range(thread, len(near), threads):
            number, stamp, rough = first + local, (local + 1) * (hops + 2), near[local]
            question, is_kept = questions[number], stamp + hops + 1
            entries = entry[entry_bounds[number] : entry_bounds[number + 1]]
            frontier[: len(entries)] = entries
            visited[entries] = stamp
            _begin(
                entries, incident_pointer, incident, member_pointer, member, visited, stamp, beta, margin, share, rough
            )
            stride = sampled(rough, sample)
            num_frontier, num_old, num_kept, is_cut, is_behind = len(entries), 0, 0, False, False
            for hop in range(hops):
                if may_settle and hop == hops - 2 and (
                    is_cut
                    or overflows(
                        frontier[:num_frontier], incident_pointer, incident, state, stamp + hop, is_kept, num_kept,
                        budget, work,
                    )
                ):  # fmt: skip
                    is_cut = True
                    every = settle(
                        rough, sample, stride, keep, budget, margin, member_pointer, member, incident_pointer,
                        incident, visited, stamp, is_behind, state, is_kept, kept, work,
                    )  # fmt: skip
                    if every >= 0:
                        num_kept = every
                        break
                    if is_behind:
                        num_frontier = _onward(kept[num_old:num_kept], member_pointer, member, visited, stamp, frontier)
                # Nothing goes on from the last hop but what is wanted in the end, and few ask what was reached.
                is_end = is_cut and hop == hops - 1
                wanted = keep if is_end else budget
                if is_end or _is_wide(frontier[:num_frontier], incident_pointer, num_edges // 4 + wanted):
                    every, num_old = from_the_best(
                        rough, sample, stride, wanted, margin, member_pointer, member, incident_pointer, incident,
                        visited, stamp, state, is_kept, is_end, kept, num_kept, work,
                    )  # fmt: skip
                else:
                    num_old = num_kept
                    every = reach(
                        frontier[:num_frontier], incident_pointer, incident, rough, state, stamp + hop, is_kept, kept,
                        num_kept,
                    )  # fmt: skip
                num_kept = every
                if every > wanted:
                    is_cut = True
                    state[kept[:num_old]] = 0
                    # The old ones that stay come first.
                    num_kept, num_old = take(
                        kept, num_old, every, wanted, share, rough, question, vectors, beta, margin, work
                    )
                state[kept[:num_kept]] = is_kept
                # To settle the last two hops, the hyperedges that are kept are enough.
                is_behind = may_settle and is_cut and hop == hops - 3
                if not is_behind and hop < hops - (2 if is_cut else 1):
                    num_frontier = _onward(kept[num_old:num_kept], member_pointer, member, visited, stamp, frontier)
            cut[number], count[number] = is_cut, min(keep, num_kept)
            take(kept, 0, num_kept, count[number], share, rough, question, vectors, beta, margin, work)
            write(kept[: count[number]], share, question, vectors, beta, best[number], score[number])
            _forget(entries, incident_pointer, incident, share)


@njit(cache=True, nogil=True)
def _begin(
    entries: np.ndarray, incident_pointer: np.ndarray, incident: np.ndarray, member_pointer: np.ndarray,
    member: np.ndarray, visited: np.ndarray, stamp: int, beta: float, margin: float, share: np.ndarray,
    rough: np.ndarray,
) -> None:  # fmt: skip
    """Products become scores. Only the first hop meets hyperedges that hold entries: their share of them.

    Zero is left to those that surely score nothing: there may be many, and none of them has to be looked at again.
    """
    part, below = np.float32(1 - beta), np.float32(-margin)
    for edge in range(len(rough)):
        alike = min(np.float32(1), max(_TINY, rough[edge]))
        rough[edge] = part * alike if rough[edge] >= below else np.float32(0)
    for v in entries:
        for place in range(incident_pointer[v], incident_pointer[v + 1]):
            edge = incident[place]
            if share[edge] == 0:
                first, last = member_pointer[edge], member_pointer[edge + 1]
                held = 0
                for one in range(first, last):
                    held += visited[member[one]] == stamp
                share[edge] = held / (last - first + EPSILON)
                rough[edge] += beta * share[edge]


@njit(cache=True, nogil=True)
def _forget(entries: np.ndarray, incident_pointer: np.ndarray, incident: np.ndarray, share: np.ndarray) -> None:
    for v in entries:
        share[incident[incident_pointer[v] : incident_pointer[v + 1]]] = 0


@njit(cache=True, nogil=True)
def _is_wide(frontier: np.ndarray, incident_pointer: np.ndarray, limit: int) -> bool:
    """Whether the frontier has more than so many incidences."""
    total = 0
    for v in frontier:
        total += incident_pointer[v + 1] - incident_pointer[v]
        if total > limit:
            return True
    return False


@njit(cache=True, nogil=True)
def _onward(
    fresh: np.ndarray, member_pointer: np.ndarray, member: np.ndarray, visited: np.ndarray, stamp: int,
    frontier: np.ndarray,
) -> int:  # fmt: skip
    """The entities of new hyperedges that were never in the frontier become it; returns how many."""
    count = 0
    for edge in fresh:
        for place in range(member_pointer[edge], member_pointer[edge + 1]):
            v = member[place]
            frontier[count] = v
            count += visited[v] != stamp
            visited[v] = stamp
    return count
