"""What chains of evidence are made of, as loops: bridges between the units of a question, and where chains begin."""

from __future__ import annotations

import numpy as np
from numba import njit, prange


@njit(cache=True, nogil=True, parallel=True)
def chain_links(
    entity: np.ndarray,
    member_pointer: np.ndarray,
    entity_row: np.ndarray,
    rows: np.ndarray,
    is_path: np.ndarray,
    specificity: np.ndarray,
    is_entry: np.ndarray,
    entry_bridge: float,
    passage: np.ndarray,
    subject: np.ndarray,
    width: int,
    side: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    num_questions = len(rows) // width
    strength = np.zeros((num_questions, width, width))
    through = np.full((num_questions, width, width), -1, dtype=np.int64)
    start, by = np.zeros((num_questions, width)), np.full((num_questions, width), -1, dtype=np.int64)
    for number in prange(num_questions):
        bounds, bits = np.zeros((width, 2), dtype=np.int64), np.zeros(width, dtype=np.uint64)
        starts = False
        for rank in range(width):
            row = rows[number * width + rank]
            # What another unit represents has no part in chains.
            if row < 0 or not is_path[number * width + rank]:
                continue
            bounds[rank, 0], bounds[rank, 1] = member_pointer[row], member_pointer[row + 1]
            for place in range(bounds[rank, 0], bounds[rank, 1]):
                v = entity_row[place]
                bits[rank] |= np.uint64(1) << np.uint64(v & 63)
                # Entities ascend, so ties go to the lower one.
                if is_entry[v] and specificity[entity[v]] > start[number, rank]:
                    start[number, rank], by[number, rank] = specificity[entity[v]], v
                    starts = True
        if not starts:
            start[number, 0] = 1.0
        for one in range(width):
            for other in range(one + 1, width):
                units = number * width + one, number * width + other
                # Most units share nothing: one bit of 64 says so without a look at them.
                if passage[units[0]] == passage[units[1]] or not bits[one] & bits[other]:
                    continue
                strength[number, one, other], through[number, one, other] = _bridge(
                    entity, entity_row, bounds[one], bounds[other], specificity, is_entry, entry_bridge,
                    subject[units[0]], subject[units[1]], side,
                )  # fmt: skip
                strength[number, other, one] = strength[number, one, other]
                through[number, other, one] = through[number, one, other]
    return strength, through, start, by


@njit(cache=True, nogil=True)
def _bridge(
    entity: np.ndarray,
    entity_row: np.ndarray,
    one: np.ndarray,
    other: np.ndarray,
    specificity: np.ndarray,
    is_entry: np.ndarray,
    entry_bridge: float,
    subject: int,
    other_subject: int,
    side: float,
) -> tuple[float, int]:
    """The strongest bridge between two units, and its entity: 0 and -1 where there is none."""
    best, by = 0.0, -1
    left, right = one[0], other[0]
    while left < one[1] and right < other[1]:
        ours, theirs = entity_row[left], entity_row[right]
        if ours == theirs:
            # As `linking_reference.bridge_factor`; entities ascend, so ties go to the lower one.
            about = int(entity[ours] == subject) + int(entity[ours] == other_subject)
            factor = side if about == 0 else (1.0 if about == 1 else 0.0)
            weight = specificity[entity[ours]]
            if is_entry[ours]:
                weight *= entry_bridge
            if weight * factor > best:
                best, by = weight * factor, ours
        left += ours <= theirs
        right += theirs <= ours
    return best, by
