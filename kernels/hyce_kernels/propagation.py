"""Confidence propagation (HyCE-RAG equations 24 to 28) over a batch of sub-hypergraphs, as torch sparse CSR tensors.

Packed layout: the sub-hypergraphs of all questions stand block by block on the diagonal of one incidence matrix, so
one sparse product steps all of them. `propagation_reference` holds the same in plain 64-bit arithmetic.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from hyce_kernels.ragged import lengths, pointers, segment_sum


@dataclass(frozen=True)
class Plan:
    """The structure of a batch: its normalised incidence, S = spread @ collect (24).

    `collect` = W Bᵀ Dv⁻¹, CSR [hyperedges, entities]: what flows from the entities into each hyperedge.
    `spread` = U B De⁻¹, CSR [entities, hyperedges]: what each hyperedge hands back to its entities.
    W and U are the weights of hyperedges and entities (all one in the paper); Dv and De sum them, so that both
    matrices are column-stochastic.
    """

    collect: Tensor
    spread: Tensor


def plan(
    entity: Tensor,
    hyperedge: Tensor,
    num_entities: int,
    num_hyperedges: int,
    dtype: torch.dtype,
    hyperedge_weight: Tensor | None = None,
    entity_weight: Tensor | None = None,
) -> Plan:
    """Builds the normalised incidence of a packed batch.

    Args:
        entity, hyperedge: the incidences [N], numbered through the whole batch, distinct, sorted by hyperedge.
        hyperedge_weight, entity_weight: positive [hyperedges] and [entities]: an entity hands on to its hyperedges
            in proportion to theirs, a hyperedge to its entities in proportion to theirs; all alike where left out.
    """
    by_entity = torch.sort(entity, stable=True).indices
    rows = hyperedge[by_entity]
    members, incident = lengths(hyperedge, num_hyperedges), lengths(entity, num_entities)
    into, back = _shares(hyperedge_weight, hyperedge, dtype), _shares(entity_weight, entity, dtype)
    entity_degree = segment_sum(into[by_entity], incident)
    hyperedge_degree = segment_sum(back, members)
    collect = _csr(members, entity, into / entity_degree[entity], num_entities)
    spread = _csr(incident, rows, (back / hyperedge_degree[hyperedge])[by_entity], num_hyperedges)
    return Plan(collect, spread)


def _shares(weight: Tensor | None, of: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.ones(len(of), dtype=dtype, device=of.device) if weight is None else weight[of].to(dtype)


def run(plan: Plan, restart_vector: Tensor, restart: float, steps: int) -> Tensor:
    """c(0) = r; c(t+1) = restart · r + (1 - restart) · S c(t) (28).

    Args:
        restart_vector: r of all questions side by side [entities].

    Returns:
        c after `steps` steps [entities]. `plan.collect @ c` is what flows through each hyperedge.
    """
    confidence = restart_vector
    for _ in range(steps):
        moved = plan.spread @ (plan.collect @ confidence)
        confidence = restart * restart_vector + (1 - restart) * moved
    return confidence


def _csr(row_counts: Tensor, columns: Tensor, values: Tensor, num_columns: int) -> Tensor:
    with warnings.catch_warnings():
        # Torch calls CSR a beta feature at its first use in a process; the products used here are covered by tests.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        size = (len(row_counts), num_columns)
        return torch.sparse_csr_tensor(pointers(row_counts), columns, values, size, check_invariants=False)
