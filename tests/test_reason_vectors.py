"""The worked cases of the method (tests/vectors/online_stage.json.gz), every backend, alone and in batches."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hyce_gpu import Config, Hypergraph, reason
from hyce_gpu.reasoning import Reasoning

WORKED = json.loads(gzip.decompress((Path(__file__).parent / "vectors" / "online_stage.json.gz").read_bytes()))
EXACT = ("hyperedges", "vertices", "evidence", "paths", "supporting", "divergent", "fallback")
CLOSE = ("retrieval_score", "confidence", "hyperedge_confidence", "evidence_score")


def _hypergraph(case: dict[str, Any], dtype: torch.dtype) -> Hypergraph:
    edges = case["hyperedges"]
    return Hypergraph.from_members(
        case["num_vertices"],
        [edge["members"] for edge in edges],
        confidence=[edge["gamma"] for edge in edges],
        relation_confidence=[edge["relation_confidence"] for edge in edges],
        entity_vectors=torch.tensor(case["vertex_vectors"], dtype=dtype),
        hyperedge_vectors=torch.tensor(case["hyperedge_vectors"], dtype=dtype),
    )


def _check(found: Reasoning, expected: dict[str, Any]) -> None:
    for name in EXACT:
        assert getattr(found, name) == expected[name], name
    assert {str(edge): kept for edge, kept in found.retained.items()} == expected["retained"]
    tolerance = WORKED["tolerance"]
    for name in CLOSE:
        values = getattr(found, name)
        np.testing.assert_allclose(values, expected[name], tolerance["relative"], tolerance["absolute"], err_msg=name)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("backend", ["reference", "torch", "numba"])
@pytest.mark.parametrize("case", WORKED["cases"], ids=[case["name"] for case in WORKED["cases"]])
def test_worked_case(case: dict[str, Any], backend: str, dtype: torch.dtype) -> None:
    config = Config.paper(**case["config"], candidate_budget=10**6)
    hypergraph = _hypergraph(case, dtype)
    queries = case["queries"]
    vectors = torch.tensor([query["vector"] for query in queries], dtype=dtype)
    entry = [query["entry"] for query in queries]
    together = reason(hypergraph, entry, vectors, config, backend=backend)
    for place, query in enumerate(queries):
        _check(together[place], query["expected"])
        alone = reason(hypergraph, entry[place : place + 1], vectors[place : place + 1], config, backend=backend)
        _check(alone[0], query["expected"])
