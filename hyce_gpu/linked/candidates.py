"""Questions → candidate hyperedges, from three sides: the nearest by vector, those around the entry entities, and
those that share a bridge entity with the best of the two."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hyce_kernels.ragged import gather_rows, is_member, lengths, pointers, segment_max, split_keys, top_per_segment
from torch import Tensor

from hyce_gpu.config import Config
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.linked.relevance import Asked, Relevance

# Where the best and the floor are closer than this, they differ by nothing but rounding.
LEAST_SPREAD = 1e-6


@dataclass(frozen=True)
class Scored:
    """Pairs of a question and a hyperedge, sorted by question, then hyperedge."""

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
    num_questions, edges = asked.entry.num_questions, max(hypergraph.num_hyperedges, 1)
    relevance = Relevance(hypergraph, asked, config)
    around, cut = _around_entries(hypergraph, asked, config)
    pool = torch.unique(torch.cat((_nearest(hypergraph, asked, config), around)))
    found = _compare(pool, edges, relevance)
    scale = _scale(found, relevance, num_questions, config)
    scored = _scored(found, relevance, scale)
    fresh = _compare(_bridged(hypergraph, scored, pool, num_questions, config), edges, relevance)
    merged = _merge(scored, _scored(fresh, relevance, scale), edges)
    best = top_per_segment(merged.question, merged.score(config), num_questions, config.max_hyperedges)
    return merged.rows(best), cut


def _compare(keys: Tensor, edges: int, relevance: Relevance) -> _Compared:
    pair = split_keys(keys, edges)
    return _Compared(*pair, relevance.semantic(*pair), relevance.lexical(*pair))


def _nearest(hypergraph: Hypergraph, asked: Asked, config: Config) -> Tensor:
    """Keys of the nearest hyperedges, and of the hyperedges of the nearest passages."""
    question, hyperedge = asked.to_hyperedges.nearest(config.nearest_hyperedges)
    of, passage = asked.to_passages.nearest(config.nearest_passages)
    row, inside = gather_rows(hypergraph.passages.pointer, hypergraph.passages.hyperedge, passage)
    edges = hypergraph.num_hyperedges
    return torch.cat((question * edges + hyperedge, of[row] * edges + inside))


def _around_entries(hypergraph: Hypergraph, asked: Asked, config: Config) -> tuple[Tensor, Tensor]:
    """Keys of the hyperedges that hold an entry entity of at most `entry_fanout` passages."""
    entry = asked.entry
    common = hypergraph.passages.degree[entry.entity] > config.entry_fanout
    cut = segment_max(common.double(), lengths(entry.question, entry.num_questions)) > 0
    question, entity = entry.question[~common], entry.entity[~common]
    row, hyperedge = gather_rows(hypergraph.incident_pointer, hypergraph.incident, entity)
    return question[row] * hypergraph.num_hyperedges + hyperedge, cut


def _scale(found: _Compared, relevance: Relevance, num_questions: int, config: Config) -> _Scale:
    counts = lengths(found.question, num_questions)
    most_lexical = segment_max(found.lexical, counts)
    mixed = relevance.mix(found.semantic, found.lexical, most_lexical[found.question])
    ranked = top_per_segment(found.question, mixed, num_questions, config.relevance_rank)
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


def _bridged(hypergraph: Hypergraph, scored: Scored, pool: Tensor, num_questions: int, config: Config) -> Tensor:
    """Keys of new hyperedges that share an entity of at most `bridge_fanout` passages with one of the best."""
    best = top_per_segment(scored.question, scored.score(config), num_questions, config.bridge_sources)
    row, entity = gather_rows(hypergraph.member_pointer, hypergraph.member, scored.hyperedge[best])
    question = scored.question[best][row]
    specific = hypergraph.passages.degree[entity] <= config.bridge_fanout
    entities = max(hypergraph.num_entities, 1)
    keys = torch.unique(question[specific] * entities + entity[specific])
    of, bridge = split_keys(keys, entities)
    row, hyperedge = gather_rows(hypergraph.incident_pointer, hypergraph.incident, bridge)
    found: Tensor = torch.unique(of[row] * hypergraph.num_hyperedges + hyperedge)
    return found[~is_member(found, pool)]


def _merge(first: Scored, second: Scored, edges: int) -> Scored:
    both = Scored(*(torch.cat(columns) for columns in zip(vars(first).values(), vars(second).values(), strict=True)))
    return both.rows(torch.sort(both.question * edges + both.hyperedge).indices)
