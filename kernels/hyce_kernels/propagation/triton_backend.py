"""Propagation as one triton launch of all steps, one program a question, on CUDA; on a CPU only interpreted, for tests.

Packed, a question whose entities and hyperedges are at most `fits` each keeps its state in registers and hands it
around through shared memory; a larger one, and every masked one, keeps it in global memory behind barriers. Triton is
imported where it is used and not before.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hyce_kernels.propagation.incidence import both_ways, factors, inverse
from hyce_kernels.propagation.structure import Packed, Structure

# The largest and the smallest block of entities and of hyperedges that a question may keep in registers.
MOST_FITS, LEAST_FITS = 1024, 64
# The block through which larger questions pass, and how many members of each of its rows are added at once.
ROWS, WIDTH = 128, 4


@dataclass(frozen=True)
class Plan:
    """Both directions of the incidences and the weights, in the order in which the kernels take them.

    `questions` holds the pointers of entities and of hyperedges, packed; None where the layout is masked, and then
    the weights that differ by question stand question by question: [Q, E] and [Q, V].
    """

    questions: tuple[Tensor, Tensor] | None
    num_entities: int
    num_hyperedges: int
    incidence: tuple[Tensor, Tensor, Tensor, Tensor]
    weights: tuple[Tensor, Tensor, Tensor, Tensor]
    fits: int = MOST_FITS


def interpreted() -> bool:
    """Whether triton runs kernels as plain Python here: TRITON_INTERPRET was 1 when it was first imported."""
    import triton

    from hyce_kernels.propagation import triton_kernels

    return not isinstance(triton_kernels.packed_walk, triton.JITFunction)


def plan(structure: Structure, dtype: torch.dtype) -> Plan:
    incidence = both_ways(structure)
    scale = factors(structure, incidence, dtype)
    into, degree, size = scale.into, scale.degree, scale.size
    questions = None
    if isinstance(structure, Packed):
        questions = structure.entity_pointer.contiguous(), structure.hyperedge_pointer.contiguous()
    else:
        into, degree = into.T.contiguous(), degree.T.contiguous()
    rows = incidence.member_pointer, incidence.member, incidence.incident_pointer, incidence.incident
    return Plan(
        questions,
        structure.num_entities,
        structure.num_hyperedges,
        tuple(row.contiguous() for row in rows),  # type: ignore[arg-type]
        (into.contiguous(), scale.back.contiguous(), into * inverse(size), inverse(degree)),
        _fits(structure),
    )


def run(plan: Plan, restart_vector: Tensor, restart: float, steps: int) -> tuple[Tensor, Tensor]:
    if plan.questions is not None:
        return _launch(plan, restart_vector, restart, steps)
    # Question by question, each program reads and writes whole lines of memory.
    confidence, flow = _launch(plan, restart_vector.T.contiguous(), restart, steps)
    return confidence.T.contiguous(), flow.T.contiguous()


def _fits(structure: Structure) -> int:
    """The power of two that holds the whole batch, where it is small: its sizes are all that the host knows."""
    total = max(structure.num_entities, structure.num_hyperedges, LEAST_FITS)
    return min(1 << (total - 1).bit_length(), MOST_FITS)


def _launch(plan: Plan, restart_vector: Tensor, restart: float, steps: int) -> tuple[Tensor, Tensor]:
    from hyce_kernels.propagation import triton_kernels

    scaled, confidence = torch.empty_like(restart_vector), torch.empty_like(restart_vector)
    flow = restart_vector.new_empty((*restart_vector.shape[:-1], plan.num_hyperedges))
    mix = torch.stack([restart_vector.new_full((), value) for value in (restart, 1 - restart)])
    arrays = (*plan.incidence, *plan.weights, scaled, confidence, flow)
    num_questions = len(restart_vector) if plan.questions is None else len(plan.questions[0]) - 1
    # A grid of no programs is refused.
    if num_questions == 0:
        return confidence, flow
    # Triton launches on the current device, which need not be the tensors' own.
    with torch.cuda.device_of(restart_vector):  # type: ignore[no-untyped-call]
        if plan.questions is None:
            sizes = (plan.num_entities, plan.num_hyperedges)
            triton_kernels.masked_walk[(num_questions,)](
                restart_vector, mix, steps, *sizes, *arrays, ROWS=ROWS, WIDTH=WIDTH, num_stages=1
            )
        else:
            triton_kernels.packed_walk[(num_questions,)](
                restart_vector, mix, steps, *plan.questions, *arrays,
                FITS=plan.fits, ROWS=ROWS, WIDTH=WIDTH, num_warps=8, num_stages=1,
            )  # fmt: skip
    return confidence, flow
