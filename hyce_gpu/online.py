"""Evidence for a batch of questions over one hypergraph: the chain from entry entities to paths, as tensors.

Knows the order of the online steps between entry and context. Knows no texts and no models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hyce_gpu import reference
from hyce_gpu.assemble import Assembly, assemble
from hyce_gpu.config import Config
from hyce_gpu.errors import InputError, MissingBackendError
from hyce_gpu.expand import Candidates, Entry, expand
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.propagate import Confidence, propagate
from hyce_gpu.reasoning import Reasoning
from hyce_gpu.select import Subgraph, select
from hyce_gpu.similarity import Similarity

BACKENDS = ("torch", "reference")
# Bounds the workspace of one pass: questions times the larger of V and E.
_PASS_CELLS = 1 << 24


def reason(
    hypergraph: Hypergraph,
    entry: Sequence[Sequence[int]],
    query_vectors: Any,
    config: Config | None = None,
    backend: str = "auto",
    device: str | torch.device = "cpu",
) -> list[Reasoning]:
    """Runs SPEC.md, section 2, steps 3 to 14, for Q questions at once.

    Args:
        hypergraph: the corpus-wide hypergraph; moved to `device` if it is elsewhere.
        entry: the entry entities V0 of each question (entity ids; repeats count once).
        query_vectors: unit-length question vectors [Q, d].
        backend: "torch" (sparse tensors, the type of the vectors), "reference" (plain 64-bit loops, one question
            after the other), or "auto", which is "torch".

    Returns:
        One `Reasoning` a question, in order. It does not depend on the other questions of the batch.

    Raises:
        InputError: shapes or ids that do not fit.
        MissingBackendError: a backend that does not exist.
    """
    config = config or Config()
    vectors = torch.as_tensor(query_vectors, dtype=hypergraph.hyperedge_vectors.dtype)
    _check(hypergraph, entry, vectors)
    if backend == "reference":
        return [
            reference.reason_one(hypergraph, ids, vector, config) for ids, vector in zip(entry, vectors, strict=True)
        ]
    if backend not in ("auto", "torch"):
        raise MissingBackendError(f"unknown backend {backend!r}; there are auto, {', '.join(BACKENDS)}")
    hypergraph, vectors = hypergraph.to(device), vectors.to(device)
    step = max(1, _PASS_CELLS // max(hypergraph.num_entities, hypergraph.num_hyperedges, 1))
    results: list[Reasoning] = []
    for start in range(0, len(entry), step):
        results += _one_pass(hypergraph, entry[start : start + step], vectors[start : start + step], config)
    return results


def _check(hypergraph: Hypergraph, entry: Sequence[Sequence[int]], vectors: Tensor) -> None:
    if vectors.dim() != 2 and len(entry):
        raise InputError(f"query_vectors: expected shape [Q, d], found {tuple(vectors.shape)}")
    if len(vectors) != len(entry):
        raise InputError(f"expected one query vector a question, found {len(vectors)} for {len(entry)} questions")
    for name in ("entity_vectors", "hyperedge_vectors"):
        size = getattr(hypergraph, name).shape[1]
        if size and len(vectors) and size != vectors.shape[1]:
            raise InputError(f"query vectors have {vectors.shape[1]} numbers, {name} have {size}")
    for number, ids in enumerate(entry):
        if any(not 0 <= entity < hypergraph.num_entities for entity in ids):
            raise InputError(f"question {number}: entry ids must lie in 0..{hypergraph.num_entities - 1}, found {ids}")


@dataclass(frozen=True)
class _Pass:
    """What one pass leaves behind, still as tensors."""

    candidates: Candidates
    subgraph: Subgraph
    confidence: Confidence
    assembly: Assembly


def _one_pass(
    hypergraph: Hypergraph, entry: Sequence[Sequence[int]], vectors: Tensor, config: Config
) -> list[Reasoning]:
    entered = _entry(entry, hypergraph)
    to_hyperedges = Similarity(vectors, hypergraph.hyperedge_vectors)
    to_entities = Similarity(vectors, hypergraph.entity_vectors)
    candidates = expand(hypergraph, entered, to_hyperedges, config)
    subgraph = select(hypergraph, candidates, config)
    confidence = propagate(hypergraph, subgraph, entered, to_entities, config)
    assembly = assemble(hypergraph, subgraph, confidence, config)
    return list(_results(_Pass(candidates, subgraph, confidence, assembly)))


def _entry(entry: Sequence[Sequence[int]], hypergraph: Hypergraph) -> Entry:
    pairs = [(number, entity) for number, ids in enumerate(entry) for entity in sorted(set(ids))]
    table = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).to(hypergraph.device)
    return Entry(len(entry), table[:, 0], table[:, 1])


def _results(done: _Pass) -> Iterator[Reasoning]:
    """Cuts the tensors of a pass into one plain result a question; the only step that loops over questions."""
    subgraph, confidence, assembly = done.subgraph, done.confidence, done.assembly
    num_questions = subgraph.num_questions
    edges = _Rows(subgraph.edge_question, num_questions)
    entities = _Rows(subgraph.entity_question, num_questions)
    units = _Rows(assembly.question, num_questions)
    entity_question = subgraph.edge_question[subgraph.edge_row]
    incidences = _Rows(entity_question, num_questions)
    hyperedge, score = subgraph.hyperedge.tolist(), subgraph.retrieval_score.tolist()
    entity, entity_confidence = subgraph.entity.tolist(), confidence.entity.tolist()
    edge_confidence = confidence.hyperedge.tolist()
    unit_edge, unit_score = subgraph.hyperedge[assembly.row].tolist(), assembly.score.tolist()
    is_path, supports = assembly.is_path.tolist(), assembly.is_supporting.tolist()
    represented_by = assembly.represented_by.tolist()
    terms = {name: term.tolist() for name, term in assembly.terms.items()}
    incidence_edge = subgraph.hyperedge[subgraph.edge_row].tolist()
    incidence_entity = subgraph.entity[subgraph.entity_row].tolist()
    retained = assembly.retained.tolist()
    fallback, cut = assembly.fallback.tolist(), done.candidates.cut.tolist()
    for number in range(num_questions):
        edge, vertex, unit = edges[number], entities[number], units[number]
        evidence = unit_edge[unit]
        kept: dict[int, list[int]] = {e: [] for e in evidence}
        part = incidences[number]
        for e, v, stays in zip(incidence_edge[part], incidence_entity[part], retained[part], strict=True):
            if stays and e in kept:
                kept[e].append(v)
        paths = [e for e, path in zip(evidence, is_path[unit], strict=True) if path]
        supporting = [e for e, support in zip(evidence, supports[unit], strict=True) if support]
        yield Reasoning(
            hyperedges=hyperedge[edge],
            vertices=entity[vertex],
            retrieval_score=score[edge],
            confidence=entity_confidence[vertex],
            hyperedge_confidence=edge_confidence[edge],
            evidence=evidence,
            evidence_score=unit_score[unit],
            retained=kept,
            fallback=fallback[number] and bool(evidence),
            paths=paths,
            supporting=supporting,
            divergent=[e for e in paths if e not in supporting],
            terms=[{name: values[place] for name, values in terms.items()} for place in range(unit.start, unit.stop)],
            represented_by=dict(zip(evidence, (evidence[rank] for rank in represented_by[unit]), strict=True)),
            cut=cut[number],
        )


class _Rows:
    """Where each question's rows stand in arrays that are sorted by question."""

    def __init__(self, question: Tensor, num_questions: int) -> None:
        counts = torch.bincount(question, minlength=num_questions)
        self._ends = counts.cumsum(0).tolist()

    def __getitem__(self, number: int) -> slice:
        return slice(self._ends[number - 1] if number else 0, self._ends[number])
