"""Similarities and overlaps as loops, a thread a pair or a question."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from hyce_kernels.steps.numba_rows import bounds_of, place_of

# Pairs that one thread takes in a row.
_PAIRS = 64


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
    """Writes the similarity of each pair into `found` [P], of the type of the vectors.

    Args:
        questions: in 64 bit, so that they are not widened for every pair.
    """
    order = _by_row(row, len(vectors))
    for block in prange((len(row) + _PAIRS - 1) // _PAIRS):
        for at in range(block * _PAIRS, min(len(row), (block + 1) * _PAIRS)):
            place, before = order[at], order[at - 1]
            # The hyperedges of a passage all ask for its similarity, one after the other.
            if at % _PAIRS and row[place] == row[before] and question[place] == question[before]:
                found[place] = found[before]
            else:
                found[place] = similarity(questions[question[place]], vectors[row[place]])


@njit(cache=True, nogil=True)
def _by_row(row: np.ndarray, num_rows: int) -> np.ndarray:
    """Places by ascending row, where most rows are asked for: then each comes from memory once, not by question."""
    if len(row) < num_rows:
        return np.arange(len(row))
    free, order = bounds_of(row, num_rows), np.empty(len(row), dtype=np.int64)
    for place in range(len(row)):
        order[free[row[place]]] = place
        free[row[place]] += 1
    return order


@njit(cache=True, nogil=True, parallel=True, fastmath={"reassoc", "contract", "nsz"})
def products(questions: np.ndarray, vectors: np.ndarray, found: np.ndarray) -> None:
    """Writes every product into `found` [Q, M] float32, summed in 32 bit."""
    for row in prange(len(vectors)):
        for one in range(len(questions)):
            total = np.float32(0)
            for place in range(vectors.shape[1]):
                total += np.float32(questions[one, place] * vectors[row, place])
            found[one, row] = total


@njit(cache=True, nogil=True, parallel=True, fastmath={"reassoc", "contract", "nsz"})
def products_of_bits(questions: np.ndarray, bits: np.ndarray, found: np.ndarray) -> None:
    """As `products`, of vectors in 16 bits [M, d] uint16: half the memory to read, which is what takes the time."""
    for row in prange(len(bits)):
        for one in range(len(questions)):
            total = np.float32(0)
            for place in range(bits.shape[1]):
                wide = np.uint32(np.uint32(bits[row, place]) << np.uint32(16)).view(np.float32)
                total += np.float32(questions[one, place] * wide)
            found[one, row] = total


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
    # Most values are in no set: one bit of 64 says so without a search.
    filters = np.zeros(num_segments, dtype=np.uint64)
    for place in range(len(set_ids)):
        filters[set_segment[place]] |= np.uint64(1) << np.uint64(set_ids[place] & 63)
    found = np.zeros(len(rows), dtype=np.float64)
    for place in prange(len(rows)):
        first, last = bounds[segment[place]], bounds[segment[place] + 1]
        total, bits = 0.0, filters[segment[place]]
        if first < last:
            for one in range(pointer[rows[place]], pointer[rows[place] + 1]):
                may = (bits >> np.uint64(values[one] & 63)) & np.uint64(1)
                if may and place_of(set_ids, first, last, values[one]) >= 0:
                    counted = 1.0
                    if len(weight):
                        counted *= weight[one]
                    if len(value_weight):
                        counted *= value_weight[values[one]]
                    total = max(total, counted) if takes_maximum else total + counted
        found[place] = total
    return found


# Rough products that are looked at to guess where the k-th largest lies.
_SAMPLE = 2048


@njit(cache=True, nogil=True)
def _kth_largest(bits: np.ndarray, k: int) -> int:
    """The k-th largest of rough products; what is not above zero counts as zero."""
    # One bin a value: products of unit vectors stay below 1.03.
    bins = np.zeros(0x3F84 + 1, dtype=np.int32)
    for one in bits:
        bins[min(max(one, 0), 0x3F84)] += 1
    place = len(bins) - 1
    seen = bins[place]
    while seen < k:
        place -= 1
        seen += bins[place]
    return place


@njit(cache=True, nogil=True)
def _bits_below(value: float) -> int:
    """The bits of the highest rough number that is not above a positive value."""
    single = np.array([value], dtype=np.float32)
    return single.view(np.int32)[0] >> 16


@njit(cache=True, nogil=True)
def _rows_from(bits: np.ndarray, least: int) -> np.ndarray:
    found, count = np.empty(len(bits), dtype=np.int32), 0
    for row in range(len(bits)):
        if bits[row] >= least:
            found[count] = row
            count += 1
    return found[:count]


@njit(cache=True, nogil=True)
def _may_be_nearest(bits: np.ndarray, values: np.ndarray, k: int, error: float, rounding: float) -> np.ndarray:
    """All rows that may be among the k nearest, ascending; `error` and `rounding` as in `nearest`."""
    stride = max(1, len(bits) // _SAMPLE)
    sample = bits[::stride]
    guess = values[_kth_largest(sample, min(len(sample), 2 * k // stride + 16))]
    guess -= 2 * (error + rounding * guess)
    if guess > 0:
        rows = _rows_from(bits, _bits_below(guess))
        if len(rows) >= k:
            border = _border(bits[rows], values, k, error, rounding)
            if border >= guess:
                return rows[bits[rows] >= _bits_below(border)]
    border = _border(bits, values, k, error, rounding)
    # Everything below zero ties at zero: then every row may be.
    return _rows_from(bits, _bits_below(border) if border > 0 else -(1 << 15))


@njit(cache=True, nogil=True)
def _border(bits: np.ndarray, values: np.ndarray, k: int, error: float, rounding: float) -> float:
    kth = values[_kth_largest(bits, k)]
    # Once for the k-th best itself, and once for whoever may be better.
    return kth - 2 * (error + rounding * kth)


@njit(cache=True, nogil=True, parallel=True)
def nearest(
    questions: np.ndarray,
    vectors: np.ndarray,
    near: np.ndarray,
    values: np.ndarray,
    first: int,
    k: int,
    error: float,
    rounding: float,
    found: np.ndarray,
) -> None:
    """The k nearest rows of the questions from number `first` on, exactly, into `found` [Q, k].

    Args:
        near, values, error, rounding: bits of rough products [T, M], what bits mean, and how far they may be off; see
            `rough`.
    """
    for one in prange(len(near)):
        rows = _may_be_nearest(near[one], values, k, error, rounding)
        rank = np.empty(len(rows), dtype=np.float32)
        for place in range(len(rows)):
            # Falling, so that a stable sort puts the lower row first; rounded as it is wherever scores are ranked.
            rank[place] = -np.float32(similarity(questions[first + one], vectors[rows[place]]))
        order = np.argsort(rank, kind="mergesort")
        for place in range(k):
            found[first + one, place] = rows[order[place]]
