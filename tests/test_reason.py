"""The batched online stage against its one-question reference, on structures that hypothesis makes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch
from hyce_kernels import ragged
from hypothesis import given, settings
from hypothesis import strategies as st

from hyce_gpu import Config, Hypergraph, reason
from hyce_gpu.errors import ConfigError, InputError, MissingBackendError
from hyce_gpu.reasoning import Reasoning

EXACT = ("hyperedges", "vertices", "evidence", "paths", "supporting", "divergent", "retained", "represented_by")
CLOSE = ("retrieval_score", "confidence", "hyperedge_confidence", "evidence_score")
BACKENDS = ("torch", "numba")


def _assert_same(found: Reasoning, expected: Reasoning) -> None:
    for name in (*EXACT, "fallback", "cut"):
        assert getattr(found, name) == getattr(expected, name), name
    for name in CLOSE:
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), 1e-9, 1e-12, err_msg=name)
    for one, other in zip(found.terms, expected.terms, strict=True):
        assert one == pytest.approx(other)


@st.composite
def _problems(draw: st.DrawFn) -> tuple[Hypergraph, list[list[int]], torch.Tensor, Config]:
    num_entities = draw(st.integers(1, 24))
    entity = st.integers(0, num_entities - 1)
    members = draw(st.lists(st.lists(entity, min_size=1, max_size=6), max_size=30))
    entry = draw(st.lists(st.lists(entity, max_size=4), min_size=1, max_size=7))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))

    def unit(rows: int) -> torch.Tensor:
        return torch.nn.functional.normalize(torch.randn(rows, 5, generator=generator, dtype=torch.float64), dim=1)

    confidence = torch.rand(len(members), generator=generator, dtype=torch.float64)
    relations = [torch.rand(n % 3, generator=generator).double().tolist() for n in range(len(members))]
    hypergraph = Hypergraph.from_members(
        num_entities, members, confidence=confidence, relation_confidence=relations,
        entity_vectors=unit(num_entities), hyperedge_vectors=unit(len(members)),
    )  # fmt: skip
    config = Config.paper(
        candidate_budget=draw(st.sampled_from([1, 3, 8, 4096])),
        max_hyperedges=draw(st.sampled_from([1, 5, 64])),
        expansion_hops=draw(st.integers(1, 4)),
        evidence_units=draw(st.sampled_from([1, 4, 15])),
        alpha=draw(st.sampled_from([0.0, 0.5, 1.0])),
        restart=draw(st.sampled_from([0.0, 0.5, 1.0])),
        overlap_threshold=draw(st.sampled_from([0.3, 0.8])),
    )
    return hypergraph, entry, unit(len(entry)), config


@settings(max_examples=150, deadline=None)
@given(_problems())
def test_batch_equals_the_reference(problem: tuple[Hypergraph, list[list[int]], torch.Tensor, Config]) -> None:
    hypergraph, entry, vectors, config = problem
    expected = reason(hypergraph, entry, vectors, config, backend="reference")
    for backend in BACKENDS:
        for found, one in zip(reason(hypergraph, entry, vectors, config, backend), expected, strict=True):
            _assert_same(found, one)
    with pytest.MonkeyPatch.context() as patch:
        # In the sizes that CUDA would have.
        patch.setattr(ragged, "waits_for", lambda _: True)
        bounded = reason(hypergraph, entry, vectors, config, "torch")
    for found, one in zip(bounded, expected, strict=True):
        _assert_same(found, one)


@pytest.fixture(scope="module")
def hub() -> tuple[Hypergraph, list[list[int]], torch.Tensor]:
    """3,000 hyperedges around one hub, and 256 questions that enter at the hub and somewhere else."""
    rng = np.random.default_rng(7)
    members = [[0, *rng.integers(1, 2000, size=3).tolist()] for _ in range(3000)]
    vectors = [rng.standard_normal((rows, 16)).astype(np.float32) for rows in (2000, 3000, 256)]
    units = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in vectors]
    hypergraph = Hypergraph.from_members(2000, members, entity_vectors=units[0], hyperedge_vectors=units[1])
    entry = [[0, int(entity)] for entity in rng.integers(1, 2000, size=256)]
    return hypergraph, entry, torch.from_numpy(units[2])


@pytest.mark.parametrize("config", [Config.paper(candidate_budget=500), Config.linked()], ids=["paper", "linked"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_question_does_not_depend_on_its_batch(
    hub: tuple[Hypergraph, list[list[int]], torch.Tensor], backend: str, config: Config
) -> None:
    hypergraph, entry, vectors = hub
    whole = reason(hypergraph, entry, vectors, config, backend)
    for size in (1, 7):
        for start in range(0, 35, size):
            part = slice(start, start + size)
            some = reason(hypergraph, entry[part], vectors[part], config, backend)
            for found, one in zip(some, whole[part], strict=True):
                _assert_same(found, one)


@pytest.mark.parametrize("config", [Config.paper(candidate_budget=500), Config.linked()], ids=["paper", "linked"])
def test_backends_choose_the_same_and_repeat_to_the_bit(
    hub: tuple[Hypergraph, list[list[int]], torch.Tensor], config: Config
) -> None:
    hypergraph, entry, vectors = hub
    expected = reason(hypergraph, entry, vectors, config, "torch")
    found, again = (reason(hypergraph, entry, vectors, config, "numba") for _ in range(2))
    for one, other, torch_one in zip(found, again, expected, strict=True):
        assert one == other
        _assert_same(one, torch_one)


def test_the_budget_keeps_the_best_and_says_so(hub: tuple[Hypergraph, list[list[int]], torch.Tensor]) -> None:
    hypergraph, entry, vectors = hub
    config = Config.paper(candidate_budget=64, expansion_hops=1, max_hyperedges=64)
    free = reason(hypergraph, entry[:3], vectors[:3], Config.paper(expansion_hops=1, max_hyperedges=64))
    for cut, full in zip(reason(hypergraph, entry[:3], vectors[:3], config), free, strict=True):
        assert cut.cut
        assert not full.cut
        assert cut.hyperedges == full.hyperedges


def test_confidence_sums_to_one_and_restart_one_keeps_the_restart_vector() -> None:
    hypergraph = Hypergraph.from_members(
        4, [[0, 1], [1, 2, 3]], entity_vectors=torch.eye(4, dtype=torch.float64), hyperedge_vectors=torch.eye(4)[:2]
    )
    query = torch.tensor([[0.6, 0.8, 0.0, 0.0]], dtype=torch.float64)
    (found,) = reason(hypergraph, [[0]], query, Config.paper())
    assert sum(found.confidence) == pytest.approx(1)
    # alpha 0.5: entity 0 has 0.5 · 0.6 + 0.5, entity 1 has 0.5 · 0.8; together 1.2.
    (kept,) = reason(hypergraph, [[0]], query, Config.paper(restart=1.0))
    assert kept.confidence == pytest.approx([0.8 / 1.2, 0.4 / 1.2, 0, 0])


def test_ten_steps_are_within_the_bound_of_the_fixed_point() -> None:
    rng = np.random.default_rng(3)
    members = [rng.choice(30, size=4, replace=False).tolist() for _ in range(20)]
    units = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (rng.standard_normal((n, 8)) for n in (30, 20, 1))]
    hypergraph = Hypergraph.from_members(30, members, entity_vectors=units[0], hyperedge_vectors=units[1])
    (found,) = reason(hypergraph, [[members[0][0]]], units[2], Config.paper())
    (start,) = reason(hypergraph, [[members[0][0]]], units[2], Config.paper(propagation_steps=0))
    incidence = hypergraph.incidence().to_dense().double()[found.vertices][:, found.hyperedges]
    spread = incidence / incidence.sum(0)
    step = spread @ (incidence / incidence.sum(1, keepdim=True)).T
    identity = torch.eye(len(step), dtype=torch.float64)
    fixed = 0.5 * torch.linalg.solve(identity - 0.5 * step, torch.tensor(start.confidence, dtype=torch.float64))
    assert float((fixed - torch.tensor(found.confidence, dtype=torch.float64)).abs().sum()) <= 2 * 0.5**10


def test_no_questions_and_no_hyperedges() -> None:
    empty = Hypergraph.from_members(0, [])
    assert reason(empty, [], np.zeros((0, 3))) == []
    (found,) = reason(empty, [[]], np.zeros((1, 3)))
    assert asdict(found)["paths"] == []
    assert not found.fallback


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"entry": [[5]]}, "question 0: entry ids must lie in 0..1"),
        ({"query_vectors": np.zeros((2, 3))}, "expected one query vector a question"),
        ({"query_vectors": np.zeros((1, 4))}, "query vectors have 4 numbers, entity_vectors have 3"),
    ],
)
def test_bad_arguments_say_what_was_expected(change: dict[str, Any], message: str) -> None:
    hypergraph = Hypergraph.from_members(2, [[0, 1]], entity_vectors=np.eye(3)[:2], hyperedge_vectors=np.eye(3)[:1])
    arguments: dict[str, Any] = {"entry": [[0]], "query_vectors": np.zeros((1, 3))} | change
    with pytest.raises(InputError, match=message):
        reason(hypergraph, **arguments)


def test_bad_hypergraphs_and_options_are_refused() -> None:
    with pytest.raises(InputError, match="hyperedge 1: entity ids"):
        Hypergraph.from_members(2, [[0, 1], [0, 2]])
    with pytest.raises(InputError, match="confidence: expected numbers from 0 to 1"):
        Hypergraph.from_members(2, [[0, 1]], confidence=[1.5])
    with pytest.raises(InputError, match=r"entity_vectors: expected shape \[2, d\]"):
        Hypergraph.from_members(2, [[0, 1]], entity_vectors=np.zeros((3, 2)))
    with pytest.raises(ConfigError, match="did you mean 'max_hyperedges'"):
        Config.paper(max_hyperedge=3)
    with pytest.raises(ConfigError, match="alpha must be a number from 0 to 1, found 2"):
        Config.paper(alpha=2)
    with pytest.raises(MissingBackendError, match="unknown backend 'fast'"):
        reason(Hypergraph.from_members(0, []), [], np.zeros((0, 3)), backend="fast")
    with pytest.raises(MissingBackendError, match="numba backend works on a CPU, the device is cuda"):
        reason(Hypergraph.from_members(0, []), [], np.zeros((0, 3)), backend="numba", device="cuda")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")
def test_cuda_equals_the_reference(hub: tuple[Hypergraph, list[list[int]], torch.Tensor]) -> None:
    hypergraph, entry, vectors = hub
    expected = reason(hypergraph, entry[:8], vectors[:8], backend="reference")
    for found, one in zip(reason(hypergraph, entry[:8], vectors[:8], device="cuda"), expected, strict=True):
        _assert_same(found, one)
