"""Confidences → evidence, fused into supporting and divergent paths (SPEC.md, section 2, steps 9 to 14)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from hyce_kernels.ragged import segment_max
from torch import Tensor

from hyce_gpu.config import EPSILON, Config
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.propagate import Confidence
from hyce_gpu.select import Subgraph, best_table, unit_members


@dataclass(frozen=True)
class Assembly:
    """The evidence of a batch, as many places for each question as it may have units, best first: [Q · K].

    No size here depends on what was found, so that a device never has to be asked.
    """

    row: Tensor  # [U] local hyperedge, -1 where the question has fewer
    score: Tensor  # [U] evidence score, 0 where there is none
    terms: Mapping[str, Tensor]  # each [U], weighted: they add up to the score; nothing where there is no unit
    retained: Tensor  # [W] bool: local entity retained
    fallback: Tensor  # [Q] bool
    # Place of the unit that stands for each in its question; its own where it is a representative.
    represented_by: Tensor  # [U]
    is_path: Tensor  # [U] bool
    is_supporting: Tensor  # [U] bool: a representative that supports


def assemble(hypergraph: Hypergraph, subgraph: Subgraph, confidence: Confidence, config: Config) -> Assembly:
    retained = _retained(subgraph, confidence, config)
    coverage = subgraph.steps.member_sums(subgraph.local, retained)
    terms = _terms(hypergraph, subgraph, confidence, coverage, config)
    fallback = _per_question_max(coverage, subgraph) == 0
    score, terms = _with_fallback(subgraph, terms, fallback)
    # (36)
    eligible = (coverage > 0) | fallback[subgraph.edge_question]
    rows = best_table(subgraph, torch.where(eligible, score, -1.0), config.evidence_units)
    return assembled(subgraph, rows, score, terms, retained, fallback, config)


def assembled(
    subgraph: Subgraph,
    rows: Tensor,
    score: Tensor,
    terms: Mapping[str, Tensor],
    retained: Tensor,
    fallback: Tensor,
    config: Config,
) -> Assembly:
    """Chosen hyperedges [Q · K] as fused evidence (37 to 40).

    Args:
        score, terms: of each local hyperedge [H].
    """
    width, valid, row = config.evidence_units, rows >= 0, rows.clamp(min=0)
    unit_score = torch.where(valid, score[row], 0.0) if len(score) else score.new_zeros(len(rows))
    is_path, represented_by = _fused(subgraph, rows, retained, config)
    best = unit_score.view(-1, width).max(1, keepdim=True).values
    supports = is_path & (unit_score.view(-1, width) >= config.support_threshold * best).flatten()
    chosen_terms = {name: term[row] if len(term) else unit_score for name, term in terms.items()}
    return Assembly(rows, unit_score, chosen_terms, retained, fallback, represented_by, is_path, supports)


def _retained(subgraph: Subgraph, confidence: Confidence, config: Config) -> Tensor:
    """Which local entities are retained (30); the threshold is relative to the question's maximum."""
    most = segment_max(confidence.entity, subgraph.entity_count)[subgraph.entity_question]
    return (confidence.entity > 0) & (confidence.entity >= config.entity_threshold * most)


def _per_question_max(values: Tensor, subgraph: Subgraph) -> Tensor:
    return segment_max(values, subgraph.local.edge_pointer.diff())


def _terms(
    hypergraph: Hypergraph, subgraph: Subgraph, confidence: Confidence, coverage: Tensor, config: Config
) -> dict[str, Tensor]:
    """The weighted terms of the evidence score (31 to 35), each [H]."""
    question, hyperedge = subgraph.edge_question, subgraph.hyperedge
    max_coverage = _per_question_max(coverage, subgraph)[question]
    max_confidence = _per_question_max(confidence.hyperedge, subgraph)[question]
    holds_entry = (subgraph.steps.member_sums(subgraph.local, confidence.is_entry) > 0).to(coverage.dtype)
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


def _fused(subgraph: Subgraph, rows: Tensor, retained: Tensor, config: Config) -> tuple[Tensor, Tensor]:
    """Fusion by Jaccard overlap of retained entities (37 to 39). Without retained entities nothing overlaps."""
    unit, entity = unit_members(subgraph, rows)
    used = torch.where(retained[entity], unit, len(rows))
    return subgraph.steps.fuse(
        used, entity, rows >= 0, config.evidence_units, len(subgraph.entity), config.overlap_threshold
    )
