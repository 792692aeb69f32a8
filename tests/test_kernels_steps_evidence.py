"""The step that fuses evidence: each backend against plain loops over lists."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hyce_kernels.steps import Steps, steps
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

EXAMPLES = settings(max_examples=40, deadline=None)


@pytest.fixture(params=("torch", "numba"), scope="module")
def backend(request: pytest.FixtureRequest) -> Steps:
    return steps(request.param, "cpu")


def ids(values: Sequence[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.long)


@EXAMPLES
@given(st.lists(st.lists(st.lists(st.integers(0, 4), max_size=4, unique=True), max_size=5), min_size=1, max_size=5),
       st.sampled_from([0.25, 1 / 3, 0.5, 1.0]))  # fmt: skip
def test_fuse(backend: Steps, segments: list[list[list[int]]], threshold: float) -> None:
    width, units = 5, [(one, rank, held) for one, rows in enumerate(segments) for rank, held in enumerate(rows)]
    # Elements are numbered through: each belongs to one segment. The number behind the last unit means nothing.
    num_units, num_elements = width * len(segments), 5 * len(segments)
    pairs = [(width * one + rank, 5 * one + value) for one, rank, held in units for value in held]
    pairs += [(num_units, element) for element in range(num_elements)]
    valid = torch.zeros(num_units, dtype=torch.bool)
    valid[ids([width * one + rank for one, rank, _ in units])] = True
    representative, by = backend.fuse(*map(ids, zip(*pairs, strict=True)), valid, width, num_elements, threshold)
    expected = [by_rank_of for rows in segments for by_rank_of in fused(rows, threshold)]
    assert by[valid].tolist() == expected
    assert representative[valid].tolist() == [expected[at] == rank for at, (_, rank, _) in enumerate(units)]
    assert not representative[~valid].any()


def fused(rows: list[list[int]], threshold: float) -> list[int]:
    by: dict[int, int] = {}
    for first, own in enumerate(rows):
        if first in by:
            continue
        by[first] = first
        for other, theirs in enumerate(rows):
            union = len({*own, *theirs})
            if other not in by and union and len({*own} & {*theirs}) / union >= threshold:
                by[other] = first
    return [by[rank] for rank in range(len(rows))]
