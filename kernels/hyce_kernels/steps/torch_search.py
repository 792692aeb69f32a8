"""Candidates from three sides, as ragged torch operations: the nearest by vector, those around the entry entities, and
those that share a bridge entity with the best of the two. See `contract.Steps.candidates`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hyce_kernels.ragged import lengths, pointers, segment_max
from hyce_kernels.steps.contract import Steps
from hyce_kernels.steps.search import EPSILON, LEAST_SPREAD, Corpus, Limits, Pairs, Questions, Scored


@dataclass(frozen=True)
class _Compared:
    """Pairs of a question and a hyperedge, before they are brought to the question's scale, each [P]."""

    segment: Tensor
    hyperedge: Tensor
    semantic: Tensor
    lexical: Tensor


@dataclass(frozen=True)
class _Scale:
    """What makes the numbers of one question comparable, each [Q]."""

    most_lexical: Tensor
    best: Tensor
    floor: Tensor


@dataclass(frozen=True)
class _Weighed:
    """Pairs, sorted by segment, then hyperedge; columns as in `Scored`."""

    segment: Tensor
    hyperedge: Tensor
    mixed: Tensor
    scaled: Tensor
    entry: Tensor

    def rows(self, rows: Tensor) -> _Weighed:
        return _Weighed(*(column[rows] for column in vars(self).values()))


