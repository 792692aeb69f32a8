"""Relevance, bridges and flow → one score, one unit of evidence a passage, supporting and divergent paths."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from hyce_kernels.ragged import lengths, segment_max
from torch import Tensor

from hyce_gpu.assemble import Assembly, fuse_units
from hyce_gpu.config import EPSILON, Config
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.linked.bridges import bridge_weight, is_subject
from hyce_gpu.linked.walk import Walked
from hyce_gpu.select import Subgraph, best_rows


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
    group = _local_passages(subgraph, passage, len(hypergraph.passages))
    terms = {
        "relevance": relevance,
        "entry": config.weight_entry * entry,
        "link": config.weight_link * gain,
        "propagation": config.weight_propagation * _flow(subgraph, group, walked.hyperedge),
    }
    score = torch.stack(tuple(terms.values())).sum(0)
    chosen = _choose(subgraph, group, score, config)
    return _paths(subgraph, chosen, score, terms, config)


def _local_passages(subgraph: Subgraph, passage: Tensor, num_passages: int) -> Tensor:
    """The passage of each hyperedge, numbered through the questions [H]."""
    rows = torch.arange(len(passage) + 1, device=passage.device)
    return subgraph.steps.incidence(
        rows, passage, subgraph.edge_question, rows[:-1], subgraph.num_questions, num_passages
    )[1]


def _flow(subgraph: Subgraph, group: Tensor, through: Tensor) -> Tensor:
    """What flows through all hyperedges of the passage [H], 1 for the question's highest."""
    total = torch.zeros_like(through).index_add_(0, group, through)[group]
    most = segment_max(total, lengths(subgraph.edge_question, subgraph.num_questions))
    return total / (most + EPSILON)[subgraph.edge_question]


def _choose(subgraph: Subgraph, group: Tensor, score: Tensor, config: Config) -> Tensor:
    """The best hyperedge of each passage, of those the `evidence_units` best of each question; ties by lower id."""
    rows = torch.sort(group, stable=True).indices
    # There are no more passages than hyperedges.
    best = rows[subgraph.steps.top_per_segment(group[rows], score[rows], len(rows), 1, subgraph.hyperedge[rows])]
    return best_rows(subgraph, best, score, config.evidence_units)


def _paths(subgraph: Subgraph, chosen: Tensor, score: Tensor, terms: Mapping[str, Tensor], config: Config) -> Assembly:
    question, score = subgraph.edge_question[chosen], score[chosen]
    # All entities of a hyperedge are retained: the terms have weighed them already.
    retained = torch.ones_like(subgraph.entity, dtype=torch.bool)
    is_path, represented_by = fuse_units(subgraph, chosen, retained, config)
    best = segment_max(score, lengths(question, subgraph.num_questions))
    supports = is_path & (score >= config.support_threshold * best[question])
    fallback = torch.zeros(subgraph.num_questions, dtype=torch.bool, device=score.device)
    chosen_terms = {name: term[chosen] for name, term in terms.items()}
    return Assembly(chosen, question, score, chosen_terms, retained, fallback, represented_by, is_path, supports)
