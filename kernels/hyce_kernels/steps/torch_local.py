"""The steps on sub-hypergraphs as torch operations, on any device. See `contract.Steps` for what each does.

Nothing here waits for the device.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hyce_kernels import linking
from hyce_kernels.ragged import is_member, rank_in_segment, segment_max, segment_sum
from hyce_kernels.steps.local import Local
from hyce_kernels.steps.search import EPSILON


def falling(segment: Tensor, score: Tensor, tie: Tensor | None) -> Tensor:
    """Positions by segment, then falling score as 32-bit numbers, then tie, then position."""
    order = torch.arange(len(segment), device=segment.device) if tie is None else torch.sort(tie, stable=True).indices
    order = order[torch.sort(score[order].float(), descending=True, stable=True).indices]
    return order[torch.sort(segment[order], stable=True).indices]


def top_table(segment: Tensor, score: Tensor, num_segments: int, k: int, tie: Tensor | None = None) -> Tensor:
    order = falling(segment, score, tie)
    of, rank = segment[order], rank_in_segment(segment[order], num_segments)
    none = num_segments * k
    # What stays out goes to a cell of its own: to leave it out would need to know how much is left.
    cell = torch.where((rank < k) & (score[order] >= 0), of * k + rank, none)
    table = torch.full((none + 1,), -1, dtype=torch.long, device=segment.device)
    table[cell] = order
    return table[:-1]


def walk_start(
    local: Local,
    degree: Tensor,
    entry_question: Tensor,
    entry: Tensor,
    mixed: Tensor,
    seeds: int,
    temperature: float,
) -> tuple[Tensor, Tensor, Tensor]:
    base = max(len(degree), 1)
    is_entry = is_member(local.entity_question * base + local.entity, entry_question * base + entry)
    is_entry &= local.entity >= 0
    rarity = 1 / degree[local.entity].clamp(min=1).double()
    from_hyperedges = _normalised(_given(local, rarity, mixed, seeds, temperature), local)
    from_entries = _normalised(rarity * is_entry, local)
    return _normalised(from_hyperedges + from_entries, local), rarity, is_entry


def _given(local: Local, rarity: Tensor, mixed: Tensor, seeds: int, temperature: float) -> Tensor:
    """What the best hyperedges give their entities [W]: a softmax over them, split by rarity within each."""
    best = segment_max(mixed, local.edge_pointer.diff())[local.edge_question]
    ranked = torch.where(local.hyperedge < 0, -1.0, mixed)
    rows = top_table(local.edge_question, ranked, local.num_questions, seeds, local.hyperedge)
    # One place more, for rows that are none.
    is_seed = torch.zeros(len(mixed) + 1, dtype=torch.bool, device=mixed.device)
    is_seed[torch.where(rows < 0, len(mixed), rows)] = True
    weight = torch.exp((mixed - best) / temperature) * is_seed[:-1]
    share = rarity[local.entity_row]
    total = segment_sum(share, local.member_pointer.diff())
    # A hyperedge without entities has nobody to give to; one hyperedge more, for the incidences that mean nothing.
    given = torch.cat((torch.where(total > 0, weight / total, 0.0), total.new_zeros(1)))[local.edge_row] * share
    return torch.zeros_like(rarity).index_add_(0, local.entity_row, given)


def _normalised(weight: Tensor, local: Local) -> Tensor:
    """Sums to one in each question that has any weight."""
    total = segment_sum(weight, local.entity_pointer.diff())
    return weight / (total + EPSILON)[local.entity_question]


def link(
    local: Local,
    specificity: Tensor,
    is_entry: Tensor,
    entry_bridge: float,
    passage: Tensor,
    subject: Tensor,
    score: Tensor,
    side: float,
) -> Tensor:
    weight = linking.bridge_weight(specificity[local.entity], is_entry, entry_bridge)[local.entity_row]
    is_subject = linking.is_subject(subject, local.edge_row, local.entity[local.entity_row])
    size = local.member_pointer.diff()
    columns = local.entity_row, local.edge_row, weight, is_subject, passage, score, size
    return linking.link(*columns, side, len(local.entity))


def group_share(local: Local, number: Tensor, value: Tensor) -> Tensor:
    total = torch.zeros_like(value).index_add_(0, number, value)[number]
    most = segment_max(total, local.edge_pointer.diff())
    return total / (most + EPSILON)[local.edge_question]


def best_of_groups(local: Local, number: Tensor, score: Tensor, k: int) -> Tensor:
    counted = torch.where(local.hyperedge < 0, -1.0, score)
    order = falling(number, counted, local.hyperedge)
    leads = torch.empty_like(number, dtype=torch.bool)
    leads[order] = rank_in_segment(number[order], len(number)) == 0
    ranked = torch.where(leads, counted, -1.0)
    return top_table(local.edge_question, ranked, local.num_questions, k, local.hyperedge)


def member_sums(local: Local, value: Tensor) -> Tensor:
    return segment_sum(value[local.entity_row].double(), local.member_pointer.diff())
