"""The walk over each question's own sub-hypergraph: relevant hyperedges carry more, specific entities receive more."""

from __future__ import annotations

from dataclasses import dataclass

from hyce_kernels import propagation
from torch import Tensor

from hyce_gpu.config import Config
from hyce_gpu.expand import Entry
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.propagate import packed
from hyce_gpu.select import Subgraph

# What carries a hyperedge of no relevance: a way to a relevant one may lead through it.
LEAST_WEIGHT = 0.05


@dataclass(frozen=True)
class Walked:
    """Aligned with the rows of a `Subgraph`."""

    entity: Tensor  # [W] c after the last step
    hyperedge: Tensor  # [H] what flows through the hyperedge
    is_entry: Tensor  # [W] bool


def walk(
    hypergraph: Hypergraph, subgraph: Subgraph, entry: Entry, relevance: Tensor, mixed: Tensor, config: Config
) -> Walked:
    """Propagates confidence (28) with weighted hyperedges and entities.

    Args:
        relevance: of each hyperedge [H], in [0, 1]; weighs it in the walk.
        mixed: of each hyperedge [H], unscaled; the `seed_hyperedges` highest of a question start the walk.
    """
    restart_vector, rarity, is_entry = subgraph.steps.walk_start(
        subgraph.local, hypergraph.passages.degree, entry.question, entry.entity, mixed, config.seed_hyperedges,
        config.seed_temperature,
    )  # fmt: skip
    structure = packed(subgraph, hyperedge_weight=relevance + LEAST_WEIGHT, entity_weight=rarity)
    plan = propagation.plan(structure, restart_vector.dtype, backend=subgraph.steps.propagation)
    confidence, flow = propagation.run(plan, restart_vector, config.restart, config.propagation_steps)
    return Walked(confidence, flow[: len(mixed)], is_entry)
