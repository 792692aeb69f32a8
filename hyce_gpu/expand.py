"""Entry entities → candidate hyperedges with their retrieval score (SPEC.md, section 2, steps 3 and 4).

Breadth first over the incidence, all questions at once, as sorted (question, id) keys. Knows no vectors but through
`Similarity`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hyce_kernels.ragged import gather_rows, is_member, lengths, split_keys, top_per_segment
from torch import Tensor

from hyce_gpu.config import EPSILON, Config
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
    """Candidate hyperedges: distinct pairs, sorted by question, then hyperedge."""

    question: Tensor  # [P] int64
    hyperedge: Tensor  # [P] int64
    score: Tensor  # [P] retrieval score (17)
    # Whether the candidate budget left hyperedges out.
    cut: Tensor  # [Q] bool


def expand(hypergraph: Hypergraph, entry: Entry, similarity: Similarity, config: Config) -> Candidates:
    """Collects the hyperedges within `expansion_hops` of the entry entities (15, 16) and scores them (17).

    Where more than `candidate_budget` hyperedges of a question are reached, those with the highest retrieval score
    stay, ties by lower id, and the expansion goes on from the newest of them only.
    """
    search = _Search(hypergraph, entry, similarity, config)
    for _ in range(config.expansion_hops):
        search.hop()
    return search.candidates()


class _Search:
    def __init__(self, hypergraph: Hypergraph, entry: Entry, similarity: Similarity, config: Config) -> None:
        self._hypergraph, self._similarity, self._config = hypergraph, similarity, config
        self._num_questions = entry.num_questions
        self._frontier = entry.question * hypergraph.num_entities + entry.entity
        self._visited = self._frontier
        self._kept = self._frontier.new_empty(0)
        self._score = hypergraph.confidence.new_empty(0)
        self._cut = torch.zeros(entry.num_questions, dtype=torch.bool, device=hypergraph.device)
        self._first = True

    def hop(self) -> None:
        keys, from_frontier = self._reached()
        # Only the first hop meets entry entities: its hyperedges are all those that hold one.
        entries = from_frontier if self._first else torch.zeros_like(from_frontier)
        self._first = False
        fresh = ~is_member(keys, self._kept)
        keys, score = keys[fresh], self._scores(keys[fresh], entries[fresh])
        survivors = self._keep_best(keys, score)
        self._advance(survivors)

    def candidates(self) -> Candidates:
        question, hyperedge = split_keys(self._kept, self._hypergraph.num_hyperedges)
        return Candidates(question, hyperedge, self._score, self._cut)

    def _reached(self) -> tuple[Tensor, Tensor]:
        """Distinct (question, hyperedge) keys around the frontier, and how many frontier entities each holds."""
        hypergraph = self._hypergraph
        question, entity = split_keys(self._frontier, hypergraph.num_entities)
        position, hyperedge = gather_rows(hypergraph.incident_pointer, hypergraph.incident, entity)
        keys = question[position] * hypergraph.num_hyperedges + hyperedge
        found, counts = torch.unique(keys, return_counts=True)
        return found, counts

    def _scores(self, keys: Tensor, entries: Tensor) -> Tensor:
        question, hyperedge = split_keys(keys, self._hypergraph.num_hyperedges)
        size = self._hypergraph.member_pointer.diff()[hyperedge].to(self._score.dtype)
        overlap = entries.to(self._score.dtype) / (size + EPSILON)
        beta = self._config.beta
        return beta * overlap + (1 - beta) * self._similarity.pairs(question, hyperedge)

    def _keep_best(self, keys: Tensor, score: Tensor) -> Tensor:
        """Adds new hyperedges under the budget; returns the keys of those that stay."""
        merged, order = torch.sort(torch.cat((self._kept, keys)))
        merged_score = torch.cat((self._score, score))[order]
        is_new = order >= len(self._kept)
        question, _ = split_keys(merged, self._hypergraph.num_hyperedges)
        counts = lengths(question, self._num_questions)
        self._cut |= counts > self._config.candidate_budget
        best = top_per_segment(question, merged_score, self._num_questions, self._config.candidate_budget)
        best = torch.sort(best).values
        self._kept, self._score = merged[best], merged_score[best]
        return self._kept[is_new[best]]

    def _advance(self, survivors: Tensor) -> None:
        hypergraph = self._hypergraph
        question, hyperedge = split_keys(survivors, hypergraph.num_hyperedges)
        position, entity = gather_rows(hypergraph.member_pointer, hypergraph.member, hyperedge)
        keys = torch.unique(question[position] * hypergraph.num_entities + entity)
        self._frontier = keys[~is_member(keys, self._visited)]
        self._visited = torch.sort(torch.cat((self._visited, self._frontier))).values
