"""The loops of `numba_backend`: compiled at the first call and kept in the cache. Imports numba.

Arrays as in `structure`, `share` = W De⁻¹ and `inverse_degree` = Dv⁻¹ (0 without hyperedges). `scaled` holds Dv⁻¹ c, so
that a hyperedge only adds up its members. Every sum runs in the order of the incidences: results repeat to the bit.
"""

from __future__ import annotations

from numba import njit, prange

# Questions that a thread takes side by side through the masked layout: a cache line of 32-bit numbers.
LANES = 16


@njit(nogil=True, cache=True)
def _weighted_sums(values, weight, index, pointer, first, last, sums):
    """Of the rows from `first` to `last`: the weight of each, times the values of its entries."""
    # Each row begins where the one before it ended; to look both ends up takes more than twice as long.
    start = pointer[first]
    for row in range(first, last):
        end = pointer[row + 1]
        total = values.dtype.type(0)
        for place in range(start, end):
            total += values[index[place]]
        sums[row] = weight[row] * total
        start = end


@njit(parallel=True, nogil=True, cache=True)
def plan_packed(entity, member_pointer, entity_pointer, hyperedge_pointer, into, back, share, inverse_degree):
    """Fills the last two. Every question writes its own part of them."""
    nothing, one = share.dtype.type(0), share.dtype.type(1)
    for question in prange(len(entity_pointer) - 1):
        first, last = entity_pointer[question], entity_pointer[question + 1]
        inverse_degree[first:last] = nothing
        for edge in range(hyperedge_pointer[question], hyperedge_pointer[question + 1]):
            size = nothing
            for place in range(member_pointer[edge], member_pointer[edge + 1]):
                size += back[entity[place]]
                inverse_degree[entity[place]] += into[edge]
            share[edge] = into[edge] / size if size > 0 else nothing
        for v in range(first, last):
            inverse_degree[v] = one / inverse_degree[v] if inverse_degree[v] > 0 else nothing


@njit(nogil=True, cache=True)
def _through(scaled, share, entity, member_pointer, first_edge, last_edge, reached):
    """Adds to what reaches each entity what its hyperedges take from theirs and hand on."""
    start = member_pointer[first_edge]
    for edge in range(first_edge, last_edge):
        end = member_pointer[edge + 1]
        total = scaled.dtype.type(0)
        for place in range(start, end):
            total += scaled[entity[place]]
        total *= share[edge]
        for place in range(start, end):
            reached[entity[place]] += total
        start = end


@njit(parallel=True, nogil=True, cache=True)
def run_packed(
    entity, member_pointer, entity_pointer, hyperedge_pointer, into, back, share, inverse_degree, restart_vector,
    restart, rest, steps, scaled, confidence, flow,
):  # fmt: skip
    """Fills `confidence` [W] and `flow` [H]; `scaled` [W] is working memory. `rest` = 1 - `restart`.

    A hyperedge hands on at once what it has taken: the members of each stand side by side, so that no second pass over
    the incidences has to find the hyperedges of an entity.
    """
    for question in prange(len(entity_pointer) - 1):
        first, last = entity_pointer[question], entity_pointer[question + 1]
        first_edge, last_edge = hyperedge_pointer[question], hyperedge_pointer[question + 1]
        for v in range(first, last):
            confidence[v] = restart_vector[v]
            scaled[v] = restart_vector[v] * inverse_degree[v]
        for _ in range(steps):
            confidence[first:last] = 0
            _through(scaled, share, entity, member_pointer, first_edge, last_edge, confidence)
            for v in range(first, last):
                confidence[v] = restart * restart_vector[v] + rest * (back[v] * confidence[v])
                scaled[v] = confidence[v] * inverse_degree[v]
        _weighted_sums(scaled, into, entity, member_pointer, first_edge, last_edge, flow)


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
    restart_vector, restart, rest, steps, scaled, confidence, flow,
):  # fmt: skip
    """Fills `confidence` [V, Q] and `flow` [E, Q]; `scaled` [V, Q] is working memory. `rest` = 1 - `restart`."""
    questions = restart_vector.shape[1]
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
