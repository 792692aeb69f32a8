"""Questions → candidate hyperedges, from three sides: the nearest by vector, those around the entry entities, and
those that share a bridge entity with the best of the two."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hyce_kernels.ragged import lengths, pointers, segment_max
from torch import Tensor

from hyce_gpu.config import Config
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.linked.relevance import Asked, Relevance

# Where the best and the floor are closer than this, they differ by nothing but rounding.
LEAST_SPREAD = 1e-6


@dataclass(frozen=True)
class Scored:
    """Pairs of a question and a hyperedge, sorted by question."""

    question: Tensor  # [P]
    hyperedge: Tensor  # [P]
    # Meaning and words as one number.
    mixed: Tensor  # [P]
    # `mixed` on the question's own scale: 1 for the best of its pool, 0 for the one at `relevance_rank`.
    scaled: Tensor  # [P]
    # Specificity of the entry entity held.
    entry: Tensor  # [P]

    def score(self, config: Config) -> Tensor:
        """What candidates are chosen by [P]."""
        return self.scaled + config.weight_entry * self.entry

    def rows(self, rows: Tensor) -> Scored:
        return Scored(*(column[rows] for column in vars(self).values()))


@dataclass(frozen=True)
class _Compared:
    """Pairs of a question and a hyperedge, before they are brought to the question's scale, each [P]."""

    question: Tensor
    hyperedge: Tensor
    semantic: Tensor
    lexical: Tensor


@dataclass(frozen=True)
class _Scale:
    """What makes the numbers of one question comparable, each [Q]."""

    most_lexical: Tensor
    best: Tensor
    floor: Tensor


def find_candidates(hypergraph: Hypergraph, asked: Asked, config: Config) -> tuple[Scored, Tensor]:
    """The `max_hyperedges` best candidates of each question, and whether an entry entity was too common [Q]."""
    steps, num_questions, edges = asked.steps, asked.entry.num_questions, hypergraph.num_hyperedges
    relevance = Relevance(hypergraph, asked, config)
    around, cut = _around_entries(hypergraph, asked, config)
    near = _nearest(hypergraph, asked, config)
    question, hyperedge, _ = steps.distinct(
        torch.cat((near[0], around[0])), torch.cat((near[1], around[1])), num_questions, edges
    )
    found = _compare(question, hyperedge, relevance)
    scale = _scale(found, relevance, asked, config)
    scored = _scored(found, relevance, scale)
    fresh = _compare(*_bridged(hypergraph, scored, asked, config), relevance)
    every = _both(scored, _scored(fresh, relevance, scale), asked, edges)
    best = steps.top_per_segment(
        every.question, every.score(config), num_questions, config.max_hyperedges, every.hyperedge
    )
    return every.rows(best), cut


def _compare(question: Tensor, hyperedge: Tensor, relevance: Relevance) -> _Compared:
    return _Compared(
        question, hyperedge, relevance.semantic(question, hyperedge), relevance.lexical(question, hyperedge)
    )


def _nearest(hypergraph: Hypergraph, asked: Asked, config: Config) -> tuple[Tensor, Tensor]:
    """Pairs with the nearest hyperedges, and with the hyperedges of the nearest passages."""
    question, hyperedge = asked.to_hyperedges.nearest(config.nearest_hyperedges)
    of, passage = asked.to_passages.nearest(config.nearest_passages)
    row, inside = asked.steps.gather_rows(hypergraph.passages.pointer, hypergraph.passages.hyperedge, passage)
    return torch.cat((question, of[row])), torch.cat((hyperedge, inside))


def _around_entries(hypergraph: Hypergraph, asked: Asked, config: Config) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Pairs with the hyperedges that hold an entry entity of at most `entry_fanout` passages."""
    entry = asked.entry
    common = hypergraph.passages.degree[entry.entity] > config.entry_fanout
    cut = segment_max(common.double(), lengths(entry.question, entry.num_questions)) > 0
    question, entity = entry.question[~common], entry.entity[~common]
    row, hyperedge = asked.steps.gather_rows(hypergraph.incident_pointer, hypergraph.incident, entity)
    return (question[row], hyperedge), cut


def _scale(found: _Compared, relevance: Relevance, asked: Asked, config: Config) -> _Scale:
    num_questions = asked.entry.num_questions
    counts = lengths(found.question, num_questions)
    most_lexical = segment_max(found.lexical, counts)
    mixed = relevance.mix(found.semantic, found.lexical, most_lexical[found.question])
    ranked = asked.steps.top_per_segment(found.question, mixed, num_questions, config.relevance_rank)
    kept = counts.clamp(max=config.relevance_rank)
    last = (pointers(kept)[1:] - 1).clamp(min=0)
    floor = mixed[ranked][last] if len(ranked) else mixed.new_zeros(num_questions)
    return _Scale(most_lexical, segment_max(mixed, counts), floor)


def _scored(found: _Compared, relevance: Relevance, scale: _Scale) -> Scored:
    question, hyperedge = found.question, found.hyperedge
    mixed = relevance.mix(found.semantic, found.lexical, scale.most_lexical[question])
    best, floor = scale.best[question], scale.floor[question]
    scaled = 1 - (best - mixed) / torch.clamp(best - floor, min=LEAST_SPREAD)
    return Scored(question, hyperedge, mixed, scaled, relevance.entry(question, hyperedge))


def _bridged(hypergraph: Hypergraph, scored: Scored, asked: Asked, config: Config) -> tuple[Tensor, Tensor]:
    """Pairs with new hyperedges that share an entity of at most `bridge_fanout` passages with one of the best."""
    steps, num_questions, edges = asked.steps, asked.entry.num_questions, hypergraph.num_hyperedges
    best = steps.top_per_segment(scored.question, scored.score(config), num_questions, config.bridge_sources)
    row, entity = steps.gather_rows(hypergraph.member_pointer, hypergraph.member, scored.hyperedge[best])
    question = scored.question[best][row]
    specific = hypergraph.passages.degree[entity] <= config.bridge_fanout
    of, bridge, _ = steps.distinct(question[specific], entity[specific], num_questions, hypergraph.num_entities)
    row, hyperedge = steps.gather_rows(hypergraph.incident_pointer, hypergraph.incident, bridge)
    question, hyperedge, _ = steps.distinct(of[row], hyperedge, num_questions, edges)
    is_old = steps.contains(question, hyperedge, scored.question, scored.hyperedge, num_questions, edges)
    return question[~is_old], hyperedge[~is_old]


def _both(first: Scored, second: Scored, asked: Asked, edges: int) -> Scored:
    """Sorted by question, then hyperedge."""
    both = Scored(*(torch.cat(columns) for columns in zip(vars(first).values(), vars(second).values(), strict=True)))
    pairs = first.question, first.hyperedge, second.question, second.hyperedge
    return both.rows(asked.steps.merged(*pairs, asked.entry.num_questions, edges))
