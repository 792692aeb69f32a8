"""The steps on sub-hypergraphs as loops, a thread a question: what a question has of its own stays in the cache.

Arrays as in `local.Local`. Working memory is allocated for each question: small blocks come back from the allocator
without touching new pages.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from hyce_kernels.steps.numba_rows import bounds_of, place_of


@njit(cache=True, nogil=True)
def is_before(one: int, other: int, rank: np.ndarray, tie: np.ndarray) -> bool:
    return rank[one] > rank[other] or (rank[one] == rank[other] and tie[one] < tie[other])


@njit(cache=True, nogil=True)
def insert(one: int, best: np.ndarray, count: int, rank: np.ndarray, tie: np.ndarray) -> int:
    """Puts a place among the best so far, as many as `best` has room for; returns how many there are then.

    Few come so far where most stand in falling order, or few are wanted.

    Args:
        rank: 32-bit numbers; ties go to the lower `tie`, then to what came first.
    """
    if count == len(best):
        if count == 0 or not is_before(one, best[count - 1], rank, tie):
            return count
        count -= 1
    at = count
    while at > 0 and is_before(one, best[at - 1], rank, tie):
        best[at] = best[at - 1]
        at -= 1
    best[at] = one
    return count + 1


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def walk_start(
    hyperedge: np.ndarray,
    edge_pointer: np.ndarray,
    entity: np.ndarray,
    entity_pointer: np.ndarray,
    member_pointer: np.ndarray,
    entity_row: np.ndarray,
    degree: np.ndarray,
    entry_question: np.ndarray,
    entry: np.ndarray,
    mixed: np.ndarray,
    seeds: int,
    temperature: float,
    epsilon: float,
    start: np.ndarray,
    rarity: np.ndarray,
    is_entry: np.ndarray,
) -> None:
    """Fills the last three."""
    entries = bounds_of(entry_question, len(edge_pointer) - 1)
    for one in prange(len(edge_pointer) - 1):
        first, last = entity_pointer[one], entity_pointer[one + 1]
        for v in range(first, last):
            rarity[v] = 1 / np.float64(max(1, degree[entity[v]]))
            is_entry[v], start[v] = False, 0.0
        _give(
            edge_pointer[one], edge_pointer[one + 1], hyperedge, member_pointer, entity_row, rarity, mixed, seeds,
            temperature, epsilon, start,
        )  # fmt: skip
        entered, total = 0.0, 0.0
        for place in range(entries[one], entries[one + 1]):
            v = place_of(entity, first, last, entry[place])
            if v >= 0:
                is_entry[v] = True
                entered += rarity[v]
        for place in range(entries[one], entries[one + 1]):
            v = place_of(entity, first, last, entry[place])
            if v >= 0:
                start[v] += rarity[v] / (entered + epsilon)
        for v in range(first, last):
            total += start[v]
        for v in range(first, last):
            start[v] /= total + epsilon


@njit(cache=True, nogil=True)
def _give(
    first: int,
    last: int,
    hyperedge: np.ndarray,
    member_pointer: np.ndarray,
    entity_row: np.ndarray,
    rarity: np.ndarray,
    mixed: np.ndarray,
    seeds: int,
    temperature: float,
    epsilon: float,
    start: np.ndarray,
) -> None:
    """Adds what the best hyperedges give to entities, one in all: a softmax over them, split by rarity within each."""
    rank, best = np.empty(last - first, dtype=np.float32), np.empty(min(seeds, last - first), dtype=np.int64)
    most, count = 0.0, 0
    for place in range(last - first):
        value = mixed[first + place]
        rank[place], most = value, max(most, value)
        if hyperedge[first + place] >= 0 and value >= 0:
            count = insert(place, best, count, rank, hyperedge[first:last])
    # In the order of the hyperedges, as a sum over all of them would go.
    best[:count].sort()
    given = 0.0
    for edge in best[:count] + first:
        if member_pointer[edge] < member_pointer[edge + 1]:
            given += math.exp((mixed[edge] - most) / temperature)
    for edge in best[:count] + first:
        weight, total = math.exp((mixed[edge] - most) / temperature) / (given + epsilon), 0.0
        members = entity_row[member_pointer[edge] : member_pointer[edge + 1]]
        for v in members:
            total += rarity[v]
        for v in members:
            start[v] += weight / total * rarity[v]


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def group_share(edge_pointer: np.ndarray, number: np.ndarray, value: np.ndarray, epsilon: float) -> np.ndarray:
    share, total = np.empty(len(value)), np.zeros(len(value))
    # A group belongs to one segment only.
    for one in prange(len(edge_pointer) - 1):
        most = 0.0
        for edge in range(edge_pointer[one], edge_pointer[one + 1]):
            total[number[edge]] += value[edge]
        for edge in range(edge_pointer[one], edge_pointer[one + 1]):
            most = max(most, total[number[edge]])
        for edge in range(edge_pointer[one], edge_pointer[one + 1]):
            share[edge] = total[number[edge]] / (most + epsilon)
    return share


@njit(cache=True, nogil=True, parallel=True)
def best_of_groups(
    hyperedge: np.ndarray, edge_pointer: np.ndarray, number: np.ndarray, score: np.ndarray, k: int
) -> np.ndarray:
    table = np.full((len(edge_pointer) - 1) * k, -1, dtype=np.int64)
    rank = score.astype(np.float32)
    leader = np.full(len(score), -1, dtype=np.int64)
    for one in prange(len(edge_pointer) - 1):
        first, last, count = edge_pointer[one], edge_pointer[one + 1], 0
        for edge in range(first, last):
            other = leader[number[edge]]
            counts = hyperedge[edge] >= 0 and score[edge] >= 0
            if counts and (other < 0 or is_before(edge, other, rank, hyperedge)):
                leader[number[edge]] = edge
        for edge in range(first, last):
            if leader[number[edge]] == edge:
                count = insert(edge, table[one * k : (one + 1) * k], count, rank, hyperedge)
    return table


@njit(cache=True, nogil=True, parallel=True)
def top_table(segment: np.ndarray, score: np.ndarray, num_segments: int, k: int, tie: np.ndarray) -> np.ndarray:
    table, bounds = np.full(num_segments * k, -1, dtype=np.int64), bounds_of(segment, num_segments)
    rank = score.astype(np.float32)
    for one in prange(num_segments):
        count = 0
        for place in range(bounds[one], bounds[one + 1]):
            if score[place] >= 0:
                count = insert(place, table[one * k : (one + 1) * k], count, rank, tie)
    return table


@njit(cache=True, nogil=True, parallel=True)
def member_sums(
    edge_pointer: np.ndarray, member_pointer: np.ndarray, entity_row: np.ndarray, value: np.ndarray
) -> np.ndarray:
    sums = np.empty(len(member_pointer) - 1)
    for one in prange(len(edge_pointer) - 1):
        for edge in range(edge_pointer[one], edge_pointer[one + 1]):
            total = 0.0
            for place in range(member_pointer[edge], member_pointer[edge + 1]):
                total += np.float64(value[entity_row[place]])
            sums[edge] = total
    return sums
