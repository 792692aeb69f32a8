"""Relevance, bridges and flow → one score, one unit of evidence a passage, supporting and divergent paths."""

from __future__ import annotations

import torch
from torch import Tensor

from hyce_gpu.assemble import Assembly, assembled
from hyce_gpu.config import Config
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.linked.walk import Walked
from hyce_gpu.select import Subgraph


def assemble(
    hypergraph: Hypergraph, subgraph: Subgraph, walked: Walked, relevance: Tensor, entry: Tensor, config: Config
) -> Assembly:
    """Args:
    relevance: of each hyperedge [H], in [0, 1]; entry: specificity of the entry entity that it holds [H].
    """
    steps, passages = subgraph.steps, hypergraph.passages
    passage = passages.of_hyperedge[subgraph.hyperedge]
    number = steps.numbered(subgraph.edge_question, passage, subgraph.num_questions, len(passages))
    entered = config.weight_entry * entry
    gain = steps.link(
        subgraph.local, passages.specificity, walked.is_entry, config.entry_bridge, passage, passages.subject[passage],
        relevance + entered, config.side_bridge,
    )  # fmt: skip
    terms = {
        "relevance": relevance,
        "entry": entered,
        "link": config.weight_link * gain,
        # What flows through all hyperedges of the passage.
        "propagation": config.weight_propagation * steps.group_share(subgraph.local, number, walked.hyperedge),
    }
    score = terms["relevance"] + terms["entry"] + terms["link"] + terms["propagation"]
    # One hyperedge of each passage.
    rows = steps.best_of_groups(subgraph.local, number, score, config.evidence_units)
    # All entities of a hyperedge are retained: the terms have weighed them already.
    retained = torch.ones_like(subgraph.entity, dtype=torch.bool)
    fallback = torch.zeros(subgraph.num_questions, dtype=torch.bool, device=score.device)
    return assembled(subgraph, rows, score, terms, retained, fallback, config)
