"""The corpus-wide hypergraph as tensors. Knows ids and numbers only: no names, no texts, no files."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hyce_kernels import ragged
from hyce_kernels.steps.row_sizes import largest_rows
from torch import Tensor

from hyce_gpu.errors import InputError
from hyce_gpu.passages import Passages, Terms


@dataclass(frozen=True)
class Hypergraph:
    """Incidence both ways, confidences and unit-length vectors; all on one device.

    Entities of a hyperedge are distinct and ascending, and so are the hyperedges of an entity.
    """

    # Bᵀ as CSR: the entities of each hyperedge.
    member_pointer: Tensor  # [E+1] int64
    member: Tensor  # [N] int64
    # B as CSR: the hyperedges of each entity.
    incident_pointer: Tensor  # [V+1] int64
    incident: Tensor  # [N] int64
    # Extraction confidence γ.
    confidence: Tensor  # [E] float64
    # Mean confidence of the hyperedge's relations, 0 if it has none.
    relation_confidence: Tensor  # [E] float64
    # Vectors carry the memory, so they may be float32; scores are few, and computed in float64.
    entity_vectors: Tensor  # [V, d]
    hyperedge_vectors: Tensor  # [E, d]
    # Where hyperedges come from, and their words; the paper's method uses neither.
    passages: Passages
    terms: Terms

    @property
    def num_entities(self) -> int:
        return len(self.incident_pointer) - 1

    @property
    def num_hyperedges(self) -> int:
        return len(self.member_pointer) - 1

    @property
    def device(self) -> torch.device:
        return self.member.device

    def incidence(self) -> Tensor:
        """B as a torch sparse CSR tensor [V, E] of ones."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            ones = torch.ones(len(self.incident), dtype=self.confidence.dtype, device=self.device)
            size = (self.num_entities, self.num_hyperedges)
            return torch.sparse_csr_tensor(self.incident_pointer, self.incident, ones, size, check_invariants=False)

    def to(self, device: str | torch.device) -> Hypergraph:
        moved = Hypergraph(**{name: tensor.to(device) for name, tensor in vars(self).items()})
        if ragged.waits_for(moved.member):
            # What bounds the sizes of a search is fetched now, so that no search waits for it.
            for pointer in (moved.member_pointer, moved.incident_pointer):
                largest_rows(pointer, 1)
        return moved

    @classmethod
    def from_members(
        cls,
        num_entities: int,
        members: Sequence[Iterable[int]],
        *,
        confidence: Sequence[float] | Tensor | None = None,
        relation_confidence: Sequence[Sequence[float]] | None = None,
        entity_vectors: Any = None,
        hyperedge_vectors: Any = None,
        hyperedge_passage: Sequence[int] | None = None,
        passage_subject: Sequence[int] | None = None,
        passage_vectors: Any = None,
        hyperedge_terms: Sequence[Mapping[int, int]] | None = None,
    ) -> Hypergraph:
        """Builds the hypergraph from lists of entity ids.

        Args:
            num_entities: V.
            members: the entity ids of each of the E hyperedges; an id named twice counts once (B is 0/1).
            confidence: γ in [0, 1], one a hyperedge; 1 where left out.
            relation_confidence: for each hyperedge the confidences of its relations; none where left out.
            entity_vectors, hyperedge_vectors: [V, d] and [E, d], unit length; float32 unless given as float64.
            hyperedge_passage: the passage of each hyperedge, from 0; each its own where left out.
            passage_subject: the entity that each passage is about, -1 for none; none where left out.
            passage_vectors: [P, d]; the mean direction of its hyperedges' vectors where left out.
            hyperedge_terms: for each hyperedge, how often it uses which word number; none where left out.

        Raises:
            InputError: an entity id, a confidence, or a shape that does not fit; names the hyperedge.
        """
        rows = [sorted({int(entity) for entity in entities}) for entities in members]
        for number, row in enumerate(rows):
            if row and not 0 <= row[0] <= row[-1] < num_entities:
                raise InputError(f"hyperedge {number}: entity ids must lie in 0..{num_entities - 1}, found {row}")
        pointer = np.concatenate(([0], np.cumsum([len(row) for row in rows], dtype=np.int64))).astype(np.int64)
        member = np.fromiter((entity for row in rows for entity in row), np.int64, int(pointer[-1]))
        means = [sum(values) / len(values) if len(values) else 0.0 for values in relation_confidence or []]
        vectors = _vectors("hyperedge_vectors", hyperedge_vectors, len(rows))
        owner = torch.as_tensor(range(len(rows)) if hyperedge_passage is None else hyperedge_passage, dtype=torch.long)
        if len(owner) != len(rows):
            raise InputError(f"hyperedge_passage: expected one a hyperedge ({len(rows)}), found {len(owner)}")
        count = int(owner.max()) + 1 if len(owner) else 0
        subject = torch.as_tensor([-1] * count if passage_subject is None else passage_subject, dtype=torch.long)
        count = len(subject)
        of_passages = _mean_directions(owner, vectors, count) if passage_vectors is None else passage_vectors
        return cls.from_arrays(
            num_entities, torch.from_numpy(pointer), torch.from_numpy(member),
            _numbers("confidence", confidence, len(rows), 1.0),
            _numbers("relation_confidence", means if relation_confidence is not None else None, len(rows), 0.0),
            _vectors("entity_vectors", entity_vectors, num_entities), vectors,
            owner, subject, _vectors("passage_vectors", of_passages, count),
            Terms.of(hyperedge_terms) if hyperedge_terms is not None else Terms.none(len(rows)),
        )  # fmt: skip

    @classmethod
    def from_arrays(
        cls,
        num_entities: int,
        member_pointer: Tensor,
        member: Tensor,
        confidence: Tensor,
        relation_confidence: Tensor,
        entity_vectors: Tensor,
        hyperedge_vectors: Tensor,
        hyperedge_passage: Tensor,
        passage_subject: Tensor,
        passage_vectors: Tensor,
        terms: Terms,
    ) -> Hypergraph:
        """Builds the hypergraph from arrays that are already checked; turns the incidence the other way round."""
        hyperedge = torch.repeat_interleave(member_pointer.diff())
        counts = torch.bincount(member, minlength=num_entities)
        incident = hyperedge[torch.sort(member, stable=True).indices]
        incident_pointer = torch.cat((counts.new_zeros(1), counts.cumsum(0)))
        passages = Passages.from_arrays(
            hyperedge_passage, passage_subject, passage_vectors, member_pointer, member, num_entities
        )
        return cls(
            member_pointer, member, incident_pointer, incident,
            confidence.double(), relation_confidence.double(), entity_vectors, hyperedge_vectors, passages, terms,
        )  # fmt: skip


