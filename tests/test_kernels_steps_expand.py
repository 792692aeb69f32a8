"""The loops of expansion against torch's sorted keys where hubs make a frontier wide and the budget bites."""

from __future__ import annotations

import pytest
import torch
from hyce_kernels.steps import steps
from torch import Tensor

EDGES, ENTITIES, QUESTIONS, WIDTH = 900, 700, 12, 16


@pytest.fixture(scope="module")
def asked() -> tuple[Tensor, ...]:
    """A tenth of the hyperedges hold one of three hubs; entries are rare, and question 0 has none."""
    pytest.importorskip("numba")
    random = torch.Generator().manual_seed(7)
    rows = [
        sorted({*torch.randint(3, ENTITIES, (3,), generator=random).tolist(), *([edge % 3] if edge % 10 == 0 else [])})
        for edge in range(EDGES)
    ]
    member = torch.tensor([v for row in rows for v in row])
    pointer = torch.tensor([0, *(len(row) for row in rows)]).cumsum(0)
    edge = torch.repeat_interleave(pointer.diff())
    incident_pointer = torch.cat(
        (torch.zeros(1, dtype=torch.long), torch.bincount(member, minlength=ENTITIES).cumsum(0))
    )
    entry = torch.randint(3, ENTITIES, (QUESTIONS - 1,), generator=random)
    vectors = torch.nn.functional.normalize(torch.randn(EDGES + QUESTIONS, WIDTH, generator=random), dim=1)
    incident = edge[torch.sort(member, stable=True).indices]
    of = torch.arange(1, QUESTIONS)
    return pointer, member, incident_pointer, incident, of, entry, vectors[EDGES:], vectors[:EDGES].contiguous()


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("budget", [1, 40, 300, EDGES])
@pytest.mark.parametrize("hops", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("keep", [8, 64])
def test_wide_frontiers(asked: tuple[Tensor, ...], keep: int, hops: int, budget: int, beta: float) -> None:
    """Fewer kept than the budget lets in: then the last two hops are mostly settled without it."""
    found = steps("numba", "cpu").expand(*asked, hops, budget, beta, keep)
    expected = steps("torch", "cpu").expand(*asked, hops, budget, beta, keep)
    for one, other in zip(found, _held(*expected), strict=True):
        assert torch.allclose(one.double(), other.double(), rtol=0, atol=1e-7)


def _held(segment: Tensor, hyperedge: Tensor, score: Tensor, cut: Tensor) -> tuple[Tensor, ...]:
    """Without the rows that mean nothing, with which torch fills its tables."""
    held = hyperedge >= 0
    return segment[held], hyperedge[held], score[held], cut


def test_a_question_alone_and_in_a_batch(asked: tuple[Tensor, ...]) -> None:
    """Few questions are compared in one pass over the vectors, many by a matrix product; both decide alike."""
    *graph, of, entry, questions, vectors = asked
    segment, hyperedge, score, cut = steps("numba", "cpu").expand(*asked, 4, 200, 0.5, 64)
    for number in range(QUESTIONS):
        own = entry[of == number]
        alone = steps("numba", "cpu").expand(
            *graph, torch.zeros_like(own), own, questions[number : number + 1], vectors, 4, 200, 0.5, 64
        )
        assert torch.equal(alone[1], hyperedge[segment == number])
        assert torch.equal(alone[2], score[segment == number])
        assert torch.equal(alone[3], cut[number : number + 1])
