"""What the online stage finds for one question, in plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hyce_gpu.chains import Chain


class Numbers(Sequence[Any]):
    """A question's part of an array, as Python numbers once somebody looks: a batch has millions, few are read."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array
        self._list: list[Any] | None = None

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, place: Any) -> Any:
        if self._list is None:
            self._list = self._array.tolist()
        return self._list[place]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(list(self))


@dataclass(frozen=True)
class Reasoning:
    """One question's way from its sub-hypergraph to its evidence paths. Ids are the hypergraph's own."""

    # E_q in falling order of retrieval score, ties by lower id, with that score and ρ(e).
    hyperedges: Sequence[int]
    retrieval_score: Sequence[float]
    hyperedge_confidence: Sequence[float]
    # V_q ascending, with c.
    vertices: Sequence[int]
    confidence: Sequence[float]
    # Evidence units, best first, with their score and the weighted terms that add up to it.
    evidence: Sequence[int]
    evidence_score: Sequence[float]
    terms: Sequence[Mapping[str, float]]
    # The retained entities F(e) of each evidence unit, ascending.
    retained: Mapping[int, Sequence[int]]
    # Whether no entity was retained, so that the retrieval score stood in.
    fallback: bool
    # Representatives after fusion, best first: the supporting ones and the rest.
    paths: Sequence[int]
    supporting: Sequence[int]
    divergent: Sequence[int]
    # The representative of each evidence unit.
    represented_by: Mapping[int, int] = field(default_factory=dict)
    # Whether the candidate budget, or the fanout of an entry entity, left hyperedges out.
    cut: bool = False
    # Evidence chains, best first.
    chains: Sequence[Chain] = ()
