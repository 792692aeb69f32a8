"""Sub-hypergraphs → confidence of every entity and hyperedge (SPEC.md, section 2, steps 6 to 8)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hyce_kernels import propagation, ragged
from hyce_kernels.ragged import segment_sum
from torch import Tensor

from hyce_gpu.config import EPSILON, Config
from hyce_gpu.expand import Entry
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.select import Subgraph, entry_mask
from hyce_gpu.similarity import Similarity


@dataclass(frozen=True)
class Confidence:
    """Aligned with the rows of a `Subgraph`."""

    entity: Tensor  # [W] c after the last step
    hyperedge: Tensor  # [H] ρ(e)
    is_entry: Tensor  # [W] bool: whether the entity is in V0


def propagate(
    hypergraph: Hypergraph, subgraph: Subgraph, entry: Entry, similarity: Similarity, config: Config
) -> Confidence:
    """Restart vector (22, 23), propagation (24 to 28) and hyperedge confidence (29)."""
    is_entry = entry_mask(hypergraph, subgraph, entry)
    alike = similarity.pairs(subgraph.entity_question, subgraph.entity)
    weight = config.alpha * alike + (1 - config.alpha) * is_entry.to(alike.dtype)
    total = segment_sum(weight, subgraph.entity_count)
    restart_vector = weight / (total + EPSILON)[subgraph.entity_question]
    plan = propagation.plan(packed(subgraph), weight.dtype, backend=subgraph.steps.propagation)
    confidence, _ = propagation.run(plan, restart_vector, config.restart, config.propagation_steps)
    members = subgraph.steps.member_sums(subgraph.local, confidence)
    size = torch.clamp(subgraph.edge_size, min=1).to(members.dtype)
    return Confidence(confidence, members / size, is_entry)


def packed(
    subgraph: Subgraph, hyperedge_weight: Tensor | None = None, entity_weight: Tensor | None = None
) -> propagation.Packed:
    """The structure that the walk runs on, with weights of the rows [H] and [W]; all alike where left out.

    Where there may be more incidences than count, one more hyperedge, of no question, holds what is left over.
    """
    local = subgraph.local
    members = local.member_pointer
    if ragged.waits_for(members):
        members = torch.cat((members, members.new_full((1,), len(local.entity_row))))
        if hyperedge_weight is not None:
            hyperedge_weight = torch.cat((hyperedge_weight, hyperedge_weight.new_ones(1)))
    return propagation.Packed(
        local.entity_row, members, local.entity_pointer, local.edge_pointer, len(local.entity), hyperedge_weight,
        entity_weight,
    )  # fmt: skip
