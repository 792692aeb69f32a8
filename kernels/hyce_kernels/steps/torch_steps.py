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
from hyce_kernels.steps.local import Local
from hyce_kernels.steps.row_sizes import largest_rows
from hyce_kernels.steps.search import Corpus, Limits, Questions, Scored
from hyce_kernels.steps.torch_products import pair_products, products


@dataclass(frozen=True)
class TorchSteps:
    # The propagation backend that goes with it.
    propagation: str = "torch"
    name = "torch"

    def gather_rows(self, pointer: Tensor, values: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        return gather_rows(pointer, values, rows)

    def distinct(self, segment: Tensor, ids: Tensor, num_segments: int, universe: int) -> tuple[Tensor, Tensor, Tensor]:
        keys, count = torch.unique(segment * max(universe, 1) + ids, return_counts=True)
        return *split_keys(keys, universe), count

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
        keys, entity_row = torch.unique(segment[edge_row] * max(universe, 1) + member, return_inverse=True)
        return edge_row, entity_row, *split_keys(keys, universe)

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

    def pair_products(self, questions: Tensor, vectors: Tensor, question: Tensor, row: Tensor) -> Tensor:
        return pair_products(questions, vectors, question, row)

    def nearest(self, questions: Tensor, vectors: Tensor, k: int) -> tuple[Tensor, Tensor]:
        # One number that orders by similarity, then by row: similarities are not negative, so their bits ascend.
        rows = torch.arange(len(vectors), device=vectors.device)
        key = (products(questions, vectors).float().view(torch.int32).long() << 32) - rows
        found = key.topk(min(k, len(vectors)), dim=1).indices
        question = torch.arange(len(found), device=found.device)
        return question.repeat_interleave(found.shape[1]), found.flatten()

    def walk_start(
        self,
        local: Local,
        degree: Tensor,
        entry_question: Tensor,
        entry: Tensor,
        mixed: Tensor,
        seeds: int,
        temperature: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        return torch_local.walk_start(local, degree, entry_question, entry, mixed, seeds, temperature)

    def link(
        self,
        local: Local,
        specificity: Tensor,
        is_entry: Tensor,
        entry_bridge: float,
        passage: Tensor,
        subject: Tensor,
        score: Tensor,
        side: float,
    ) -> Tensor:
        return torch_local.link(local, specificity, is_entry, entry_bridge, passage, subject, score, side)

    def group_share(self, local: Local, number: Tensor, value: Tensor) -> Tensor:
        return torch_local.group_share(local, number, value)

    def best_of_groups(self, local: Local, number: Tensor, score: Tensor, k: int) -> Tensor:
        return torch_local.best_of_groups(local, number, score, k)

    def member_sums(self, local: Local, value: Tensor) -> Tensor:
        return torch_local.member_sums(local, value)

    def merged(
        self, segment: Tensor, ids: Tensor, more_segment: Tensor, more_ids: Tensor, num_segments: int, universe: int
    ) -> Tensor:
        keys = torch.cat((segment, more_segment)) * max(universe, 1) + torch.cat((ids, more_ids))
        return torch.sort(keys).indices

    def top_table(self, segment: Tensor, score: Tensor, num_segments: int, k: int, tie: Tensor | None = None) -> Tensor:
        return torch_local.top_table(segment, score, num_segments, k, tie)

    def numbered(self, segment: Tensor, ids: Tensor, num_segments: int, universe: int) -> Tensor:
        keys, order = torch.sort(segment * max(universe, 1) + ids)
        number = torch.empty_like(order)
        number[order] = torch.cat((keys.new_zeros(min(1, len(keys))), (keys.diff() != 0).long())).cumsum(0)
        return number

    def unit_members(self, pointer: Tensor, row: Tensor, values: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        return torch_chains.unit_members(pointer, row, values, rows)

    def fuse(
        self, unit: Tensor, element: Tensor, valid: Tensor, width: int, num_elements: int, threshold: float
    ) -> tuple[Tensor, Tensor]:
        overlap = fusion.jaccard(unit, element, len(valid), width, num_elements)
        representative, represented_by = fusion.fuse(overlap, valid.view(-1, width), threshold)
        return representative.flatten(), represented_by.flatten()

    def chain_links(
        self,
        local: Local,
        rows: Tensor,
        is_path: Tensor,
        specificity: Tensor,
        is_entry: Tensor,
        entry_bridge: float,
        passage: Tensor,
        subject: Tensor,
        width: int,
        side: float,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        of_entity = specificity, is_entry, entry_bridge
        return torch_chains.chain_links(local, rows, is_path, *of_entity, passage, subject, width, side)

    def expand(
        self,
        member_pointer: Tensor,
        member: Tensor,
        incident_pointer: Tensor,
        incident: Tensor,
        entry_segment: Tensor,
        entry: Tensor,
        questions: Tensor,
        vectors: Tensor,
        hops: int,
        budget: int,
        beta: float,
        keep: int,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return torch_expand.expand(
            member_pointer, member, incident_pointer, incident, entry_segment, entry, questions, vectors, hops, budget,
            beta, keep,
        )  # fmt: skip

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
    keys, order = torch.sort(torch.where(edge_row < len(rows), start + member, none))
    number = torch.cat((keys.new_zeros(min(1, most)), (keys.diff() != 0).long())).cumsum(0)
    entity_row = torch.empty_like(order)
    entity_row[order] = number
    entities = torch.full((min(most, none + 1),), none, dtype=torch.long, device=rows.device)
    entities[number] = keys
    entity_segment, entity = split_keys(entities, base)
    is_none = entities == none
    return edge_row, entity_row, entity_segment.clamp(max=num_segments - 1), torch.where(is_none, -1, entity)
