"""What the online stage finds for one question, in plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hyce_gpu.chains import Chain


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
