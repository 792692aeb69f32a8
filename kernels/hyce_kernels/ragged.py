"""Ragged arrays: rows of different length side by side, one segment a question.

A segment array is sorted; everything keeps it so. No operation here loops over rows.
"""

from __future__ import annotations

import torch
from torch import Tensor


def pointers(counts: Tensor) -> Tensor:
    """Row pointers [S+1] of rows with `counts` [S] values each."""
    return torch.cat((counts.new_zeros(1), counts.cumsum(0)))


def lengths(segment: Tensor, num_segments: int) -> Tensor:
    """How many values each segment holds, int64 [S], for sorted or unsorted segment ids [M]."""
    if waits_for(segment):
        # bincount would fetch the highest id from the device.
        return torch.zeros(num_segments, dtype=torch.long, device=segment.device).index_add_(
            0, segment, torch.ones_like(segment)
        )
    return torch.bincount(segment, minlength=num_segments)


def waits_for(tensor: Tensor) -> bool:
    """Whether the host would wait for the tensor's device to learn a size."""
    return tensor.is_cuda


def gather_rows(pointer: Tensor, values: Tensor, rows: Tensor, size: int | None = None) -> tuple[Tensor, Tensor]:
    """Concatenates CSR rows.

    Args:
        pointer: row pointers [R+1] of the CSR array whose values are `values` [N].
        rows: the rows to take [M], any order, repeats allowed; -1 for none.
        size: a number that is not less than how many values there are, so that nobody has to wait for that. What is
            left over stands behind everything else and has the position M; its values mean nothing.

    Returns:
        (position [T], values [T]): for each value taken, the position in `rows` of the row that it stands in.
    """
    first = rows.clamp(min=0)
    start = pointer[first]
    counts = torch.where(rows < 0, 0, pointer[first + 1] - start)
    begins = pointers(counts)
    if size is None:
        position = torch.repeat_interleave(counts)
        place = torch.arange(len(position), device=rows.device)
    else:
        place = torch.arange(size, device=rows.device)
        position = torch.searchsorted(begins[1:], place, right=True)
        start = torch.cat((start, start.new_zeros(1)))
    place = start[position] + place - begins[position]
    return position, values[place if size is None else place.clamp_(max=len(values) - 1)]


def segment_sum(values: Tensor, counts: Tensor) -> Tensor:
    """Sums [S] of consecutive runs of `values` [M] with `counts` [S] values each; an empty run gives 0."""
    return _segment_reduce(values, "sum", counts)


def segment_max(values: Tensor, counts: Tensor) -> Tensor:
    """Maxima [S] of consecutive runs of non-negative `values` [M]; an empty run gives 0."""
    return _segment_reduce(values, "max", counts)


def rank_in_segment(segment: Tensor, num_segments: int) -> Tensor:
    """The place of each value in its own segment, from 0, for sorted segment ids [M]."""
    first = pointers(lengths(segment, num_segments))[segment]
    return torch.arange(len(segment), device=segment.device) - first


def is_member(keys: Tensor, of: Tensor) -> Tensor:
    """Whether each of `keys` [M] stands in the sorted `of` [K]."""
    if len(of) == 0:
        return torch.zeros(len(keys), dtype=torch.bool, device=keys.device)
    place = torch.searchsorted(of, keys).clamp_(max=len(of) - 1)
    return of[place] == keys


def rising_bits(score: Tensor) -> Tensor:
    """32-bit numbers, as int64, that rise as the scores do, taken as float32."""
    # Adding zero makes minus zero plus zero.
    bits = (score.float() + 0.0).view(torch.int32)
    # The bits of negative numbers ascend as the numbers fall.
    return torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()


def split_keys(keys: Tensor, base: int) -> tuple[Tensor, Tensor]:
    """The pairs (segment, id) of keys segment · base + id."""
    base = max(base, 1)
    return torch.div(keys, base, rounding_mode="floor"), keys % base


def _segment_reduce(values: Tensor, reduction: str, counts: Tensor) -> Tensor:
    # Torch refuses to reduce no values at all, even into no segments or into empty ones.
    if len(values) == 0:
        return values.new_zeros(len(counts))
    # Unsafe: the counts are not checked, which would wait for the device.
    return torch.segment_reduce(values, reduction, lengths=counts, initial=0, unsafe=True)
