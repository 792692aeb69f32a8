"""Propagation as torch sparse CSR products, on any device that torch knows. Nothing here waits for the device.

Packed, the questions stand on the diagonal of one matrix and one product steps them all. Masked, one product steps the
dense state [V, Q]. On a GPU, cuSPARSE promises no order of its sums, so two runs may differ in their last bits.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from hyce_kernels.propagation.incidence import Factors, Incidence, both_ways, factors, inverse
from hyce_kernels.propagation.structure import Packed, Structure


@dataclass(frozen=True)
class Plan:
    """The normalised incidence, S = spread @ collect (24), columns summing to one.

    Packed, `collect` = W Bᵀ Dv⁻¹ as CSR [H, W]. Masked, W and Dv differ by question: `collect` = Bᵀ as CSR [E, V],
    and `into` [E, Q] and `inverse_degree` [V, Q] scale its results and its arguments. `spread` = U B De⁻¹ in both.
    """

    collect: Tensor
    spread: Tensor
    into: Tensor | None = None
    inverse_degree: Tensor | None = None


def plan(structure: Structure, dtype: torch.dtype) -> Plan:
    incidence = both_ways(structure)
    scale = factors(structure, incidence, dtype)
    size = (len(incidence.incident_pointer) - 1, len(incidence.member_pointer) - 1)
    spread = _csr(incidence.incident_pointer, incidence.incident, spread_values(incidence, scale), size)
    masked = not isinstance(structure, Packed)
    values = torch.ones_like(spread.values()) if masked else collect_values(incidence, scale)
    collect = _csr(incidence.member_pointer, incidence.member, values, size[::-1])
    return Plan(collect, spread, scale.into, inverse(scale.degree)) if masked else Plan(collect, spread)


def run(plan: Plan, restart_vector: Tensor, restart: float, steps: int) -> tuple[Tensor, Tensor]:
    confidence = restart_vector
    for _ in range(steps):
        moved = plan.spread @ _flow(plan, confidence)
        confidence = restart * restart_vector + (1 - restart) * moved
    return confidence, _flow(plan, confidence)


def collect_values(incidence: Incidence, scale: Factors) -> Tensor:
    """W Dv⁻¹ of each incidence [N], by hyperedge, packed."""
    return scale.into[incidence.hyperedge] / scale.degree[incidence.member]


def spread_values(incidence: Incidence, scale: Factors) -> Tensor:
    """U De⁻¹ of each incidence [N], by entity."""
    return (scale.back[incidence.member] / scale.size[incidence.hyperedge])[incidence.by_entity]


def _flow(plan: Plan, confidence: Tensor) -> Tensor:
    if plan.into is None or plan.inverse_degree is None:
        return plan.collect @ confidence
    return plan.into * (plan.collect @ (plan.inverse_degree * confidence))


def _csr(pointer: Tensor, columns: Tensor, values: Tensor, size: tuple[int, ...]) -> Tensor:
    with warnings.catch_warnings():
        # Torch calls CSR a beta feature at its first use in a process; the products used here are covered by tests.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(pointer, columns, values, size, check_invariants=False)
