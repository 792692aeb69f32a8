"""The loops of `numba_backend`: compiled at the first call and kept in the cache. Imports numba.

Arrays as in `structure`, `share` = W De⁻¹ and `inverse_degree` = Dv⁻¹ (0 without hyperedges). `scaled` holds Dv⁻¹ c, so
that a hyperedge only adds up its members. The order of every sum follows from the structure: results repeat to the bit.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

# Questions that a thread takes side by side through the masked layout: a cache line of 32-bit numbers.
LANES = 16


@njit(nogil=True, cache=True)
def number_shared(entity, size, first, start, end):
    """Divides a question's entities into those that hyperedges share and leaves, which one hyperedge holds alone.

    Returns, for each entity from `first` on, its number among the shared ones, -1 for a leaf and -2 for what no
    hyperedge holds; and how many are shared.
    """
    number, count = np.zeros(size, np.int32), 0
    for place in range(start, end):
        number[entity[place] - first] += 1
    for v in range(size):
        held = number[v]
        number[v] = count if held > 1 else held - 2
        count += held > 1
    return number, count


@njit(nogil=True, cache=True, error_model="numpy")
def _fold(first, first_edge, entity, member_pointer, into, back, restart_vector, number, index, pointer, owner, share,
          leaf_start, leaf_back):  # fmt: skip
    """Fills, of each hyperedge, its `share`, its shared entities as CSR (`index`, `pointer`), and sums over its leaves:
    of Dv⁻¹ r, `leaf_start`, and of Dv⁻¹ U, `leaf_back`; and `owner`, the hyperedge of each leaf.
    """
    nothing, target = share.dtype.type(0), 0
    for edge in range(len(share)):
        size, weight = nothing, into[first_edge + edge]
        pointer[edge] = target
        for place in range(member_pointer[first_edge + edge], member_pointer[first_edge + edge + 1]):
            v = entity[place] - first
            size += back[entity[place]]
            owner[v] = edge
            # Written whether it is shared or not: no branch to guess.
            index[target] = number[v]
            target += number[v] >= 0
        share[edge] = weight / size if size > 0 else nothing
    pointer[len(share)] = target
    for v in range(len(number)):
        if number[v] == -1:
            leaf_start[owner[v]] += restart_vector[first + v]
            leaf_back[owner[v]] += back[first + v]
    # A leaf has the weight of its hyperedge for its degree.
    for edge in range(len(share)):
        leaf_start[edge] /= into[first_edge + edge]
        leaf_back[edge] /= into[first_edge + edge]


@njit(nogil=True, cache=True)
def _through(scaled, share, index, pointer, leaves, leaf_start, leaf_back, restart, rest, moved, reached):
    """Adds to what reaches each shared entity what its hyperedges take from theirs and hand on.

    `moved` is what each hyperedge hands on, `leaves` what its leaves hold for it: they give it all to their hyperedge.
    """
    start = pointer[0]
    for edge in range(len(share)):
        end = pointer[edge + 1]
        total = leaves[edge]
        for place in range(start, end):
            total += scaled[index[place]]
        total *= share[edge]
        for place in range(start, end):
            reached[index[place]] += total
        leaves[edge] = restart * leaf_start[edge] + rest * (leaf_back[edge] * total)
        moved[edge] = total
        start = end


@njit(nogil=True, cache=True, error_model="numpy")
def _run_question(
    first, last, first_edge, last_edge, entity, member_pointer, into, back, restart_vector, restart, rest, steps,
    confidence, flow,
):  # fmt: skip
    kind, edges = restart_vector.dtype, last_edge - first_edge
    begin, end = member_pointer[first_edge], member_pointer[last_edge]
    number, count = number_shared(entity, last - first, first, begin, end)
    index, pointer = np.empty(end - begin + 1, np.int32), np.empty(edges + 1, np.int32)
    owner, share = np.empty(last - first, np.int32), np.empty(edges, kind)
    leaf_start, leaf_back, moved = np.zeros(edges, kind), np.zeros(edges, kind), np.zeros(edges, kind)
    _fold(
        first, first_edge, entity, member_pointer, into, back, restart_vector, number, index, pointer, owner, share,
        leaf_start, leaf_back,
    )  # fmt: skip
    # Of the shared entities: r, U, Dv⁻¹, and what they have.
    start, returned, degree = np.empty(count, kind), np.empty(count, kind), np.zeros(count, kind)
    for v in range(last - first):
        if number[v] >= 0:
            start[number[v]], returned[number[v]] = restart_vector[first + v], back[first + v]
    for edge in range(edges):
        for place in range(pointer[edge], pointer[edge + 1]):
            degree[index[place]] += into[first_edge + edge]
    held, scaled, leaves = start.copy(), start / degree, leaf_start.copy()
    for _ in range(steps):
        held[:] = 0
        _through(scaled, share, index, pointer, leaves, leaf_start, leaf_back, restart, rest, moved, held)
        for v in range(count):
            held[v] = restart * start[v] + rest * (returned[v] * held[v])
            scaled[v] = held[v] / degree[v]
    for v in range(last - first):
        own = restart_vector[first + v]
        if number[v] >= 0:
            own = held[number[v]]
        elif steps > 0:
            reached = moved[owner[v]] if number[v] == -1 else kind.type(0)
            own = restart * own + rest * (back[first + v] * reached)
        confidence[first + v] = own
    for edge in range(edges):
        total = leaves[edge]
        for place in range(pointer[edge], pointer[edge + 1]):
            total += scaled[index[place]]
        flow[first_edge + edge] = into[first_edge + edge] * total


@njit(parallel=True, nogil=True, cache=True)
def run_packed(
    entity, member_pointer, entity_pointer, hyperedge_pointer, into, back, restart_vector, restart, rest, steps,
    confidence, flow,
):  # fmt: skip
    """Fills `confidence` [W] and `flow` [H]. `rest` = 1 - `restart`.

    A hyperedge hands on at once what it has taken: the members of each stand side by side, so that no second pass over
    the incidences has to find the hyperedges of an entity. What a leaf has goes to its hyperedge and comes back from
    it alone: the sums over the leaves of a hyperedge walk in their place. Most entities are leaves.
    """
    for question in prange(len(entity_pointer) - 1):
        _run_question(
            entity_pointer[question], entity_pointer[question + 1], hyperedge_pointer[question],
            hyperedge_pointer[question + 1], entity, member_pointer, into, back, restart_vector, restart, rest, steps,
            confidence, flow,
        )  # fmt: skip


@njit(nogil=True, cache=True)
def _flow_of_lanes(scaled, weight, member, member_pointer, flow, first, last):
    for edge in range(len(member_pointer) - 1):
        for question in range(first, last):
            flow[edge, question] = 0
        for place in range(member_pointer[edge], member_pointer[edge + 1]):
            for question in range(first, last):
                flow[edge, question] += scaled[member[place], question]
        for question in range(first, last):
            flow[edge, question] *= weight[edge, question]


@njit(nogil=True, cache=True)
def _step_of_lanes(
    flow, incident, incident_pointer, back, inverse_degree,
    restart_vector, restart, rest, scaled, confidence, first, last,
):  # fmt: skip
    for v in range(len(incident_pointer) - 1):
        for question in range(first, last):
            confidence[v, question] = 0
        for place in range(incident_pointer[v], incident_pointer[v + 1]):
            for question in range(first, last):
                confidence[v, question] += flow[incident[place], question]
        for question in range(first, last):
            moved = back[v] * confidence[v, question]
            confidence[v, question] = restart * restart_vector[v, question] + rest * moved
            scaled[v, question] = confidence[v, question] * inverse_degree[v, question]


@njit(parallel=True, nogil=True, cache=True)
def run_masked(
    member, member_pointer, incident_pointer, incident, into, back, share, inverse_degree,
    restart_vector, restart, rest, steps, confidence, flow,
):  # fmt: skip
    """Fills `confidence` [V, Q] and `flow` [E, Q]. `rest` = 1 - `restart`."""
    questions, scaled = restart_vector.shape[1], np.empty_like(restart_vector)
    for block in prange((questions + LANES - 1) // LANES):
        first = block * LANES
        last = min(first + LANES, questions)
        for v in range(len(restart_vector)):
            for question in range(first, last):
                confidence[v, question] = restart_vector[v, question]
                scaled[v, question] = restart_vector[v, question] * inverse_degree[v, question]
        for _ in range(steps):
            _flow_of_lanes(scaled, share, member, member_pointer, flow, first, last)
            _step_of_lanes(
                flow, incident, incident_pointer, back, inverse_degree, restart_vector, restart, rest,
                scaled, confidence, first, last,
            )  # fmt: skip
        _flow_of_lanes(scaled, into, member, member_pointer, flow, first, last)
