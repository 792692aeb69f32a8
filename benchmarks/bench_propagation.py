"""Propagation of a batch: the packed backends beside igraph, scipy and numpy, one question at a time. `make bench`.

1,024 questions of 128 hyperedges, each of 2 to 8 of 400 entities (drawn with repeats, which count once), 10 steps,
64-bit. "plan and run" is the whole job from incidences to confidence, so the others build their graph or matrix each
time; "run" is what a second restart vector costs. Every figure comes after its result was compared with the reference.
Compare medians of one run only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sparse
import torch
from hyce_kernels import propagation
from hyce_kernels.propagation import Packed
from hyce_kernels.propagation.reference import propagate

QUESTIONS, HYPEREDGES, ENTITIES, STEPS, RESTART = 1024, 128, 400, 10, 0.5
# Steps after which the walk has converged to 64 bits: what is left shrinks by 1 - RESTART in each.
CONVERGED = 60
BACKENDS = ("numba", "torch", "torch_sparse")


@dataclass(frozen=True)
class Problem:
    packed: Packed
    # Entities of all incidences of each question, from 0, and where its hyperedges begin and end.
    questions: list[tuple[np.ndarray, np.ndarray]]
    restart: np.ndarray  # [Q, V]

    def require(self, found: np.ndarray) -> None:
        """The gate: `found` [Q, V] of the first, a middle and the last question, against the plain loops."""
        for question in (0, QUESTIONS // 2, QUESTIONS - 1):
            np.testing.assert_allclose(found[question], self.expected(question, STEPS), 1e-9, 1e-12)

    def expected(self, question: int, steps: int) -> np.ndarray:
        entity, pointer = self.questions[question]
        members = [row.tolist() for row in np.split(entity, pointer[1:-1])]
        return np.array(propagate(members, self.restart[question].tolist(), RESTART, steps)[0])


@pytest.fixture(scope="module")
def problem() -> Problem:
    rng = np.random.default_rng(11)
    sizes = rng.integers(2, 9, size=QUESTIONS * HYPEREDGES)
    question = np.repeat(np.arange(QUESTIONS), HYPEREDGES).repeat(sizes)
    entity = rng.integers(0, ENTITIES, size=sizes.sum()) + question * ENTITIES
    packed = Packed.distinct(
        torch.from_numpy(entity),
        torch.from_numpy(np.cumsum([0, *sizes])),
        torch.arange(QUESTIONS + 1) * ENTITIES,
        torch.arange(QUESTIONS + 1) * HYPEREDGES,
        QUESTIONS * ENTITIES,
    )
    restart = rng.random((QUESTIONS, ENTITIES))
    questions = [_question(packed, question) for question in range(QUESTIONS)]
    return Problem(packed, questions, restart / restart.sum(1, keepdims=True))


def _question(packed: Packed, question: int) -> tuple[np.ndarray, np.ndarray]:
    pointer = packed.member_pointer[question * HYPEREDGES : (question + 1) * HYPEREDGES + 1].numpy()
    entity = packed.entity[pointer[0] : pointer[-1]].numpy() - question * ENTITIES
    return entity, pointer - pointer[0]


def _packed_job(problem: Problem, backend: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """(plan and run, run alone), after the gate."""
    if backend != "torch":
        pytest.importorskip(backend, reason=f"{backend} is not installed")
    start = torch.from_numpy(problem.restart).reshape(-1)
    ready = propagation.plan(problem.packed, torch.float64, backend)

    def run() -> Any:
        return propagation.run(ready, start, RESTART, STEPS)

    def plan_and_run() -> Any:
        return propagation.run(propagation.plan(problem.packed, torch.float64, backend), start, RESTART, STEPS)

    for job in (run, plan_and_run):
        problem.require(job()[0].numpy().reshape(QUESTIONS, ENTITIES))
    return plan_and_run, run


@pytest.mark.benchmark(group="propagation: plan and run")
@pytest.mark.parametrize("backend", BACKENDS)
def test_packed_plan_and_run(benchmark: Any, problem: Problem, backend: str) -> None:
    _say(benchmark, backend)
    benchmark(_packed_job(problem, backend)[0])


@pytest.mark.benchmark(group="propagation: run")
@pytest.mark.parametrize("backend", BACKENDS)
def test_packed_run(benchmark: Any, problem: Problem, backend: str) -> None:
    _say(benchmark, backend)
    benchmark(_packed_job(problem, backend)[1])


def _say(benchmark: Any, backend: str) -> None:
    benchmark.extra_info.update(questions=QUESTIONS, backend=backend, method="propagation")


def _one_by_one(problem: Problem, walk: Callable[..., np.ndarray]) -> np.ndarray:
    return np.stack([walk(*question, row) for question, row in zip(problem.questions, problem.restart, strict=True)])


def _scipy(entity: np.ndarray, pointer: np.ndarray, restart: np.ndarray) -> np.ndarray:
    members = sparse.csr_array((np.ones(len(entity)), entity, pointer), shape=(HYPEREDGES, ENTITIES))
    collect = members / np.maximum(members.sum(0), 1)
    return _walk(collect.tocsr(), (members / members.sum(1)[:, None]).T.tocsr(), restart)


def _numpy(entity: np.ndarray, pointer: np.ndarray, restart: np.ndarray) -> np.ndarray:
    members = np.zeros((HYPEREDGES, ENTITIES))
    members[np.repeat(np.arange(HYPEREDGES), np.diff(pointer)), entity] = 1
    collect = members / np.maximum(members.sum(0), 1)
    return _walk(collect, (members / members.sum(1)[:, None]).T, restart)


def _walk(collect: Any, spread: Any, restart: np.ndarray) -> np.ndarray:
    confidence = restart
    for _ in range(STEPS):
        confidence = RESTART * restart + (1 - RESTART) * (spread @ (collect @ confidence))
    return confidence


@pytest.mark.benchmark(group="propagation: plan and run")
@pytest.mark.parametrize("walk", [_scipy, _numpy], ids=["scipy", "numpy-dense"])
def test_one_by_one(benchmark: Any, problem: Problem, walk: Callable[..., np.ndarray]) -> None:
    problem.require(_one_by_one(problem, walk))
    _say(benchmark, f"{walk.__name__[1:]}, one by one")
    benchmark(_one_by_one, problem, walk)


@pytest.mark.benchmark(group="propagation: plan and run")
def test_igraph_one_by_one(benchmark: Any, problem: Problem) -> None:
    """PRPACK on the star expansion, an edge for each incidence: it solves for the state that our steps approach.

    One of our steps is two of its walk, so that it takes the square root of our damping; its state is shared out over
    entities and hyperedges, so that shares of the entities compare.
    """
    igraph = pytest.importorskip("igraph", reason="igraph is not installed")

    def rank(entity: np.ndarray, pointer: np.ndarray, restart: np.ndarray) -> np.ndarray:
        edges = np.stack((entity, ENTITIES + np.repeat(np.arange(HYPEREDGES), np.diff(pointer))), axis=1)
        graph = igraph.Graph(n=ENTITIES + HYPEREDGES, edges=edges)
        reset = [*restart.tolist(), *[0.0] * HYPEREDGES]
        found = graph.personalized_pagerank(
            directed=False, damping=(1 - RESTART) ** 0.5, reset=reset, implementation="prpack"
        )
        return np.array(found[:ENTITIES])

    found = _one_by_one(problem, rank)
    for question in (0, QUESTIONS - 1):
        expected = problem.expected(question, CONVERGED)
        np.testing.assert_allclose(found[question] / found[question].sum(), expected / expected.sum(), 1e-6, 1e-10)
    _say(benchmark, "igraph, one by one")
    benchmark(_one_by_one, problem, rank)
