"""What the online stage finds for one question, in plain numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from hyce_gpu.chains import Chain


class Later(Sequence[Any]):
    """A question's part of what a batch knows, made once somebody looks: a batch has millions, few are read."""

    def __init__(self, make: Callable[[Any], list[Any]], of: Any) -> None:
        self._make, self._of = make, of

    @cached_property
    def _made(self) -> list[Any]:
        return self._make(self._of)

    def __len__(self) -> int:
        return len(self._made)

    def __getitem__(self, place: Any) -> Any:
        return self._made[place]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(list(self))


class Numbers(Later):
    """A question's part of an array, as Python numbers."""

    def __init__(self, array: np.ndarray) -> None:
        super().__init__(np.ndarray.tolist, array)

    def __len__(self) -> int:
        return len(self._of)


class LaterByEdge(Mapping[int, Any]):
    """One value for each of a question's hyperedges."""

    def __init__(self, make: Callable[[Any], list[Any]], of: Any, edges: Sequence[int]) -> None:
        self._values, self._edges = Later(make, of), edges

    @cached_property
    def _made(self) -> dict[int, Any]:
        return dict(zip(self._edges, self._values, strict=True))

    def __len__(self) -> int:
        return len(self._edges)

    def __iter__(self) -> Iterator[int]:
        return iter(self._edges)

    def __getitem__(self, edge: int) -> Any:
        return self._made[edge]

    def __repr__(self) -> str:
        return repr(self._made)


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
