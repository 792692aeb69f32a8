"""The tensors of a batch → one plain result a question.

Evidence, scores and paths become Python numbers at once; the rest of them, of which there may be millions, once
somebody looks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from hyce_kernels.ragged import lengths
from torch import Tensor

from hyce_gpu.assemble import Assembly
from hyce_gpu.chains import ChainReader, Traced
from hyce_gpu.reasoning import Later, LaterByEdge, Numbers, Reasoning
from hyce_gpu.select import Subgraph, unit_members

_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Pass:
    """What one pass leaves behind, still as tensors; `entity` and `hyperedge` are the confidences of the subgraph."""

    subgraph: Subgraph
    entity: Tensor  # [W]
    hyperedge: Tensor  # [H]
    assembly: Assembly
    chains: Traced
    cut: Tensor  # [Q] bool


def results_of(done: Pass) -> Iterator[Reasoning]:
    """Cuts the tensors of a pass into results, in the questions' order."""
    subgraph, assembly = done.subgraph, done.assembly
    edge_start, entity_start = subgraph.local.edge_pointer.tolist(), subgraph.local.entity_pointer.tolist()
    # Hyperedges that are none stand last in their question.
    held = torch.where(subgraph.hyperedge < 0, subgraph.num_questions, subgraph.edge_question)
    num_edges = lengths(held, subgraph.num_questions + 1).tolist()
    width = len(assembly.row) // max(1, subgraph.num_questions)
    num_units = (assembly.row >= 0).view(subgraph.num_questions, width).sum(1).tolist()
    hyperedge, score = _array(subgraph.hyperedge), _array(subgraph.retrieval_score)
    entity, entity_confidence, edge_confidence = map(_array, (subgraph.entity, done.entity, done.hyperedge))
    details = _Details(done)
    unit_edge, unit_score = details.hyperedge.tolist(), assembly.score.tolist()
    is_path, supports = assembly.is_path.tolist(), assembly.is_supporting.tolist()
    fallback, cut = assembly.fallback.tolist(), done.cut.tolist()
    for number in range(subgraph.num_questions):
        edge = slice(edge_start[number], edge_start[number] + num_edges[number])
        vertex = slice(entity_start[number], entity_start[number + 1])
        unit = slice(number * width, number * width + num_units[number])
        evidence = unit_edge[unit]
        paths = [e for e, path in zip(evidence, is_path[unit], strict=True) if path]
        supporting = [e for e, support in zip(evidence, supports[unit], strict=True) if support]
        yield Reasoning(
            hyperedges=Numbers(hyperedge[edge]),
            vertices=Numbers(entity[vertex]),
            retrieval_score=Numbers(score[edge]),
            confidence=Numbers(entity_confidence[vertex]),
            hyperedge_confidence=Numbers(edge_confidence[edge]),
            evidence=evidence,
            evidence_score=unit_score[unit],
            retained=LaterByEdge(details.retained, unit, evidence),
            fallback=fallback[number] and bool(evidence),
            paths=paths,
            supporting=supporting,
            divergent=[e for e in paths if e not in supporting],
            terms=Later(details.terms, unit),
            represented_by=LaterByEdge(details.represented_by, unit, evidence),
            cut=cut[number],
            chains=Later(details.chains, number),
        )


class _Details:
    """What few look at: of all units, read for the units of one question at a time."""

    def __init__(self, done: Pass) -> None:
        subgraph, assembly = done.subgraph, done.assembly
        # Corpus-wide ids; where there is no unit, any.
        self.hyperedge = _array(subgraph.hyperedge)[_array(assembly.row)] if len(subgraph.hyperedge) else _NONE
        self._done, self._represented_by = done, _array(assembly.represented_by)
        self._terms = {name: _array(term) for name, term in assembly.terms.items()}

    def retained(self, units: slice) -> list[list[int]]:
        """The retained entities of each unit."""
        entity, bounds = self._kept
        return [entity[slice(*bounds[unit : unit + 2])].tolist() for unit in range(units.start, units.stop)]

    @cached_property
    def _kept(self) -> tuple[np.ndarray, np.ndarray]:
        """The retained entities of all units, ascending in each, and where each unit's begin."""
        subgraph, assembly = self._done.subgraph, self._done.assembly
        unit, element = map(_array, unit_members(subgraph, assembly.row))
        keeps = (unit < len(assembly.row)) & _array(assembly.retained)[element]
        unit, entity = unit[keeps], _array(subgraph.entity)[element[keeps]]
        order = np.lexsort((entity, unit))
        return entity[order], np.searchsorted(unit[order], np.arange(len(assembly.row) + 1))

    def represented_by(self, units: slice) -> list[int]:
        found: list[int] = self.hyperedge[units][self._represented_by[units]].tolist()
        return found

    def terms(self, units: slice) -> list[dict[str, float]]:
        columns = [term[units].tolist() for term in self._terms.values()]
        return [dict(zip(self._terms, row, strict=True)) for row in zip(*columns, strict=True)]

    def chains(self, question: int) -> list[Any]:
        return self._reader[question]

    @cached_property
    def _reader(self) -> ChainReader:
        return ChainReader(self._done.chains, self._done.subgraph.entity)


def _array(tensor: Tensor) -> np.ndarray:
    array: np.ndarray = tensor.cpu().numpy()
    return array
