"""The steps that score and expand: each backend against plain loops over lists."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hyce_kernels.steps import Steps, steps
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

BACKENDS = ("torch", "numba")
SIZES = (0, 1, 63, 1000)
TYPES = (torch.float32, torch.float64)
EXAMPLES = settings(max_examples=40, deadline=None)
# Sums in another order: a unit in the last place of 32 bits, or what 64 bits lose over some hundred terms.
TOLERANCE = {torch.float32: 2.0**-23, torch.float64: 1e-12}


@pytest.fixture(params=BACKENDS, scope="module")
def backend(request: pytest.FixtureRequest) -> Steps:
    return steps(request.param, "cpu")


def ids(values: Sequence[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.long)


def csr(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(np.cumsum([0, *map(len, rows)])), ids([value for row in rows for value in row])


def unit(rows: int, width: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    vectors = torch.randn(rows, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.nn.functional.normalize(vectors, dim=1).to(dtype)


def pick(high: int, size: int, seed: int = 1) -> Tensor:
    return torch.randint(0, high, (size,), generator=torch.Generator().manual_seed(seed))


def similarity(one: Tensor, other: Tensor) -> float:
    total = sum(float(a) * float(b) for a, b in zip(one, other, strict=True))
    return min(1.0, max(0.0, float(torch.tensor(total, dtype=torch.float64).to(other.dtype))))


def by_rank(scores: dict[int, float]) -> list[int]:
    return sorted(scores, key=lambda at: (-np.float32(scores[at]), at))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("width", [1, 5, 384])
def test_pair_products(backend: Steps, dtype: torch.dtype, size: int, width: int) -> None:
    questions, vectors = unit(7, width, dtype), unit(50, width, dtype, 2)
    question, row = pick(7, size), pick(50, size, 3)
    found = backend.pair_products(questions, vectors, question, row)
    expected = [similarity(questions[q], vectors[r]) for q, r in zip(question, row, strict=True)]
    assert found.dtype == torch.float64
    assert torch.equal(found, found.to(dtype).double())
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE[dtype])


def test_products_stay_between_zero_and_one(backend: Steps) -> None:
    vectors = torch.tensor([[1.0, 1e-3], [-1.0, 0.0], [0.6, 0.8]])
    found = backend.pair_products(vectors, vectors, ids([0, 0, 2]), ids([0, 1, 2]))
    assert found.tolist() == pytest.approx([1, 0, 1])
    assert found.max() <= 1


def nearest_sets(found: tuple[Tensor, Tensor], count: int) -> list[list[int]]:
    question, row = found
    assert question.tolist() == sorted(question.tolist())
    return [sorted(row[question == one].tolist()) for one in range(count)]


# Products of halves are exact in any order, and tie often.
HALVES = st.lists(st.lists(st.sampled_from([-0.5, 0.5]), min_size=4, max_size=4), min_size=1, max_size=12)


@pytest.mark.parametrize("dtype", TYPES)
@EXAMPLES
@given(HALVES, HALVES, st.integers(1, 14))
def test_nearest(backend: Steps, dtype: torch.dtype, asked: list[list[float]], rows: list[list[float]], k: int) -> None:
    questions, vectors = torch.tensor(asked, dtype=dtype), torch.tensor(rows, dtype=dtype)
    expected = [sorted(by_rank({at: similarity(one, row) for at, row in enumerate(vectors)})[:k]) for one in questions]
    assert nearest_sets(backend.nearest(questions, vectors, k), len(questions)) == expected


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows", [1, 63, 1000])
def test_nearest_are_the_best_of_all_products(backend: Steps, dtype: torch.dtype, rows: int) -> None:
    questions, vectors = unit(5, 384, dtype), unit(rows, 384, dtype, 4)
    # Duplicates tie exactly.
    vectors[rows // 2 :] = vectors[: rows - rows // 2].clone()
    question = torch.arange(5).repeat_interleave(rows)
    products = backend.pair_products(questions, vectors, question, torch.arange(rows).repeat(5)).view(5, rows)
    expected = [sorted(by_rank(dict(enumerate(one.tolist())))[:20]) for one in products]
    assert nearest_sets(backend.nearest(questions, vectors, 20), 5) == expected


def test_nearest_ranks_as_32_bit_numbers(backend: Steps) -> None:
    # Less than 32 bits tell apart: the lower row wins, although its product is lower in 64 bits.
    vectors = torch.tensor([[0.5, 0.5], [0.5 + 1e-12, 0.5]], dtype=torch.float64)
    questions = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    assert nearest_sets(backend.nearest(questions, vectors, 1), 1) == [[0]]


def test_nearest_none(backend: Steps) -> None:
    for k, rows, width in ((0, 5, 3), (3, 0, 3)):
        question, row = backend.nearest(unit(2, width, torch.float32), unit(rows, width, torch.float32), k)
        assert question.tolist() == row.tolist() == []


@st.composite
def corpora(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]], list[list[float]], list[list[float]]]:
    """Members of hyperedges, entries, question vectors and hyperedge vectors, of halves."""
    entity, half = st.integers(0, 7), st.sampled_from([-0.5, 0.5])
    vector = st.lists(half, min_size=4, max_size=4)
    members = draw(st.lists(st.lists(entity, max_size=4, unique=True), max_size=16))
    entries = draw(st.lists(st.lists(entity, max_size=3, unique=True).map(sorted), min_size=1, max_size=7))
    return members, entries, [draw(vector) for _ in entries], [draw(vector) for _ in members]


Corpus = tuple[list[list[int]], list[list[int]], list[list[float]], list[list[float]]]


def expanded(backend: Steps, corpus: Corpus, hops: int, budget: int, keep: int, dtype: torch.dtype) -> list[object]:
    members, entries, asked, vectors = corpus
    incident = [[edge for edge, row in enumerate(members) if entity in row] for entity in range(8)]
    entry_segment = ids([one for one, row in enumerate(entries) for _ in row])
    segment, hyperedge, score, cut = backend.expand(
        *csr(members), *csr(incident), entry_segment, ids([entity for row in entries for entity in row]),
        torch.tensor(asked, dtype=dtype).view(-1, 4), torch.tensor(vectors, dtype=dtype).view(-1, 4),
        hops, budget, 0.3, keep,
    )  # fmt: skip
    assert score.dtype == torch.float64
    assert segment.tolist() == sorted(segment.tolist())
    rows = [list(zip(hyperedge[segment == one].tolist(), score[segment == one].tolist(), strict=True))
            for one in range(len(entries))]  # fmt: skip
    # Those that mean nothing stand last.
    found = [[pair for pair in row if pair[0] >= 0] for row in rows]
    assert all(row[len(held) :] == [(-1, -1.0)] * (len(row) - len(held)) for row, held in zip(rows, found, strict=True))
    return list(zip(found, cut.tolist(), strict=True))


def expand_one(
    members: list[list[int]], start: list[int], alike: list[float], hops: int, budget: int
) -> tuple[dict[int, float], bool]:
    scores: dict[int, float] = {}
    visited, frontier, cut = set(start), set(start), False
    for _ in range(hops):
        reached = {edge for edge, row in enumerate(members) if frontier & {*row}} - scores.keys()
        for edge in reached:
            overlap = len({*start} & {*members[edge]}) / (len(members[edge]) + 1e-12)
            scores[edge] = 0.3 * overlap + (1 - 0.3) * alike[edge]
        cut = cut or len(scores) > budget
        scores = {edge: scores[edge] for edge in by_rank(scores)[:budget]}
        frontier = {entity for edge in reached & scores.keys() for entity in members[edge]} - visited
        visited |= frontier
    return scores, cut


@EXAMPLES
@given(corpora(), st.integers(0, 4), st.integers(1, 8), st.integers(1, 8), st.sampled_from(TYPES))
def test_expand(
    backend: Steps, corpus: Corpus, hops: int, budget: int, keep: int, dtype: torch.dtype
) -> None:  # fmt: skip
    members, entries, asked, vectors = corpus
    found = expanded(backend, corpus, hops, budget, keep, dtype)
    for one, (start, question) in enumerate(zip(entries, asked, strict=True)):
        alike = [similarity(torch.tensor(question), torch.tensor(row)) for row in vectors]
        scores, cut = expand_one(members, start, alike, hops, budget)
        expected = [(edge, pytest.approx(scores[edge], rel=1e-14)) for edge in by_rank(scores)[:keep]]
        assert found[one] == (expected, cut)


@EXAMPLES
@given(corpora(), st.integers(1, 3))
def test_expand_gives_the_same_alone_and_in_a_batch(backend: Steps, corpus: Corpus, budget: int) -> None:
    members, entries, asked, vectors = corpus
    together = expanded(backend, corpus, 3, budget, 4, torch.float32)
    for one in range(len(entries)):
        alone = (members, entries[one : one + 1], asked[one : one + 1], vectors)
        assert expanded(backend, alone, 3, budget, 4, torch.float32) == together[one : one + 1]


@pytest.mark.parametrize("dtype", TYPES)
def test_products_are_the_same_alone_in_a_batch_and_again(backend: Steps, dtype: torch.dtype) -> None:
    questions, vectors = unit(7, 384, dtype), unit(1000, 384, dtype, 4)
    question, row = pick(7, 700).sort().values, pick(1000, 700, 3)
    together = backend.pair_products(questions, vectors, question, row)
    assert torch.equal(together, backend.pair_products(questions, vectors, question, row))
    near = nearest_sets(backend.nearest(questions, vectors, 30), 7)
    for one in range(7):
        own = questions[one : one + 1].clone()
        held = row[question == one]
        assert torch.equal(together[question == one], backend.pair_products(own, vectors, torch.zeros_like(held), held))
        assert nearest_sets(backend.nearest(own, vectors, 30), 1) == near[one : one + 1]
