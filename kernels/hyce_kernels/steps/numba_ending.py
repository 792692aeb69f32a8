"""The last two hops of an expansion without their budget, where the best can be told without: loops of `numba_expand`.

Strong is a hyperedge that fewer than `budget` of the whole corpus beat: once reached, the budget never leaves it out.
So of each of the best it is asked whether the frontier reaches it, or one of its strong neighbours. Whether a weak
neighbour stays, only the whole hop can tell: then nothing is settled here.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from hyce_kernels.steps.numba_border import BINS
from hyce_kernels.steps.numba_reach import number_from, rows_from, score_at, touches

# How often the guess of the strong is made again where it names too many.
_GUESSES = 4
# What the guess of the best leaves room for, in scores of the sample.
_ROOM = 6
# Neighbours of one hyperedge that are looked at: a hub has tens of thousands.
_NEIGHBOURS = 256
_NO, _MAYBE, _YES = 0, 1, 2


@njit(cache=True, nogil=True)
def overflows(
    frontier: np.ndarray, incident_pointer: np.ndarray, incident: np.ndarray, state: np.ndarray, is_reached: int,
    is_kept: int, num_kept: int, budget: int, work: np.ndarray,
) -> bool:  # fmt: skip
    """Whether the frontier reaches more than the budget holds beside what is kept."""
    room, fresh = budget - num_kept, 0
    for v in frontier:
        if fresh > room:
            break
        for place in range(incident_pointer[v], incident_pointer[v + 1]):
            edge = incident[place]
            # Written in any case, and kept if it counts: no guess of the processor can go wrong.
            work[fresh] = edge
            if state[edge] != is_kept and state[edge] != is_reached:
                state[edge] = is_reached
                fresh += 1
    state[work[:fresh]] = 0
    return fresh > room


@njit(cache=True, nogil=True)
def settle(
    rough: np.ndarray, sample: np.ndarray, stride: int, keep: int, budget: int, margin: float,
    member_pointer: np.ndarray, member: np.ndarray, incident_pointer: np.ndarray, incident: np.ndarray,
    visited: np.ndarray, stamp: int, is_behind: bool, state: np.ndarray, is_kept: int, kept: np.ndarray,
    work: np.ndarray,
) -> int:  # fmt: skip
    """Leaves in kept those that may be among the `keep` best after two more hops; -1 where that is not settled.

    At least `keep` of them are there, and surely reached. With `is_behind`, the members of the newest kept ones were
    not marked as visited: whoever shares one is near.
    """
    strong = _strong_from(rough, sample, stride, budget, margin)
    aim, sure = keep + keep // 4, 0
    while True:
        least = score_at(sample, aim // stride + _ROOM)
        found = rows_from(rough, np.float32(least - margin), work)
        sure, above, doubtful = 0, 0, np.float32(-1)
        for place in range(found):
            edge = work[place]
            reached = _is_reached(
                edge, rough, strong, member_pointer, member, incident_pointer, incident, visited, stamp, is_behind,
                state, is_kept,
            )  # fmt: skip
            if reached == _MAYBE:
                doubtful = max(doubtful, rough[edge])
            work[sure] = edge
            sure += reached == _YES
            above += reached == _YES and rough[edge] >= least
        if above >= keep:
            break
        if least <= strong:
            return -1
        aim += max(_ROOM * stride + aim // 4, aim * (keep - above) // max(above, 1))
    if doubtful >= np.partition(rough[work[:sure]], sure - keep)[sure - keep] - margin:
        return -1
    kept[:sure] = work[:sure]
    return sure


@njit(cache=True, nogil=True)
def _strong_from(rough: np.ndarray, sample: np.ndarray, stride: int, budget: int, margin: float) -> float:
    """A rough score from which on all are strong."""
    aim, border = budget - budget // 16, 1.0
    for _ in range(_GUESSES):
        # Those without any score are no less than one another.
        border = max(score_at(sample, aim // stride), 1 / BINS)
        count = number_from(rough, np.float32(border))
        if count <= budget:
            # Whoever beats one of them cannot lie lower than that.
            return border + margin
        aim = aim * budget // count - aim // 16
    return 2.0


@njit(cache=True, nogil=True)
def _is_reached(
    edge: int, rough: np.ndarray, strong: float, member_pointer: np.ndarray, member: np.ndarray,
    incident_pointer: np.ndarray, incident: np.ndarray, visited: np.ndarray, stamp: int, is_behind: bool,
    state: np.ndarray, is_kept: int,
) -> int:  # fmt: skip
    near = incident_pointer, incident, visited, stamp, is_behind, state, is_kept
    members = member[member_pointer[edge] : member_pointer[edge + 1]]
    if state[edge] == is_kept or _is_near(members, *near):
        return _YES
    answer, looked = _NO, 0
    for v in members:
        for place in range(incident_pointer[v], incident_pointer[v + 1]):
            if looked == _NEIGHBOURS:
                return _MAYBE
            other, looked = incident[place], looked + 1
            # Below zero: left out by an earlier hop.
            if rough[other] >= 0 and _is_near(member[member_pointer[other] : member_pointer[other + 1]], *near):
                if rough[other] >= strong:
                    return _YES
                answer = _MAYBE
    return answer


@njit(cache=True, nogil=True)
def _is_near(
    members: np.ndarray, incident_pointer: np.ndarray, incident: np.ndarray, visited: np.ndarray, stamp: int,
    is_behind: bool, state: np.ndarray, is_kept: int,
) -> bool:  # fmt: skip
    for v in members:
        if visited[v] == stamp:
            return True
    return is_behind and touches(members, incident_pointer, incident, state, is_kept)
