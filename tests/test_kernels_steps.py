"""The ragged steps, rows first: each backend against plain loops over lists, on structures that hypothesis makes."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hyce_kernels.errors import MissingBackendError
from hyce_kernels.steps import Steps, steps
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

UNIVERSE = 9
BACKENDS = ("torch", "numba")
SIZES = (0, 1, 63, 1000)
# The first call of a loop compiles it.
EXAMPLES = settings(max_examples=40, deadline=None)


@pytest.fixture(params=BACKENDS, scope="module")
def backend(request: pytest.FixtureRequest) -> Steps:
    return steps(request.param, "cpu")


@dataclass(frozen=True)
class Ragged:
    """Rows of ids, and pairs of a segment and a row, sorted by segment."""

    rows: list[list[int]]
    segment: list[int]
    row: list[int]
    num_segments: int

    @property
    def csr(self) -> tuple[Tensor, Tensor]:
        pointer = np.cumsum([0, *map(len, self.rows)])
        return torch.from_numpy(pointer), ids([value for row in self.rows for value in row])


@st.composite
def ragged(draw: st.DrawFn) -> Ragged:
    """Rows without repeats, some empty; one may be a hub that holds every id. Some segments stay empty."""
    row = st.lists(st.integers(0, UNIVERSE - 1), max_size=4, unique=True)
    rows = draw(st.lists(st.one_of(row, st.just(list(range(UNIVERSE)))), min_size=1, max_size=8))
    num_segments = draw(st.integers(1, 6))
    pair = st.tuples(st.integers(0, num_segments - 1), st.integers(0, len(rows) - 1))
    pairs = sorted(draw(st.lists(pair, max_size=20)), key=lambda one: one[0])
    return Ragged(rows, [one for one, _ in pairs], [other for _, other in pairs], num_segments)


PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, UNIVERSE - 1)), max_size=40)


def ids(values: Sequence[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.long)


def columns(pairs: Sequence[tuple[int, ...]], width: int = 2) -> list[Tensor]:
    return list(torch.tensor(pairs, dtype=torch.long).reshape(-1, width).T.contiguous())


@EXAMPLES
@given(ragged())
def test_gather_rows(backend: Steps, problem: Ragged) -> None:
    position, values = backend.gather_rows(*problem.csr, ids(problem.row))
    expected = [(place, value) for place, row in enumerate(problem.row) for value in problem.rows[row]]
    assert list(zip(position.tolist(), values.tolist(), strict=True)) == expected


@EXAMPLES
@given(PAIRS, PAIRS)
def test_merged(backend: Steps, one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    first, second = sorted(set(one)), sorted(set(other) - set(one))
    order = backend.merged(*columns(first), *columns(second), 6, UNIVERSE)
    assert [(first + second)[place] for place in order.tolist()] == sorted(first + second)


@EXAMPLES
@given(ragged())
def test_unit_members(backend: Steps, problem: Ragged) -> None:
    pointer, values = problem.csr
    of = ids([number for number, row in enumerate(problem.rows) for _ in row])
    # Each row once at most, and places without a row.
    rows = [-1, *dict.fromkeys(problem.row), -1]
    unit, found = backend.unit_members(pointer, of, values, ids(rows))
    pairs = [pair for pair in zip(unit.tolist(), found.tolist(), strict=True) if pair[0] < len(rows)]
    expected = [(place, value) for place, row in enumerate(rows) if row >= 0 for value in problem.rows[row]]
    assert sorted(pairs) == sorted(expected)


@EXAMPLES
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-1, 4), st.integers(0, 3)), max_size=40), st.integers(1, 9))
def test_top_table(backend: Steps, values: list[tuple[int, int, int]], k: int) -> None:
    segment, score, tie = columns(sorted(values, key=lambda one: one[0]), 3)
    found = backend.top_table(segment, score.double() / 4, 6, k, tie).view(6, k).tolist()
    for number, places in enumerate(found):
        own = [at for at in range(len(values)) if segment[at] == number and score[at] >= 0]
        best = sorted(own, key=lambda at: (-score[at], tie[at], at))[:k]
        assert places == best + [-1] * (k - len(best))


@EXAMPLES
@given(PAIRS)
def test_numbered(backend: Steps, pairs: list[tuple[int, int]]) -> None:
    pairs = sorted(pairs, key=lambda one: one[0])
    number = backend.numbered(*columns(pairs), 6, UNIVERSE).tolist()
    assert all(0 <= one < len(pairs) for one in number)
    # Each pair has one number, and each number is of one pair.
    assert len({*zip(pairs, number, strict=True)}) == len({*pairs}) == len({*number})


@EXAMPLES
@given(PAIRS)
def test_distinct(backend: Steps, pairs: list[tuple[int, int]]) -> None:
    found = backend.distinct(*columns(pairs), 6, UNIVERSE)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == [
        (*pair, count) for pair, count in sorted(Counter(pairs).items())
    ]


def test_distinct_counts_what_repeats_in_each_segment(backend: Steps) -> None:
    segment, values, count = backend.distinct(ids([2, 0, 2, 0, 2]), ids([1, 7, 1, 3, 0]), 4, 8)
    assert segment.tolist() == [0, 0, 2, 2]
    assert values.tolist() == [3, 7, 0, 1]
    assert count.tolist() == [1, 1, 1, 2]


@EXAMPLES
@given(PAIRS, PAIRS)
def test_contains(backend: Steps, pairs: list[tuple[int, int]], of: list[tuple[int, int]]) -> None:
    found = backend.contains(*columns(pairs), *columns(sorted(set(of))), 6, UNIVERSE)
    assert found.tolist() == [pair in of for pair in pairs]


@EXAMPLES
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-2, 3), st.integers(0, 3)), max_size=40), st.integers(0, 12))
def test_top_per_segment(backend: Steps, values: list[tuple[int, int, int]], k: int) -> None:
    values = sorted(values, key=lambda one: one[0])
    segment, score, tie = columns(values, 3)
    # In 32 bits the little that is added to odd numbers is lost: what ties there differs in 64 bits.
    score = 2 * score.double() + 1 + 1e-12 * (torch.arange(len(values)) % 2)
    for ties in (None, tie):
        order = sorted(
            range(len(values)), key=lambda at: (-values[at][1], values[at][2] if ties is not None else 0, at)
        )
        expected = [at for one in range(6) for at in [at for at in order if values[at][0] == one][:k]]
        assert backend.top_per_segment(segment, score, 6, k, ties).tolist() == expected


def test_top_per_segment_breaks_ties(backend: Steps) -> None:
    segment, score = ids([0, 0, 0, 0, 2, 2, 2]), torch.tensor([0.5, 0.9, 0.5, 0.5, 0.0, -0.0, 0.1])
    assert backend.top_per_segment(segment, score, 3, 3).tolist() == [1, 0, 2, 6, 4, 5]
    assert backend.top_per_segment(segment, score, 3, 3, ids([4, 9, 3, 3, 8, 7, 1])).tolist() == [1, 2, 3, 6, 5, 4]
    assert backend.top_per_segment(segment, score, 3, 0).tolist() == []


@EXAMPLES
@given(ragged())
def test_incidence(backend: Steps, problem: Ragged) -> None:
    found = backend.incidence(
        *problem.csr, ids(problem.segment), ids(problem.row), problem.num_segments, UNIVERSE
    )  # fmt: skip
    edge_row, entity_row, segment, entity = (column.tolist() for column in found)
    members = [
        (place, one, value)
        for place, (one, row) in enumerate(zip(problem.segment, problem.row, strict=True))
        for value in problem.rows[row]
    ]
    pairs = sorted({(one, value) for _, one, value in members})
    assert list(zip(segment, entity, strict=True)) == pairs
    assert edge_row == [place for place, _, _ in members]
    assert entity_row == [pairs.index((one, value)) for _, one, value in members]


@EXAMPLES
@given(ragged(), PAIRS, st.randoms(use_true_random=False))
def test_overlap(backend: Steps, problem: Ragged, held: list[tuple[int, int]], random: np.random.Generator) -> None:
    held = sorted({(one, value) for one, value in held if one < problem.num_segments})
    pairs = list(zip(problem.segment, problem.row, strict=True))
    random.shuffle(pairs)
    pointer, values = problem.csr
    by_place = torch.tensor([random.random() for _ in values], dtype=torch.float32)
    by_value = torch.tensor([random.random() for _ in range(UNIVERSE)], dtype=torch.float64)
    segment, row = columns(pairs)
    sets = (*columns(held), problem.num_segments, UNIVERSE)
    weights: list[dict[str, Tensor]] = [{}, {"weight": by_place}, {"value_weight": by_value}]
    for weight in weights:
        expected: list[list[float]] = []
        for one, line in pairs:
            places = range(int(pointer[line]), int(pointer[line + 1]))
            shared = [place for place in places if (one, int(values[place])) in held]
            expected.append([_weight(weight, place, int(values[place])) for place in shared])
        total = backend.overlap(pointer, values, row, segment, *sets, **weight)
        most = backend.overlap(pointer, values, row, segment, *sets, **weight, reduce="max")
        assert total.dtype == most.dtype == torch.float64
        assert total.tolist() == pytest.approx([sum(one) for one in expected], rel=1e-14)
        assert most.tolist() == [max(one, default=0.0) for one in expected]


def _weight(weight: dict[str, Tensor], place: int, value: int) -> float:
    by_place, by_value = weight.get("weight"), weight.get("value_weight")
    if by_place is not None:
        return float(by_place[place])
    return 1.0 if by_value is None else float(by_value[value])


def test_overlap_of_three_rows(backend: Steps) -> None:
    # Rows {1, 4}, {}, {4, 5, 6}; question 0 asks for {4, 5}, question 1 for nothing.
    pointer, values, weight = ids([0, 2, 2, 5]), ids([1, 4, 4, 5, 6]), torch.tensor([8.0, 1.0, 2.0, 0.5, 4.0])
    rows, segment = ids([2, 0, 1, 2]), ids([0, 0, 0, 1])
    sets = (ids([0, 0]), ids([4, 5]), 2, 7)
    assert backend.overlap(pointer, values, rows, segment, *sets).tolist() == [2.0, 1.0, 0.0, 0.0]
    assert backend.overlap(pointer, values, rows, segment, *sets, weight=weight).tolist() == [2.5, 1.0, 0.0, 0.0]
    most = backend.overlap(pointer, values, rows, segment, *sets, weight=weight, reduce="max")
    assert most.tolist() == [2.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("size", SIZES)
def test_backends_agree_on_any_size_and_repeat_to_the_bit(size: int) -> None:
    rng = np.random.default_rng(size)
    segment, row = ids(np.sort(rng.integers(0, 7, size)).tolist()), ids(rng.integers(0, 50, size).tolist())
    score = torch.from_numpy(rng.integers(0, 20, size) / 8)
    rows = [rng.choice(300, rng.integers(0, 6), replace=False).tolist() for _ in range(50)]
    pointer, values = Ragged(rows, [], [], 7).csr
    shuffled = torch.from_numpy(rng.permutation(size))
    runs = [
        (
            *one.gather_rows(pointer, values, row),
            *one.distinct(segment[shuffled], row[shuffled], 7, 50),
            one.top_per_segment(segment, score, 7, 40, row),
            *one.incidence(pointer, values, segment, row, 7, 300),
        )
        for one in map(steps, (*BACKENDS, *BACKENDS), ["cpu"] * 4)
    ]
    for run in runs[1:]:
        assert all(torch.equal(found, expected) for found, expected in zip(run, runs[0], strict=True))


def test_numba_is_refused_where_it_cannot_run() -> None:
    with pytest.raises(MissingBackendError, match="numba"):
        steps("numba", "cuda")


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(MissingBackendError, match="auto, numba, torch"):
        steps("nunba", "cpu")


def test_steps_load_no_numba_before_it_is_used() -> None:
    code = "import hyce_kernels.steps as s, sys; s.steps('torch', 'cpu'); print('numba' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
