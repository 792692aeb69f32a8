"""How relevant hyperedges are to a question: meaning, words, and the entry entities that they hold."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hyce_kernels.steps import Steps
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
    steps: Steps


class Relevance:
    """Scores pairs of a question and a hyperedge."""

    def __init__(self, hypergraph: Hypergraph, asked: Asked, config: Config) -> None:
        self._hypergraph, self._asked, self._config = hypergraph, asked, config

    def semantic(self, question: Tensor, hyperedge: Tensor) -> Tensor:
        """Similarity [P] of the question to the hyperedge and to its passage, mixed by `passage_share`."""
        share = self._config.passage_share
        passage = self._hypergraph.passages.of_hyperedge[hyperedge]
        own = self._asked.to_hyperedges.pairs(question, hyperedge)
        return (1 - share) * own + share * self._asked.to_passages.pairs(question, passage)

    def lexical(self, question: Tensor, hyperedge: Tensor) -> Tensor:
        """BM25 score [P]: the weights of the question's words in the hyperedge, summed."""
        terms, asked = self._hypergraph.terms, self._asked
        return asked.steps.overlap(
            terms.pointer, terms.term, hyperedge, question, asked.term_question, asked.term, asked.entry.num_questions,
            terms.vocabulary, weight=terms.weight,
        )  # fmt: skip

    def entry(self, question: Tensor, hyperedge: Tensor) -> Tensor:
        """The specificity [P] of the most specific entry entity that the hyperedge holds, 0 without one."""
        hypergraph, entry = self._hypergraph, self._asked.entry
        return self._asked.steps.overlap(
            hypergraph.member_pointer, hypergraph.member, hyperedge, question, entry.question, entry.entity,
            entry.num_questions, hypergraph.num_entities, value_weight=hypergraph.passages.specificity, reduce="max",
        )  # fmt: skip

    def mix(self, semantic: Tensor, lexical: Tensor, most_lexical: Tensor) -> Tensor:
        """Meaning and words as one number [P]; `most_lexical`: the best lexical score of each pair's question."""
        return semantic + self._config.weight_lexical * torch.clamp(lexical / (most_lexical + EPSILON), max=1)
