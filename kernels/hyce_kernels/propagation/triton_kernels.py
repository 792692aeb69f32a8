"""The kernels of `triton_backend`. Imports triton.

Arrays as in `structure`, `share` = W De⁻¹ and `inverse_degree` = Dv⁻¹ (0 without hyperedges). Both directions of the
incidences are gathered, nothing is scattered, and no sum is atomic: every run adds in the same order. Rows are summed
WIDTH members at a time, whatever the path, so that a result does not depend on what else stands in the batch.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _sums_from_registers(
    state, pointer, index, first_row, num_rows, first_state, ROWS: tl.constexpr, WIDTH: tl.constexpr
):
    """Sums `state` [ROWS] over the entries of each row [ROWS]; `first_state` is the number of its first value."""
    row = tl.arange(0, ROWS)
    real = row < num_rows
    start = tl.load(pointer + first_row + row, mask=real, other=0)
    end = tl.load(pointer + first_row + row + 1, mask=real, other=0)
    total = tl.zeros([ROWS], state.dtype)
    for at in range(0, tl.max(end - start), WIDTH):
        place = start[:, None] + at + tl.arange(0, WIDTH)[None, :]
        inside = place < end[:, None]
        which = (tl.load(index + place, mask=inside, other=first_state) - first_state).to(tl.int32)
        value = tl.reshape(tl.gather(state, tl.reshape(which, [ROWS * WIDTH]), 0), [ROWS, WIDTH])
        total += tl.sum(tl.where(inside, value, 0.0), 1)
    return total


@triton.jit
def _sums_from_memory(state, pointer, index, row, real, WIDTH: tl.constexpr):
    """Sums what stands at `state` over the entries of each row [ROWS]."""
    start = tl.load(pointer + row, mask=real, other=0)
    end = tl.load(pointer + row + 1, mask=real, other=0)
    total = tl.zeros(row.shape, state.dtype.element_ty)
    for at in range(0, tl.max(end - start), WIDTH):
        place = start[:, None] + at + tl.arange(0, WIDTH)[None, :]
        inside = place < end[:, None]
        which = tl.load(index + place, mask=inside, other=0)
        total += tl.sum(tl.load(state + which, mask=inside, other=0.0), 1)
    return total


@triton.jit
def _walk_in_registers(
    restart_vector, kept, rest, steps, member_pointer, member, incident_pointer, incident,
    into, back, share, inverse_degree, confidence, flow,
    first, num_entities, first_edge, num_edges, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The whole walk of a question whose entities and hyperedges fit ROWS each; memory is written once, at its end."""
    row = tl.arange(0, ROWS)
    is_entity, is_edge = row < num_entities, row < num_edges
    given = tl.load(restart_vector + first + row, mask=is_entity, other=0.0)
    inverse = tl.load(inverse_degree + first + row, mask=is_entity, other=0.0)
    weight = tl.load(back + first + row, mask=is_entity, other=0.0)
    scale = tl.load(share + first_edge + row, mask=is_edge, other=0.0)
    state = given
    for _ in range(steps):
        through = scale * _sums_from_registers(
            state * inverse, member_pointer, member, first_edge, num_edges, first, ROWS, WIDTH
        )
        moved = weight * _sums_from_registers(
            through, incident_pointer, incident, first, num_entities, first_edge, ROWS, WIDTH
        )
        state = kept * given + rest * moved
    through = _sums_from_registers(
        state * inverse, member_pointer, member, first_edge, num_edges, first, ROWS, WIDTH
    )  # fmt: skip
    tl.store(confidence + first + row, state, mask=is_entity)
    tl.store(flow + first_edge + row, through * tl.load(into + first_edge + row, mask=is_edge, other=0.0), mask=is_edge)


@triton.jit
def _flow_in_memory(
    scaled, scale, member_pointer, member, flow, first_edge, last_edge, ROWS: tl.constexpr, WIDTH: tl.constexpr
):
    for start in range(first_edge, last_edge, ROWS):
        row = start + tl.arange(0, ROWS)
        real = row < last_edge
        through = _sums_from_memory(scaled, member_pointer, member, row, real, WIDTH)
        tl.store(flow + row, through * tl.load(scale + row, mask=real, other=0.0), mask=real)


