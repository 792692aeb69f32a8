"""The contract of the ragged steps around propagation: what every backend does, for Q questions at once.

A `segment` array says which question each value belongs to. Sorted pairs are sorted by segment, then id. Ids are int64
and lie in 0 .. universe - 1.

A backend may give more than there is, where to know how much that is would mean to wait for the device: what a result
then holds beyond it stands last, has an id that is none, and means nothing.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from hyce_kernels.steps.local import Local
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

    def walk_start(
        self,
        local: Local,
        degree: Tensor,
        entry_question: Tensor,
        entry: Tensor,
        mixed: Tensor,
        seeds: int,
        temperature: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Where a walk starts: half at entities of each question's best hyperedges, half at its entries.

        The `seeds` best hyperedges by `mixed` give in proportion to exp(mixed / temperature), each to its entities in
        proportion to their rarity, 1 / degree; ties and negative numbers as in `top_table`. Entries have it by rarity.

        Args:
            degree: of each entity of the corpus [V]; entry_question, entry: sorted distinct pairs; mixed [H].

        Returns:
            (restart vector [W], summing to one in each question that has any weight; rarity [W]; whether each local
            entity is an entry of its question, bool [W]), float64.
        """

    def link(
        self,
        local: Local,
        specificity: Tensor,
        is_entry: Tensor,
        entry_bridge: float,
        passage: Tensor,
        subject: Tensor,
        score: Tensor,
        side: float,
    ) -> Tensor:
        """Bridge linking, as `hyce_kernels.linking.link` says: float64 [H].

        Args:
            specificity: the weight of each entity of the corpus as a bridge [V], times `entry_bridge` where it is an
                entry [W].
            passage, subject: of each local hyperedge [H], and what entity of the corpus its passage is about, or -1.
            score: of each local hyperedge [H], not negative.
        """

    def group_share(self, local: Local, number: Tensor, value: Tensor) -> Tensor:
        """What all hyperedges of the same number hold together, against the highest of the question: float64 [H].

        Args:
            number: of each hyperedge [H], as `numbered` gives them; value: float64 [H], not negative.
        """

    def best_of_groups(self, local: Local, number: Tensor, score: Tensor, k: int) -> Tensor:
        """As `top_table`, with one hyperedge of each number at most; ties go to the lower id: [Q · k].

        Args:
            number, score: as in `group_share`.
        """

    def member_sums(self, local: Local, value: Tensor) -> Tensor:
        """The sum over the entities of each hyperedge: value [W] of any type → float64 [H]."""

    def merged(
        self, segment: Tensor, ids: Tensor, more_segment: Tensor, more_ids: Tensor, num_segments: int, universe: int
    ) -> Tensor:
        """The order that sorts two arrays of sorted distinct pairs that stand one behind the other: positions."""

    def top_table(self, segment: Tensor, score: Tensor, num_segments: int, k: int, tie: Tensor | None = None) -> Tensor:
        """As `top_per_segment`, with k places for each segment, -1 where there are fewer: [S · k].

        Scores below zero stay out.
        """

    def numbered(self, segment: Tensor, ids: Tensor, num_segments: int, universe: int) -> Tensor:
        """One number for each distinct pair, below M, none for two segments: [M]; segment: sorted."""

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

    def chain_links(
        self,
        local: Local,
        rows: Tensor,
        is_path: Tensor,
        specificity: Tensor,
        is_entry: Tensor,
        entry_bridge: float,
        passage: Tensor,
        subject: Tensor,
        width: int,
        side: float,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """How strongly every two units of evidence are bridged, and where chains may begin.

        Bridges are those of `hyce_kernels.chains.bridges`. A chain begins with the highest specificity of an entry that
        its first unit holds; where no unit of a question holds one, the best unit has 1.

        Args:
            rows: the local hyperedge of each unit [Q · width], -1 for none; is_path: whether it takes part, bool.
            specificity, is_entry, entry_bridge: as in `link`; passage, subject: of each unit, -1 for none.

        Returns:
            (strength [Q, width, width], the local entity that bridges, -1 for none; what a chain that begins at each
            unit has [Q, width], its entry as a local entity, -1 for none). Ties go to the lower entity.
        """

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
