"""Similarities and overlaps as loops, a thread a pair or a question."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from hyce_kernels.steps.numba_rows import bounds_of, place_of


# The order of the sum is the compiler's: the same for every pair, whatever its batch.
@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _dot(left: np.ndarray, right: np.ndarray) -> float:
    total = 0.0
    for place in range(len(left)):
        total += np.float64(left[place]) * np.float64(right[place])
    return total


@njit(cache=True, nogil=True)
def similarity(left: np.ndarray, right: np.ndarray) -> float:
    """min(1, max(0, a·b)), summed in 64 bit; not yet rounded."""
    return min(1.0, max(0.0, _dot(left, right)))


@njit(cache=True, nogil=True, parallel=True)
def pair_products(
    questions: np.ndarray, vectors: np.ndarray, question: np.ndarray, row: np.ndarray, found: np.ndarray
) -> None:
    """Writes the similarity of each pair into `found` [P], of the type of the vectors."""
    for place in prange(len(row)):
        found[place] = similarity(questions[question[place]], vectors[row[place]])


@njit(cache=True, nogil=True, parallel=True)
def overlap(
    pointer: np.ndarray,
    values: np.ndarray,
    rows: np.ndarray,
    segment: np.ndarray,
    set_segment: np.ndarray,
    set_ids: np.ndarray,
    num_segments: int,
    weight: np.ndarray,
    value_weight: np.ndarray,
    takes_maximum: bool,
) -> np.ndarray:
    """`weight` and `value_weight` are empty where they are all one."""
    bounds = bounds_of(set_segment, num_segments)
    found = np.zeros(len(rows), dtype=np.float64)
    for place in prange(len(rows)):
        first, last = bounds[segment[place]], bounds[segment[place] + 1]
        total = 0.0
        if first < last:
            for one in range(pointer[rows[place]], pointer[rows[place] + 1]):
                if place_of(set_ids, first, last, values[one]) >= 0:
                    counted = 1.0
                    if len(weight):
                        counted *= weight[one]
                    if len(value_weight):
                        counted *= value_weight[values[one]]
                    total = max(total, counted) if takes_maximum else total + counted
        found[place] = total
    return found


@njit(cache=True, nogil=True)
def kth_largest(values: np.ndarray, k: int) -> float:
    """Of float32 values [M], 1 <= k <= M."""
    return np.partition(values, len(values) - k)[len(values) - k]


@njit(cache=True, nogil=True, parallel=True)
def nearest(
    questions: np.ndarray, vectors: np.ndarray, near: np.ndarray, first: int, k: int, margin: float, found: np.ndarray
) -> None:
    """The k nearest rows of the questions from number `first` on, exactly, into `found` [Q, k].

    Args:
        near: products that are at most half of `margin` off [T, M].
    """
    for one in prange(len(near)):
        least = kth_largest(near[one], k)
        # What is not above zero ties at zero: then every row is a candidate.
        least = least - margin if least > margin else -2.0
        count = 0
        for row in range(near.shape[1]):
            count += near[one, row] >= least
        rows, keys = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.float32)
        count = 0
        for row in range(near.shape[1]):
            if near[one, row] >= least:
                rows[count] = row
                # Rounded twice, as everywhere: to the type of the vectors, and to rank.
                keys[count] = np.float32(similarity(questions[first + one], vectors[row]))
                count += 1
        # Rows ascend, and the sort is stable: ties go to the lower one.
        order = np.argsort(-keys, kind="mergesort")
        for place in range(k):
            found[first + one, place] = rows[order[place]]
