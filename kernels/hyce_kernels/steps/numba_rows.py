"""Ragged rows as loops, a thread a question: gathering, distinct pairs, membership, the best of each.

Arrays are NumPy int64 unless said otherwise; `bounds` [S+1] says where each segment's values start. Every thread writes
to its own slice, so that no result depends on their number.

A loop that is called from Python is called from no other loop: numba's cache mixes the two up ('descr' is NULL).
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange


@njit(cache=True, nogil=True)
def bounds_of(segment: np.ndarray, num_segments: int) -> np.ndarray:
    """Where each segment starts in sorted segment ids [M]."""
    bounds = np.zeros(num_segments + 1, dtype=np.int64)
    for one in segment:
        bounds[one + 1] += 1
    for place in range(num_segments):
        bounds[place + 1] += bounds[place]
    return bounds


@njit(cache=True, nogil=True)
def gather_rows(pointer: np.ndarray, values: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return _gather(pointer, values, rows)


@njit(cache=True, nogil=True, parallel=True)
def _gather(pointer: np.ndarray, values: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    offset = np.zeros(len(rows) + 1, dtype=np.int64)
    for place in range(len(rows)):
        offset[place + 1] = offset[place] + pointer[rows[place] + 1] - pointer[rows[place]]
    position = np.empty(offset[-1], dtype=np.int64)
    gathered = np.empty(offset[-1], dtype=values.dtype)
    for place in prange(len(rows)):
        start, target = pointer[rows[place]], offset[place]
        for one in range(offset[place + 1] - target):
            position[target + one] = place
            gathered[target + one] = values[start + one]
    return position, gathered


@njit(cache=True, nogil=True)
def _bucketed(segment: np.ndarray, ids: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """The ids, segment by segment."""
    free = bounds[:-1].copy()
    bucketed = np.empty(len(ids), dtype=np.int64)
    for place in range(len(ids)):
        bucketed[free[segment[place]]] = ids[place]
        free[segment[place]] += 1
    return bucketed


@njit(cache=True, nogil=True, parallel=True)
def distinct(segment: np.ndarray, ids: np.ndarray, num_segments: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    bounds = bounds_of(segment, num_segments)
    work = _bucketed(segment, ids, bounds)
    count = np.zeros(len(ids), dtype=np.int64)
    kept = np.zeros(num_segments + 1, dtype=np.int64)
    for one in prange(num_segments):
        kept[one + 1] = _squeeze(work[bounds[one] : bounds[one + 1]], count[bounds[one] : bounds[one + 1]])
    kept = np.cumsum(kept)
    to_segment, to_id = np.empty(kept[-1], dtype=np.int64), np.empty(kept[-1], dtype=np.int64)
    to_count = np.empty(kept[-1], dtype=np.int64)
    for one in prange(num_segments):
        for place in range(kept[one + 1] - kept[one]):
            to_segment[kept[one] + place] = one
            to_id[kept[one] + place] = work[bounds[one] + place]
            to_count[kept[one] + place] = count[bounds[one] + place]
    return to_segment, to_id, to_count


@njit(cache=True, nogil=True)
def _squeeze(values: np.ndarray, count: np.ndarray) -> int:
    """Sorts values in place, the distinct ones in front; returns how many there are."""
    values.sort()
    kept = 0
    for place in range(len(values)):
        if kept == 0 or values[place] != values[kept - 1]:
            values[kept] = values[place]
            kept += 1
        count[kept - 1] += 1
    return kept


@njit(cache=True, nogil=True)
def place_of(values: np.ndarray, first: int, last: int, wanted: int) -> int:
    """Where `wanted` stands in the sorted values[first:last]; -1 where it does not."""
    low, high = first, last
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < last and values[low] == wanted else -1


@njit(cache=True, nogil=True, parallel=True)
def contains(
    segment: np.ndarray, ids: np.ndarray, of_segment: np.ndarray, of_ids: np.ndarray, num_segments: int
) -> np.ndarray:
    bounds = bounds_of(of_segment, num_segments)
    found = np.empty(len(ids), dtype=np.bool_)
    for place in prange(len(ids)):
        one = segment[place]
        found[place] = place_of(of_ids, bounds[one], bounds[one + 1], ids[place]) >= 0
    return found


@njit(cache=True, nogil=True, parallel=True)
def merged(
    segment: np.ndarray, ids: np.ndarray, more_segment: np.ndarray, more_ids: np.ndarray, num_segments: int
) -> np.ndarray:
    first, second = bounds_of(segment, num_segments), bounds_of(more_segment, num_segments)
    order = np.empty(len(ids) + len(more_ids), dtype=np.int64)
    for one in prange(num_segments):
        left, right = first[one], second[one]
        for place in range(first[one] + second[one], first[one + 1] + second[one + 1]):
            if right == second[one + 1] or (left < first[one + 1] and ids[left] < more_ids[right]):
                order[place] = left
                left += 1
            else:
                order[place] = len(ids) + right
                right += 1
    return order


@njit(cache=True, nogil=True, parallel=True)
def top_per_segment(
    segment: np.ndarray, falling: np.ndarray, num_segments: int, k: int, tie: np.ndarray, has_tie: bool
) -> np.ndarray:
    """`falling` [M] int64 of 32 bits: lower is better; `tie` is read only with `has_tie`."""
    bounds = bounds_of(segment, num_segments)
    kept = np.zeros(num_segments + 1, dtype=np.int64)
    for one in range(num_segments):
        kept[one + 1] = kept[one] + min(k, bounds[one + 1] - bounds[one])
    best = np.empty(kept[-1], dtype=np.int64)
    for one in prange(num_segments):
        first, last = bounds[one], bounds[one + 1]
        if k == 1:
            if first < last:
                best[kept[one]] = _lowest(falling, tie, has_tie, first, last)
            continue
        order = _by_tie(tie[first:last]) if has_tie else np.arange(last - first)
        # One number that orders by score, then by the place in `order`.
        keys = (falling[first:last][order] << 32) + np.arange(last - first)
        count = kept[one + 1] - kept[one]
        if 2 * count < last - first:
            keys = np.partition(keys, count)[:count].copy()
        keys.sort()
        for place in range(count):
            best[kept[one] + place] = first + order[keys[place] & 0xFFFFFFFF]
    return best


@njit(cache=True, nogil=True)
def unit_members(pointer: np.ndarray, values: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    total = 0
    for row in rows:
        total += pointer[row + 1] - pointer[row] if row >= 0 else 0
    unit, found, total = np.empty(total, dtype=np.int64), np.empty(total, dtype=values.dtype), 0
    for place in range(len(rows)):
        if rows[place] >= 0:
            for one in range(pointer[rows[place]], pointer[rows[place] + 1]):
                unit[total], found[total] = place, values[one]
                total += 1
    return unit, found


@njit(cache=True, nogil=True)
def _lowest(falling: np.ndarray, tie: np.ndarray, has_tie: bool, first: int, last: int) -> int:
    best = first
    for place in range(first + 1, last):
        better = falling[place] < falling[best]
        if has_tie and falling[place] == falling[best]:
            better = tie[place] < tie[best]
        if better:
            best = place
    return best


@njit(cache=True, nogil=True)
def _by_tie(tie: np.ndarray) -> np.ndarray:
    for place in range(len(tie) - 1):
        if tie[place] > tie[place + 1]:
            return np.argsort(tie, kind="mergesort")
    return np.arange(len(tie))
