"""Entry entities → candidate hyperedges with their retrieval score (SPEC.md, section 2, steps 3 to 5)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from hyce_gpu.config import Config
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.similarity import Similarity


@dataclass(frozen=True)
class Entry:
    """The entry entities V0 of each question: distinct pairs, sorted by question, then entity."""

    num_questions: int
    question: Tensor  # [M] int64
    entity: Tensor  # [M] int64


@dataclass(frozen=True)
class Candidates:
    """The chosen hyperedges, question by question, best first, ties by lower id.

    Rows that mean nothing stand last in their question: hyperedge and score are -1.
    """

    question: Tensor  # [P] int64
    hyperedge: Tensor  # [P] int64
    score: Tensor  # [P] retrieval score (17)
    # Whether the candidate budget left hyperedges out.
    cut: Tensor  # [Q] bool


def expand(hypergraph: Hypergraph, entry: Entry, similarity: Similarity, config: Config) -> Candidates:
    """The `max_hyperedges` best (19, 20) of those within `expansion_hops` of the entry entities (15 to 17).

    Where more than `candidate_budget` hyperedges of a question are reached, those with the highest retrieval score
    stay, ties by lower id, and the expansion goes on from the newest of them only.
    """
    return Candidates(
        *similarity.steps.expand(
            hypergraph.member_pointer, hypergraph.member, hypergraph.incident_pointer, hypergraph.incident,
            entry.question, entry.entity, similarity.questions, similarity.vectors, config.expansion_hops,
            config.candidate_budget, config.beta, config.max_hyperedges,
        )
    )  # fmt: skip
