"""Fusion of overlapping evidence (HyCE-RAG equations 37 to 39), greedy within each question, all questions at once."""

from __future__ import annotations

import torch
from torch import Tensor


def jaccard(unit: Tensor, element: Tensor, num_units: int, width: int, num_elements: int) -> Tensor:
    """Jaccard overlap of every two units of a segment.

    Args:
        unit, element: the elements of each unit [N], distinct pairs; an element belongs to one segment only. A unit is
            segment · width + place; `num_units` = S · width means nothing.

    Returns:
        [S, width, width], float64, so that a threshold cuts where exact fractions say; 0 beside missing units.
    """
    holds = held_by(unit, element, torch.ones_like(unit, dtype=torch.bool), num_units, width, num_elements)
    shared = torch.zeros((num_units + 1, width), dtype=torch.long, device=unit.device)
    shared.index_add_(0, unit, holds[element].long())
    shared = shared[:-1].view(-1, width, width)
    size = shared.diagonal(dim1=1, dim2=2)
    union = size[:, :, None] + size[:, None, :] - shared
    return shared.double() / union.clamp(min=1)


def held_by(unit: Tensor, element: Tensor, is_so: Tensor, num_units: int, width: int, num_elements: int) -> Tensor:
    """Whether `is_so` [N] holds of each element and the unit at each place of its segment: bool [M + 1, width]."""
    row = torch.where(unit < num_units, element, num_elements)
    table = torch.zeros((num_elements + 1, width), dtype=torch.bool, device=unit.device)
    table[row, unit % width] = is_so
    return table


def fuse(overlap: Tensor, valid: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
    """Greedy fusion: in order, the first free unit represents and absorbs every free unit that overlaps enough.

    Args:
        overlap: [S, K, K], units in falling order of score.
        valid: which units exist [S, K].

    Returns:
        (representative [S, K] bool, represented_by [S, K]: the place of the unit that stands for each).
    """
    free = valid.clone()
    representative = torch.zeros_like(valid)
    represented_by = torch.zeros(valid.shape, dtype=torch.long, device=valid.device)
    for place in range(valid.shape[1]):
        chosen = free[:, place].clone()
        representative[:, place] = chosen
        absorbed = chosen[:, None] & free & (overlap[:, place] >= threshold)
        absorbed[:, place] = chosen
        represented_by.masked_fill_(absorbed, place)
        free &= ~absorbed
    return representative, represented_by
