"""Fusion of overlapping evidence (HyCE-RAG equations 37 to 39), greedy within each question, all questions at once."""

from __future__ import annotations

import torch
from torch import Tensor

from hyce_kernels.ragged import gather_rows, lengths, pointers


def jaccard(unit: Tensor, element: Tensor, segment: Tensor, rank: Tensor, num_segments: int, width: int) -> Tensor:
    """Jaccard overlap of every two units of a segment.

    Args:
        unit, element: the elements of each unit [N], distinct pairs; an element belongs to one segment only.
        segment, rank: of each unit [U]: its segment, and its place in it, below `width`.

    Returns:
        [S, width, width], float64, so that a threshold cuts where exact fractions say; 0 beside missing units.
    """
    by_element = torch.sort(element, stable=True).indices
    owner = unit[by_element]
    counts = lengths(element, int(element.max()) + 1 if len(element) else 0)
    left, right = gather_rows(pointers(counts), owner, element[by_element])
    left = owner[left]
    cell = (segment[left] * width + rank[left]) * width + rank[right]
    shared = lengths(cell, num_segments * width * width).view(num_segments, width, width)
    size = shared.diagonal(dim1=1, dim2=2)
    union = size[:, :, None] + size[:, None, :] - shared
    return shared.double() / union.clamp(min=1)


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
