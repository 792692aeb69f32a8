"""Propagation as fused loops on the CPU, threads over questions. Numba is imported by the first plan, not before.

All steps of a question run while its state stays in cache. 32-bit plans compute in 32 bits, 64-bit plans in 64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hyce_kernels.propagation.incidence import both_ways, factors, inverse, weights
from hyce_kernels.propagation.structure import Packed, Structure


@dataclass(frozen=True)
class Plan:
    """The arrays that the kernel of the layout takes first, in its order, and the count of hyperedges."""

    kernel: Any
    arrays: tuple[Any, ...]
    num_hyperedges: int


def plan(structure: Structure, dtype: torch.dtype) -> Plan:
    return _plan_packed(structure, dtype) if isinstance(structure, Packed) else _plan_masked(structure, dtype)


def run(plan: Plan, restart_vector: Tensor, restart: float, steps: int) -> tuple[Tensor, Tensor]:
    values = restart_vector.numpy()
    # NumPy asks for huge pages, which torch does not: to touch small ones first costs as much as the walk.
    confidence = np.empty(values.shape, values.dtype)
    flow = np.empty((plan.num_hyperedges, *values.shape[1:]), values.dtype)
    # A Python float would widen 32-bit arithmetic.
    kept, rest = values.dtype.type(restart), values.dtype.type(1 - restart)
    plan.kernel(*plan.arrays, values, kept, rest, steps, confidence, flow)
    return torch.from_numpy(confidence), torch.from_numpy(flow)


def _plan_packed(packed: Packed, dtype: torch.dtype) -> Plan:
    from hyce_kernels.propagation import numba_kernels

    structure = packed.entity, packed.member_pointer, packed.entity_pointer, packed.hyperedge_pointer
    arrays = _arrays(*structure, *weights(packed, dtype))
    return Plan(numba_kernels.run_packed, arrays, packed.num_hyperedges)


def _plan_masked(structure: Structure, dtype: torch.dtype) -> Plan:
    from hyce_kernels.propagation import numba_kernels

    incidence = both_ways(structure)
    scale = factors(structure, incidence, dtype)
    share = scale.into * inverse(scale.size)[:, None]
    arrays = _arrays(
        incidence.member, incidence.member_pointer, incidence.incident_pointer, incidence.incident,
        scale.into, scale.back, share, inverse(scale.degree),
    )  # fmt: skip
    return Plan(numba_kernels.run_masked, arrays, structure.num_hyperedges)


def _arrays(*tensors: Tensor) -> tuple[Any, ...]:
    # A strided array would be another type to numba, and compile the kernel once more.
    return tuple(tensor.contiguous().numpy() for tensor in tensors)
