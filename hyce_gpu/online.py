"""Evidence for a batch of questions over one hypergraph: the chain from entry entities to paths, as tensors.

Knows the order of the online steps between entry and context. Knows no texts and no models.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from hyce_kernels.errors import KernelError
from hyce_kernels.steps import Steps
from hyce_kernels.steps import steps as choose_steps
from hyce_kernels.steps.row_sizes import largest_rows
from torch import Tensor

from hyce_gpu import reference
from hyce_gpu.assemble import assemble
from hyce_gpu.chains import trace_chains
from hyce_gpu.config import Config
from hyce_gpu.errors import InputError, MissingBackendError
from hyce_gpu.expand import Entry, expand
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.linked import evidence
from hyce_gpu.linked import reference as linked_reference
from hyce_gpu.linked.candidates import Asked, find_candidates, score
from hyce_gpu.linked.walk import walk
from hyce_gpu.propagate import propagate
from hyce_gpu.reasoning import Reasoning
from hyce_gpu.results import Pass, results_of
from hyce_gpu.select import subgraph_of
from hyce_gpu.similarity import Similarity
from hyce_gpu.vector_index import Indexes

BACKENDS = ("numba", "torch", "reference")
# Bounds the workspace of one pass. Torch lays out tables of questions by entities, hyperedges, passages or words, and a
# sub-hypergraph of known size for each question, of which an incidence takes as much as some cells; the loops work in
# tiles, and need about 1 MB a question for its pairs and its sub-hypergraph.
_PASS_CELLS, _PASS_QUESTIONS, _INCIDENCE_CELLS = 1 << 24, 512, 4


def reason(
    hypergraph: Hypergraph,
    entry: Sequence[Sequence[int]],
    query_vectors: Any,
    config: Config | None = None,
    backend: str = "auto",
    device: str | torch.device = "cpu",
    query_terms: Sequence[Sequence[int]] | None = None,
    indexes: Indexes | None = None,
) -> list[Reasoning]:
    """From entry entities to evidence paths, for Q questions at once: the method of `config`.

    `paper` is SPEC.md, section 2, steps 3 to 14; `linked` is docs/linked.md.

    Args:
        hypergraph: the corpus-wide hypergraph; moved to `device` if it is elsewhere.
        entry: the entry entities V0 of each question (entity ids; repeats count once).
        query_vectors: unit-length question vectors [Q, d].
        query_terms: the words of each question, as word numbers of the hypergraph's terms; others say nothing. Only
            `linked` uses them.
        backend: "torch" (sparse tensors, any device), "numba" (fused loops, threads over questions; CPU only),
            "reference" (plain 64-bit loops, one question after the other), or "auto": numba on a CPU, else torch.
        indexes: for corpora too large to compare every vector with every question. `linked` finds its nearest
            hyperedges and passages by them; the reference looks at all.

    Returns:
        One `Reasoning` a question, in order. It does not depend on the other questions of the batch.

    Raises:
        InputError: shapes or ids that do not fit.
        MissingBackendError: a backend that does not exist, is not installed, or is not for the device.
    """
    config = config or Config()
    vectors = torch.as_tensor(query_vectors, dtype=hypergraph.hyperedge_vectors.dtype)
    known = range(hypergraph.terms.vocabulary)
    terms = [[term for term in row if term in known] for row in query_terms or [()] * len(entry)]
    _check(hypergraph, entry, vectors, terms)
    if backend == "reference":
        return [_by_reference(hypergraph, *one, config) for one in zip(entry, vectors, terms, strict=True)]
    if backend not in ("auto", *BACKENDS):
        raise MissingBackendError(f"unknown backend {backend!r}; there are auto, {', '.join(BACKENDS)}")
    steps = _steps(backend, device)
    hypergraph, vectors = hypergraph.to(device), vectors.to(device)
    step = _pass_size(hypergraph, steps, config)
    results: list[Reasoning] = []
    for start in range(0, len(entry), step):
        part = slice(start, start + step)
        results += _one_pass(hypergraph, entry[part], vectors[part], terms[part], config, steps, indexes or Indexes())
    return results


def _steps(backend: str, device: str | torch.device) -> Steps:
    try:
        return choose_steps(backend, device)
    except KernelError as error:
        # The kernels stand alone, and so do their errors; ours are what callers are told to expect.
        raise MissingBackendError(str(error)) from error


def _pass_size(hypergraph: Hypergraph, steps: Steps, config: Config) -> int:
    if steps.name == "numba":
        return _PASS_QUESTIONS
    tables = hypergraph.num_entities, hypergraph.num_hyperedges, len(hypergraph.passages), hypergraph.terms.vocabulary
    incidences = largest_rows(hypergraph.member_pointer, config.max_hyperedges)
    return max(1, _PASS_CELLS // max(*tables, _INCIDENCE_CELLS * incidences, 1))


def _by_reference(
    hypergraph: Hypergraph, entry: Sequence[int], vector: Tensor, terms: Sequence[int], config: Config
) -> Reasoning:
    if config.method == "paper":
        return reference.reason_one(hypergraph, entry, vector, config)
    return linked_reference.reason_one(hypergraph, entry, vector, terms, config)


def _check(
    hypergraph: Hypergraph, entry: Sequence[Sequence[int]], vectors: Tensor, terms: Sequence[Sequence[int]]
) -> None:
    if vectors.dim() != 2 and len(entry):
        raise InputError(f"query_vectors: expected shape [Q, d], found {tuple(vectors.shape)}")
    if len(vectors) != len(entry):
        raise InputError(f"expected one query vector a question, found {len(vectors)} for {len(entry)} questions")
    if len(terms) != len(entry):
        raise InputError(f"expected the words of {len(entry)} questions, found {len(terms)}")
    for name in ("entity_vectors", "hyperedge_vectors"):
        size = getattr(hypergraph, name).shape[1]
        if size and len(vectors) and size != vectors.shape[1]:
            raise InputError(f"query vectors have {vectors.shape[1]} numbers, {name} have {size}")
    for number, ids in enumerate(entry):
        if any(not 0 <= entity < hypergraph.num_entities for entity in ids):
            raise InputError(f"question {number}: entry ids must lie in 0..{hypergraph.num_entities - 1}, found {ids}")


def _one_pass(
    hypergraph: Hypergraph,
    entry: Sequence[Sequence[int]],
    vectors: Tensor,
    terms: Sequence[Sequence[int]],
    config: Config,
    steps: Steps,
    indexes: Indexes,
) -> list[Reasoning]:
    entered = Entry(len(entry), *_pairs(entry, hypergraph.device))
    if config.method == "paper":
        return list(results_of(_paper(hypergraph, entered, vectors, config, steps)))
    to_hyperedges = Similarity(vectors, hypergraph.hyperedge_vectors, steps, indexes.hyperedges)
    to_passages = Similarity(vectors, hypergraph.passages.vectors, steps, indexes.passages)
    asked = Asked(entered, *_pairs(terms, hypergraph.device), to_hyperedges, to_passages, steps)
    return list(results_of(_linked(hypergraph, asked, config)))


def _paper(hypergraph: Hypergraph, entry: Entry, vectors: Tensor, config: Config, steps: Steps) -> Pass:
    found = expand(hypergraph, entry, Similarity(vectors, hypergraph.hyperedge_vectors, steps), config)
    subgraph = subgraph_of(hypergraph, found.question, found.hyperedge, found.score, len(found.cut), steps)
    to_entities = Similarity(vectors, hypergraph.entity_vectors, steps)
    confidence = propagate(hypergraph, subgraph, entry, to_entities, config)
    assembly = assemble(hypergraph, subgraph, confidence, config)
    chains = trace_chains(hypergraph, subgraph, assembly, confidence.is_entry, config)
    return Pass(subgraph, confidence.entity, confidence.hyperedge, assembly, chains, found.cut)


def _linked(hypergraph: Hypergraph, asked: Asked, config: Config) -> Pass:
    found = find_candidates(hypergraph, asked, config)
    subgraph = subgraph_of(
        hypergraph, found.segment, found.hyperedge, score(found, config), len(found.cut), asked.steps
    )
    relevance = found.scaled.clamp(0, 1) ** config.relevance_power
    walked = walk(hypergraph, subgraph, asked.entry, relevance, found.mixed, config)
    assembly = evidence.assemble(hypergraph, subgraph, walked, relevance, found.entry, config)
    chains = trace_chains(hypergraph, subgraph, assembly, walked.is_entry, config)
    return Pass(subgraph, walked.entity, walked.hyperedge, assembly, chains, found.cut)


def _pairs(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Distinct (question, id) pairs, sorted."""
    distinct = [sorted(set(ids)) for ids in rows]
    # A NumPy array of a flat list is made in a fraction of the time of a tensor of pairs.
    question = np.repeat(np.arange(len(rows)), [len(ids) for ids in distinct])
    found = np.fromiter(chain.from_iterable(distinct), np.int64, len(question))
    return torch.from_numpy(question).to(device), torch.from_numpy(found).to(device)
