"""Evidence → chains: an entry entity, a hyperedge that holds it, the bridge entity to the next one, and so on.

The score of a chain is the geometric mean of its factors: the specificity of its entry entity and of its bridges, and
each hyperedge's evidence score against the question's best. Knows ids and numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from hyce_kernels import chains as kernel
from torch import Tensor

from hyce_gpu.assemble import Assembly
from hyce_gpu.config import EPSILON, Config
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.select import Subgraph


@dataclass(frozen=True)
class Chain:
    # The entry entity that the first hyperedge holds; -1 where no evidence holds one.
    entry: int
    hyperedges: Sequence[int]
    # The entity between each hyperedge and the next.
    bridges: Sequence[int]
    score: float


@dataclass(frozen=True)
class Traced:
    """The best chain to every unit of evidence of a batch, as tensors; units by question and rank."""

    value: Tensor  # [Q, K] product of the factors, 0 where no chain ends
    before: Sequence[Tensor]  # for each step, the unit before [Q, K], -1 where the chain stays
    through: Tensor  # [Q, K, K] local entity that bridges two units, -1 for none
    entry: Tensor  # [Q, K] local entry entity of a unit, -1 for none
    hyperedge: Tensor  # [Q, K] -1 for none


def trace_chains(
    hypergraph: Hypergraph, subgraph: Subgraph, assembly: Assembly, is_entry: Tensor, config: Config
) -> Traced:
    """Args:
    is_entry: whether each local entity is an entry entity [W].
    """
    width, rows, passages = config.evidence_units, assembly.row, hypergraph.passages
    hyperedge = _of(subgraph.hyperedge, rows)
    passage = _of(passages.of_hyperedge, hyperedge)
    strength, through, start, entry = subgraph.steps.chain_links(
        subgraph.local, rows, assembly.is_path, passages.specificity, is_entry, config.entry_bridge, passage,
        _of(passages.subject, passage), width, config.side_bridge,
    )  # fmt: skip
    gain = _gain(assembly, width)
    value, before = kernel.trace(strength, start * gain, gain, config.chain_hyperedges)
    return Traced(value, before, through, entry, hyperedge.view(-1, width))


def _of(column: Tensor, rows: Tensor) -> Tensor:
    """What a column holds in some rows [U]; -1 where the row is -1."""
    if len(column) == 0:
        return torch.full_like(rows, -1)
    return torch.where(rows >= 0, column[rows.clamp(min=0)], -1)


def _gain(assembly: Assembly, width: int) -> Tensor:
    """The evidence score against the question's best, 0 for what another unit represents: [Q, K]."""
    score = assembly.score.view(-1, width)
    return score / (score.max(1, keepdim=True).values + EPSILON) * assembly.is_path.view(-1, width)


class ChainReader:
    """Reads the chains of single questions out of a batch's tensors."""

    def __init__(self, traced: Traced, entity: Tensor) -> None:
        """`entity`: corpus-wide ids of the batch's local entities [W]."""
        self._value = traced.value.tolist()
        # Read one by one: a NumPy scalar costs a tenth of a torch one.
        self._through = traced.through.cpu().numpy()
        self._before = [step.tolist() for step in traced.before]
        self._entry, self._hyperedge = traced.entry.tolist(), traced.hyperedge.tolist()
        self._entity = entity.cpu().numpy()

    def __getitem__(self, question: int) -> list[Chain]:
        """The chains that no other one goes on from, best first, ties by the lower rank of their last unit."""
        value = self._value[question]
        ways = {unit: self._way(question, unit) for unit in range(len(value)) if value[unit] > 0}
        inner = {unit for way in ways.values() for unit in way[:-1]}
        found = [self._chain(question, way, value[last]) for last, way in ways.items() if last not in inner]
        return sorted(found, key=lambda chain: -chain.score)

    def _way(self, question: int, unit: int) -> list[int]:
        way = [unit]
        for step in reversed(self._before):
            previous = step[question][way[0]]
            way = [previous, *way] if previous >= 0 else way
        return way

    def _chain(self, question: int, way: Sequence[int], value: float) -> Chain:
        entry = self._entry[question][way[0]]
        bridges = [int(self._through[question, one, other]) for one, other in pairwise(way)]
        return Chain(
            int(self._entity[entry]) if entry >= 0 else -1,
            [self._hyperedge[question][unit] for unit in way],
            [int(self._entity[entity]) for entity in bridges],
            value ** (1 / (2 * len(way))),
        )
