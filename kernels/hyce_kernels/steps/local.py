"""The sub-hypergraphs of a batch as the steps take them: numbered through ("local"), question by question."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Local:
    """H hyperedges, W entities and N incidences of Q questions; every array int64.

    A hyperedge of id -1 is none: it has no members. Behind the last may stand entities of id -1 that no pointer covers,
    and incidences of the hyperedge H and of such an entity: they mean nothing.
    """

    hyperedge: Tensor  # [H] corpus-wide id
    edge_question: Tensor  # [H] sorted
    edge_pointer: Tensor  # [Q+1]
    entity: Tensor  # [W] corpus-wide id, ascending in each question
    entity_question: Tensor  # [W] sorted
    entity_pointer: Tensor  # [Q+1]
    member_pointer: Tensor  # [H+1]
    edge_row: Tensor  # [N] local hyperedge, sorted
    entity_row: Tensor  # [N] local entity, distinct and ascending in each hyperedge

    @property
    def num_questions(self) -> int:
        return len(self.edge_pointer) - 1