@dataclass(frozen=True)
class Search:
    steps: Steps
    corpus: Corpus
    questions: Questions
    limits: Limits

    def found(self) -> Scored:
        steps, edges = self.steps, len(self.corpus.passage)
        around, cut = self._around_entries()
        near = self._near()
        segment, hyperedge, _ = steps.distinct(
            torch.cat((near[0], around[0])), torch.cat((near[1], around[1])), len(self.questions), edges
        )
        pool = self._compared(segment, hyperedge)
        scale = self._scale(pool)
        weighed = self._weighed(pool, scale)
        fresh = self._weighed(self._compared(*self._bridged(weighed)), scale)
        every = self._both(weighed, fresh)
        best = self._best(every, self.limits.max_hyperedges, every.hyperedge)
        chosen = every.rows(best)
        return Scored(chosen.segment, chosen.hyperedge, chosen.mixed, chosen.scaled, chosen.entry, cut)

    def _near(self) -> Pairs:
        """Pairs with the nearest hyperedges, and with the hyperedges of the nearest passages."""
        corpus, asked, limits = self.corpus, self.questions, self.limits
        segment, hyperedge = asked.near or self._nearest(corpus.vectors, limits.nearest_hyperedges)
        of, passage = asked.near_passages or self._nearest(corpus.passage_vectors, limits.nearest_passages)
        row, inside = self.steps.gather_rows(corpus.passage_pointer, corpus.passage_row, passage)
        return torch.cat((segment, of[row])), torch.cat((hyperedge, inside))

    def _nearest(self, vectors: Tensor, k: int) -> Pairs:
        # Without vectors, nothing is near.
        return self.steps.nearest(self.questions.vectors, vectors, k if vectors.shape[1] else 0)

    def _around_entries(self) -> tuple[Pairs, Tensor]:
        """Pairs with the hyperedges that hold an entry entity of at most `entry_fanout` passages."""
        corpus, asked = self.corpus, self.questions
        common = corpus.degree[asked.entry] > self.limits.entry_fanout
        cut = segment_max(common.double(), lengths(asked.entry_segment, len(asked))) > 0
        segment, entity = asked.entry_segment[~common], asked.entry[~common]
        row, hyperedge = self.steps.gather_rows(corpus.incident_pointer, corpus.incident, entity)
        return (segment[row], hyperedge), cut

    def _compared(self, segment: Tensor, hyperedge: Tensor) -> _Compared:
        corpus, asked, share = self.corpus, self.questions, self.limits.passage_share
        own = self._alike(corpus.vectors, segment, hyperedge)
        semantic = (1 - share) * own + share * self._alike(corpus.passage_vectors, segment, corpus.passage[hyperedge])
        lexical = self.steps.overlap(
            corpus.term_pointer, corpus.term, hyperedge, segment, asked.term_segment, asked.term, len(asked),
            corpus.vocabulary, weight=corpus.term_weight,
        )  # fmt: skip
        return _Compared(segment, hyperedge, semantic, lexical)

    def _alike(self, vectors: Tensor, segment: Tensor, row: Tensor) -> Tensor:
        if vectors.shape[1] == 0:
            return torch.zeros(len(row), dtype=torch.float64, device=row.device)
        return self.steps.pair_products(self.questions.vectors, vectors, segment, row)

    def _mixed(self, pairs: _Compared, most_lexical: Tensor) -> Tensor:
        words = torch.clamp(pairs.lexical / (most_lexical[pairs.segment] + EPSILON), max=1)
        return pairs.semantic + self.limits.weight_lexical * words

    def _scale(self, pool: _Compared) -> _Scale:
        rank, count = self.limits.relevance_rank, len(self.questions)
        counts = lengths(pool.segment, count)
        most_lexical = segment_max(pool.lexical, counts)
        mixed = self._mixed(pool, most_lexical)
        ranked = self.steps.top_per_segment(pool.segment, mixed, count, rank)
        last = (pointers(counts.clamp(max=rank))[1:] - 1).clamp(min=0)
        floor = mixed[ranked][last] if len(ranked) else mixed.new_zeros(count)
        return _Scale(most_lexical, segment_max(mixed, counts), floor)

    def _weighed(self, pairs: _Compared, scale: _Scale) -> _Weighed:
        corpus, asked = self.corpus, self.questions
        mixed = self._mixed(pairs, scale.most_lexical)
        best, floor = scale.best[pairs.segment], scale.floor[pairs.segment]
        scaled = 1 - (best - mixed) / torch.clamp(best - floor, min=LEAST_SPREAD)
        entry = self.steps.overlap(
            corpus.member_pointer, corpus.member, pairs.hyperedge, pairs.segment, asked.entry_segment, asked.entry,
            len(asked), len(corpus.degree), value_weight=corpus.specificity, reduce="max",
        )  # fmt: skip
        return _Weighed(pairs.segment, pairs.hyperedge, mixed, scaled, entry)

    def _best(self, pairs: _Weighed, k: int, tie: Tensor | None = None) -> Tensor:
        score = pairs.scaled + self.limits.weight_entry * pairs.entry
        return self.steps.top_per_segment(pairs.segment, score, len(self.questions), k, tie)

    def _bridged(self, pool: _Weighed) -> Pairs:
        """Pairs with new hyperedges that share an entity of at most `bridge_fanout` passages with one of the best."""
        steps, corpus, count, edges = self.steps, self.corpus, len(self.questions), len(self.corpus.passage)
        best = self._best(pool, self.limits.bridge_sources)
        row, entity = steps.gather_rows(corpus.member_pointer, corpus.member, pool.hyperedge[best])
        segment = pool.segment[best][row]
        specific = corpus.degree[entity] <= self.limits.bridge_fanout
        of, bridge, _ = steps.distinct(segment[specific], entity[specific], count, len(corpus.degree))
        row, hyperedge = steps.gather_rows(corpus.incident_pointer, corpus.incident, bridge)
        segment, hyperedge, _ = steps.distinct(of[row], hyperedge, count, edges)
        is_old = steps.contains(segment, hyperedge, pool.segment, pool.hyperedge, count, edges)
        return segment[~is_old], hyperedge[~is_old]

    def _both(self, first: _Weighed, second: _Weighed) -> _Weighed:
        both = _Weighed(*(torch.cat(pair) for pair in zip(vars(first).values(), vars(second).values(), strict=True)))
        pairs = first.segment, first.hyperedge, second.segment, second.hyperedge
        return both.rows(self.steps.merged(*pairs, len(self.questions), len(self.corpus.passage)))
