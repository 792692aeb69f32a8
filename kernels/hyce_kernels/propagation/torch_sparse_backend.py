"""Propagation with the products of `torch_sparse` (0.6.18), which is imported where it is used and not before.

The same matrices as `torch_csr`, as `SparseTensor`s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hyce_kernels.propagation.incidence import both_ways, factors, inverse
from hyce_kernels.propagation.structure import Packed, Structure
from hyce_kernels.propagation.torch_csr import collect_values, spread_values


@dataclass(frozen=True)
class Plan:
    """As `torch_csr.Plan`: S = spread @ collect; `into` and `inverse_degree` are what the masked layout adds."""

    collect: Any
    spread: Any
    into: Tensor | None = None
    inverse_degree: Tensor | None = None


def plan(structure: Structure, dtype: torch.dtype) -> Plan:
    incidence = both_ways(structure)
    scale = factors(structure, incidence, dtype)
    size = (structure.num_entities, structure.num_hyperedges)
    spread = _sparse(incidence.incident_pointer, incidence.incident, spread_values(incidence, scale), size)
    if isinstance(structure, Packed):
        values = collect_values(incidence, scale)
        return Plan(_sparse(incidence.member_pointer, incidence.member, values, size[::-1]), spread)
    ones = scale.back.new_ones(len(incidence.member))
    collect = _sparse(incidence.member_pointer, incidence.member, ones, size[::-1])
    return Plan(collect, spread, scale.into, inverse(scale.degree))


def run(plan: Plan, restart_vector: Tensor, restart: float, steps: int) -> tuple[Tensor, Tensor]:
    confidence = restart_vector
    for _ in range(steps):
        moved = _product(plan.spread, _flow(plan, confidence))
        confidence = restart * restart_vector + (1 - restart) * moved
    return confidence, _flow(plan, confidence)


def _flow(plan: Plan, confidence: Tensor) -> Tensor:
    if plan.into is None or plan.inverse_degree is None:
        return _product(plan.collect, confidence)
    return plan.into * _product(plan.collect, plan.inverse_degree * confidence)


def _product(matrix: Any, dense: Tensor) -> Tensor:
    from torch_sparse import matmul

    rows, columns = matrix.sparse_sizes()
    # The CPU product divides by each of these counts, and the process dies where one is 0.
    if 0 in (rows, columns, dense.numel()):
        return dense.new_zeros((rows, *dense.shape[1:]))
    # It takes matrices only: a vector is one of a single column.
    found: Tensor = matmul(matrix, dense.view(columns, -1))
    return found.view(rows, *dense.shape[1:])


def _sparse(pointer: Tensor, columns: Tensor, values: Tensor, size: tuple[int, ...]) -> Any:
    from torch_sparse import SparseTensor

    # What is not trusted is checked by waiting for the device.
    return SparseTensor(
        rowptr=pointer, col=columns, value=values, sparse_sizes=size, is_sorted=True, trust_data=True
    )  # fmt: skip
