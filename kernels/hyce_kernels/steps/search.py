"""The search for candidates by meaning, words and entities (docs/linked.md, steps 1 to 4): what it reads and gives."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

# Where the best and the floor are closer than this, they differ by nothing but rounding.
LEAST_SPREAD = 1e-6
EPSILON = 1e-12

Pairs = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Corpus:
    """A hypergraph whose hyperedges stand in passages and have words. CSR rows are distinct and ascend."""

    member_pointer: Tensor  # [E+1]
    member: Tensor  # [N] entities of each hyperedge
    incident_pointer: Tensor  # [V+1]
    incident: Tensor  # [N] hyperedges of each entity
    vectors: Tensor  # [E, d] unit length; d is 0 where there are none
    passage: Tensor  # [E]
    passage_pointer: Tensor  # [P+1]
    passage_row: Tensor  # [E] hyperedges of each passage
    passage_vectors: Tensor  # [P, d]
    degree: Tensor  # [V] how many passages name each entity
    specificity: Tensor  # [V] float64, in [0, 1]
    term_pointer: Tensor  # [E+1]
    term: Tensor  # [T] words of each hyperedge
    term_weight: Tensor  # [T] what each counts (BM25), not negative
    vocabulary: int


@dataclass(frozen=True)
class Questions:
    """Sorted distinct pairs (segment, id) of entries and of words; what is near, where an index has found it."""

    vectors: Tensor  # [Q, d] unit length
    entry_segment: Tensor  # [M]
    entry: Tensor  # [M]
    term_segment: Tensor  # [K]
    term: Tensor  # [K]
    # Sorted by segment, best first; None: look at every row.
    near: Pairs | None = None
    near_passages: Pairs | None = None

    def __len__(self) -> int:
        return len(self.vectors)


@dataclass(frozen=True)
class Limits:
    """Options of the search; names as in `hyce_gpu.Config`."""

    nearest_hyperedges: int
    nearest_passages: int
    entry_fanout: int
    bridge_sources: int
    bridge_fanout: int
    relevance_rank: int
    max_hyperedges: int
    passage_share: float
    weight_lexical: float
    weight_entry: float


@dataclass(frozen=True)
class Scored:
    """Pairs of a question and a hyperedge, sorted by question, best first, ties by lower id.

    Rows that mean nothing stand last in their question: hyperedge, `mixed` and `scaled` are -1, `entry` is 0.
    """

    segment: Tensor  # [H]
    hyperedge: Tensor  # [H]
    # Meaning and words as one number.
    mixed: Tensor  # [H] float64
    # `mixed` on the question's own scale: 1 for the best of its pool, 0 for the one at `relevance_rank`.
    scaled: Tensor  # [H] float64
    # Specificity of the entry entity held.
    entry: Tensor  # [H] float64
    # Whether an entry entity was too common to be followed.
    cut: Tensor  # [Q] bool
