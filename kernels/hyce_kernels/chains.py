"""Chains of evidence: the best way from an entry to each unit over bridge entities, all questions at once.

Every factor of a chain lies in [0, 1] and they multiply, so a best chain never visits a unit twice.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hyce_kernels.fusion import held_by


def bridges(
    unit: Tensor,
    element: Tensor,
    weight: Tensor,
    is_subject: Tensor,
    passage: Tensor,
    width: int,
    num_elements: int,
    side: float,
) -> tuple[Tensor, Tensor]:
    """How strongly every two units of a segment are bridged, and by which entity.

    Args:
        unit, element: the entities of each unit [N], distinct pairs; an element belongs to one segment only. A unit is
            segment · width + place, S · width of them; the next number means nothing.
        weight, is_subject: of each pair [N], as in `linking.link`.
        passage: of each unit [U]; units of one passage are not bridged.

    Returns:
        (strength [S, width, width], element [S, width, width], -1 where there is no bridge; ties by lower element).
    """
    num_units = len(passage)
    holds = held_by(unit, element, torch.ones_like(is_subject), num_units, width, num_elements)[element]
    theirs, ours = held_by(unit, element, is_subject, num_units, width, num_elements)[element], is_subject[:, None]
    factor = torch.where(ours | theirs, 1.0, torch.full_like(weight, side)[:, None])
    factor = torch.where(ours & theirs, 0.0, factor)
    # One row more, for the pairs that mean nothing.
    passages = torch.cat((passage.view(-1, width), passage.new_zeros(1, width)))[unit // width]
    elsewhere = passages != passages.gather(1, (unit % width)[:, None])
    strength = weight[:, None] * factor * (holds & elsewhere)
    cell = unit[:, None].expand_as(strength)
    best = strength.new_zeros(num_units + 1, width).scatter_reduce_(0, cell, strength, "amax")
    is_best = (strength == best[unit]) & (strength > 0)
    through = torch.full_like(best, -1, dtype=torch.long)
    by = element[:, None].expand_as(strength)
    through.scatter_reduce_(0, torch.where(is_best, cell, num_units), by, "amin", include_self=False)
    shape = (-1, width, width)
    return best[:-1].view(shape), through[:-1].view(shape)


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
