"""How well each entity bridges two passages: what linking and chains share."""

from __future__ import annotations

import torch
from torch import Tensor

from hyce_gpu.config import Config
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.select import Subgraph


def bridge_weight(hypergraph: Hypergraph, subgraph: Subgraph, is_entry: Tensor, config: Config) -> Tensor:
    """How much each incidence's entity counts as a bridge [N]; what the question names itself bridges little."""
    entity = subgraph.entity[subgraph.entity_row]
    factor = torch.where(is_entry[subgraph.entity_row], config.entry_bridge, 1.0)
    return hypergraph.passages.specificity[entity] * factor


def is_subject(hypergraph: Hypergraph, subgraph: Subgraph) -> Tensor:
    """Whether each incidence's entity is what the hyperedge's passage is about [N]."""
    passage = hypergraph.passages.of_hyperedge[subgraph.hyperedge]
    return hypergraph.passages.subject[passage][subgraph.edge_row] == subgraph.entity[subgraph.entity_row]
