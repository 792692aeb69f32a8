"""Bridge linking as loops, a thread a question. See `hyce_kernels.linking` for what it is.

Most entities of a question stand in one hyperedge only and bridge nothing: they are left out before anything is looked
up, and what is left fits the nearest cache.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from hyce_kernels.propagation.numba_kernels import number_shared


@njit(cache=True, nogil=True)
def _shared(
    first: int,
    last: int,
    first_edge: int,
    last_edge: int,
    member_pointer: np.ndarray,
    entity_row: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The entities that several hyperedges of a question hold.

    Returns:
        (their local numbers, those of each hyperedge as places among them, where those of each hyperedge start).
    """
    start, end = member_pointer[first_edge], member_pointer[last_edge]
    number, count = number_shared(entity_row, last - first, first, start, end)
    shared = np.empty(count, dtype=np.int32)
    for v in range(last - first):
        if number[v] >= 0:
            shared[number[v]] = v
    held, pointer = np.empty(end - start + 1, dtype=np.int32), np.empty(last_edge - first_edge + 1, dtype=np.int32)
    target = 0
    for edge in range(first_edge, last_edge):
        pointer[edge - first_edge] = target
        for place in range(member_pointer[edge], member_pointer[edge + 1]):
            # Written whether it counts or not: no branch to guess.
            at = number[entity_row[place] - first]
            held[target] = at
            target += at >= 0
    pointer[last_edge - first_edge] = target
    return shared, held, pointer


@njit(cache=True, nogil=True, parallel=True)
def link(
    edge_pointer: np.ndarray,
    entity: np.ndarray,
    entity_pointer: np.ndarray,
    member_pointer: np.ndarray,
    entity_row: np.ndarray,
    specificity: np.ndarray,
    is_entry: np.ndarray,
    entry_bridge: float,
    passage: np.ndarray,
    subject: np.ndarray,
    score: np.ndarray,
    side: float,
) -> np.ndarray:
    gain = np.empty(len(score))
    for one in prange(len(edge_pointer) - 1):
        first, edges = entity_pointer[one], slice(edge_pointer[one], edge_pointer[one + 1])
        shared, held, pointer = _shared(
            first, entity_pointer[one + 1], edges.start, edges.stop, member_pointer, entity_row
        )
        ids, weight = np.empty(len(shared), dtype=np.int64), np.empty(len(shared))
        for at in range(len(shared)):
            v = first + shared[at]
            own = specificity[entity[v]]
            ids[at], weight[at] = entity[v], entry_bridge * own if is_entry[v] else own
        _link(ids, weight, held, pointer, passage[edges], subject[edges], score[edges], side, gain[edges])
    return gain


@njit(cache=True, nogil=True)
def _link(
    ids: np.ndarray,
    weight: np.ndarray,
    held: np.ndarray,
    pointer: np.ndarray,
    passage: np.ndarray,
    subject: np.ndarray,
    score: np.ndarray,
    side: float,
    gain: np.ndarray,
) -> None:
    """One question: its shared entities, those that each hyperedge holds as CSR, and its hyperedges."""
    about, best, second = np.zeros(len(ids)), np.zeros(len(ids)), np.zeros(len(ids))
    holder = np.full(len(ids), -1, dtype=np.int64)
    for edge in range(len(score)):
        value, owner = score[edge], passage[edge]
        for v in held[pointer[edge] : pointer[edge + 1]]:
            if ids[v] == subject[edge]:
                about[v] = max(about[v], value)
            elif holder[v] < 0 or value > best[v] or (value == best[v] and owner < holder[v]):
                # The best, of the lowest passage that has it, and the best of any other passage.
                if holder[v] >= 0 and owner != holder[v]:
                    second[v] = max(second[v], best[v])
                best[v], holder[v] = value, owner
            elif owner != holder[v]:
                second[v] = max(second[v], value)
    for edge in range(len(score)):
        most = 0.0
        for v in held[pointer[edge] : pointer[edge + 1]]:
            partner = best[v]
            if ids[v] != subject[edge]:
                mentioned = second[v] if holder[v] == passage[edge] else best[v]
                partner = max(about[v], side * mentioned)
            most = max(most, partner * weight[v])
        gain[edge] = most
