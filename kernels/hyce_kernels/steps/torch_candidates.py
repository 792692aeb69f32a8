"""Candidates from three sides, as tables of questions and hyperedges. See `contract.Steps.candidates`.

Every hyperedge is compared with every question, whether it is a candidate or not: so no size depends on what is found,
and nothing waits for the device. Takes some 60 bytes for each question and hyperedge. `torch_search` compares those
alone that are met, but has to wait for how many they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hyce_kernels.steps.row_sizes import largest_rows
from hyce_kernels.steps.search import EPSILON, LEAST_SPREAD, Corpus, Limits, Questions, Scored
from hyce_kernels.steps.torch_dense import Rows, around, best, gather, keys, marked, similarities


@dataclass(frozen=True)
class _Compared:
    """Every question with every hyperedge, each [Q, E]."""

    pool: Tensor  # bool: the nearest, those of the nearest passages, those around the entries
    mixed: Tensor  # float64
    entry: Tensor  # float64: specificity of the entry entity held
    cut: Tensor  # [Q] bool


@dataclass(frozen=True)
class _Scale:
    """What makes the numbers of one question comparable, each [Q, 1]."""

    best: Tensor
    floor: Tensor

    def of(self, mixed: Tensor) -> Tensor:
        return 1 - (self.best - mixed) / torch.clamp(self.best - self.floor, min=LEAST_SPREAD)


def candidates(corpus: Corpus, questions: Questions, limits: Limits) -> Scored:
    """As many rows for each question: min(max_hyperedges, E)."""
    compared = _compared(corpus, questions, limits)
    scale = _scale(compared, limits.relevance_rank)
    key = keys(scale.of(compared.mixed) + limits.weight_entry * compared.entry)
    every = compared.pool | _bridged(corpus, key, compared.pool, limits)
    column, valid = best(key, every, limits.max_hyperedges)
    segment = torch.arange(len(questions), device=key.device).repeat_interleave(column.shape[1])
    mixed, entry = compared.mixed.gather(1, column), compared.entry.gather(1, column)
    return Scored(
        segment,
        torch.where(valid, column, -1).flatten(),
        torch.where(valid, mixed, -1.0).flatten(),
        torch.where(valid, scale.of(mixed), -1.0).flatten(),
        torch.where(valid, entry, 0.0).flatten(),
        compared.cut,
    )


def _compared(corpus: Corpus, asked: Questions, limits: Limits) -> _Compared:
    near, mixed = _near(corpus, asked, limits)
    shape = mixed.shape
    common = corpus.degree[asked.entry] > limits.entry_fanout
    cut = torch.zeros(len(asked), device=common.device).index_add_(0, asked.entry_segment, common.float()) > 0
    entries = corpus.incident_pointer, corpus.incident, asked.entry_segment, asked.entry
    pool = near.logical_or_(around(*entries, (~common).double(), shape) > 0)
    words = Rows(corpus.term_pointer, corpus.term, corpus.vocabulary, corpus.term_weight)
    lexical = words.sums(marked(asked.term_segment, asked.term, len(asked), corpus.vocabulary).double()).T
    share = torch.clamp(lexical / (_most(lexical, pool) + EPSILON), max=1)
    mixed += limits.weight_lexical * share
    return _Compared(pool, mixed, around(*entries, corpus.specificity[asked.entry], shape), cut)


def _near(corpus: Corpus, asked: Questions, limits: Limits) -> tuple[Tensor, Tensor]:
    """Which hyperedges are near, by themselves or by their passage, bool [Q, E], and how near float64 [Q, E]."""
    own, of_passage = (similarities(asked.vectors, vectors) for vectors in (corpus.vectors, corpus.passage_vectors))
    # Without vectors, nothing is near.
    near = _nearest(own, limits.nearest_hyperedges if corpus.vectors.shape[1] else 0)
    passages = _nearest(of_passage, limits.nearest_passages if corpus.passage_vectors.shape[1] else 0)
    near |= passages[:, corpus.passage]
    share = limits.passage_share
    return near, (1 - share) * own + share * of_passage[:, corpus.passage]


def _nearest(alike: Tensor, k: int) -> Tensor:
    every = torch.ones_like(alike, dtype=torch.bool)
    return torch.zeros_like(every).scatter_(1, best(keys(alike), every, k)[0], True)


def _scale(compared: _Compared, rank: int) -> _Scale:
    column, valid = best(keys(compared.mixed), compared.pool, rank)
    count, most = valid.sum(1, keepdim=True), _most(compared.mixed, compared.pool)
    if column.shape[1] == 0:
        return _Scale(most, most)
    last = compared.mixed.gather(1, column.gather(1, (count - 1).clamp(min=0)))
    return _Scale(most, torch.where(count > 0, last, 0.0))


def _most(values: Tensor, among: Tensor) -> Tensor:
    """The highest of `among` in each row, 0 without any: [Q, 1]; values are not negative."""
    if values.shape[1] == 0:
        return values.new_zeros((len(values), 1))
    return torch.where(among, values, 0.0).amax(1, keepdim=True)


def _bridged(corpus: Corpus, key: Tensor, pool: Tensor, limits: Limits) -> Tensor:
    """The hyperedges that share an entity of at most `bridge_fanout` passages with one of the best: bool [Q, E]."""
    count, entities = len(key), len(corpus.degree)
    column, valid = best(key, pool, limits.bridge_sources)
    sources = torch.where(valid, column, -1).flatten()
    most = count * largest_rows(corpus.member_pointer, limits.bridge_sources)
    place, entity = gather(corpus.member_pointer, corpus.member, sources, most)
    question = torch.div(place, max(1, column.shape[1]), rounding_mode="floor")
    counts = (place < len(sources)) & (corpus.degree[entity] <= limits.bridge_fanout)
    # What does not count goes to a cell of its own: to leave it out would need to know how much is left.
    bridge = torch.zeros(entities * count + 1, dtype=torch.bool, device=key.device)
    bridge[torch.where(counts, entity * count + question, entities * count)] = True
    members = Rows(corpus.member_pointer, corpus.member, entities)
    return members.holding(bridge[:-1].view(entities, count)).T > 0
