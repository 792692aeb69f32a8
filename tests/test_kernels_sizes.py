"""Sizes that the host knows beforehand hold what is asked for; what is left over means nothing."""

from __future__ import annotations

import pytest
import torch
from hyce_kernels import ragged
from hyce_kernels.ragged import gather_rows
from hyce_kernels.steps import steps
from hyce_kernels.steps.row_sizes import largest_rows
from hyce_kernels.steps.torch_dense import Rows, best, keep_best, keys
from hypothesis import given, settings
from hypothesis import strategies as st

POINTER, VALUES = torch.tensor([0, 2, 2, 5, 6]), torch.tensor([1, 4, 4, 5, 6, 0])


def test_the_largest_rows() -> None:
    assert [largest_rows(POINTER, k) for k in range(6)] == [0, 3, 5, 6, 6, 6]
    assert largest_rows(torch.tensor([0]), 3) == 0


def test_the_largest_rows_of_an_array_that_changed() -> None:
    pointer = POINTER.clone()
    assert largest_rows(pointer, 1) == 3
    pointer[3] = 2
    assert largest_rows(pointer, 1) == 4


def test_a_gather_of_known_size_keeps_what_is_left_over_apart() -> None:
    rows = torch.tensor([2, -1, 1, 0, -1])
    position, values = gather_rows(POINTER, VALUES, rows)
    assert (position.tolist(), values.tolist()) == ([0, 0, 0, 3, 3], [4, 5, 6, 1, 4])
    more, found = gather_rows(POINTER, VALUES, rows, 8)
    assert (more.tolist(), found[:5].tolist()) == ([0, 0, 0, 3, 3, 5, 5, 5], [4, 5, 6, 1, 4])
    assert len(found) == 8


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 5), max_size=4, unique=True), min_size=1, max_size=6),
    st.sets(st.tuples(st.integers(0, 2), st.integers(0, 5))),
    st.integers(0, 2),
)
def test_incidence_in_a_known_size(rows: list[list[int]], pairs: set[tuple[int, int]], nones: int) -> None:
    """Equal to what the CPU counts out; left over are the hyperedge H and the entity -1, behind all others."""
    chosen = sorted(pair for pair in pairs if pair[1] < len(rows)) + [(2, -1)] * nones
    segment, row = torch.tensor(chosen, dtype=torch.long).reshape(-1, 2).T.contiguous()
    pointer = torch.tensor([0, *map(len, rows)]).cumsum(0)
    values = torch.tensor([value for one in rows for value in one], dtype=torch.long)
    arguments = (pointer, values, segment, row, 3, 6)
    exact = [one.tolist() for one in steps("torch", "cpu").incidence(*arguments)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ragged, "waits_for", lambda _: True)
        found = [one.tolist() for one in steps("torch", "cpu").incidence(*arguments)]
    incidences, entities = len(exact[0]), len(exact[2])
    assert [one[:incidences] for one in found[:2]] == exact[:2]
    assert [one[:entities] for one in found[2:]] == exact[2:]
    assert set(found[0][incidences:]) <= {len(chosen)}
    assert set(found[1][incidences:]) <= {entities}
    assert set(found[2][entities:]) <= {2}
    assert set(found[3][entities:]) <= {-1}


def test_one_hub_counts_once_a_segment() -> None:
    # A row of 90 and nine of 1: two of them hold at most 91, so that two segments of two rows have 182 places.
    pointer, values = torch.tensor([0, 90, *range(91, 100)]), torch.arange(99)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ragged, "waits_for", lambda _: True)
        segment, row = torch.tensor([0, 0, 1, 1]), torch.tensor([1, 2, 3, -1])
        found = steps("torch", "cpu").incidence(pointer, values, segment, row, 2, 99)
    assert [len(one) for one in found] == [182, 182, 182, 182]


def test_keys_order_by_32_bits_then_by_the_lower_column() -> None:
    score = torch.tensor([[0.5, -0.0, 0.5 + 1e-12, -2.0, 0.0, -1.0, 3.0]], dtype=torch.float64)
    every = torch.ones_like(score, dtype=torch.bool)
    assert best(keys(score), every, 9)[0].tolist() == [[6, 0, 2, 1, 4, 5, 3]]
    among = torch.tensor([[True, False, True, True, False, False, False]])
    column, valid = best(keys(score), among, 4)
    assert (column[valid].tolist(), valid.tolist()) == ([0, 2, 3], [[True, True, True, False]])
    assert keep_best(keys(score), among, 2).nonzero()[:, 1].tolist() == [0, 2]
    assert keep_best(keys(score), among, 5).tolist() == among.tolist()


def test_sums_of_rows() -> None:
    table = torch.tensor([[1.0, 0], [0, 0], [0, 0], [0, 0], [2, 8], [4, 0], [0, 1]], dtype=torch.float64)
    assert Rows(POINTER, VALUES, 7).sums(table).tolist() == [[2, 8], [0, 0], [6, 9], [1, 0]]
    weight = torch.tensor([1, 2, 3, 1, 1, 0.5])
    assert Rows(POINTER, VALUES, 7, weight).sums(table).tolist() == [[4, 16], [0, 0], [10, 25], [0.5, 0]]
    assert Rows(POINTER, VALUES, 7).sums(table[:, :0]).shape == (4, 0)
