"""What the backends share of a plan: the incidences by hyperedge and by entity, the weights and their sums.

Torch operations that run where the structure lies and never wait for the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hyce_kernels.propagation.structure import Packed, Structure

# How many values a sum over incidences may lay out in memory at a time.
_MOST_VALUES = 1 << 26


@dataclass(frozen=True)
class Incidence:
    """N incidences as CSR in both directions; every array int64."""

    member_pointer: Tensor  # [H+1]
    member: Tensor  # [N] entities, by hyperedge
    hyperedge: Tensor  # [N] hyperedges, by hyperedge
    incident_pointer: Tensor  # [W+1]
    incident: Tensor  # [N] hyperedges, by entity
    by_entity: Tensor  # [N] where each of `incident` stands in `hyperedge`


@dataclass(frozen=True)
class Factors:
    """The diagonal matrices of the step, of the plan's type; [H] and [W] packed, [E, Q] and [V, Q] masked."""

    into: Tensor  # W: the weight of each hyperedge, 0 where the mask leaves it out
    degree: Tensor  # Dv: the weights of each entity's hyperedges, summed
    back: Tensor  # U: the weight of each entity, [W] or [V]
    size: Tensor  # De: the weights of each hyperedge's entities, summed, [H] or [E]


def both_ways(structure: Structure) -> Incidence:
    member = structure.entity if isinstance(structure, Packed) else structure.member
    hyperedge = torch.repeat_interleave(structure.member_pointer.diff(), output_size=len(member))
    ascending, by_entity = torch.sort(member, stable=True)
    rows = torch.arange(structure.num_entities + 1, device=member.device)
    pointer = torch.searchsorted(ascending, rows)
    return Incidence(structure.member_pointer, member, hyperedge, pointer, hyperedge[by_entity], by_entity)


def factors(structure: Structure, incidence: Incidence, dtype: torch.dtype) -> Factors:
    into, back = weights(structure, dtype)
    size = _row_sums(back[incidence.member], incidence.member_pointer)
    if isinstance(structure, Packed):
        degree = _row_sums(into[incidence.incident], incidence.incident_pointer)
    else:
        degree = _masked_degree(incidence, into)
    return Factors(into, degree, back, size)


def weights(structure: Structure, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """W [H] or [E, Q] and U [W] or [V]; what the mask leaves out weighs nothing, whatever stands there."""
    into = _or_ones(structure.hyperedge_weight, (structure.num_hyperedges,), dtype, structure.device)
    back = _or_ones(structure.entity_weight, (structure.num_entities,), dtype, structure.device)
    if isinstance(structure, Packed):
        return into, back
    into = into if into.dim() == 2 else into[:, None]
    return torch.where(structure.hyperedge_mask, into, torch.zeros_like(into)), back


def inverse(sums: Tensor) -> Tensor:
    """1 / sums, and 0 where nothing was summed: what has no hyperedge, or no member, hands nothing on."""
    return torch.where(sums > 0, 1 / sums, torch.zeros_like(sums))


def _or_ones(weight: Tensor | None, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.ones(shape, dtype=dtype, device=device) if weight is None else weight.to(dtype)


def _row_sums(values: Tensor, pointer: Tensor) -> Tensor:
    # Torch refuses to reduce no values at all, even into empty rows.
    if len(values) == 0:
        return values.new_zeros((len(pointer) - 1, *values.shape[1:]))
    # The check that `unsafe` leaves out would wait for the device.
    return torch.segment_reduce(values, "sum", lengths=pointer.diff(), unsafe=True, initial=0)


def _masked_degree(incidence: Incidence, into: Tensor) -> Tensor:
    """[V, Q]; some questions at a time, since the weights stand side by side for every incidence."""
    at_once = max(1, _MOST_VALUES // max(1, len(incidence.incident)))
    parts = [
        _row_sums(columns[incidence.incident], incidence.incident_pointer)
        for columns in torch.split(into, at_once, dim=1)
    ]
    return torch.cat(parts, dim=1)