def _mean_directions(owner: Tensor, vectors: Tensor, count: int) -> Tensor:
    total = vectors.new_zeros((count, vectors.shape[1])).index_add_(0, owner, vectors)
    return torch.nn.functional.normalize(total, dim=1)


def _numbers(name: str, values: Sequence[float] | Tensor | None, count: int, default: float) -> Tensor:
    if values is None:
        return torch.full((count,), default, dtype=torch.float64)
    numbers = torch.as_tensor(values, dtype=torch.float64)
    if numbers.shape != (count,):
        raise InputError(f"{name}: expected one a hyperedge ({count}), found shape {tuple(numbers.shape)}")
    if count and not bool(((numbers >= 0) & (numbers <= 1)).all()):
        raise InputError(f"{name}: expected numbers from 0 to 1, found {numbers.min():g} to {numbers.max():g}")
    return numbers


def _vectors(name: str, vectors: Any, count: int) -> Tensor:
    if vectors is None:
        return torch.zeros((count, 0))
    keeps = isinstance(vectors, (np.ndarray, Tensor)) and str(vectors.dtype).endswith("float64")
    tensor = torch.as_tensor(vectors, dtype=torch.float64 if keeps else torch.float32)
    if count == 0:
        tensor = tensor.reshape(0, tensor.shape[-1] if tensor.dim() == 2 else 0)
    if tensor.dim() != 2 or len(tensor) != count:
        raise InputError(f"{name}: expected shape [{count}, d], found {tuple(tensor.shape)}")
    return tensor
