"""Every backend of the propagation kernel, in both layouts, against its reference.

Where TRITON_INTERPRET=1 the file runs triton and nothing else: `test_kernels_propagation_triton` starts it so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, cast

import pytest
import torch
from hyce_kernels.propagation import Masked, Packed, Structure, plan, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
# No backend offers 16 bits: its sums of ten steps would miss any tolerance worth stating.
TOLERANCE = {torch.float64: {"rtol": 1e-11, "atol": 1e-14}, torch.float32: {"rtol": 5e-5, "atol": 1e-7}}
RESTART, STEPS = 0.3, 3
# The interpreter takes some 50 ms for a question, and a loop of it for every four hyperedges of a hub.
COUNTS, BATCHES, HUB, EXAMPLES = (
    ([0, 1, 63], [7, 20], 400, 5) if INTERPRETED else ([0, 1, 63, 1000], [7, 256], 10_000, 40)
)


def _where(backend: str, device: str) -> Any:
    marks = []
    if backend != "reference" and find_spec(backend) is None:
        marks += [pytest.mark.skip(reason=f"{backend} is not installed")]
    if device == "cuda":
        marks += [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")]
    return pytest.param((backend, device), id=f"{backend}-{device}", marks=marks)


NATIVE = [_where(name, "cpu") for name in ("torch", "torch_sparse", "numba")]
NATIVE += [_where(name, "cuda") for name in ("torch", "torch_sparse", "triton")]
HERE = [_where("triton", "cpu")] if INTERPRETED else NATIVE
everywhere = pytest.mark.parametrize("where", HERE)
every_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


def _found(
    structure: Structure, restart_vector: Tensor, where: tuple[str, str], dtype: torch.dtype, steps: int = STEPS
) -> tuple[Tensor, Tensor]:
    backend, device = where
    moved = type(structure)(
        **{name: part.to(device) if isinstance(part, Tensor) else part for name, part in vars(structure).items()}
    )
    confidence, flow = run(plan(moved, dtype, backend), restart_vector.to(device, dtype), RESTART, steps)
    assert confidence.dtype == flow.dtype == dtype
    return confidence.cpu(), flow.cpu()


def _check(structure: Structure, restart_vector: Tensor, where: tuple[str, str], dtype: torch.dtype) -> None:
    expected = run(plan(structure, torch.float64, "reference"), restart_vector, RESTART, STEPS)
    _assert_close(_found(structure, restart_vector, where, dtype), expected, dtype)


def _assert_close(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor], dtype: torch.dtype) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), other.double(), **TOLERANCE[dtype])


def _pointer(counts: list[int]) -> Tensor:
    return torch.tensor([0, *counts]).cumsum(0)


def _packed(questions: list[tuple[int, list[list[int]]]], weighted: int | None = None) -> Packed:
    """Of each question, how many entities it has and the members of its hyperedges; weights drawn from a seed."""
    firsts = _pointer([count for count, _ in questions]).tolist()
    rows = [[first + v for v in row] for first, (_, edges) in zip(firsts, questions, strict=False) for row in edges]
    return Packed.distinct(
        torch.tensor([v for row in rows for v in row], dtype=torch.long),
        _pointer([len(row) for row in rows]),
        torch.tensor(firsts),
        _pointer([len(edges) for _, edges in questions]),
        firsts[-1],
        *_weights((len(rows),), firsts[-1], weighted),
    )


def _masked(num_entities: int, members: list[list[int]], mask: Tensor, weighted: int | None = None) -> Masked:
    edges, entities = _weights(tuple(mask.shape), num_entities, weighted)
    # What the mask leaves out is never read.
    edges = None if edges is None else edges.masked_fill(~mask, torch.nan)
    member = torch.tensor([v for row in members for v in row], dtype=torch.long)
    return Masked.distinct(member, _pointer([len(row) for row in members]), num_entities, mask, edges, entities)


def _weights(edges: tuple[int, ...], entities: int, seed: int | None) -> tuple[Tensor | None, Tensor | None]:
    if seed is None:
        return None, None
    generator = torch.Generator().manual_seed(seed)
    return _positive(edges, generator), _positive((entities,), generator)


def _positive(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.rand(shape, generator=generator, dtype=torch.float64) + 0.05


def _start(structure: Structure, seed: int = 0) -> Tensor:
    """Numbers for the entities of each question, 0 for the others."""
    generator = torch.Generator().manual_seed(seed)
    if isinstance(structure, Packed):
        return _positive((structure.num_entities,), generator)
    incidence = torch.zeros((structure.num_entities, structure.num_hyperedges), dtype=torch.float64)
    incidence[structure.member, torch.repeat_interleave(structure.member_pointer.diff())] = 1
    has = incidence @ structure.hyperedge_mask.double() > 0
    return torch.where(has, _positive(tuple(has.shape), generator), 0.0)


def _random_questions(count: int, seed: int, edges: int = 6) -> list[tuple[int, list[list[int]]]]:
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(1, 5, (count, edges), generator=generator).tolist()
    return [(7, [torch.randint(0, 7, (size,), generator=generator).tolist() for size in row]) for row in sizes]


@st.composite
def _structures(draw: st.DrawFn) -> Structure:
    weighted = draw(st.none() | st.integers(0, 99))
    if draw(st.booleans()):
        counts = draw(st.lists(st.integers(0, 6), max_size=5))
        return _packed([(count, draw(_members(count))) for count in counts], weighted)
    count = draw(st.integers(0, 8))
    members, questions = draw(_members(count)), draw(st.integers(0, 20))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    mask = torch.rand((len(members), questions), generator=generator) < 0.6
    return _masked(count, members, mask, weighted)


def _members(count: int) -> st.SearchStrategy[list[list[int]]]:
    """Members of up to 6 hyperedges; empty ones and repeated members among them."""
    row = st.lists(st.integers(0, count - 1), max_size=9) if count else st.just([])
    return st.lists(row, max_size=6)


@everywhere
@every_dtype
@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(structure=_structures())
def test_equals_the_reference(where: tuple[str, str], dtype: torch.dtype, structure: Structure) -> None:
    _check(structure, _start(structure), where, dtype)


@pytest.mark.parametrize("where", [_where("reference", "cpu"), *HERE])
@every_dtype
def test_by_hand(where: tuple[str, str], dtype: torch.dtype) -> None:
    # Hyperedges {0, 1} and {1} of weights 1 and 3, so Dv = (1, 4); entities of weights 1 and 3, so De = (4, 3); entity
    # 2 has none. From c = (.4, .6), .4 + .6/4 = .55 and 3 · .6/4 = .45 flow in, .55/4 = .1375 and 3/4 · .55 + .45 =
    # .8625 come back, and c = .3 r + .7 · that.
    confidence = [0.3 * 0.4 + 0.7 * 0.1375, 0.3 * 0.6 + 0.7 * 0.8625, 0.3 * 0.5]
    flow = [confidence[0] + confidence[1] / 4, 3 * confidence[1] / 4]
    weight, back = torch.tensor([1.0, 3.0]), torch.tensor([1.0, 3.0, 1.0])
    packed = Packed.distinct(
        torch.tensor([0, 1, 1, 1]), torch.tensor([0, 3, 4]), torch.tensor([0, 3]), torch.tensor([0, 2]), 3, weight, back
    )
    found = _found(packed, _exact([0.4, 0.6, 0.5]), where, dtype, steps=1)
    _assert_close(found, (_exact(confidence), _exact(flow)), dtype)

    # The same beside a hyperedge {0, 1, 2} that is not the first question's, and is the second's only one: from
    # c = (1, 0, 0), 1 flows in, 1/5, 3/5 and 1/5 come back.
    mask = torch.tensor([[True, False], [True, False], [False, True]])
    weights = torch.tensor([[1, torch.nan], [3, torch.nan], [torch.nan, 7]])
    masked = Masked(torch.tensor([0, 1, 1, 0, 1, 2]), torch.tensor([0, 2, 3, 6]), 3, mask, weights, back)
    found = _found(masked, _exact([[0.4, 1], [0.6, 0], [0.5, 0]]), where, dtype, steps=1)
    confidences = _exact([confidence, [0.3 + 0.7 / 5, 0.7 * 3 / 5, 0.7 / 5]]).T
    _assert_close(found, (confidences, _exact([[flow[0], 0], [flow[1], 0], [0, 1]])), dtype)


def _exact(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@everywhere
def test_no_step_gives_back_the_restart_vector(where: tuple[str, str]) -> None:
    confidence, flow = _found(_packed([(2, [[0, 1]])]), torch.tensor([0.25, 0.5]), where, torch.float64, steps=0)
    assert (confidence.tolist(), flow.tolist()) == ([0.25, 0.5], [0.75])


@everywhere
@every_dtype
@pytest.mark.parametrize("count", COUNTS)
def test_numbers_of_questions(where: tuple[str, str], dtype: torch.dtype, count: int) -> None:
    packed = _packed(_random_questions(count, seed=1, edges=3), weighted=2)
    _check(packed, _start(packed), where, dtype)
    mask = torch.rand((4, count), generator=torch.Generator().manual_seed(3)) < 0.5
    masked = _masked(5, [[0, 1], [1, 2, 2], [3], [0, 3, 4]], mask, weighted=4)
    _check(masked, _start(masked), where, dtype)


@everywhere
@every_dtype
def test_an_empty_question_and_one_of_a_single_hyperedge(where: tuple[str, str], dtype: torch.dtype) -> None:
    packed = _packed([(3, [[0, 2, 2]]), (0, []), (2, []), (2, [[], [0, 1]])])
    start = _start(packed)
    _check(packed, start, where, dtype)
    # Entities 1, 3 and 4 have no hyperedge.
    confidence, _ = _found(packed, start, where, dtype)
    torch.testing.assert_close(confidence[[1, 3, 4]].double(), RESTART * start[[1, 3, 4]], rtol=1e-6, atol=0)


@everywhere
@every_dtype
def test_a_hub(where: tuple[str, str], dtype: torch.dtype) -> None:
    members = [[0, 1 + edge % 37] for edge in range(HUB)]
    packed = _packed([(3, [[0, 1, 2]]), (40, members), (2, [[0, 1]])], weighted=5)
    _check(packed, _start(packed), where, dtype)
    masked = _masked(40, members, torch.ones((HUB, 2), dtype=torch.bool), weighted=6)
    _check(masked, _start(masked), where, dtype)


@everywhere
@every_dtype
def test_a_large_hyperedge_and_more_entities_than_fit_registers(where: tuple[str, str], dtype: torch.dtype) -> None:
    packed = _packed([(5, [[0, 1], [1, 4]]), (1100, [list(range(0, 1100, 3)), [0, 3, 1099]])], weighted=7)
    _check(packed, _start(packed), where, dtype)


@everywhere
@every_dtype
def test_two_runs_are_equal_to_the_bit(where: tuple[str, str], dtype: torch.dtype) -> None:
    if where[1] == "cuda" and where[0] != "triton":
        pytest.skip("cuSPARSE and torch_sparse promise no order of their sums on CUDA")
    packed = _packed(
        [*_random_questions(max(BATCHES), seed=14), (1100, [[0, 5], list(range(0, 1100, 9))])], weighted=15
    )
    mask = torch.rand((40, 19), generator=torch.Generator().manual_seed(16)) < 0.5
    masked = _masked(7, _random_questions(1, seed=17, edges=40)[0][1], mask, weighted=18)
    for structure in (packed, masked):
        first, second = (_found(structure, _start(structure), where, dtype) for _ in range(2))
        assert torch.equal(first[0], second[0])
        assert torch.equal(first[1], second[1])


@everywhere
@every_dtype
@pytest.mark.parametrize("size", BATCHES)
def test_a_question_alone_and_in_a_batch(where: tuple[str, str], dtype: torch.dtype, size: int) -> None:
    questions = _random_questions(size, seed=8)
    together = _packed(questions)
    start = _start(together)
    confidence, flow = _found(together, start, where, dtype)
    for place in {0, size // 2, size - 1}:
        own, edges = slice(7 * place, 7 * place + 7), slice(6 * place, 6 * place + 6)
        alone = _found(_packed([questions[place]]), start[own], where, dtype)
        _assert_close((confidence[own], flow[edges]), alone, dtype)
        assert confidence[own].argsort(stable=True).tolist() == alone[0].argsort(stable=True).tolist()


@everywhere
@every_dtype
@pytest.mark.parametrize("size", BATCHES)
def test_a_masked_question_alone_and_in_a_batch(where: tuple[str, str], dtype: torch.dtype, size: int) -> None:
    ((count, members),) = _random_questions(1, seed=9, edges=12)
    mask = torch.rand((len(members), size), generator=torch.Generator().manual_seed(10)) < 0.5
    together = _masked(count, members, mask)
    start = _start(together)
    confidence, flow = _found(together, start, where, dtype)
    for place in {0, size // 2, size - 1}:
        one = slice(place, place + 1)
        alone = _found(_masked(count, members, mask[:, one]), start[:, one], where, dtype)
        _assert_close((confidence[:, one], flow[:, one]), alone, dtype)
        assert confidence[:, place].argsort(stable=True).tolist() == alone[0][:, 0].argsort(stable=True).tolist()


@pytest.fixture
def _memory_of_nan() -> Iterator[None]:
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.empty(9).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


@everywhere
@every_dtype
@pytest.mark.usefixtures("_memory_of_nan")
def test_unused_memory_does_not_leak_in(where: tuple[str, str], dtype: torch.dtype) -> None:
    packed = _packed([(3, [[0, 2]]), (0, []), (1100, [[0, 5], [5, 7, 1099]]), (2, [[]])], weighted=11)
    _check(packed, _start(packed), where, dtype)
    mask = torch.rand((6, 19), generator=torch.Generator().manual_seed(12)) < 0.5
    masked = _masked(150, [[0, 1], [1, 2, 149], [3], [0, 3, 4], [], [140, 4]], mask, weighted=13)
    _check(masked, _start(masked), where, dtype)


@everywhere
@every_dtype
@pytest.mark.usefixtures("_memory_of_nan")
def test_what_no_question_has_changes_nothing(where: tuple[str, str], dtype: torch.dtype) -> None:
    packed = _packed(_random_questions(3, 5), 2)
    entities, edges = packed.num_entities, packed.num_hyperedges
    start, ones = _start(packed), torch.ones(2, dtype=torch.float64)
    # Behind everything else a hyperedge that names one of two more entities three times.
    more = replace(
        packed,
        entity=torch.cat((packed.entity, torch.full((3,), entities))),
        member_pointer=torch.cat((packed.member_pointer, packed.member_pointer[-1:] + 3)),
        num_entities=entities + 2,
        hyperedge_weight=torch.cat((cast(Tensor, packed.hyperedge_weight), ones[:1])),
        entity_weight=torch.cat((cast(Tensor, packed.entity_weight), ones)),
    )
    expected = _found(packed, start, where, dtype)
    confidence, flow = _found(more, torch.cat((start, ones)), where, dtype)
    _assert_close((confidence[:entities], flow[:edges]), expected, dtype)


def test_both_layouts_hold_the_same() -> None:
    members = [[0, 1], [1, 2, 3], [0, 3], [2]]
    mask = torch.tensor([[1, 0], [1, 1], [0, 1], [1, 0]], dtype=torch.bool)
    masked = _masked(4, members, mask)
    start = _start(masked)
    found = run(plan(masked, torch.float64, "reference"), start, RESTART, STEPS)
    packed = _packed([(4, [members[edge] for edge in row.nonzero()[:, 0]]) for row in mask.T])
    own, through = run(plan(packed, torch.float64, "reference"), start.T.reshape(-1), RESTART, STEPS)
    _assert_close((own.view(2, 4).T, through), (found[0], found[1].T[mask.T]), torch.float64)
