"""Confidences → evidence, fused into supporting and divergent paths (SPEC.md, section 2, steps 9 to 14)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from hyce_kernels.ragged import lengths, rank_in_segment, segment_max, segment_sum
from torch import Tensor

from hyce_gpu.config import EPSILON, Config
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.propagate import Confidence
from hyce_gpu.select import Subgraph, best_rows, members_of


@dataclass(frozen=True)
class Assembly:
    """The evidence of a batch, question by question, best first. Rows point into the `Subgraph`."""

    row: Tensor  # [U] local hyperedge
    question: Tensor  # [U]
    score: Tensor  # [U] evidence score
    terms: Mapping[str, Tensor]  # each [U], weighted: they add up to the score
    retained: Tensor  # [W] bool: local entity retained
    fallback: Tensor  # [Q] bool
    # Rank of the unit that stands for each in its question; its own where it is a representative.
    represented_by: Tensor  # [U]
    is_path: Tensor  # [U] bool
    is_supporting: Tensor  # [U] bool: a representative that supports


def assemble(hypergraph: Hypergraph, subgraph: Subgraph, confidence: Confidence, config: Config) -> Assembly:
    retained = _retained(subgraph, confidence, config)
    coverage = segment_sum(retained[subgraph.entity_row].to(confidence.entity.dtype), subgraph.edge_size)
    terms = _terms(hypergraph, subgraph, confidence, coverage, config)
    fallback = _per_question_max(coverage, subgraph) == 0
    score, terms = _with_fallback(subgraph, terms, fallback)
    chosen = _choose(subgraph, score, coverage, fallback, config)
    question, score = subgraph.edge_question[chosen], score[chosen]
    is_path, represented_by = fuse_units(subgraph, chosen, retained, config)
    best = segment_max(score, lengths(question, subgraph.num_questions))
    supports = is_path & (score >= config.support_threshold * best[question])
    chosen_terms = {name: term[chosen] for name, term in terms.items()}
    return Assembly(chosen, question, score, chosen_terms, retained, fallback, represented_by, is_path, supports)


def _retained(subgraph: Subgraph, confidence: Confidence, config: Config) -> Tensor:
    """Which local entities are retained (30); the threshold is relative to the question's maximum."""
    most = segment_max(confidence.entity, subgraph.entity_count)[subgraph.entity_question]
    return (confidence.entity > 0) & (confidence.entity >= config.entity_threshold * most)


def _per_question_max(values: Tensor, subgraph: Subgraph) -> Tensor:
    return segment_max(values, lengths(subgraph.edge_question, subgraph.num_questions))


def _terms(
    hypergraph: Hypergraph, subgraph: Subgraph, confidence: Confidence, coverage: Tensor, config: Config
) -> dict[str, Tensor]:
    """The weighted terms of the evidence score (31 to 35), each [H]."""
    question, hyperedge = subgraph.edge_question, subgraph.hyperedge
    max_coverage = _per_question_max(coverage, subgraph)[question]
    max_confidence = _per_question_max(confidence.hyperedge, subgraph)[question]
    entries = confidence.is_entry[subgraph.entity_row].to(coverage.dtype)
    holds_entry = segment_max(entries, subgraph.edge_size)
    return {
        "coverage": config.weight_coverage * coverage / (max_coverage + EPSILON),
        "propagation": config.weight_propagation * confidence.hyperedge / (max_confidence + EPSILON),
        "extraction": config.weight_extraction * hypergraph.confidence[hyperedge],
        "entry": config.weight_entry * holds_entry,
        "relation": config.weight_relation * hypergraph.relation_confidence[hyperedge],
    }


def _with_fallback(subgraph: Subgraph, terms: dict[str, Tensor], fallback: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The evidence score; where no entity is retained, the retrieval score stands in its place (step 12)."""
    falls = fallback[subgraph.edge_question]
    zero = torch.zeros_like(subgraph.retrieval_score)
    terms = {name: torch.where(falls, zero, term) for name, term in terms.items()}
    terms["retrieval"] = torch.where(falls, subgraph.retrieval_score, zero)
    return torch.stack(tuple(terms.values())).sum(0), terms


def _choose(subgraph: Subgraph, score: Tensor, coverage: Tensor, fallback: Tensor, config: Config) -> Tensor:
    """The `evidence_units` best hyperedges of each question (36), ties by lower id, as local rows."""
    eligible = torch.nonzero((coverage > 0) | fallback[subgraph.edge_question])[:, 0]
    return best_rows(subgraph, eligible, score, config.evidence_units)


def fuse_units(subgraph: Subgraph, chosen: Tensor, retained: Tensor, config: Config) -> tuple[Tensor, Tensor]:
    """Fusion by Jaccard overlap of retained entities (37 to 39). Without retained entities nothing overlaps."""
    question = subgraph.edge_question[chosen]
    rank = rank_in_segment(question, subgraph.num_questions)
    unit, entity = members_of(subgraph, chosen)
    used = retained[entity]
    return subgraph.steps.fuse(
        unit[used], entity[used], question, rank, subgraph.num_questions, config.evidence_units,
        config.overlap_threshold,
    )  # fmt: skip
