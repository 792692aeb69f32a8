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
from hyce_kernels.ragged import lengths, rank_in_segment, segment_max
from torch import Tensor

from hyce_gpu.assemble import Assembly
from hyce_gpu.config import EPSILON, Config
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.linked.bridges import bridge_weight, is_subject
from hyce_gpu.select import Subgraph, members_of


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
    width, count = config.evidence_units, subgraph.num_questions
    place = assembly.question * width + rank_in_segment(assembly.question, count)
    unit, element = members_of(subgraph, assembly.row)
    inside = assembly.is_path[unit]
    unit, element = unit[inside], element[inside]
    passage = hypergraph.passages.of_hyperedge[subgraph.hyperedge[assembly.row]]
    strength, through = subgraph.steps.bridges(
        unit, element, bridge_weight(hypergraph, subgraph, is_entry, element, config),
        is_subject(hypergraph, subgraph, assembly.row[unit], element), passage, place, width, count, config.side_bridge,
    )  # fmt: skip
    gain = _table(place, _gain(assembly, count), count, width, 0.0)
    start, entry = _starts(hypergraph, subgraph, is_entry, unit, element, place, count, width)
    value, before = kernel.trace(strength, start * gain, gain, config.chain_hyperedges)
    hyperedge = _table(place, subgraph.hyperedge[assembly.row], count, width, -1)
    return Traced(value, before, through, entry, hyperedge)


def _gain(assembly: Assembly, count: int) -> Tensor:
    """The evidence score against the question's best, 0 for what another unit represents."""
    best = segment_max(assembly.score, lengths(assembly.question, count))
    return assembly.score / (best + EPSILON)[assembly.question] * assembly.is_path


def _starts(
    hypergraph: Hypergraph,
    subgraph: Subgraph,
    is_entry: Tensor,
    unit: Tensor,
    element: Tensor,
    place: Tensor,
    count: int,
    width: int,
) -> tuple[Tensor, Tensor]:
    """What a chain that begins at each unit has, and by which entry entity; the best unit where none holds one."""
    held = is_entry[element]
    cell, entity = place[unit][held], element[held]
    weight = hypergraph.passages.specificity[subgraph.entity[entity]]
    start = weight.new_zeros(count * width).scatter_reduce_(0, cell, weight, "amax")
    best = (weight == start[cell]) & (weight > 0)
    by = torch.full_like(start, -1, dtype=torch.long)
    by.scatter_reduce_(0, cell[best], entity[best], "amin", include_self=False)
    start, by = start.view(count, width), by.view(count, width)
    none = start.max(1).values == 0
    start[:, 0] = torch.where(none, 1.0, start[:, 0])
    return start, by


def _table(place: Tensor, values: Tensor, count: int, width: int, fill: float) -> Tensor:
    table = torch.full((count * width,), fill, dtype=values.dtype, device=values.device)
    table[place] = values
    return table.view(count, width)


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
