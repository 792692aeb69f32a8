"""Which hyperedges a hop reaches, from the frontier on or from the best hyperedges down: loops of `numba_expand`."""

from __future__ import annotations

import numpy as np
from numba import njit

from hyce_kernels.steps.numba_border import BINS

# Scores that are looked at to guess how many lie above another, and what the guess leaves room for.
_SAMPLE, ROOM = 2048, 16
# Scores that are passed over together where all are too low.
_BLOCK = 64


@njit(cache=True, nogil=True)
def sampled(rough: np.ndarray, sample: np.ndarray) -> int:
    """Counts every so manieth score into bins; returns how manieth."""
    stride = max(1, len(rough) // _SAMPLE)
    sample[:] = 0
    for edge in range(0, len(rough), stride):
        sample[int(rough[edge] * BINS)] += 1
    return stride


@njit(cache=True, nogil=True)
def score_at(sample: np.ndarray, rank: int) -> float:
    """A score that about so many of the sample reach; 0 where it has fewer."""
    place = BINS
    seen = sample[place]
    while seen < rank and place > 0:
        place -= 1
        seen += sample[place]
    return place / BINS


@njit(cache=True, nogil=True)
def from_the_best(
    rough: np.ndarray, sample: np.ndarray, stride: int, k: int, margin: float, member_pointer: np.ndarray,
    member: np.ndarray, incident_pointer: np.ndarray, incident: np.ndarray, visited: np.ndarray, stamp: int,
    state: np.ndarray, is_kept: int, is_end: bool, kept: np.ndarray, num_kept: int, work: np.ndarray,
) -> tuple[int, int]:  # fmt: skip
    """Leaves in kept those that may be among the k best of the kept ones and those reached now, old ones first.

    Returns:
        (how many, how many old): more than k where, and only where, there are more than k to choose from.
    """
    aim, above, least, found = k + k // 4, -1, 1.0, 0
    while above <= k and least > 0:
        # As many more as the last time found too few.
        aim = aim if above < 0 else aim + max(ROOM + aim // 4, aim * (k - above) // max(above, 1))
        least = score_at(sample, aim // stride + ROOM)
        found = rows_from(rough, np.float32(least - margin), work)
        found = _reached_of(
            work, found, member_pointer, member, incident_pointer, incident, visited, stamp, state, is_kept, is_end
        )
        above = 0
        for place in range(found):
            above += rough[work[place]] >= least
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


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def number_from(rough: np.ndarray, border: float) -> int:
    """How many score at least `border`."""
    # As 32-bit numbers, exact up to 2^24, since the processor counts sixteen of those at a time.
    count = np.float32(0)
    for place in range(len(rough)):
        count += np.float32(rough[place] >= border)
    return int(count)


@njit(cache=True, nogil=True)
def rows_from(rough: np.ndarray, border: float, rows: np.ndarray) -> int:
    """Writes those that score at least `border` into rows; returns how many."""
    found = 0
    for start in range(0, len(rough), _BLOCK):
        block = rough[start : start + _BLOCK]
        if number_from(block, border):
            for place in range(len(block)):
                # Written in any case, and kept if it counts: no guess of the processor can go wrong.
                rows[found] = start + place
                found += block[place] >= border
    return found


@njit(cache=True, nogil=True)
def _reached_of(
    edges: np.ndarray, count: int, member_pointer: np.ndarray, member: np.ndarray, incident_pointer: np.ndarray,
    incident: np.ndarray, visited: np.ndarray, stamp: int, state: np.ndarray, is_kept: int, is_end: bool,
) -> int:  # fmt: skip
    """Leaves in front those of the first `count` that are reached and not kept yet; returns how many.

    At the end, the members of the newest hyperedges were not marked as visited: whoever shares one is reached.
    """
    found = 0
    for place in range(count):
        edge = edges[place]
        if state[edge] == is_kept:
            continue
        members, is_reached = member[member_pointer[edge] : member_pointer[edge + 1]], False
        for v in members:
            if visited[v] == stamp:
                is_reached = True
                break
        if is_end and not is_reached:
            is_reached = touches(members, incident_pointer, incident, state, is_kept)
        edges[found] = edge
        found += is_reached
    return found


@njit(cache=True, nogil=True)
def touches(
    members: np.ndarray, incident_pointer: np.ndarray, incident: np.ndarray, state: np.ndarray, is_kept: int
) -> bool:
    for v in members:
        for place in range(incident_pointer[v], incident_pointer[v + 1]):
            if state[incident[place]] == is_kept:
                return True
    return False


@njit(cache=True, nogil=True)
def reach(
    frontier: np.ndarray, incident_pointer: np.ndarray, incident: np.ndarray, rough: np.ndarray, state: np.ndarray,
    is_reached: int, is_kept: int, kept: np.ndarray, num_kept: int,
) -> int:  # fmt: skip
    """Adds the hyperedges around the frontier that are not kept yet; returns how many there are then."""
    for v in frontier:
        for place in range(incident_pointer[v], incident_pointer[v + 1]):
            edge = incident[place]
            # Below zero: left out by an earlier hop.
            if state[edge] != is_kept and state[edge] != is_reached and rough[edge] >= 0:
                state[edge] = is_reached
                kept[num_kept] = edge
                num_kept += 1
    return num_kept
