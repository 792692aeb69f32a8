"""The ragged steps as torch operations, on any device. See `contract.Steps` for what each does."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hyce_kernels import fusion, ragged
from hyce_kernels.ragged import (
    gather_rows,
    is_member,
    lengths,
    rank_in_segment,
    segment_max,
    segment_sum,
    split_keys,
)
from hyce_kernels.steps import torch_candidates, torch_chains, torch_expand, torch_local, torch_search
from hyce_kernels.steps.row_sizes import largest_rows
from hyce_kernels.steps.search import Corpus, Limits, Questions, Scored
from hyce_kernels.steps.torch_dense import keys
from hyce_kernels.steps.torch_products import pair_products, products


@dataclass(frozen=True)
class TorchSteps:
    # The propagation backend that goes with it.
    propagation: str = "torch"
    name = "torch"

    # What is a function of its own is the step as it stands.
    gather_rows, pair_products = staticmethod(gather_rows), staticmethod(pair_products)
    top_table, member_sums = staticmethod(torch_local.top_table), staticmethod(torch_local.member_sums)
    walk_start, link = staticmethod(torch_local.walk_start), staticmethod(torch_local.link)
    group_share, best_of_groups = staticmethod(torch_local.group_share), staticmethod(torch_local.best_of_groups)
    unit_members, chain_links = staticmethod(torch_chains.unit_members), staticmethod(torch_chains.chain_links)
    expand = staticmethod(torch_expand.expand)

    def distinct(self, segment: Tensor, ids: Tensor, num_segments: int, universe: int) -> tuple[Tensor, Tensor, Tensor]:
        pairs, count = torch.unique(segment * max(universe, 1) + ids, return_counts=True)
        return *split_keys(pairs, universe), count

    def contains(
        self, segment: Tensor, ids: Tensor, of_segment: Tensor, of_ids: Tensor, num_segments: int, universe: int
    ) -> Tensor:
        base = max(universe, 1)
        return is_member(segment * base + ids, of_segment * base + of_ids)

    def top_per_segment(
        self, segment: Tensor, score: Tensor, num_segments: int, k: int, tie: Tensor | None = None
    ) -> Tensor:
        order = torch_local.falling(segment, score, tie)
        return order[rank_in_segment(segment[order], num_segments) < k]

    def incidence(
        self, pointer: Tensor, values: Tensor, segment: Tensor, rows: Tensor, num_segments: int, universe: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        if ragged.waits_for(rows):
            return _bounded_incidence(pointer, values, segment, rows, num_segments, max(universe, 1))
        edge_row, member = gather_rows(pointer, values, rows)
        pairs, entity_row = torch.unique(segment[edge_row] * max(universe, 1) + member, return_inverse=True)
        return edge_row, entity_row, *split_keys(pairs, universe)

    def overlap(
        self,
        pointer: Tensor,
        values: Tensor,
        rows: Tensor,
        segment: Tensor,
        set_segment: Tensor,
        set_ids: Tensor,
        num_segments: int,
        universe: int,
        weight: Tensor | None = None,
        value_weight: Tensor | None = None,
        reduce: str = "sum",
    ) -> Tensor:
        places = torch.arange(len(values), device=values.device)
        row, place = gather_rows(pointer, places, rows)
        value = values[place]
        counted = self.contains(segment[row], value, set_segment, set_ids, num_segments, universe).double()
        if weight is not None:
            counted *= weight[place]
        if value_weight is not None:
            counted *= value_weight[value]
        counts = lengths(row, len(rows))
        return segment_sum(counted, counts) if reduce == "sum" else segment_max(counted, counts)

    def nearest(self, questions: Tensor, vectors: Tensor, k: int) -> tuple[Tensor, Tensor]:
        found = keys(products(questions, vectors)).topk(min(k, len(vectors)), dim=1).indices
        question = torch.arange(len(found), device=found.device)
        return question.repeat_interleave(found.shape[1]), found.flatten()

    def merged(
        self, segment: Tensor, ids: Tensor, more_segment: Tensor, more_ids: Tensor, num_segments: int, universe: int
    ) -> Tensor:
        pairs = torch.cat((segment, more_segment)) * max(universe, 1) + torch.cat((ids, more_ids))
        return torch.sort(pairs).indices

    def numbered(self, segment: Tensor, ids: Tensor, num_segments: int, universe: int) -> Tensor:
        return _numbers(segment * max(universe, 1) + ids)

    def fuse(
        self, unit: Tensor, element: Tensor, valid: Tensor, width: int, num_elements: int, threshold: float
    ) -> tuple[Tensor, Tensor]:
        overlap = fusion.jaccard(unit, element, len(valid), width, num_elements)
        representative, represented_by = fusion.fuse(overlap, valid.view(-1, width), threshold)
        return representative.flatten(), represented_by.flatten()

    def candidates(self, corpus: Corpus, questions: Questions, limits: Limits) -> Scored:
        if questions.near is None and questions.near_passages is None:
            return torch_candidates.candidates(corpus, questions, limits)
        # Who has an index has more hyperedges than can be compared with every question.
        return torch_search.Search(self, corpus, questions, limits).found()


def _bounded_incidence(
    pointer: Tensor, values: Tensor, segment: Tensor, rows: Tensor, num_segments: int, base: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`Steps.incidence` in sizes that the host knows.

    No row stands in a segment twice, and so none more than `num_segments` times: all H rows hold at most num_segments
    times what the ceil(H / num_segments) largest rows of the array hold. One hub counts once a segment.
    """
    most = num_segments * largest_rows(pointer, -(-len(rows) // max(1, num_segments)))
    edge_row, member = gather_rows(pointer, values, rows, most)
    # Above all keys; so what is left over has an entity of its own, behind all others.
    none = num_segments * base
    start = torch.cat((segment * base, segment.new_zeros(1)))[edge_row]
    pairs = torch.where(edge_row < len(rows), start + member, none)
    entity_row = _numbers(pairs)
    entities = torch.full((min(most, none + 1),), none, dtype=torch.long, device=rows.device)
    entities[entity_row] = pairs
    entity_segment, entity = split_keys(entities, base)
    is_none = entities == none
    return edge_row, entity_row, entity_segment.clamp(max=num_segments - 1), torch.where(is_none, -1, entity)


def _numbers(pairs: Tensor) -> Tensor:
    """The number of each among the distinct ones, in ascending order."""
    ascending, order = torch.sort(pairs)
    number = torch.empty_like(order)
    number[order] = torch.cat((pairs.new_zeros(min(1, len(pairs))), (ascending.diff() != 0).long())).cumsum(0)
    return number
