"""The contract of the ragged steps around propagation: what every backend does, for Q questions at once.

A `segment` array says which question each value belongs to. Sorted pairs are sorted by segment, then id. Ids are int64
and lie in 0 .. universe - 1.

A backend may give more than there is, where to know how much that is would mean to wait for the device: what a result
then holds beyond it stands last, has an id that is none, and means nothing.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from hyce_kernels.steps.search import Corpus, Limits, Questions, Scored


class Steps(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def propagation(self) -> str:
        """The propagation backend that goes with it; see `hyce_kernels.propagation.choose`."""

    def gather_rows(self, pointer: Tensor, values: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Concatenates CSR rows: pointer [R+1], values [N], rows [M] in any order → (place in `rows`, value), [T]."""

    def distinct(self, segment: Tensor, ids: Tensor, num_segments: int, universe: int) -> tuple[Tensor, Tensor, Tensor]:
        """The distinct pairs of (segment, ids) [M], in any order → sorted (segment, id, how often it stood there)."""

    def contains(
        self, segment: Tensor, ids: Tensor, of_segment: Tensor, of_ids: Tensor, num_segments: int, universe: int
    ) -> Tensor:
        """Whether each pair [M], in any order, is among the sorted distinct pairs `of`: bool [M]."""

    def top_per_segment(
        self, segment: Tensor, score: Tensor, num_segments: int, k: int, tie: Tensor | None = None
    ) -> Tensor:
        """Positions of the k best of each segment, best first.

        Scores are ranked as 32-bit numbers, so that the order in which some hardware sums does not decide; ties go to
        the lower `tie`, then to the lower position.

        Args:
            segment: sorted [M]; score [M]; tie [M].
        """

    def incidence(
        self, pointer: Tensor, values: Tensor, segment: Tensor, rows: Tensor, num_segments: int, universe: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The sub-hypergraph that CSR rows make.

        Args:
            pointer [R+1], values [N]: the members of all rows; rows [H]: those chosen, each once at most in a segment,
                -1 for none where `expand` or `candidates` gave such; segment [H]: sorted.

        Returns:
            (edge_row [N'], entity_row [N'], entity_segment [W], entity [W]): for each incidence the place in `rows` and
            the place among the sorted distinct pairs (entity_segment, entity). Incidences that mean nothing have the
            place H and an entity of their own; entities that do are -1, in the last segment.
        """

    def overlap(
        self,
        pointer: Tensor,
        values: Tensor,
        rows: Tensor,
        segment: Tensor,
        set_segment: Tensor,
        set_ids: Tensor,
        num_segments: int,
        universe: int,
        weight: Tensor | None = None,
        value_weight: Tensor | None = None,
        reduce: str = "sum",
    ) -> Tensor:
        """How much of each CSR row [M] stands in its segment's set: float64 [M], 0 without overlap.

        Args:
            rows, segment: in any order; set_segment, set_ids: sorted distinct pairs.
            weight: of each place in `values` [N]; value_weight: of each value [universe]; 1 where left out.
            reduce: "sum" or "max" of the weights, which are not negative.
        """

    def pair_products(self, questions: Tensor, vectors: Tensor, question: Tensor, row: Tensor) -> Tensor:
        """min(1, max(0, a·b)) of each pair [P], summed in 64 bit, rounded to the type of `vectors`: float64 [P].

        Args:
            questions [Q, d], vectors [M, d]: unit length.
        """

    def nearest(self, questions: Tensor, vectors: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k most similar rows of each question, ranked as 32-bit numbers, ties by lower row.

        Returns:
            (question [T], row [T]): sorted by question, best first.
        """

    def link(
        self,
        entity: Tensor,
        hyperedge: Tensor,
        weight: Tensor,
        is_subject: Tensor,
        passage: Tensor,
        score: Tensor,
        side: float,
        segment: Tensor,
        num_segments: int,
        num_elements: int,
    ) -> Tensor:
        """Bridge linking, as `hyce_kernels.linking.link` says.

        Args:
            segment: of each hyperedge [H], sorted; an entity belongs to one segment only.
        """

    def merged(
        self, segment: Tensor, ids: Tensor, more_segment: Tensor, more_ids: Tensor, num_segments: int, universe: int
    ) -> Tensor:
        """The order that sorts two arrays of sorted distinct pairs that stand one behind the other: positions."""

    def top_table(self, segment: Tensor, score: Tensor, num_segments: int, k: int, tie: Tensor | None = None) -> Tensor:
        """As `top_per_segment`, with k places for each segment, -1 where there are fewer: [S · k].

        Scores below zero stay out.
        """

    def leaders(self, group: Tensor, score: Tensor, tie: Tensor) -> Tensor:
        """Whether each value [M] is the best of its group: bool [M]; ranked as in `top_per_segment`.

        Args:
            group: in any order, numbers below M; tie: distinct within a group.
        """

    def numbered(self, segment: Tensor, ids: Tensor, num_segments: int, universe: int) -> Tensor:
        """The number of each pair [M] among the distinct ones: below M, in the order of segments; segment: sorted."""

    def unit_members(self, pointer: Tensor, row: Tensor, values: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The values of some CSR rows, each taken once at most: (place in `rows`, value), in no order.

        A place of len(rows) means nothing: a backend may leave such pairs in, so that their number is known.

        Args:
            pointer [R+1], row [N], values [N]: the CSR array, and the row of each value; rows: [U], -1 for none.
        """

    def fuse(
        self, unit: Tensor, element: Tensor, valid: Tensor, width: int, num_elements: int, threshold: float
    ) -> tuple[Tensor, Tensor]:
        """Greedy fusion by Jaccard overlap (HyCE-RAG equations 37 to 39).

        Args:
            unit, element: the elements of each unit [N], distinct pairs; an element belongs to one segment only. A unit
                is segment · width + its place in it by falling score; the number U = S · width means nothing.
            valid: which units exist, bool [U].

        Returns:
            (representative bool [U], represented_by [U]: the place of the unit that stands for each valid one).
        """

    def bridges(
        self,
        unit: Tensor,
        element: Tensor,
        weight: Tensor,
        is_subject: Tensor,
        passage: Tensor,
        width: int,
        num_elements: int,
        side: float,
    ) -> tuple[Tensor, Tensor]:
        """How strongly every two units of a segment are bridged, as `hyce_kernels.chains.bridges` says."""

    def expand(
        self,
        member_pointer: Tensor,
        member: Tensor,
        incident_pointer: Tensor,
        incident: Tensor,
        entry_segment: Tensor,
        entry: Tensor,
        questions: Tensor,
        vectors: Tensor,
        hops: int,
        budget: int,
        beta: float,
        keep: int,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The best hyperedges around the entries: frontier expansion under a budget (HyCE-RAG equations 15 to 20).

        Hop 1 takes the hyperedges that hold an entry entity, hop h those that hold one first reached by hop h - 1.
        A hyperedge scores beta · (share of its entities that are entries) + (1 - beta) · similarity. Where more than
        `budget` of a question are reached, the best stay, ties by lower id, and the expansion goes on from the newest
        of them only.

        Args:
            entry_segment, entry: sorted distinct pairs.
            questions [Q, d], vectors [E, d]: unit length; d is 0 where there are none.
            keep: how many of each question are wanted in the end.

        Returns:
            (segment [P], hyperedge [P], score float64 [P]: best first, ties by lower id; whether the budget left any
            out, bool [Q]). Rows that mean nothing stand last in their segment: hyperedge -1, score -1.
        """

    def candidates(self, corpus: Corpus, questions: Questions, limits: Limits) -> Scored:
        """The best hyperedges by meaning, words and entry entities: docs/linked.md, steps 1 to 4.

        Those that are compared are the nearest by vector, those of the nearest passages, those around the entries, and
        those that share a rare entity with the best of all these. Rows that mean nothing stand last in their segment.
        """
