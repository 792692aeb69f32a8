"""Bridge linking: what each hyperedge gains from the best hyperedge of another passage that shares an entity with it.

All questions at once, without a hyperedges × hyperedges matrix: every shared entity keeps its best scores, and each
hyperedge takes the best of its entities. `linking_reference` holds the same as plain loops.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hyce_kernels.ragged import segment_max


def link(
    entity: Tensor,
    hyperedge: Tensor,
    weight: Tensor,
    is_subject: Tensor,
    passage: Tensor,
    score: Tensor,
    size: Tensor,
    side: float,
    num_entities: int,
) -> Tensor:
    """The gain of each hyperedge [H]: the maximum over its entities of weight · factor · partner's score.

    A bridge between two passages of which one is about the shared entity counts in full, a bridge between two that
    only mention it counts `side`, and two passages about the same entity are no bridge.

    Args:
        entity, hyperedge: the incidences [N], numbered through the batch, sorted by hyperedge; the hyperedge H is none,
            and its entities belong to no other.
        weight: of each incidence's entity [N], in [0, 1].
        is_subject: whether the incidence's hyperedge stands in a passage about the entity [N].
        passage: of each hyperedge [H]; hyperedges of one passage are no partners.
        score: of each hyperedge [H], not negative.
        size: how many incidences each hyperedge has [H].
        num_entities: one more than the highest of `entity`, or more: to look it up would wait for the device.
    """
    # One hyperedge more, for the incidences that mean nothing.
    score, passage = torch.cat((score, score.new_zeros(1))), torch.cat((passage, passage.new_zeros(1)))
    value, owner = score[hyperedge], passage[hyperedge]
    about = _best(value, entity, is_subject, num_entities)
    first = _best(value, entity, ~is_subject, num_entities)
    holder = _lowest(owner, entity, ~is_subject & (value == first[entity]), num_entities)
    second = _best(value, entity, ~is_subject & (owner != holder[entity]), num_entities)
    mentioned = torch.where(holder[entity] == owner, second[entity], first[entity])
    partner = torch.where(is_subject, first[entity], torch.maximum(about[entity], side * mentioned))
    return segment_max(partner * weight, size)


def bridge_weight(specificity: Tensor, is_entry: Tensor, entry_bridge: float) -> Tensor:
    """How much entities count as bridges [M]: what the question names itself bridges little."""
    return torch.where(is_entry, entry_bridge * specificity, specificity)


def is_subject(subject: Tensor, row: Tensor, entity: Tensor) -> Tensor:
    """Whether each entity [M] is what the passage of its row [M] is about; the row behind the last is none."""
    # No entity is -2.
    return torch.cat((subject, subject.new_full((1,), -2)))[row] == entity


# What does not count goes to a cell of its own: to leave it out would need to know how much is left.
def _best(value: Tensor, entity: Tensor, where: Tensor, count: int) -> Tensor:
    cell = torch.where(where, entity, count)
    return value.new_zeros(count + 1).scatter_reduce_(0, cell, value, "amax")[:-1]


def _lowest(value: Tensor, entity: Tensor, where: Tensor, count: int) -> Tensor:
    cell = torch.where(where, entity, count)
    return value.new_full((count + 1,), -1).scatter_reduce_(0, cell, value, "amin", include_self=False)[:-1]
