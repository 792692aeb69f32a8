"""The ragged steps as fused loops, threads over questions, on a CPU. See `contract.Steps` for what each does.

Tensors share their memory with the loops. Knows dtypes and workspaces; the loops are in numba_rows, numba_scores,
numba_incidence, numba_local, numba_link, numba_evidence, numba_chains and numba_expand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from hyce_kernels.ragged import rising_bits
from hyce_kernels.steps import (
    numba_chains,
    numba_evidence,
    numba_expand,
    numba_incidence,
    numba_link,
    numba_local,
    numba_rows,
    numba_scores,
    torch_search,
)
from hyce_kernels.steps.copies import Copies
from hyce_kernels.steps.local import Local
from hyce_kernels.steps.rough import ROUNDING, RoughProducts, values
from hyce_kernels.steps.search import EPSILON, Corpus, Limits, Questions, Scored

_NONE = np.zeros(0, dtype=np.int64)
_NO_WEIGHT = np.zeros(0, dtype=np.float64)


class NumbaSteps:
    name = propagation = "numba"

    def __init__(self) -> None:
        self._rough, self._values = RoughProducts(), values()
        # Half the memory to walk through; ids of a corpus fit.
        self._narrow: Copies[np.ndarray] = Copies(lambda tensor: tensor.numpy().astype(np.int32))

    def gather_rows(self, pointer: Tensor, values: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        return _tensors(numba_rows.gather_rows(pointer.numpy(), values.numpy(), rows.numpy()))

    def distinct(self, segment: Tensor, ids: Tensor, num_segments: int, universe: int) -> tuple[Tensor, Tensor, Tensor]:
        return _tensors(numba_rows.distinct(segment.numpy(), ids.numpy(), num_segments))

    def contains(
        self, segment: Tensor, ids: Tensor, of_segment: Tensor, of_ids: Tensor, num_segments: int, universe: int
    ) -> Tensor:
        pairs = segment.numpy(), ids.numpy(), of_segment.numpy(), of_ids.numpy()
        return torch.from_numpy(numba_rows.contains(*pairs, num_segments))

    def top_per_segment(
        self, segment: Tensor, score: Tensor, num_segments: int, k: int, tie: Tensor | None = None
    ) -> Tensor:
        ties = _NONE if tie is None else tie.numpy()
        found = numba_rows.top_per_segment(segment.numpy(), _falling(score), num_segments, k, ties, tie is not None)
        return torch.from_numpy(found)

    def incidence(
        self, pointer: Tensor, values: Tensor, segment: Tensor, rows: Tensor, num_segments: int, universe: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        graph, sorted_rows = (self._narrow.of(pointer), self._narrow.of(values)), (segment.numpy(), rows.numpy())
        start = numba_incidence.starts(graph[0], *sorted_rows, num_segments)
        # One block, so that NumPy asks for huge pages: to touch small ones first costs as much as to fill them.
        made = np.empty((4, int(start[-1])), dtype=np.int64)
        count = numba_incidence.incidence(*graph, *sorted_rows, universe, numba.get_num_threads(), start, *made)
        edge_row, entity_row, entity_segment, entity = _tensors(tuple(made))
        return edge_row, entity_row, entity_segment[:count], entity[:count]

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
        weights = (_NO_WEIGHT if one is None else one.numpy() for one in (weight, value_weight))
        found = numba_scores.overlap(
            pointer.numpy(), values.numpy(), rows.numpy(), segment.numpy(), set_segment.numpy(), set_ids.numpy(),
            num_segments, *weights, reduce == "max",
        )  # fmt: skip
        return torch.from_numpy(found)

    def pair_products(self, questions: Tensor, vectors: Tensor, question: Tensor, row: Tensor) -> Tensor:
        found = np.empty(len(row), dtype=vectors.numpy().dtype)
        numba_scores.pair_products(
            questions.contiguous().double().numpy(), vectors.contiguous().numpy(), question.numpy(), row.numpy(), found
        )
        return torch.from_numpy(found).double()

    def nearest(self, questions: Tensor, vectors: Tensor, k: int) -> tuple[Tensor, Tensor]:
        k = min(k, len(vectors))
        found = np.empty((len(questions), k), dtype=np.int64)
        asked, rows = questions.contiguous().numpy(), vectors.contiguous().numpy()
        for first, near, error in self._rough.tiles(questions, vectors):
            numba_scores.nearest(asked, rows, near, self._values, first, k, error, ROUNDING, found)
        question = torch.arange(len(questions)).repeat_interleave(k)
        return question, torch.from_numpy(found).flatten()

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
        parts = local.hyperedge, local.edge_pointer, local.entity, local.entity_pointer, local.member_pointer
        arrays = (one.numpy() for one in (*parts, local.entity_row, degree, entry_question, entry, mixed))
        start, rarity = np.empty((2, len(local.entity)))
        is_entry = np.empty(len(local.entity), dtype=np.bool_)
        numba_local.walk_start(*arrays, seeds, temperature, EPSILON, start, rarity, is_entry)
        return _tensors((start, rarity, is_entry))

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
        parts = local.edge_pointer, local.entity, local.entity_pointer, local.member_pointer, local.entity_row
        graph = (one.numpy() for one in parts)
        of_entity = specificity.numpy(), is_entry.numpy(), entry_bridge
        found = numba_link.link(*graph, *of_entity, passage.numpy(), subject.numpy(), score.numpy(), side)
        return torch.from_numpy(found)

    def group_share(self, local: Local, number: Tensor, value: Tensor) -> Tensor:
        arrays = (one.numpy() for one in (local.edge_pointer, number, value))
        return torch.from_numpy(numba_local.group_share(*arrays, EPSILON))

    def best_of_groups(self, local: Local, number: Tensor, score: Tensor, k: int) -> Tensor:
        arrays = (one.numpy() for one in (local.hyperedge, local.edge_pointer, number, score))
        return torch.from_numpy(numba_local.best_of_groups(*arrays, k))

    def member_sums(self, local: Local, value: Tensor) -> Tensor:
        arrays = (one.numpy() for one in (local.edge_pointer, local.member_pointer, local.entity_row, value))
        return torch.from_numpy(numba_local.member_sums(*arrays))

    def merged(
        self, segment: Tensor, ids: Tensor, more_segment: Tensor, more_ids: Tensor, num_segments: int, universe: int
    ) -> Tensor:
        pairs = segment.numpy(), ids.numpy(), more_segment.numpy(), more_ids.numpy()
        return torch.from_numpy(numba_rows.merged(*pairs, num_segments))

    def top_table(self, segment: Tensor, score: Tensor, num_segments: int, k: int, tie: Tensor | None = None) -> Tensor:
        ties = segment if tie is None else tie
        return torch.from_numpy(numba_local.top_table(segment.numpy(), score.numpy(), num_segments, k, ties.numpy()))

    def numbered(self, segment: Tensor, ids: Tensor, num_segments: int, universe: int) -> Tensor:
        return torch.from_numpy(numba_incidence.numbered(segment.numpy(), ids.numpy(), num_segments))

    def unit_members(self, pointer: Tensor, row: Tensor, values: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        return _tensors(numba_rows.unit_members(pointer.numpy(), values.numpy(), rows.numpy()))

    def fuse(
        self, unit: Tensor, element: Tensor, valid: Tensor, width: int, num_elements: int, threshold: float
    ) -> tuple[Tensor, Tensor]:
        return _tensors(numba_evidence.fuse(unit.numpy(), element.numpy(), valid.numpy(), width, threshold))

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
        arrays = (one.numpy() for one in (local.entity, local.member_pointer, local.entity_row, rows, is_path))
        of_entity = specificity.numpy(), is_entry.numpy(), entry_bridge
        return _tensors(numba_chains.chain_links(*arrays, *of_entity, passage.numpy(), subject.numpy(), width, side))

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
        graph = (self._narrow.of(one) for one in (member_pointer, member, incident_pointer, incident))
        count = len(questions)
        asked, rows = questions.contiguous().numpy(), vectors.contiguous().numpy()
        start = (*graph, entry_segment.numpy(), entry.numpy(), asked, rows)
        # A budget of its own keeps the rows short.
        keep = min(keep, len(member_pointer) - 1, budget)
        best, score = np.full((count, keep), -1, dtype=np.int64), np.zeros((count, keep))
        kept, cut = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.bool_)
        for first, near, error in self._rough.finer_tiles(questions, vectors):
            numba_expand.expand(
                *start, near, first, hops, budget, beta, 2 * error, numba.get_num_threads(), best, score,
                kept, cut,
            )  # fmt: skip
        segment = torch.arange(count).repeat_interleave(torch.from_numpy(kept))
        held = best >= 0
        return segment, torch.from_numpy(best[held]), torch.from_numpy(score[held]), torch.from_numpy(cut)

    def candidates(self, corpus: Corpus, questions: Questions, limits: Limits) -> Scored:
        return torch_search.Search(self, corpus, questions, limits).found()


def is_compiled() -> bool:
    """Whether numba's cache holds the loops, of this or an earlier version of them."""
    return any(Path(numba_scores.nearest.stats.cache_path).glob("numba_scores.nearest-*.nbi"))


# Any: how many there are is the loop's affair.
def _tensors(arrays: tuple[np.ndarray, ...]) -> Any:
    return tuple(torch.from_numpy(array) for array in arrays)


def _falling(score: Tensor) -> np.ndarray:
    """32-bit numbers, as int64, that fall where the scores, as float32, rise."""
    falling: np.ndarray = (~rising_bits(score)).numpy()
    return falling
