"""Confidence propagation (HyCE-RAG equations 24 to 28) of a batch of questions: one contract, several backends.

S = U B De⁻¹ W Bᵀ Dv⁻¹ (24 to 27): an entity hands its confidence on to its hyperedges in proportion to their weights
W, a hyperedge to its entities in proportion to theirs U (all one in the paper); Dv and De are the sums of those weights
for each entity and each hyperedge, so that the columns of S sum to one. c(0) = r and
c(t+1) = restart · r + (1 - restart) · S c(t) (28).

`plan` looks at the structure once, `run` walks any number of restart vectors through it:

    packed = Packed(entity, member_pointer, entity_pointer, hyperedge_pointer, num_entities)
    confidence, flow = run(plan(packed, torch.float32), restart_vector, restart=0.5, steps=10)

Shapes: Q questions; W entities, H hyperedges and N incidences of the batch (packed); V entities and E hyperedges of the
corpus (masked).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from hyce_kernels.errors import KernelError
from hyce_kernels.propagation import numba_backend, reference, torch_csr, torch_sparse_backend, triton_backend
from hyce_kernels.propagation.choose import BACKENDS, choose, packed_or_masked
from hyce_kernels.propagation.structure import Masked, Packed, Structure

__all__ = ["Packed", "Masked", "Structure", "Plan", "plan", "run", "choose", "packed_or_masked", "BACKENDS"]


class _Backend(Protocol):
    # What a backend's `plan` returns is its own affair, and only its `run` looks into it.
    plan: Any
    run: Any


_MODULES: dict[str, _Backend] = {
    "reference": reference,
    "torch": torch_csr,
    "torch_sparse": torch_sparse_backend,
    "triton": triton_backend,
    "numba": numba_backend,
}


@dataclass(frozen=True)
class Plan:
    """A structure that is ready to run: on its backend, with values of one type and shape."""

    backend: str
    dtype: torch.dtype
    device: torch.device
    # Of the restart vector: [W] packed, [V, Q] masked.
    shape: tuple[int, ...]
    # The backend's own.
    inner: Any


def plan(structure: Structure, dtype: torch.dtype, backend: str = "auto") -> Plan:
    """Looks at the structure of a batch once, for any number of runs.

    Args:
        structure: `Packed` or `Masked`; its tensors stand on the device that is to compute.
        dtype: of the values, float32 or float64. Sums of ten steps lose too much in 16 bits.
        backend: "reference", "torch", "torch_sparse", "triton", "numba", or "auto" (see `choose`).

    Raises:
        MissingBackendError: a backend that was asked for by name is not installed.
        KernelError: an unknown backend, one that does not run on the device, or another dtype.
    """
    if dtype not in (torch.float32, torch.float64):
        raise KernelError(f"dtype must be torch.float32 or torch.float64, found {dtype}")
    name = choose(structure, structure.device, backend)
    packed = isinstance(structure, Packed)
    shape = (structure.num_entities,) if packed else (structure.num_entities, structure.num_questions)
    return Plan(name, dtype, structure.device, shape, _MODULES[name].plan(structure, dtype))


def run(plan: Plan, restart_vector: Tensor, restart: float, steps: int) -> tuple[Tensor, Tensor]:
    """Walks `steps` steps of equation 28.

    Args:
        restart_vector: r, of the plan's dtype and device. Packed, of all questions side by side [W]; masked [V, Q], 0
            for what is no entity of the question. Usually sums to one for each question; any scale is kept.
        restart: the share of r in each step, in [0, 1].
        steps: 0 gives back r.

    Returns:
        (confidence, flow) of the plan's dtype. Confidence is c after the last step, [W] or [V, Q]; an entity without a
        hyperedge keeps restart · r. Flow is W Bᵀ Dv⁻¹ c, what flows from that c through each hyperedge, [H] or [E, Q],
        0 where the mask leaves the hyperedge out.

    Raises:
        KernelError: a restart vector of another shape, dtype or device than the plan's.
    """
    found = (tuple(restart_vector.shape), restart_vector.dtype, restart_vector.device)
    if found != (plan.shape, plan.dtype, plan.device):
        raise KernelError(
            f"restart_vector must be {list(plan.shape)} {plan.dtype} on {plan.device} as its plan is, "
            f"found {list(found[0])} {found[1]} on {found[2]}"
        )
    confidence, flow = _MODULES[plan.backend].run(plan.inner, restart_vector.contiguous(), restart, steps)
    return confidence, flow
