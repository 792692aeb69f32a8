"""The reference of `linked`: one question, plain 64-bit Python, the steps of docs/linked.md in their order.

Chains are left to the tensors: they follow from the evidence alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hyce_kernels.linking_reference import link
from hyce_kernels.propagation.reference import propagate
from hyce_kernels.steps.search import LEAST_SPREAD
from torch import Tensor

from hyce_gpu.config import EPSILON, Config
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.linked.walk import LEAST_WEIGHT
from hyce_gpu.reasoning import Reasoning
from hyce_gpu.reference import Plain, best_of, fuse, split_paths


def reason_one(
    hypergraph: Hypergraph, entry: Sequence[int], vector: Tensor, terms: Sequence[int], config: Config
) -> Reasoning:
    """The evidence of one question; arguments as in `hyce_gpu.reason`."""
    question = _Question(Plain(hypergraph, vector), hypergraph, frozenset(entry), frozenset(terms), config)
    scale, around, cut = question.pool()
    found = {edge: question.scored(edge, scale) for edge in around | question.bridged(around, scale)}
    total = {edge: one.scaled + config.weight_entry * one.entry for edge, one in found.items()}
    selected = best_of(total, config.max_hyperedges)
    vertices = sorted({entity for edge in selected for entity in question.graph.members(edge)})
    relevance = {edge: min(1.0, max(0.0, found[edge].scaled)) ** config.relevance_power for edge in selected}
    confidence, flow = question.walk(selected, vertices, relevance, found)
    score, parts = question.evidence(selected, relevance, found, flow)
    evidence = question.one_a_passage(score)
    retained = {edge: question.graph.members(edge) for edge in evidence}
    represented_by = fuse(evidence, retained, config)
    paths, supporting, divergent = split_paths(evidence, represented_by, score, config)
    return Reasoning(
        hyperedges=selected,
        retrieval_score=[total[edge] for edge in selected],
        hyperedge_confidence=[flow[edge] for edge in selected],
        vertices=vertices,
        confidence=[confidence[v] for v in vertices],
        evidence=evidence,
        evidence_score=[score[edge] for edge in evidence],
        terms=[parts[edge] for edge in evidence],
        retained=retained,
        fallback=False,
        paths=paths,
        supporting=supporting,
        divergent=divergent,
        represented_by=represented_by,
        cut=cut,
    )


@dataclass(frozen=True)
class _Scale:
    most_lexical: float
    best: float
    floor: float


@dataclass(frozen=True)
class _Scored:
    mixed: float
    scaled: float
    entry: float


@dataclass(frozen=True)
class _Question:
    graph: Plain
    hypergraph: Hypergraph
    entry: frozenset[int]
    terms: frozenset[int]
    config: Config

    def pool(self) -> tuple[_Scale, set[int], bool]:
        """The nearest and those around entry entities, what makes their scores comparable, and whether one was cut."""
        passages, config = self.hypergraph.passages, self.config
        common = {v for v in self.entry if int(passages.degree[v]) > config.entry_fanout}
        near: set[int] = set()
        if self.hypergraph.hyperedge_vectors.shape[1]:
            edges = range(self.hypergraph.num_hyperedges)
            near |= set(best_of({e: self.graph.edge_similarity(e) for e in edges}, config.nearest_hyperedges))
        if passages.vectors.shape[1]:
            alike = {p: self.graph.similarity(passages.vectors[p]) for p in range(len(passages))}
            nearest = set(best_of(alike, config.nearest_passages))
            near |= {e for e in range(self.hypergraph.num_hyperedges) if self.passage(e) in nearest}
        pool = near | {e for v in self.entry - common for e in self.graph.incident(v)}
        most = max((self.lexical(edge) for edge in pool), default=0.0)
        mixed = {edge: self.mixed(edge, most) for edge in pool}
        ranked = best_of(mixed, config.relevance_rank)
        return _Scale(most, max(mixed.values(), default=0.0), mixed[ranked[-1]] if ranked else 0.0), pool, bool(common)

    def bridged(self, pool: set[int], scale: _Scale) -> set[int]:
        """The hyperedges that share an entity of few passages with one of the best of the pool."""
        score = {e: (s := self.scored(e, scale)).scaled + self.config.weight_entry * s.entry for e in pool}
        best = best_of(score, self.config.bridge_sources)
        degree = self.hypergraph.passages.degree
        entities = {v for e in best for v in self.graph.members(e) if int(degree[v]) <= self.config.bridge_fanout}
        return {edge for v in entities for edge in self.graph.incident(v)} - pool

    def scored(self, edge: int, scale: _Scale) -> _Scored:
        mixed = self.mixed(edge, scale.most_lexical)
        scaled = 1 - (scale.best - mixed) / max(scale.best - scale.floor, LEAST_SPREAD)
        held = [self.specificity(v) for v in self.graph.members(edge) if v in self.entry]
        return _Scored(mixed, scaled, max(held, default=0.0))

    def mixed(self, edge: int, most_lexical: float) -> float:
        config, passages = self.config, self.hypergraph.passages
        own, around = self.graph.edge_similarity(edge), self.graph.similarity(passages.vectors[self.passage(edge)])
        semantic = (1 - config.passage_share) * own + config.passage_share * around
        return semantic + config.weight_lexical * min(1.0, self.lexical(edge) / (most_lexical + EPSILON))

    def lexical(self, edge: int) -> float:
        terms = self.hypergraph.terms
        row = slice(int(terms.pointer[edge]), int(terms.pointer[edge + 1]))
        used = zip(terms.term[row].tolist(), terms.weight[row].tolist(), strict=True)
        return float(sum(weight for term, weight in used if term in self.terms))

    def walk(
        self,
        selected: Sequence[int],
        vertices: Sequence[int],
        relevance: Mapping[int, float],
        found: Mapping[int, _Scored],
    ) -> tuple[dict[int, float], dict[int, float]]:
        """c of each entity, and what flows through each hyperedge."""
        rarity = {v: 1 / max(1, int(self.hypergraph.passages.degree[v])) for v in vertices}
        given = dict.fromkeys(vertices, 0.0)
        most = max((found[edge].mixed for edge in selected), default=0.0)
        for edge in best_of({edge: found[edge].mixed for edge in selected}, self.config.seed_hyperedges):
            weight = math.exp((found[edge].mixed - most) / self.config.seed_temperature)
            size = sum(rarity[v] for v in self.graph.members(edge))
            for v in self.graph.members(edge):
                given[v] += weight * rarity[v] / size
        entered = {v: rarity[v] * (v in self.entry) for v in vertices}
        start, entered = _normalised(given), _normalised(entered)
        restart_vector = _normalised({v: start[v] + entered[v] for v in vertices})
        local = {entity: place for place, entity in enumerate(vertices)}
        members = [[local[v] for v in self.graph.members(edge)] for edge in selected]
        confidence, flow = propagate(
            members, list(restart_vector.values()), self.config.restart, self.config.propagation_steps,
            [relevance[edge] + LEAST_WEIGHT for edge in selected], [rarity[v] for v in vertices],
        )  # fmt: skip
        return dict(zip(vertices, confidence, strict=True)), dict(zip(selected, flow, strict=True))

    def evidence(
        self,
        selected: Sequence[int],
        relevance: Mapping[int, float],
        found: Mapping[int, _Scored],
        flow: Mapping[int, float],
    ) -> tuple[dict[int, float], dict[int, dict[str, float]]]:
        """The evidence score of each hyperedge, and its terms."""
        config, subject = self.config, self.hypergraph.passages.subject
        entry = {edge: config.weight_entry * found[edge].entry for edge in selected}
        weight = [self.specificity(v) * (config.entry_bridge if v in self.entry else 1.0) for v in
                  range(self.hypergraph.num_entities)]  # fmt: skip
        passage = [self.passage(edge) for edge in selected]
        gains = link(
            [self.graph.members(edge) for edge in selected], passage, [int(subject[p]) for p in passage],
            [relevance[edge] + entry[edge] for edge in selected], weight, config.side_bridge,
        )  # fmt: skip
        total: dict[int, float] = {}
        for edge, place in zip(selected, passage, strict=True):
            total[place] = total.get(place, 0.0) + flow[edge]
        most = max(total.values(), default=0.0) + EPSILON
        terms = {
            edge: {
                "relevance": relevance[edge],
                "entry": entry[edge],
                "link": config.weight_link * gain,
                "propagation": config.weight_propagation * total[place] / most,
            }
            for edge, gain, place in zip(selected, gains, passage, strict=True)
        }
        return {edge: sum(parts.values()) for edge, parts in terms.items()}, terms

    def one_a_passage(self, score: Mapping[int, float]) -> list[int]:
        best: dict[int, int] = {}
        for edge in best_of(score, len(score)):
            best.setdefault(self.passage(edge), edge)
        return best_of({edge: score[edge] for edge in best.values()}, self.config.evidence_units)

    def passage(self, edge: int) -> int:
        return int(self.hypergraph.passages.of_hyperedge[edge])

    def specificity(self, entity: int) -> float:
        return float(self.hypergraph.passages.specificity[entity])


def _normalised(weight: Mapping[int, float]) -> dict[int, float]:
    total = sum(weight.values()) + EPSILON
    return {entity: value / total for entity, value in weight.items()}
