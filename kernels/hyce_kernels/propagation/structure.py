"""The two layouts in which a batch's sub-hypergraphs can stand. Knows shapes; nothing of how a backend computes.

Sizes that a backend needs on the host are fields or shapes, so that no backend has to fetch them from the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from hyce_kernels.errors import KernelError


@dataclass(frozen=True)
class Packed:
    """The sub-hypergraphs block by block: W entities, H hyperedges and N incidences of all Q questions.

    Numbers run through the batch, question by question; a hyperedge holds entities of its own question only. Members
    must be distinct within each hyperedge; `Packed.distinct` takes any.

    Raises:
        KernelError: a shape or a type is off. Values are not looked at: that would wait for the device.
    """

    # [N] int64, sorted by hyperedge: the entity of each incidence.
    entity: Tensor
    # [H+1] int64: where the members of each hyperedge begin and end in `entity`.
    member_pointer: Tensor
    # [Q+1] int64 each: where the entities and the hyperedges of each question begin and end.
    entity_pointer: Tensor
    hyperedge_pointer: Tensor
    # W, not less than the last value of `entity_pointer`: entities and hyperedges that no question has may stand behind
    # the others, and what is computed of them means nothing.
    num_entities: int
    # Positive [H] and [W]; None: all one, as in the paper.
    hyperedge_weight: Tensor | None = None
    entity_weight: Tensor | None = None

    def __post_init__(self) -> None:
        for name in ("entity", "member_pointer", "entity_pointer", "hyperedge_pointer"):
            _require_ids(name, getattr(self, name))
        _require_shape("hyperedge_pointer", self.hyperedge_pointer, tuple(self.entity_pointer.shape))
        _require_shape("hyperedge_weight", self.hyperedge_weight, (self.num_hyperedges,))
        _require_shape("entity_weight", self.entity_weight, (self.num_entities,))

    @property
    def num_hyperedges(self) -> int:
        return len(self.member_pointer) - 1

    @property
    def num_questions(self) -> int:
        return len(self.entity_pointer) - 1

    @property
    def device(self) -> torch.device:
        return self.entity.device

    @classmethod
    def distinct(
        cls,
        entity: Tensor,
        member_pointer: Tensor,
        entity_pointer: Tensor,
        hyperedge_pointer: Tensor,
        num_entities: int,
        hyperedge_weight: Tensor | None = None,
        entity_weight: Tensor | None = None,
    ) -> Packed:
        """The same, where an entity that a hyperedge names more than once counts once. Waits for the device."""
        entity, member_pointer = _distinct(entity, member_pointer, num_entities)
        return cls(
            entity, member_pointer, entity_pointer, hyperedge_pointer, num_entities, hyperedge_weight, entity_weight
        )


@dataclass(frozen=True)
class Masked:
    """One hypergraph of V entities, E hyperedges and N incidences, and which hyperedges each of Q questions has.

    A question's entities are those of its hyperedges. Members must be distinct within each hyperedge;
    `Masked.distinct` takes any.

    Raises:
        KernelError: a shape or a type is off. Values are not looked at: that would wait for the device.
    """

    # [N] int64, sorted by hyperedge: the entity of each incidence.
    member: Tensor
    # [E+1] int64: where the members of each hyperedge begin and end in `member`.
    member_pointer: Tensor
    # V
    num_entities: int
    # [E, Q] bool
    hyperedge_mask: Tensor
    # Positive where the mask is true [E, Q]; never read elsewhere. None: all one, as in the paper.
    hyperedge_weight: Tensor | None = None
    # Positive [V], the same for all questions; None: all one.
    entity_weight: Tensor | None = None

    def __post_init__(self) -> None:
        for name in ("member", "member_pointer"):
            _require_ids(name, getattr(self, name))
        if self.hyperedge_mask.dtype != torch.bool:
            raise KernelError(f"hyperedge_mask must be bool, found {self.hyperedge_mask.dtype}")
        shape = (self.num_hyperedges, self.num_questions)
        _require_shape("hyperedge_mask", self.hyperedge_mask, shape)
        _require_shape("hyperedge_weight", self.hyperedge_weight, shape)
        _require_shape("entity_weight", self.entity_weight, (self.num_entities,))

    @property
    def num_hyperedges(self) -> int:
        return len(self.member_pointer) - 1

    @property
    def num_questions(self) -> int:
        return self.hyperedge_mask.shape[-1]

    @property
    def device(self) -> torch.device:
        return self.member.device

    @classmethod
    def distinct(
        cls,
        member: Tensor,
        member_pointer: Tensor,
        num_entities: int,
        hyperedge_mask: Tensor,
        hyperedge_weight: Tensor | None = None,
        entity_weight: Tensor | None = None,
    ) -> Masked:
        """The same, where an entity that a hyperedge names more than once counts once. Waits for the device."""
        member, member_pointer = _distinct(member, member_pointer, num_entities)
        return cls(member, member_pointer, num_entities, hyperedge_mask, hyperedge_weight, entity_weight)


Structure: TypeAlias = Packed | Masked


def _distinct(member: Tensor, pointer: Tensor, num_entities: int) -> tuple[Tensor, Tensor]:
    base = max(num_entities, 1)
    keys = torch.unique(torch.repeat_interleave(pointer.diff()) * base + member)
    starts = torch.arange(len(pointer), device=pointer.device) * base
    return keys % base, torch.searchsorted(keys, starts)


def _require_ids(name: str, found: Tensor) -> None:
    if found.dtype != torch.int64 or found.dim() != 1:
        raise KernelError(f"{name} must be int64 with one dimension, found {found.dtype} {list(found.shape)}")


def _require_shape(name: str, found: Tensor | None, expected: tuple[int, ...]) -> None:
    if found is not None and tuple(found.shape) != expected:
        raise KernelError(f"{name} must have the shape {list(expected)}, found {list(found.shape)}")
