"""Frontier expansion under a budget, all questions at once, as tables of questions and hyperedges or entities.

Every hyperedge is scored at once, whether it is reached or not: so no size depends on what is reached, and nothing
waits for the device. Takes some 50 bytes for each question and hyperedge, or entity.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hyce_kernels.steps.search import EPSILON
from hyce_kernels.steps.torch_dense import Rows, best, keep_best, keys, marked, similarities


def expand(
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
    """As `contract.Steps.expand` says, as many rows for each question: min(keep, budget, E)."""
    count, edges, entities = len(questions), len(member_pointer) - 1, len(incident_pointer) - 1
    members, incidents = Rows(member_pointer, member, entities), Rows(incident_pointer, incident, edges)
    visited = marked(entry_segment, entry, count, entities)
    holds = members.holding(visited).T
    overlap = holds.double() / (member_pointer.diff().double() + EPSILON)
    score = beta * overlap + (1 - beta) * similarities(questions, vectors)
    key = keys(score)
    kept = torch.zeros((count, edges), dtype=torch.bool, device=entry.device)
    cut = torch.zeros(count, dtype=torch.bool, device=entry.device)
    for hop in range(hops):
        reached = (holds > 0) & ~kept
        both = kept | reached
        cut |= both.sum(1) > budget
        kept = keep_best(key, both, budget)
        if hop + 1 < hops:
            # On from the newest of those that stay, over entities that nobody came by before.
            frontier = (incidents.holding((reached & kept).T) > 0) & ~visited
            visited |= frontier
            holds = members.holding(frontier).T
    column, valid = best(key, kept, min(keep, budget))
    segment = torch.arange(count, device=entry.device).repeat_interleave(column.shape[1])
    hyperedge, value = torch.where(valid, column, -1), torch.where(valid, score.gather(1, column), -1.0)
    return segment, hyperedge.flatten(), value.flatten(), cut
