"""Frontier expansion under a budget, all questions at once, as sorted (question, id) keys."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hyce_kernels.ragged import gather_rows, is_member, lengths, split_keys, top_per_segment
from hyce_kernels.steps.torch_products import pair_products, products

_EPSILON = 1e-12
# A gathered pair costs about this many times a cell of the dense product.
_GATHER_COST = 16


@dataclass(frozen=True)
class Incidence:
    """The corpus-wide hypergraph, both ways as CSR."""

    member_pointer: Tensor  # [E+1]
    member: Tensor  # [N]
    incident_pointer: Tensor  # [V+1]
    incident: Tensor  # [N]

    @property
    def num_hyperedges(self) -> int:
        return len(self.member_pointer) - 1

    @property
    def num_entities(self) -> int:
        return len(self.incident_pointer) - 1


class Search:
    def __init__(
        self, graph: Incidence, entry_segment: Tensor, entry: Tensor, questions: Tensor, vectors: Tensor, budget: int,
        beta: float,
    ) -> None:  # fmt: skip
        self._graph, self._questions, self._vectors = graph, questions, vectors
        self._budget, self._beta, self._num_segments = budget, beta, len(questions)
        self._frontier = entry_segment * graph.num_entities + entry
        self._visited = self._frontier
        self._kept = self._frontier.new_empty(0)
        self._score = torch.zeros(0, dtype=torch.float64, device=entry.device)
        self._cut = torch.zeros(self._num_segments, dtype=torch.bool, device=entry.device)
        self._dense: Tensor | None = None
        self._first = True

    def hop(self) -> None:
        keys, from_frontier = self._reached()
        # Only the first hop meets entry entities: its hyperedges are all those that hold one.
        entries = from_frontier if self._first else torch.zeros_like(from_frontier)
        self._first = False
        fresh = ~is_member(keys, self._kept)
        keys, score = keys[fresh], self._scores(keys[fresh], entries[fresh])
        self._advance(self._keep_best(keys, score))

    def found(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        segment, hyperedge = split_keys(self._kept, self._graph.num_hyperedges)
        return segment, hyperedge, self._score, self._cut

    def _reached(self) -> tuple[Tensor, Tensor]:
        """Distinct (question, hyperedge) keys around the frontier, and how many frontier entities each holds."""
        graph = self._graph
        segment, entity = split_keys(self._frontier, graph.num_entities)
        position, hyperedge = gather_rows(graph.incident_pointer, graph.incident, entity)
        keys = segment[position] * graph.num_hyperedges + hyperedge
        found, counts = torch.unique(keys, return_counts=True)
        return found, counts

    def _scores(self, keys: Tensor, entries: Tensor) -> Tensor:
        segment, hyperedge = split_keys(keys, self._graph.num_hyperedges)
        size = self._graph.member_pointer.diff()[hyperedge].double()
        overlap = entries.double() / (size + _EPSILON)
        return self._beta * overlap + (1 - self._beta) * self._similarity(segment, hyperedge)

    def _similarity(self, segment: Tensor, hyperedge: Tensor) -> Tensor:
        if self._vectors.shape[1] == 0:
            return torch.zeros(len(hyperedge), dtype=torch.float64, device=hyperedge.device)
        cells = len(self._questions) * len(self._vectors)
        if self._dense is None and len(hyperedge) * _GATHER_COST >= cells:
            self._dense = products(self._questions, self._vectors)
        if self._dense is not None:
            return self._dense[segment, hyperedge].double()
        return pair_products(self._questions, self._vectors, segment, hyperedge)

    def _keep_best(self, keys: Tensor, score: Tensor) -> Tensor:
        """Adds new hyperedges under the budget; returns the keys of those that stay."""
        merged, order = torch.sort(torch.cat((self._kept, keys)))
        merged_score = torch.cat((self._score, score))[order]
        is_new = order >= len(self._kept)
        segment, _ = split_keys(merged, self._graph.num_hyperedges)
        self._cut |= lengths(segment, self._num_segments) > self._budget
        best = torch.sort(top_per_segment(segment, merged_score, self._num_segments, self._budget)).values
        self._kept, self._score = merged[best], merged_score[best]
        return self._kept[is_new[best]]

    def _advance(self, survivors: Tensor) -> None:
        graph = self._graph
        segment, hyperedge = split_keys(survivors, graph.num_hyperedges)
        position, entity = gather_rows(graph.member_pointer, graph.member, hyperedge)
        keys = torch.unique(segment[position] * graph.num_entities + entity)
        self._frontier = keys[~is_member(keys, self._visited)]
        self._visited = torch.sort(torch.cat((self._visited, self._frontier))).values
