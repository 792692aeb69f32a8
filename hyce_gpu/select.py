"""Candidates → each question's own sub-hypergraph (SPEC.md, section 2, step 5)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hyce_kernels.ragged import gather_rows, is_member, lengths, split_keys, top_per_segment
from torch import Tensor

from hyce_gpu.config import Config
from hyce_gpu.expand import Candidates, Entry
from hyce_gpu.hypergraph import Hypergraph


@dataclass(frozen=True)
class Subgraph:
    """The sub-hypergraphs of a batch, numbered through ("local"), question by question.

    Hyperedges of a question stand in falling order of retrieval score, ties by lower id; entities ascend.
    """

    num_questions: int
    edge_question: Tensor  # [H] int64
    hyperedge: Tensor  # [H] corpus-wide id
    retrieval_score: Tensor  # [H]
    entity_question: Tensor  # [W] int64
    entity: Tensor  # [W] corpus-wide id
    # Incidences, sorted by local hyperedge.
    edge_row: Tensor  # [N] local hyperedge
    entity_row: Tensor  # [N] local entity
    # Members of each local hyperedge, and local entities of each question.
    edge_size: Tensor  # [H]
    entity_count: Tensor  # [Q]


def select(hypergraph: Hypergraph, candidates: Candidates, config: Config) -> Subgraph:
    """Takes the `max_hyperedges` best candidates of each question (19, 20) and their entities (21)."""
    num_questions = len(candidates.cut)
    best = top_per_segment(candidates.question, candidates.score, num_questions, config.max_hyperedges)
    return subgraph_of(
        hypergraph, candidates.question[best], candidates.hyperedge[best], candidates.score[best], num_questions
    )


def subgraph_of(
    hypergraph: Hypergraph, question: Tensor, hyperedge: Tensor, score: Tensor, num_questions: int
) -> Subgraph:
    """The sub-hypergraphs that chosen hyperedges make, with their entities; arguments as the fields [H]."""
    edge_row, member = gather_rows(hypergraph.member_pointer, hypergraph.member, hyperedge)
    base = max(hypergraph.num_entities, 1)
    keys, entity_row = torch.unique(question[edge_row] * base + member, return_inverse=True)
    entity_question, entity = split_keys(keys, base)
    return Subgraph(
        num_questions, question, hyperedge, score, entity_question, entity, edge_row, entity_row,
        lengths(edge_row, len(hyperedge)), lengths(entity_question, num_questions),
    )  # fmt: skip


def best_rows(subgraph: Subgraph, rows: Tensor, score: Tensor, k: int) -> Tensor:
    """The k best of `rows` [M] of each question, in its order: falling score [H], ties by lower hyperedge id."""
    rows = rows[torch.sort(subgraph.hyperedge[rows], stable=True).indices]
    rows = rows[torch.sort(subgraph.edge_question[rows], stable=True).indices]
    return rows[top_per_segment(subgraph.edge_question[rows], score[rows], subgraph.num_questions, k)]


def entry_mask(hypergraph: Hypergraph, subgraph: Subgraph, entry: Entry) -> Tensor:
    """Whether each local entity is an entry entity of its question [W], bool."""
    base = max(hypergraph.num_entities, 1)
    return is_member(subgraph.entity_question * base + subgraph.entity, entry.question * base + entry.entity)
