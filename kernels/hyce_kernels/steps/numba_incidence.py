"""The sub-hypergraphs that CSR rows make, and numbers for the ids of a segment, as loops, a thread a question.

The distinct entities of a question come out of a set of bits in ascending order: no sort, and to number an entity is to
count the bits below its own.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from hyce_kernels.steps.numba_rows import bounds_of

# Names for 64-bit constants: an integer literal beside one would make a float of both.
_ONE, _SIX, _LOW_SIX = np.uint64(1), np.uint64(6), np.uint64(63)
_PAIRS, _FOURS, _BYTES = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333), np.uint64(0x0F0F0F0F0F0F0F0F)
_EACH_BYTE, _TOP_BYTE, _TWO, _FOUR = np.uint64(0x0101010101010101), np.uint64(56), np.uint64(2), np.uint64(4)
# 2^64 by the golden ratio: spreads neighbouring ids.
_SPREAD, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


@njit(cache=True, nogil=True)
def _bits_in(word: np.uint64) -> np.uint64:
    """How many bits are set; the compiler knows this form as one instruction."""
    word = word - ((word >> _ONE) & _PAIRS)
    word = (word & _FOURS) + ((word >> _TWO) & _FOURS)
    word = (word + (word >> _FOUR)) & _BYTES
    return (word * _EACH_BYTE) >> _TOP_BYTE


@njit(cache=True, nogil=True)
def _lowest_bit(word: np.uint64) -> np.uint64:
    """The place of the lowest bit that is set."""
    return _bits_in((word & (~word + _ONE)) - _ONE)


@njit(cache=True, nogil=True)
def _add(value: np.uint64, bits: np.ndarray, words: np.ndarray) -> None:
    word = value >> _SIX
    # Seldom, so that an addition does not wait for the one before it in the same place.
    if bits[word] == 0:
        words[word >> _SIX] |= _ONE << (word & _LOW_SIX)
    bits[word] |= _ONE << (value & _LOW_SIX)


@njit(cache=True, nogil=True)
def _take(bits: np.ndarray, words: np.ndarray, below: np.ndarray, values: np.ndarray) -> int:
    """Lists the values of a set, ascending; returns how many there are. `below` counts those before each word.

    Clears `words`; `bits` are still needed for the numbers.
    """
    count = 0
    for high in range(len(words)):
        left = words[high]
        words[high] = np.uint64(0)
        while left:
            word = (np.uint64(high) << _SIX) + _lowest_bit(left)
            left &= left - _ONE
            below[word] = count
            rest = bits[word]
            while rest:
                values[count] = (word << _SIX) + _lowest_bit(rest)
                rest &= rest - _ONE
                count += 1
    return count


@njit(cache=True, nogil=True)
def _of_question(
    first: int,
    last: int,
    pointer: np.ndarray,
    values: np.ndarray,
    rows: np.ndarray,
    sets: tuple[np.ndarray, np.ndarray, np.ndarray],
    distinct_values: np.ndarray,
    edge_row: np.ndarray,
    entity_row: np.ndarray,
) -> int:
    """The incidences of the rows from `first` to `last`; returns how many entities there are."""
    bits, words, below = sets
    target = 0
    for place in range(first, last):
        for one in range(pointer[rows[place]], pointer[rows[place] + 1]):
            value = np.uint64(values[one])
            edge_row[target], entity_row[target] = place, value
            _add(value, bits, words)
            target += 1
    count = _take(bits, words, below, distinct_values)
    for target in range(len(entity_row)):
        value = np.uint64(entity_row[target])
        word = value >> _SIX
        lower = bits[word] & ((_ONE << (value & _LOW_SIX)) - _ONE)
        entity_row[target] = below[word] + np.int64(_bits_in(lower))
    for value in distinct_values[:count]:
        bits[np.uint64(value) >> _SIX] = np.uint64(0)
    return count


@njit(cache=True, nogil=True, parallel=True)
def starts(pointer: np.ndarray, segment: np.ndarray, rows: np.ndarray, num_segments: int) -> np.ndarray:
    """Where the incidences of each segment start [S+1]."""
    bounds, start = bounds_of(segment, num_segments), np.zeros(num_segments + 1, dtype=np.int64)
    for one in prange(num_segments):
        size = 0
        for row in rows[bounds[one] : bounds[one + 1]]:
            size += pointer[row + 1] - pointer[row]
        start[one + 1] = size
    return np.cumsum(start)


@njit(cache=True, nogil=True, parallel=True)
def incidence(
    pointer: np.ndarray,
    values: np.ndarray,
    segment: np.ndarray,
    rows: np.ndarray,
    universe: int,
    threads: int,
    start: np.ndarray,
    edge_row: np.ndarray,
    entity_row: np.ndarray,
    entity_segment: np.ndarray,
    entity: np.ndarray,
) -> int:
    """Fills the last four, which have room for every incidence; returns how many entities there are."""
    num_segments = len(start) - 1
    bounds, count = bounds_of(segment, num_segments), np.zeros(num_segments + 1, dtype=np.int64)
    # Half the memory to touch: ids of a corpus fit.
    work = np.empty(len(edge_row), dtype=np.int32)
    for thread in prange(threads):
        size = (universe >> 6) + 1
        sets = np.zeros(size, np.uint64), np.zeros((size >> 6) + 1, np.uint64), np.empty(size, np.int32)
        for one in range(thread, num_segments, threads):
            part = slice(start[one], start[one + 1])
            count[one + 1] = _of_question(
                bounds[one], bounds[one + 1], pointer, values, rows, sets, work[part], edge_row[part], entity_row[part]
            )
    first = np.cumsum(count)
    for one in prange(num_segments):
        for place in range(count[one + 1]):
            entity_segment[first[one] + place] = one
            entity[first[one] + place] = work[start[one] + place]
        for place in range(start[one], start[one + 1]):
            entity_row[place] += first[one]
    return int(first[-1])


@njit(cache=True, nogil=True)
def _number(ids: np.ndarray, slots: np.ndarray, number: np.ndarray) -> None:
    """Numbers distinct ids by where they come first. `slots`: a power of two, twice the ids.

    Looked up by what the id spreads to: as large as the segment, however many ids there are.
    """
    slots[:] = -1
    count, mask = 0, np.uint64(len(slots) - 1)
    for place in range(len(ids)):
        slot = ((np.uint64(ids[place]) * _SPREAD) >> _HALF) & mask
        while slots[slot] >= 0 and ids[slots[slot]] != ids[place]:
            slot = (slot + _ONE) & mask
        if slots[slot] < 0:
            slots[slot], number[place] = place, count
            count += 1
        else:
            number[place] = number[slots[slot]]


@njit(cache=True, nogil=True, parallel=True)
def numbered(segment: np.ndarray, ids: np.ndarray, num_segments: int) -> np.ndarray:
    bounds, number = bounds_of(segment, num_segments), np.empty(len(ids), dtype=np.int64)
    for one in prange(num_segments):
        first, last, size = bounds[one], bounds[one + 1], 2
        while size < 2 * (last - first):
            size *= 2
        # The segment's own places bound its numbers.
        _number(ids[first:last], np.empty(size, dtype=np.int64), number[first:last])
        number[first:last] += first
    return number
