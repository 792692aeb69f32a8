"""Questions → candidate hyperedges of `linked`, from three sides (docs/linked.md, steps 1 to 4)."""

from __future__ import annotations

from dataclasses import dataclass, fields

from hyce_kernels.steps import Steps
from hyce_kernels.steps.search import Corpus, Limits, Questions, Scored
from torch import Tensor

from hyce_gpu.config import Config
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


def find_candidates(hypergraph: Hypergraph, asked: Asked, config: Config) -> Scored:
    """The `max_hyperedges` best candidates of each question."""
    passages, terms, entry = hypergraph.passages, hypergraph.terms, asked.entry
    corpus = Corpus(
        hypergraph.member_pointer, hypergraph.member, hypergraph.incident_pointer, hypergraph.incident,
        hypergraph.hyperedge_vectors, passages.of_hyperedge, passages.pointer, passages.hyperedge, passages.vectors,
        passages.degree, passages.specificity, terms.pointer, terms.term, terms.weight, terms.vocabulary,
    )  # fmt: skip
    questions = Questions(
        asked.to_hyperedges.questions, entry.question, entry.entity, asked.term_question, asked.term,
        asked.to_hyperedges.indexed(config.nearest_hyperedges), asked.to_passages.indexed(config.nearest_passages),
    )  # fmt: skip
    limits = Limits(**{field.name: getattr(config, field.name) for field in fields(Limits)})
    return asked.steps.candidates(corpus, questions, limits)


def score(found: Scored, config: Config) -> Tensor:
    """What candidates are chosen by [H]."""
    return found.scaled + config.weight_entry * found.entry
