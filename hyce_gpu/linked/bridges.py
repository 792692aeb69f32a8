"""How well single entities bridge two passages, as chains ask for it; `Steps.link` looks at all of them."""

from __future__ import annotations

import torch
from torch import Tensor

from hyce_gpu.config import Config
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.select import Subgraph


def bridge_weight(
    hypergraph: Hypergraph, subgraph: Subgraph, is_entry: Tensor, entity_row: Tensor, config: Config
) -> Tensor:
    """How much local entities count as bridges, one number for each of `entity_row` [M].

    What the question names itself bridges little.
    """
    specificity = hypergraph.passages.specificity[subgraph.entity[entity_row]]
    return torch.where(is_entry[entity_row], config.entry_bridge * specificity, specificity)


def is_subject(hypergraph: Hypergraph, subgraph: Subgraph, edge_row: Tensor, entity_row: Tensor) -> Tensor:
    """Whether each local entity [M] is what the passage of its local hyperedge [M] is about; no hyperedge is H."""
    subject = hypergraph.passages.subject[hypergraph.passages.of_hyperedge[subgraph.hyperedge]]
    # No entity is -2.
    return torch.cat((subject, subject.new_full((1,), -2)))[edge_row] == subgraph.entity[entity_row]
