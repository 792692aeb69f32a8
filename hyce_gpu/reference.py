"""The reference of `reason`: one question, plain 64-bit Python, the equations in their order and nothing clever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from hyce_kernels.propagation.reference import propagate
from torch import Tensor

from hyce_gpu.config import EPSILON, Config
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.reasoning import Reasoning


def reason_one(hypergraph: Hypergraph, entry: Sequence[int], vector: Tensor, config: Config) -> Reasoning:
    """SPEC.md, section 2, steps 3 to 14, for one question; arguments as in `hyce_gpu.reason`."""
    graph = Plain(hypergraph, vector)
    start = set(entry)
    scores, cut = _expand(graph, start, config)
    selected = best_of(scores, config.max_hyperedges)
    vertices = sorted({entity for edge in selected for entity in graph.members(edge)})
    confidence = _propagate(graph, selected, vertices, start, config)
    rho = {edge: _mean([confidence[entity] for entity in graph.members(edge)]) for edge in selected}
    most = max(confidence.values(), default=0.0)
    kept = {v for v in vertices if confidence[v] > 0 and confidence[v] >= config.entity_threshold * most}
    retained = {edge: [v for v in graph.members(edge) if v in kept] for edge in selected}
    fallback = bool(selected) and not kept
    terms = _fallback_terms(scores, selected) if fallback else _terms(graph, selected, retained, rho, start, config)
    total = {edge: sum(values.values()) for edge, values in terms.items()}
    evidence = best_of(total, config.evidence_units)
    represented_by = {edge: edge for edge in evidence} if fallback else fuse(evidence, retained, config)
    paths, supporting, divergent = split_paths(evidence, represented_by, total, config)
    return Reasoning(
        hyperedges=selected,
        retrieval_score=[scores[edge] for edge in selected],
        hyperedge_confidence=[rho[edge] for edge in selected],
        vertices=vertices,
        confidence=[confidence[v] for v in vertices],
        evidence=evidence,
        evidence_score=[total[edge] for edge in evidence],
        terms=[terms[edge] for edge in evidence],
        retained={edge: retained[edge] for edge in evidence},
        fallback=fallback,
        paths=paths,
        supporting=supporting,
        divergent=divergent,
        represented_by=represented_by,
        cut=cut,
    )


class Plain:
    """The hypergraph as lists, and the similarities of one question."""

    def __init__(self, hypergraph: Hypergraph, vector: Tensor) -> None:
        self._hypergraph, self._vector = hypergraph, vector.double()

    def members(self, edge: int) -> list[int]:
        pointer = self._hypergraph.member_pointer
        ids: list[int] = self._hypergraph.member[pointer[edge] : pointer[edge + 1]].tolist()
        return ids

    def incident(self, entity: int) -> list[int]:
        pointer = self._hypergraph.incident_pointer
        ids: list[int] = self._hypergraph.incident[pointer[entity] : pointer[entity + 1]].tolist()
        return ids

    def gamma(self, edge: int) -> float:
        return float(self._hypergraph.confidence[edge])

    def relation(self, edge: int) -> float:
        return float(self._hypergraph.relation_confidence[edge])

    def edge_similarity(self, edge: int) -> float:
        return self.similarity(self._hypergraph.hyperedge_vectors[edge])

    def entity_similarity(self, entity: int) -> float:
        return self.similarity(self._hypergraph.entity_vectors[entity])

    def similarity(self, other: Tensor) -> float:
        if len(other) == 0:
            return 0.0
        product = (self._vector * other.double()).sum().to(other.dtype)
        return min(1.0, max(0.0, float(product)))


def best_of(scores: Mapping[int, float], k: int) -> list[int]:
    """The k best: falling score as a 32-bit number, ties by lower id."""
    return sorted(scores, key=lambda item: (-np.float32(scores[item]), item))[:k]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _expand(graph: Plain, start: set[int], config: Config) -> tuple[dict[int, float], bool]:
    """Steps 3 and 4: the candidates with their retrieval score, and whether the budget cut them."""
    scores: dict[int, float] = {}
    visited, frontier, cut = set(start), set(start), False
    for _ in range(config.expansion_hops):
        reached = {edge for entity in frontier for edge in graph.incident(entity)} - scores.keys()
        for edge in reached:
            members = graph.members(edge)
            overlap = len(start.intersection(members)) / (len(members) + EPSILON)
            scores[edge] = config.beta * overlap + (1 - config.beta) * graph.edge_similarity(edge)
        cut = cut or len(scores) > config.candidate_budget
        scores = {edge: scores[edge] for edge in best_of(scores, config.candidate_budget)}
        frontier = {v for edge in reached & scores.keys() for v in graph.members(edge)} - visited
        visited |= frontier
    return scores, cut


def _propagate(
    graph: Plain, selected: list[int], vertices: list[int], start: set[int], config: Config
) -> dict[int, float]:
    """Steps 6 and 7: c of each entity of the sub-hypergraph."""
    alpha = config.alpha
    weight = [alpha * graph.entity_similarity(v) + (1 - alpha) * (v in start) for v in vertices]
    total = sum(weight) + EPSILON
    local = {entity: place for place, entity in enumerate(vertices)}
    members = [[local[entity] for entity in graph.members(edge)] for edge in selected]
    values, _ = propagate(members, [w / total for w in weight], config.restart, config.propagation_steps)
    return dict(zip(vertices, values, strict=True))


def _terms(
    graph: Plain,
    selected: list[int],
    retained: dict[int, list[int]],
    rho: dict[int, float],
    start: set[int],
    config: Config,
) -> dict[int, dict[str, float]]:
    """Step 10: the weighted terms of every hyperedge that holds a retained entity."""
    max_coverage = max((len(retained[edge]) for edge in selected), default=0) + EPSILON
    max_rho = max(rho.values(), default=0.0) + EPSILON
    return {
        edge: {
            "coverage": config.weight_coverage * len(retained[edge]) / max_coverage,
            "propagation": config.weight_propagation * rho[edge] / max_rho,
            "extraction": config.weight_extraction * graph.gamma(edge),
            "entry": config.weight_entry * (not start.isdisjoint(graph.members(edge))),
            "relation": config.weight_relation * graph.relation(edge),
            "retrieval": 0.0,
        }
        for edge in selected
        if retained[edge]
    }


def _fallback_terms(scores: dict[int, float], selected: list[int]) -> dict[int, dict[str, float]]:
    """Step 12: the retrieval score stands as the evidence score."""
    zero = dict.fromkeys(("coverage", "propagation", "extraction", "entry", "relation"), 0.0)
    return {edge: zero | {"retrieval": scores[edge]} for edge in selected}


def fuse(evidence: list[int], retained: dict[int, list[int]], config: Config) -> dict[int, int]:
    """Step 13: who stands for whom."""
    represented_by: dict[int, int] = {}
    for first in evidence:
        if first in represented_by:
            continue
        represented_by[first] = first
        own = set(retained[first])
        for other in evidence:
            theirs = set(retained[other])
            # Units without entities overlap with nothing.
            overlap = len(own & theirs) / max(1, len(own | theirs))
            if other not in represented_by and overlap >= config.overlap_threshold:
                represented_by[other] = first
    return represented_by


def split_paths(
    evidence: Sequence[int], represented_by: Mapping[int, int], score: Mapping[int, float], config: Config
) -> tuple[list[int], list[int], list[int]]:
    """Step 14: the representatives, those of them that support, and those that diverge."""
    paths = [edge for edge in evidence if represented_by[edge] == edge]
    bar = config.support_threshold * max((score[edge] for edge in evidence), default=0.0)
    supporting = [edge for edge in paths if score[edge] >= bar]
    return paths, supporting, [edge for edge in paths if score[edge] < bar]
