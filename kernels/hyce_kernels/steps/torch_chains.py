"""What chains of evidence are made of, as torch operations, on any device. Nothing here waits for the device."""

from __future__ import annotations

import torch
from torch import Tensor

from hyce_kernels import chains, linking
from hyce_kernels.steps.local import Local


def unit_members(pointer: Tensor, row: Tensor, values: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """As `contract.Steps.unit_members` says; all values are left in."""
    unit = torch.full((len(pointer),), len(rows), dtype=torch.long, device=rows.device)
    unit[torch.where(rows < 0, len(pointer) - 1, rows)] = torch.arange(len(rows), device=rows.device)
    # The last place stands for all that are none, and is the row of values that mean nothing.
    unit[-1] = len(rows)
    return unit[row], values


def chain_links(
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
    unit, element = unit_members(local.member_pointer, local.edge_row, local.entity_row, rows)
    # What another unit represents has no part in chains, and what is no unit means nothing.
    unit = torch.where(torch.cat((is_path, is_path.new_zeros(1)))[unit], unit, len(rows))
    entity = local.entity[element]
    own, enters = specificity[entity], is_entry[element]
    weight = linking.bridge_weight(own, enters, entry_bridge)
    columns = unit, element, weight, linking.is_subject(subject, unit, entity), passage
    strength, through = chains.bridges(*columns, width, len(local.entity), side)
    return strength, through, *_starts(unit, element, own, enters, len(rows), width)


def _starts(
    unit: Tensor, element: Tensor, weight: Tensor, enters: Tensor, num_units: int, width: int
) -> tuple[Tensor, Tensor]:
    # One cell more, for what does not count.
    cell = torch.where(enters, unit, num_units)
    start = weight.new_zeros(num_units + 1).scatter_reduce_(0, cell, weight, "amax")
    best = torch.where((weight == start[cell]) & (weight > 0), cell, num_units)
    by = torch.full_like(start, -1, dtype=torch.long)
    by.scatter_reduce_(0, best, element, "amin", include_self=False)
    start, by = start[:-1].view(-1, width), by[:-1].view(-1, width)
    none = start.max(1).values == 0
    start[:, 0] = torch.where(none, 1.0, start[:, 0])
    return start, by
