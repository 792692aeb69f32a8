"""From question vectors to evidence, vector searches included: batches beside one question after the other.

A synthetic corpus of 25,000 hyperedges and 40,000 entities (`synthetic.py`), both methods. The other side is the same
work by the same tensors, one question at a time, as other tools retrieve. Before a figure is taken, both sides must
have found the same evidence. Compare medians of one run only, never of two.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
import synthetic

from hyce_gpu import Config
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.reasoning import Reasoning
from hyce_gpu.vector_index import VectorIndex

HYPEREDGES = int(os.environ.get("HYCE_BENCH_HYPEREDGES", 25_000))
BATCHES = (1, 4, 16, 64, 256, 1024, 4096)
# What one question at a time is timed on; it takes long enough.
ONE_BY_ONE = 16
CONFIGS = {"paper": Config.paper(), "linked": Config.linked()}

Retrieve = Callable[[slice], list[Reasoning]]


@dataclass(frozen=True)
class Corpus:
    hypergraph: Hypergraph
    index: VectorIndex
    asked: synthetic.Questions


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    hypergraph = synthetic.corpus(HYPEREDGES)
    index = VectorIndex.build(hypergraph.entity_vectors.numpy())
    return Corpus(hypergraph, index, synthetic.questions(hypergraph, max(BATCHES)))


def _retriever(corpus: Corpus, method: str, backend: str) -> Retrieve:
    return lambda part: synthetic.retrieve(
        corpus.hypergraph, corpus.index, corpus.asked.part(part), CONFIGS[method], backend
    )


def _one_by_one(retrieve: Retrieve, count: int) -> list[Reasoning]:
    return [retrieve(slice(number, number + 1))[0] for number in range(count)]


def _require_same(found: Sequence[Reasoning], expected: Sequence[Reasoning]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.evidence == other.evidence
        assert one.evidence_score == pytest.approx(other.evidence_score, rel=1e-5)


@pytest.mark.parametrize("size", BATCHES)
@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("method", list(CONFIGS))
def test_batch(benchmark, corpus, method: str, backend: str, size: int) -> None:  # type: ignore[no-untyped-def]
    if backend == "torch" and size > 256:
        pytest.skip("the torch backend is for GPUs; on a CPU it is shown up to 256")
    retrieve = _retriever(corpus, method, backend)
    few = min(size, ONE_BY_ONE)
    _require_same(retrieve(slice(0, size))[:few], _one_by_one(_retriever(corpus, method, "torch"), few))
    benchmark.group = f"retrieval {method}"
    benchmark.extra_info.update(questions=size, backend=backend, method=method)
    rounds = max(3, min(20, 2048 // size)) if backend == "numba" else 3
    benchmark.pedantic(retrieve, (slice(0, size),), rounds=rounds, warmup_rounds=1)


@pytest.mark.parametrize("method", list(CONFIGS))
def test_one_question_after_the_other(benchmark, corpus, method: str) -> None:  # type: ignore[no-untyped-def]
    retrieve = _retriever(corpus, method, "torch")
    benchmark.group = f"retrieval {method}"
    benchmark.extra_info.update(questions=ONE_BY_ONE, backend="torch, one by one", method=method)
    benchmark.pedantic(_one_by_one, (retrieve, ONE_BY_ONE), rounds=3, warmup_rounds=1)
