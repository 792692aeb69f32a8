"""Candidates → each question's own sub-hypergraph (SPEC.md, section 2, step 5)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from hyce_kernels import ragged
from hyce_kernels.ragged import pointers
from hyce_kernels.steps import Steps
from hyce_kernels.steps.local import Local
from torch import Tensor

from hyce_gpu.expand import Entry
from hyce_gpu.hypergraph import Hypergraph


@dataclass(frozen=True)
class Subgraph:
    """The sub-hypergraphs of a batch, numbered through ("local"), question by question.

    Hyperedges of a question stand in falling order of retrieval score, ties by lower id; entities ascend. Where to know
    how many there are would mean to wait for the device, there may be more rows than that, which mean nothing: behind
    the hyperedges of a question some of id -1 and score -1, without members; behind all entities some of id -1 that no
    count covers; behind all incidences some of local hyperedge H, which is none, and of such an entity.
    """

    num_questions: int
    edge_question: Tensor  # [H] int64
    hyperedge: Tensor  # [H] corpus-wide id, -1 for none
    retrieval_score: Tensor  # [H]
    entity_question: Tensor  # [W] int64
    entity: Tensor  # [W] corpus-wide id, -1 for none
    # Incidences, sorted by local hyperedge.
    edge_row: Tensor  # [N] local hyperedge, H for none
    entity_row: Tensor  # [N] local entity
    # Members of each local hyperedge, and local entities of each question.
    edge_size: Tensor  # [H]
    entity_count: Tensor  # [Q]
    # What computes on them.
    steps: Steps

    @cached_property
    def local(self) -> Local:
        """The same as the steps take it."""
        questions = torch.arange(self.num_questions + 1, device=self.hyperedge.device)
        return Local(
            self.hyperedge, self.edge_question, torch.searchsorted(self.edge_question, questions),
            self.entity, self.entity_question, pointers(self.entity_count),
            pointers(self.edge_size), self.edge_row, self.entity_row,
        )  # fmt: skip


def subgraph_of(
    hypergraph: Hypergraph, question: Tensor, hyperedge: Tensor, score: Tensor, num_questions: int, steps: Steps
) -> Subgraph:
    """The sub-hypergraphs that chosen hyperedges make, with their entities (21); arguments as the fields [H].

    On CUDA with as many incidences as Q times the H / Q largest hyperedges of the corpus hold; see `Steps.incidence`.
    """
    edge_row, entity_row, entity_question, entity = steps.incidence(
        hypergraph.member_pointer, hypergraph.member, question, hyperedge, num_questions, hypergraph.num_entities
    )
    # What is no entity stands behind all others.
    counted = torch.where(entity < 0, num_questions, entity_question) if ragged.waits_for(entity) else entity_question
    starts = torch.searchsorted(counted, torch.arange(num_questions + 1, device=question.device))
    size = hypergraph.member_pointer[hyperedge + 1] - hypergraph.member_pointer[hyperedge]
    return Subgraph(
        num_questions, question, hyperedge, score, entity_question, entity, edge_row, entity_row,
        torch.where(hyperedge < 0, 0, size), starts.diff(), steps,
    )  # fmt: skip


def unit_members(subgraph: Subgraph, rows: Tensor) -> tuple[Tensor, Tensor]:
    """The entities of some local hyperedges [U], -1 for none: (place in `rows`, local entity), in no order.

    A place of U means nothing; see `Steps.unit_members`.
    """
    return subgraph.steps.unit_members(subgraph.local.member_pointer, subgraph.edge_row, subgraph.entity_row, rows)


def best_table(subgraph: Subgraph, score: Tensor, k: int) -> Tensor:
    """The k best local hyperedges of each question: falling score [H], ties by lower id; [Q · k], -1 for none.

    Scores below zero stay out.
    """
    question, tie = subgraph.edge_question, subgraph.hyperedge
    return subgraph.steps.top_table(question, score, subgraph.num_questions, k, tie)


def entry_mask(hypergraph: Hypergraph, subgraph: Subgraph, entry: Entry) -> Tensor:
    """Whether each local entity is an entry entity of its question [W], bool."""
    found = subgraph.steps.contains(
        subgraph.entity_question, subgraph.entity, entry.question, entry.entity, subgraph.num_questions,
        hypergraph.num_entities,
    )  # fmt: skip
    return found & (subgraph.entity >= 0)
