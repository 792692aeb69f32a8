"""The passages that hyperedges come from, and the words of hyperedges, as tensors. Numbers only: no texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from hyce_kernels.ragged import lengths, pointers
from torch import Tensor

from hyce_gpu.errors import InputError
from hyce_gpu.lexical import bm25_weights


@dataclass(frozen=True)
class Passages:
    """Which passage (chunk) each hyperedge stands in, what each passage is about, and how specific entities are."""

    of_hyperedge: Tensor  # [E] int64
    # The hyperedges of each passage, as CSR, ascending.
    pointer: Tensor  # [P+1] int64
    hyperedge: Tensor  # [E] int64
    # The entity that the passage is about (its document's title), -1 where none is known.
    subject: Tensor  # [P] int64
    vectors: Tensor  # [P, d] unit length
    # How many passages name each entity.
    degree: Tensor  # [V] int64
    # 1 for an entity of one passage, 0 for one of all passages: log(P / degree) / log(P).
    specificity: Tensor  # [V] float64

    def __len__(self) -> int:
        return len(self.subject)

    def to(self, device: str | torch.device) -> Passages:
        return Passages(**{name: tensor.to(device) for name, tensor in vars(self).items()})

    @classmethod
    def from_arrays(
        cls,
        of_hyperedge: Tensor,
        subject: Tensor,
        vectors: Tensor,
        member_pointer: Tensor,
        member: Tensor,
        num_entities: int,
    ) -> Passages:
        """Args:
            of_hyperedge [E], subject [P], vectors [P, d]: as the fields.
            member_pointer [E+1], member [N]: the entities of each hyperedge.

        Raises:
            InputError: a passage or a subject that does not exist.
        """
        count = len(subject)
        if len(of_hyperedge) and not 0 <= int(of_hyperedge.min()) <= int(of_hyperedge.max()) < count:
            raise InputError(f"passages of hyperedges must lie in 0..{count - 1}")
        if count and int(subject.max()) >= num_entities:
            raise InputError(f"subjects of passages must lie in -1..{num_entities - 1}, found {int(subject.max())}")
        owner = of_hyperedge[torch.repeat_interleave(member_pointer.diff())]
        named = torch.unique(owner * max(num_entities, 1) + member) % max(num_entities, 1)
        degree = torch.bincount(named, minlength=num_entities)
        return cls(
            of_hyperedge, pointers(lengths(of_hyperedge, count)), torch.sort(of_hyperedge, stable=True).indices,
            subject, vectors, degree, _specificity(degree, count),
        )  # fmt: skip


def _specificity(degree: Tensor, num_passages: int) -> Tensor:
    if num_passages < 2:
        return torch.ones(len(degree), dtype=torch.float64)
    total = torch.tensor(float(num_passages), dtype=torch.float64)
    return torch.log(total / degree.clamp(min=1).double()) / torch.log(total)


@dataclass(frozen=True)
class Terms:
    """The words of each hyperedge with their BM25 weights, as CSR, ascending."""

    pointer: Tensor  # [E+1] int64
    term: Tensor  # [T] int64
    weight: Tensor  # [T] float32
    vocabulary: int

    def to(self, device: str | torch.device) -> Terms:
        return Terms(self.pointer.to(device), self.term.to(device), self.weight.to(device), self.vocabulary)

    @classmethod
    def none(cls, num_hyperedges: int) -> Terms:
        """No words: nothing is lexically alike."""
        return cls(
            torch.zeros(num_hyperedges + 1, dtype=torch.long), torch.zeros(0, dtype=torch.long), torch.zeros(0), 0
        )

    @classmethod
    def of(cls, counts: Sequence[Mapping[int, int]]) -> Terms:
        """From how often each hyperedge uses which word number."""
        pointer = np.cumsum([0, *map(len, counts)], dtype=np.int64)
        term = np.fromiter((word for row in counts for word in sorted(row)), np.int64, int(pointer[-1]))
        count = np.fromiter((row[word] for row in counts for word in sorted(row)), np.int64, int(pointer[-1]))
        return cls.from_arrays(pointer, term, count, int(term.max()) + 1 if len(term) else 0)

    @classmethod
    def from_arrays(cls, pointer: np.ndarray, term: np.ndarray, count: np.ndarray, vocabulary: int) -> Terms:
        """From the words of each hyperedge as CSR, and how often it uses them."""
        weight = bm25_weights(pointer, term, count, vocabulary)
        words = torch.from_numpy(term.astype(np.int64))
        return cls(torch.from_numpy(pointer), words, torch.from_numpy(weight), vocabulary)
