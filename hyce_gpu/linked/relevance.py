"""How relevant hyperedges are to a question: meaning, words, and the entry entities that they hold."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hyce_kernels.ragged import gather_rows, is_member, lengths, segment_max, segment_sum
from torch import Tensor

from hyce_gpu.config import EPSILON, Config
from hyce_gpu.expand import Entry
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.similarity import Similarity


@dataclass(frozen=True)
class Asked:
    """A batch of questions, and what they are compared with."""

    entry: Entry
    # The words of the questions: distinct pairs, sorted by question, then word.
    term_question: Tensor  # [M]
    term: Tensor  # [M]
    to_hyperedges: Similarity
    to_passages: Similarity


class Relevance:
    """Scores pairs of a question and a hyperedge."""

    def __init__(self, hypergraph: Hypergraph, asked: Asked, config: Config) -> None:
        self._hypergraph, self._asked, self._config = hypergraph, asked, config
        vocabulary = max(hypergraph.terms.vocabulary, 1)
        self._asked_terms = asked.term_question * vocabulary + asked.term
        entities = max(hypergraph.num_entities, 1)
        self._entries = asked.entry.question * entities + asked.entry.entity

    def semantic(self, question: Tensor, hyperedge: Tensor) -> Tensor:
        """Similarity [P] of the question to the hyperedge and to its passage, mixed by `passage_share`."""
        share = self._config.passage_share
        passage = self._hypergraph.passages.of_hyperedge[hyperedge]
        own = self._asked.to_hyperedges.pairs(question, hyperedge)
        return (1 - share) * own + share * self._asked.to_passages.pairs(question, passage)

    def lexical(self, question: Tensor, hyperedge: Tensor) -> Tensor:
        """BM25 score [P]: the weights of the question's words in the hyperedge, summed."""
        terms = self._hypergraph.terms
        pair, term = gather_rows(terms.pointer, terms.term, hyperedge)
        _, weight = gather_rows(terms.pointer, terms.weight, hyperedge)
        is_asked = is_member(question[pair] * max(terms.vocabulary, 1) + term, self._asked_terms)
        return segment_sum(weight.double() * is_asked, lengths(pair, len(hyperedge)))

    def entry(self, question: Tensor, hyperedge: Tensor) -> Tensor:
        """The specificity [P] of the most specific entry entity that the hyperedge holds, 0 without one."""
        hypergraph = self._hypergraph
        pair, entity = gather_rows(hypergraph.member_pointer, hypergraph.member, hyperedge)
        is_entry = is_member(question[pair] * max(hypergraph.num_entities, 1) + entity, self._entries)
        held = hypergraph.passages.specificity[entity] * is_entry
        return segment_max(held, lengths(pair, len(hyperedge)))

    def mix(self, semantic: Tensor, lexical: Tensor, most_lexical: Tensor) -> Tensor:
        """Meaning and words as one number [P]; `most_lexical`: the best lexical score of each pair's question."""
        return semantic + self._config.weight_lexical * torch.clamp(lexical / (most_lexical + EPSILON), max=1)
