"""The linked method in batches against its one-question reference, on structures that hypothesis makes."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
import torch
from hyce_kernels import ragged
from hypothesis import given, settings
from hypothesis import strategies as st

from hyce_gpu import Config, Hypergraph, reason
from hyce_gpu.errors import ConfigError
from hyce_gpu.reasoning import Reasoning

EXACT = ("hyperedges", "vertices", "evidence", "paths", "supporting", "divergent", "retained", "represented_by", "cut")
CLOSE = ("retrieval_score", "confidence", "hyperedge_confidence", "evidence_score")


@st.composite
def _problems(draw: st.DrawFn) -> tuple[Hypergraph, list[list[int]], torch.Tensor, list[list[int]], Config]:
    num_entities, num_passages = draw(st.integers(1, 20)), draw(st.integers(1, 8))
    entity = st.integers(0, num_entities - 1)
    members = draw(st.lists(st.lists(entity, max_size=5), max_size=24))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))

    def unit(rows: int) -> torch.Tensor:
        return torch.nn.functional.normalize(torch.randn(rows, 5, generator=generator, dtype=torch.float64), dim=1)

    word = st.dictionaries(st.integers(0, 9), st.integers(1, 3), max_size=4)
    hypergraph = Hypergraph.from_members(
        num_entities,
        members,
        entity_vectors=unit(num_entities),
        hyperedge_vectors=unit(len(members)),
        hyperedge_passage=[draw(st.integers(0, num_passages - 1)) for _ in members],
        passage_subject=[draw(st.integers(-1, num_entities - 1)) for _ in range(num_passages)],
        passage_vectors=unit(num_passages),
        hyperedge_terms=[draw(word) for _ in members],
    )
    entry = draw(st.lists(st.lists(entity, max_size=3), min_size=1, max_size=6))
    terms = [draw(st.lists(st.integers(0, 9), max_size=4)) for _ in entry]
    config = Config.linked(
        nearest_hyperedges=draw(st.sampled_from([0, 2, 256])),
        nearest_passages=draw(st.sampled_from([0, 1, 20])),
        entry_fanout=draw(st.sampled_from([1, 1000])),
        bridge_sources=draw(st.sampled_from([1, 30])),
        relevance_rank=draw(st.sampled_from([1, 3, 400])),
        max_hyperedges=draw(st.sampled_from([1, 5, 512])),
        evidence_units=draw(st.sampled_from([1, 4, 15])),
        overlap_threshold=draw(st.sampled_from([0.5, 1.0])),
        # No powers of two: numbers that 32 bits would not hold.
        entry_bridge=draw(st.sampled_from([0.25, 0.3])),
        side_bridge=draw(st.sampled_from([0.75, 0.7])),
    )
    return hypergraph, entry, unit(len(entry)), terms, config


@settings(max_examples=40, deadline=None)
@given(_problems())
def test_batch_equals_the_reference(
    problem: tuple[Hypergraph, list[list[int]], torch.Tensor, list[list[int]], Config],
) -> None:
    hypergraph, entry, vectors, terms, config = problem
    expected = reason(hypergraph, entry, vectors, config, backend="reference", query_terms=terms)
    for backend in ("torch", "numba"):
        found = reason(hypergraph, entry, vectors, config, backend, query_terms=terms)
        for one, other in zip(found, expected, strict=True):
            _assert_same(one, other)
    with pytest.MonkeyPatch.context() as patch:
        # In the sizes that CUDA would have.
        patch.setattr(ragged, "waits_for", lambda _: True)
        found = reason(hypergraph, entry, vectors, config, "torch", query_terms=terms)
    for one, other in zip(found, expected, strict=True):
        _assert_same(one, other)


def _assert_same(found: Reasoning, expected: Reasoning) -> None:
    for name in EXACT:
        assert getattr(found, name) == getattr(expected, name), name
    for name in CLOSE:
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), 1e-9, 1e-12, err_msg=name)
    for one, other in zip(found.terms, expected.terms, strict=True):
        assert one == pytest.approx(other)


def test_a_chain_leads_from_the_entry_over_the_bridge_to_the_evidence() -> None:
    # Passage 0 is about entity 0 and names 1; passage 1 is about 1 and names 2; passage 2 has nothing to do with it.
    hypergraph = Hypergraph.from_members(
        5, [[0, 1], [1, 2], [3, 4]], hyperedge_vectors=np.eye(3), passage_subject=[0, 1, 3], passage_vectors=np.eye(3)
    )
    query = torch.nn.functional.normalize(torch.tensor([[0.9, 0.4, 0.1]], dtype=torch.float64), dim=1)
    (found,) = reason(hypergraph, [[0]], query, Config.linked())
    assert found.evidence[:2] == [0, 1]
    chain = found.chains[0]
    assert (chain.entry, chain.hyperedges, chain.bridges) == (0, [0, 1], [1])
    # Both specificities: entity 0 is named by one of three passages, the bridge by two.
    bridge = np.log(3 / 2) / np.log(3)
    gain = found.evidence_score[1] / found.evidence_score[0]
    assert chain.score == pytest.approx((1 * 1 * bridge * gain) ** (1 / 4))


def test_a_question_gives_the_same_alone_and_in_a_batch() -> None:
    rng = np.random.default_rng(3)
    members = [rng.integers(0, 200, size=3).tolist() for _ in range(600)]
    hypergraph = Hypergraph.from_members(
        200, members, hyperedge_vectors=_unit(rng, 600), hyperedge_passage=(np.arange(600) // 3).tolist()
    )
    entry, queries = [[int(v)] for v in rng.integers(0, 200, size=64)], _unit(rng, 64)
    together = reason(hypergraph, entry, queries, Config.linked(nearest_hyperedges=40))
    for place in (0, 31, 63):
        part = slice(place, place + 1)
        (alone,) = reason(hypergraph, entry[part], queries[part], Config.linked(nearest_hyperedges=40))
        assert asdict(alone) == asdict(together[place])


def _unit(rng: np.random.Generator, rows: int) -> np.ndarray:
    vectors = rng.standard_normal((rows, 16)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_an_option_of_the_other_method_is_refused() -> None:
    with pytest.raises(ConfigError, match="beta is an option of the method 'paper'; the method here is 'linked'"):
        Config.linked(beta=0.3)
    with pytest.raises(ConfigError, match="weight_link is an option of the method 'linked'"):
        Config.paper(weight_link=0.3)
    with pytest.raises(ConfigError, match="method must be one of linked, paper, found 'papre'"):
        Config.linked(method="papre")
    assert Config() == Config.linked()