@triton.jit
def _walk_in_memory(
    restart_vector, kept, rest, steps, member_pointer, member, incident_pointer, incident,
    into, back, share, inverse_degree, scaled, confidence, flow,
    first, last, first_edge, last_edge, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The walk of a question of any size, ROWS rows at a time; its state stands in `scaled`, `confidence` and `flow`.

    A barrier parts what one thread writes from what another reads.
    """
    for start in range(first, last, ROWS):
        row = start + tl.arange(0, ROWS)
        real = row < last
        state = tl.load(restart_vector + row, mask=real, other=0.0)
        tl.store(confidence + row, state, mask=real)
        tl.store(scaled + row, state * tl.load(inverse_degree + row, mask=real, other=0.0), mask=real)
    tl.debug_barrier()
    for _ in range(steps):
        _flow_in_memory(scaled, share, member_pointer, member, flow, first_edge, last_edge, ROWS, WIDTH)
        tl.debug_barrier()
        for start in range(first, last, ROWS):
            row = start + tl.arange(0, ROWS)
            real = row < last
            moved = _sums_from_memory(flow, incident_pointer, incident, row, real, WIDTH)
            moved *= tl.load(back + row, mask=real, other=0.0)
            state = kept * tl.load(restart_vector + row, mask=real, other=0.0) + rest * moved
            tl.store(confidence + row, state, mask=real)
            tl.store(scaled + row, state * tl.load(inverse_degree + row, mask=real, other=0.0), mask=real)
        tl.debug_barrier()
    _flow_in_memory(scaled, into, member_pointer, member, flow, first_edge, last_edge, ROWS, WIDTH)


@triton.jit
def packed_walk(
    restart_vector, mix, steps, entity_pointer, hyperedge_pointer,
    member_pointer, member, incident_pointer, incident,
    into, back, share, inverse_degree, scaled, confidence, flow,
    FITS: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """One program a question; `mix` = [restart, 1 - restart], in memory since an argument would come in 32 bits."""
    question = tl.program_id(0)
    first, last = tl.load(entity_pointer + question), tl.load(entity_pointer + question + 1)
    first_edge, last_edge = tl.load(hyperedge_pointer + question), tl.load(hyperedge_pointer + question + 1)
    kept, rest = tl.load(mix), tl.load(mix + 1)
    if (last - first <= FITS) & (last_edge - first_edge <= FITS):
        _walk_in_registers(
            restart_vector, kept, rest, steps, member_pointer, member, incident_pointer, incident,
            into, back, share, inverse_degree, confidence, flow,
            first, last - first, first_edge, last_edge - first_edge, FITS, WIDTH,
        )  # fmt: skip
    else:
        _walk_in_memory(
            restart_vector, kept, rest, steps, member_pointer, member, incident_pointer, incident,
            into, back, share, inverse_degree, scaled, confidence, flow,
            first, last, first_edge, last_edge, ROWS, WIDTH,
        )  # fmt: skip


@triton.jit
def masked_walk(
    restart_vector, mix, steps, num_entities, num_edges,
    member_pointer, member, incident_pointer, incident,
    into, back, share, inverse_degree, scaled, confidence, flow,
    ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """One program a question; what differs by question stands question by question: [Q, V] and [Q, E]."""
    question = tl.program_id(0).to(tl.int64)
    of_entity, of_edge = question * num_entities, question * num_edges
    _walk_in_memory(
        restart_vector + of_entity, tl.load(mix), tl.load(mix + 1), steps,
        member_pointer, member, incident_pointer, incident,
        into + of_edge, back, share + of_edge, inverse_degree + of_entity,
        scaled + of_entity, confidence + of_entity, flow + of_edge,
        0, num_entities, 0, num_edges, ROWS, WIDTH,
    )  # fmt: skip
