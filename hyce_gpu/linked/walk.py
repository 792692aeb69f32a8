"""The walk over each question's own sub-hypergraph: relevant hyperedges carry more, specific entities receive more."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hyce_kernels import propagation
from hyce_kernels.ragged import lengths, segment_max, segment_sum
from torch import Tensor

from hyce_gpu.config import EPSILON, Config
from hyce_gpu.expand import Entry
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.propagate import packed
from hyce_gpu.select import Subgraph, best_table, entry_mask

# What carries a hyperedge of no relevance: a way to a relevant one may lead through it.
LEAST_WEIGHT = 0.05


@dataclass(frozen=True)
class Walked:
    """Aligned with the rows of a `Subgraph`."""

    entity: Tensor  # [W] c after the last step
    hyperedge: Tensor  # [H] what flows through the hyperedge
    is_entry: Tensor  # [W] bool


def walk(
    hypergraph: Hypergraph, subgraph: Subgraph, entry: Entry, relevance: Tensor, mixed: Tensor, config: Config
) -> Walked:
    """Propagates confidence (28) with weighted hyperedges and entities.

    Args:
        relevance: of each hyperedge [H], in [0, 1]; weighs it in the walk.
        mixed: of each hyperedge [H], unscaled; the `seed_hyperedges` highest of a question start the walk.
    """
    is_entry = entry_mask(hypergraph, subgraph, entry)
    rarity = 1 / hypergraph.passages.degree[subgraph.entity].clamp(min=1).double()
    from_hyperedges = _normalised(_seeds(subgraph, rarity, mixed, config), subgraph)
    from_entries = _normalised(rarity * is_entry, subgraph)
    restart_vector = _normalised(from_hyperedges + from_entries, subgraph)
    structure = packed(subgraph, hyperedge_weight=relevance + LEAST_WEIGHT, entity_weight=rarity)
    plan = propagation.plan(structure, restart_vector.dtype, backend=subgraph.steps.propagation)
    confidence, flow = propagation.run(plan, restart_vector, config.restart, config.propagation_steps)
    return Walked(confidence, flow[: len(mixed)], is_entry)


def _seeds(subgraph: Subgraph, rarity: Tensor, mixed: Tensor, config: Config) -> Tensor:
    """What the best hyperedges give their entities [W]: a softmax over them, split by rarity within each."""
    best = segment_max(mixed, lengths(subgraph.edge_question, subgraph.num_questions))[subgraph.edge_question]
    rows = best_table(subgraph, mixed, config.seed_hyperedges)
    # One place more, for rows that are none.
    is_seed = torch.zeros(len(mixed) + 1, dtype=torch.bool, device=mixed.device)
    is_seed[torch.where(rows < 0, len(mixed), rows)] = True
    weight = torch.exp((mixed - best) / config.seed_temperature) * is_seed[:-1]
    share = rarity[subgraph.entity_row]
    # A hyperedge without entities has nobody to give to.
    total = segment_sum(share, subgraph.edge_size)
    given = torch.cat((weight / total, total.new_zeros(1)))[subgraph.edge_row] * share
    return torch.zeros_like(rarity).index_add_(0, subgraph.entity_row, given)


def _normalised(weight: Tensor, subgraph: Subgraph) -> Tensor:
    """Sums to one in each question that has any weight."""
    total = segment_sum(weight, subgraph.entity_count)
    return weight / (total + EPSILON)[subgraph.entity_question]
