"""Propagation of a batch: packed torch CSR beside scipy, one question at a time. `make bench` runs it.

256 questions of 128 hyperedges with 2 to 8 entities each, 10 steps. Both sides start from the same planned structure,
so the ratio compares the steps alone; compare medians of one run only, never of two.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sparse
import torch
from hyce_kernels import propagation
from hyce_kernels.propagation_reference import propagate

QUESTIONS, HYPEREDGES, ENTITIES, STEPS = 256, 128, 400, 10


@pytest.fixture(scope="module")
def problem() -> tuple[list[list[list[int]]], np.ndarray]:
    """Members of each question's hyperedges, and restart vectors [Q, V]."""
    rng = np.random.default_rng(11)
    members = [
        [sorted(rng.choice(ENTITIES, size=rng.integers(2, 9), replace=False).tolist()) for _ in range(HYPEREDGES)]
        for _ in range(QUESTIONS)
    ]
    restart = rng.random((QUESTIONS, ENTITIES))
    return members, restart / restart.sum(1, keepdims=True)


def _plan(members: list[list[list[int]]]) -> propagation.Plan:
    pairs = [
        (question * ENTITIES + entity, question * HYPEREDGES + edge)
        for question, edges in enumerate(members)
        for edge, row in enumerate(edges)
        for entity in row
    ]
    entity, hyperedge = torch.tensor(pairs).T
    return propagation.plan(entity, hyperedge, QUESTIONS * ENTITIES, QUESTIONS * HYPEREDGES, torch.float64)


def _scipy_steps(edges: list[list[int]]) -> sparse.csr_array:
    pointer = np.cumsum([0, *map(len, edges)])
    columns = np.concatenate(edges)
    incidence = sparse.csr_array((np.ones(len(columns)), columns, pointer), shape=(HYPEREDGES, ENTITIES)).T.tocsr()
    entity_degree = np.maximum(incidence.sum(1), 1)
    return (incidence / incidence.sum(0)) @ (incidence / entity_degree[:, None]).T


def _walk(step: sparse.csr_array, restart: np.ndarray) -> np.ndarray:
    confidence = restart
    for _ in range(STEPS):
        confidence = 0.5 * restart + 0.5 * (step @ confidence)
    return confidence


def _require_equal(found: np.ndarray, problem: tuple[list[list[list[int]]], np.ndarray]) -> None:
    members, restart = problem
    for question in (0, QUESTIONS - 1):
        expected = propagate(members[question], restart[question].tolist(), 0.5, STEPS)
        np.testing.assert_allclose(found[question], expected, 1e-9, 1e-12)


@pytest.mark.benchmark(group="propagation")
def test_packed_torch_csr(benchmark, problem) -> None:  # type: ignore[no-untyped-def]
    members, restart = problem
    plan, start = _plan(members), torch.from_numpy(restart).reshape(-1)
    found = propagation.run(plan, start, 0.5, STEPS).numpy().reshape(QUESTIONS, ENTITIES)
    _require_equal(found, problem)
    benchmark(propagation.run, plan, start, 0.5, STEPS)


@pytest.mark.benchmark(group="propagation")
def test_scipy_one_by_one(benchmark, problem) -> None:  # type: ignore[no-untyped-def]
    members, restart = problem
    steps = [_scipy_steps(edges) for edges in members]
    _require_equal(np.stack([_walk(step, row) for step, row in zip(steps, restart, strict=True)]), problem)
    benchmark(lambda: [_walk(step, row) for step, row in zip(steps, restart, strict=True)])
