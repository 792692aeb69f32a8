"""The reference of every backend: plain 64-bit loops, one sub-hypergraph after the other, nothing clever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from hyce_kernels.propagation.structure import Masked, Packed, Structure


def propagate(
    members: Sequence[Sequence[int]],
    restart_vector: Sequence[float],
    restart: float,
    steps: int,
    hyperedge_weight: Sequence[float] | None = None,
    entity_weight: Sequence[float] | None = None,
) -> tuple[list[float], list[float]]:
    """c after `steps` steps of c = restart · r + (1 - restart) · S c (equations 24 to 28), from c = r.

    Args:
        members: the distinct entities of each hyperedge, numbered from 0.
        restart_vector: r, one number for each entity.
        hyperedge_weight, entity_weight: positive; all one, as in the paper, where left out.

    Returns:
        (c of each entity, what flows from c into each hyperedge).
    """
    into = hyperedge_weight or [1.0] * len(members)
    back = entity_weight or [1.0] * len(restart_vector)
    degree = [0.0] * len(restart_vector)
    for entities, weight in zip(members, into, strict=True):
        for entity in entities:
            degree[entity] += weight

    def flow(c: Sequence[float]) -> list[float]:
        return [w * sum(c[v] / degree[v] for v in entities) for entities, w in zip(members, into, strict=True)]

    confidence = list(restart_vector)
    for _ in range(steps):
        moved = [0.0] * len(confidence)
        for entities, through in zip(members, flow(confidence), strict=True):
            size = sum(back[entity] for entity in entities)
            for entity in entities:
                moved[entity] += through * back[entity] / size
        confidence = [restart * r + (1 - restart) * m for r, m in zip(restart_vector, moved, strict=True)]
    return confidence, flow(confidence)


@dataclass(frozen=True)
class Plan:
    structure: Structure
    dtype: torch.dtype


def plan(structure: Structure, dtype: torch.dtype) -> Plan:
    return Plan(structure, dtype)


def run(plan: Plan, restart_vector: Tensor, restart: float, steps: int) -> tuple[Tensor, Tensor]:
    """(c, flow) of every question; computed in 64 bits, rounded to the plan's type at the end."""
    structure = plan.structure
    one_by_one = _packed if isinstance(structure, Packed) else _masked
    confidence, flow = one_by_one(structure, restart_vector.double().cpu(), restart, steps)  # type: ignore[arg-type]
    return confidence.to(restart_vector.device, plan.dtype), flow.to(restart_vector.device, plan.dtype)


def _packed(structure: Packed, restart_vector: Tensor, restart: float, steps: int) -> tuple[Tensor, Tensor]:
    members = _members(structure.entity, structure.member_pointer)
    into, back = _weights(structure.hyperedge_weight), _weights(structure.entity_weight)
    entity, hyperedge = structure.entity_pointer.tolist(), structure.hyperedge_pointer.tolist()
    start = restart_vector.tolist()
    confidence: list[float] = []
    flow: list[float] = []
    for question in range(structure.num_questions):
        first, last = entity[question : question + 2]
        edges = slice(*hyperedge[question : question + 2])
        local = [[v - first for v in entities] for entities in members[edges]]
        own, through = propagate(
            local, start[first:last], restart, steps, into and into[edges], back and back[first:last]
        )
        confidence += own
        flow += through
    return torch.tensor(confidence, dtype=torch.float64), torch.tensor(flow, dtype=torch.float64)


def _masked(structure: Masked, restart_vector: Tensor, restart: float, steps: int) -> tuple[Tensor, Tensor]:
    members = _members(structure.member, structure.member_pointer)
    back = _weights(structure.entity_weight)
    confidence = torch.zeros_like(restart_vector)
    flow = torch.zeros((len(members), structure.num_questions), dtype=torch.float64)
    for question, mask in enumerate(structure.hyperedge_mask.T.tolist()):
        has = [edge for edge, is_in in enumerate(mask) if is_in]
        into = None if structure.hyperedge_weight is None else structure.hyperedge_weight[has, question].tolist()
        start = restart_vector[:, question].tolist()
        own, through = propagate([members[edge] for edge in has], start, restart, steps, into, back)
        confidence[:, question] = torch.tensor(own, dtype=torch.float64)
        flow[has, question] = torch.tensor(through, dtype=torch.float64)
    return confidence, flow


def _members(entity: Tensor, pointer: Tensor) -> list[list[int]]:
    ids, bounds = entity.tolist(), pointer.tolist()
    return [ids[start:end] for start, end in pairwise(bounds)]


def _weights(weight: Tensor | None) -> list[float] | None:
    return None if weight is None else weight.tolist()
