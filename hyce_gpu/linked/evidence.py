"""Relevance, bridges and flow → one score, one unit of evidence a passage, supporting and divergent paths."""

from __future__ import annotations

import torch
from hyce_kernels.ragged import lengths, segment_max
from torch import Tensor

from hyce_gpu.assemble import Assembly, assembled
from hyce_gpu.config import EPSILON, Config
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.linked.bridges import bridge_weight, is_subject
from hyce_gpu.linked.walk import Walked
from hyce_gpu.select import Subgraph, best_table


def assemble(
    hypergraph: Hypergraph, subgraph: Subgraph, walked: Walked, relevance: Tensor, entry: Tensor, config: Config
) -> Assembly:
    """Args:
    relevance: of each hyperedge [H], in [0, 1]; entry: specificity of the entry entity that it holds [H].
    """
    own = relevance + config.weight_entry * entry
    weight = bridge_weight(hypergraph, subgraph, walked.is_entry, subgraph.entity_row, config)
    is_about = is_subject(hypergraph, subgraph, subgraph.edge_row, subgraph.entity_row)
    passage = hypergraph.passages.of_hyperedge[subgraph.hyperedge]
    gain = subgraph.steps.link(
        subgraph.entity_row, subgraph.edge_row, weight, is_about, passage, own, config.side_bridge,
        subgraph.edge_question, subgraph.num_questions, len(subgraph.entity),
    )  # fmt: skip
    group = subgraph.steps.numbered(subgraph.edge_question, passage, subgraph.num_questions, len(hypergraph.passages))
    terms = {
        "relevance": relevance,
        "entry": config.weight_entry * entry,
        "link": config.weight_link * gain,
        "propagation": config.weight_propagation * _flow(subgraph, group, walked.hyperedge),
    }
    score = torch.where(subgraph.hyperedge < 0, -1.0, torch.stack(tuple(terms.values())).sum(0))
    # One hyperedge of each passage.
    speaks = subgraph.steps.leaders(group, score, subgraph.hyperedge)
    rows = best_table(subgraph, torch.where(speaks, score, -1.0), config.evidence_units)
    # All entities of a hyperedge are retained: the terms have weighed them already.
    retained = torch.ones_like(subgraph.entity, dtype=torch.bool)
    fallback = torch.zeros(subgraph.num_questions, dtype=torch.bool, device=score.device)
    return assembled(subgraph, rows, score, terms, retained, fallback, config)


def _flow(subgraph: Subgraph, group: Tensor, through: Tensor) -> Tensor:
    """What flows through all hyperedges of the passage [H], 1 for the question's highest."""
    total = torch.zeros_like(through).index_add_(0, group, through)[group]
    most = segment_max(total, lengths(subgraph.edge_question, subgraph.num_questions))
    return total / (most + EPSILON)[subgraph.edge_question]
