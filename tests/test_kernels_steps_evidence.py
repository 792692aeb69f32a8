"""The steps that link, fuse and bridge evidence: each backend against plain loops over lists."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hyce_kernels import linking_reference
from hyce_kernels.steps import Steps, steps
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

EXAMPLES = settings(max_examples=40, deadline=None)
# No power of two: a number that 32 bits would not hold.
SIDE = 0.7


@pytest.fixture(params=("torch", "numba"), scope="module")
def backend(request: pytest.FixtureRequest) -> Steps:
    return steps(request.param, "cpu")


def ids(values: Sequence[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.long)


@st.composite
def linked(draw: st.DrawFn) -> tuple[list[list[int]], list[int], list[int], list[float], list[float]]:
    """Members, passage and score of each hyperedge, subject of each passage, weight of each entity; eighths tie."""
    entity, eighth = st.integers(0, 5), st.integers(0, 8).map(lambda n: n / 8)
    members = draw(st.lists(st.lists(entity, max_size=4, unique=True), max_size=12))
    passage = [draw(st.integers(0, 3)) for _ in members]
    subject = draw(st.lists(st.integers(-1, 5), min_size=4, max_size=4))
    weight = draw(st.lists(eighth, min_size=6, max_size=6))
    return members, passage, subject, [draw(eighth) for _ in members], weight


Linked = tuple[list[list[int]], list[int], list[int], list[float], list[float]]


def incidences(members: list[list[int]], passage: list[int], subject: list[int], weight: list[float]) -> list[Tensor]:
    """(entity, hyperedge, weight, is_subject) of each incidence."""
    pairs = [(entity, edge) for edge, row in enumerate(members) for entity in row]
    entity, edge = ids([one for one, _ in pairs]), ids([other for _, other in pairs])
    is_subject = torch.tensor([subject[passage[edge]] == entity for entity, edge in pairs], dtype=torch.bool)
    return [entity, edge, torch.tensor([weight[one] for one, _ in pairs], dtype=torch.float64), is_subject]


@EXAMPLES
@given(linked())
def test_link(backend: Steps, problem: Linked) -> None:
    members, passage, subject, score, weight = problem
    of_edge = torch.tensor(score, dtype=torch.float64)
    # An entity belongs to one segment only: all stand in one, between two empty ones.
    segment = torch.ones(len(members), dtype=torch.long)
    columns = incidences(members, passage, subject, weight)
    found = backend.link(*columns, ids(passage), of_edge, SIDE, segment, 3, 6)
    subjects = [subject[one] for one in passage]
    # Three factors, multiplied in another order.
    assert found.tolist() == pytest.approx(linking_reference.link(members, passage, subjects, score, weight, SIDE))


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


@EXAMPLES
@given(linked(), st.integers(1, 6))
def test_bridges(backend: Steps, problem: Linked, width: int) -> None:
    members, passage, subject, _, weight = problem
    # Unit u stands in segment u // width at rank u % width; entities are numbered through the segments.
    num_segments = len(members) // width + 1
    num_units, num_elements = num_segments * width, 6 * num_segments
    entity, edge, of_pair, is_subject = incidences(members, passage, subject, weight)
    # One pair more, which means nothing.
    unit, element = torch.cat((edge, ids([num_units]))), torch.cat((entity + 6 * (edge // width), ids([0])))
    of_pair, is_subject = torch.cat((of_pair, torch.ones(1).double())), torch.cat((is_subject, torch.tensor([True])))
    passages = ids(passage + [-1] * (num_units - len(passage)))
    strength, through = backend.bridges(unit, element, of_pair, is_subject, passages, width, num_elements, SIDE)
    assert strength.shape == through.shape == (num_segments, width, width)
    for one in range(num_segments * width):
        for rank in range(width):
            other = one // width * width + rank
            cell = (one // width, one % width, rank)
            expected = (0.0, -1)
            if max(one, other) < len(members):
                expected = bridge(members, passage, subject, weight, one, other)
            lifted = expected[1] + 6 * (one // width) if expected[1] >= 0 else -1
            assert (float(strength[cell]), int(through[cell])) == (expected[0], lifted)


def bridge(
    members: list[list[int]], passage: list[int], subject: list[int], weight: list[float], one: int, other: int
) -> tuple[float, int]:
    best, by = 0.0, -1
    for entity in sorted({*members[one]} & {*members[other]}) if passage[one] != passage[other] else ():
        subjects = subject[passage[one]], subject[passage[other]]
        strength = weight[entity] * linking_reference.bridge_factor(entity, *subjects, SIDE)
        if strength > best:
            best, by = strength, entity
    return best, by
