"""Fusion of units of evidence as loops."""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from hyce_kernels.steps.numba_rows import bounds_of

# Places that are moved one by one to sort them; where more are not in order, a sort proper.
_FEW = 32


@njit(cache=True, nogil=True)
def _by_unit(unit: np.ndarray, element: np.ndarray, num_units: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The places of each unit's pairs, by ascending element, where each unit's start [U+2], and a bit for each element.

    The last unit holds what means nothing. Units share nothing where their bits [U+1] share none.
    """
    bits = np.zeros(num_units + 1, dtype=np.uint64)
    bounds = bounds_of(unit, num_units + 1)
    free, places = bounds[:-1].copy(), np.empty(len(unit), dtype=np.int64)
    for place in range(len(unit)):
        places[free[unit[place]]] = place
        free[unit[place]] += 1
        bits[unit[place]] |= np.uint64(1) << np.uint64(element[place] & 63)
    for one in range(num_units):
        _sort(places[bounds[one] : bounds[one + 1]], element)
    return places, bounds, bits


@njit(cache=True, nogil=True)
def _sort(places: np.ndarray, element: np.ndarray) -> None:
    """Sorts places by their element: a few at a time, mostly ascending already."""
    for at in range(1, len(places)):
        one = places[at]
        if element[places[at - 1]] <= element[one]:
            continue
        if at > _FEW:
            places[:] = places[np.argsort(element[places])]
            return
        while at > 0 and element[places[at - 1]] > element[one]:
            places[at] = places[at - 1]
            at -= 1
        places[at] = one


@njit(cache=True, nogil=True)
def _shared(element: np.ndarray, places: np.ndarray, bounds: np.ndarray, one: int, other: int) -> int:
    left, right, count = bounds[one], bounds[other], 0
    while left < bounds[one + 1] and right < bounds[other + 1]:
        ours, theirs = element[places[left]], element[places[right]]
        count += ours == theirs
        left += ours <= theirs
        right += theirs <= ours
    return count


@njit(cache=True, nogil=True, parallel=True)
def fuse(
    unit: np.ndarray, element: np.ndarray, valid: np.ndarray, width: int, threshold: float
) -> tuple[np.ndarray, np.ndarray]:
    places, bounds, bits = _by_unit(unit, element, len(valid))
    represented_by = np.full(len(valid), -1, dtype=np.int64)
    representative = np.zeros(len(valid), dtype=np.bool_)
    for number in prange(len(valid) // width):
        first = number * width
        for one in range(first, first + width):
            if not valid[one] or represented_by[one] >= 0:
                continue
            represented_by[one], representative[one] = one - first, True
            for other in range(one + 1, first + width):
                if valid[other] and represented_by[other] < 0:
                    may = bits[one] & bits[other]
                    shared = _shared(element, places, bounds, one, other) if may else 0
                    union = bounds[one + 1] - bounds[one] + bounds[other + 1] - bounds[other] - shared
                    if np.float64(shared) / max(union, 1) >= threshold:
                        represented_by[other] = one - first
    return representative, represented_by
