"""Chains of evidence: the best way from an entry to each unit over bridge entities, all questions at once.

Every factor of a chain lies in [0, 1] and they multiply, so a best chain never visits a unit twice.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hyce_kernels.ragged import gather_rows, lengths, pointers


def bridges(
    unit: Tensor,
    element: Tensor,
    weight: Tensor,
    is_subject: Tensor,
    passage: Tensor,
    place: Tensor,
    width: int,
    num_segments: int,
    side: float,
) -> tuple[Tensor, Tensor]:
    """How strongly every two units of a segment are bridged, and by which entity.

    Args:
        unit, element: the entities of each unit [N], distinct pairs; an element belongs to one segment only.
        weight, is_subject: of each pair [N], as in `linking.link`.
        passage: of each unit [U]; units of one passage are not bridged.
        place: of each unit [U]: segment · width + rank, rank below `width`.

    Returns:
        (strength [S, width, width], element [S, width, width], -1 where there is no bridge; ties by lower element).
    """
    by_element = torch.sort(element, stable=True).indices
    counts = lengths(element, int(element.max()) + 1 if len(element) else 0)
    left, right = gather_rows(pointers(counts), by_element, element[by_element])
    left = by_element[left]
    # Two Python numbers would make 32 bits of it.
    full = torch.full_like(weight[left], 1.0)
    factor = torch.where(is_subject[left] | is_subject[right], full, side)
    factor = torch.where(is_subject[left] & is_subject[right], 0.0, factor)
    strength = weight[left] * factor * (passage[unit[left]] != passage[unit[right]])
    rank = place[unit[right]] % width
    cell = place[unit[left]] * width + rank
    best = strength.new_zeros(num_segments * width * width).scatter_reduce_(0, cell, strength, "amax")
    is_best = (strength == best[cell]) & (strength > 0)
    through = torch.full_like(best, -1, dtype=torch.long)
    through.scatter_reduce_(0, cell[is_best], element[left][is_best], "amin", include_self=False)
    shape = (num_segments, width, width)
    return best.view(shape), through.view(shape)


def trace(strength: Tensor, start: Tensor, gain: Tensor, hyperedges: int) -> tuple[Tensor, list[Tensor]]:
    """The best chain of at most `hyperedges` units that ends at each unit.

    Args:
        strength: [S, K, K]; start: what a chain that begins at each unit has [S, K], 0 where none can.
        gain: the factor of each unit that a chain goes on to [S, K].

    Returns:
        (value [S, K], for each step after the first the unit before [S, K], -1 where the chain stays as it was).
    """
    value, before = start, []
    for _ in range(hyperedges - 1):
        reached, previous = (value[:, :, None] * strength).max(1)
        reached = reached * gain
        better = reached > value
        value = torch.where(better, reached, value)
        before.append(torch.where(better, previous, -1))
    return value, before
